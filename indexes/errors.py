"""The errors a caller can act on. Anything else that is raised is a bug."""


class SlimdexError(Exception):
    """What all errors of slimdex are: its message says what is wrong and what was expected."""


class InputError(SlimdexError, ValueError):
    """A value from the caller does not fit; the message states it and what was expected."""


class CorruptError(SlimdexError):
    """A file is damaged, incomplete, or not what its name says."""


class InUseError(SlimdexError):
    """Another process has the index; it may be free later."""


class UnreadableError(SlimdexError, OSError):
    """The catalog can't be read at the moment: its disk or its memory failed, not its content."""


def shortened(text: str, length: int = 200) -> str:
    """A text from the caller in quotes, as a message repeats it: its beginning, if it is long.

    >>> shortened("year > 1990", 4)
    "'year'..."
    """
    return repr(text) if len(text) <= length else f"{text[:length]!r}..."
