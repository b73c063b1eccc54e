"""The two errors a caller can act on. Anything else that is raised is a bug."""


class InputError(ValueError):
    """A value from the caller does not fit; the message states it and what was expected."""


class CorruptError(InputError):
    """A file is damaged, incomplete, or not what its name says."""
