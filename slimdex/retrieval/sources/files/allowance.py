"""Less memory for steps of the worker process that a small file can make expand."""

from __future__ import annotations

from pathlib import Path

from .limits import MEMORY, UnreadableError, size


class Allowance:
    """Context in which the worker process may grow by so many bytes, counted from creation.

    It may be entered many times, with steps between that need more. It counts on Linux alone, and
    in the worker process alone, which is known by its limit: others run more than one reader.
    """

    def __init__(self, more: int) -> None:
        self._more = more
        try:
            used = int(Path("/proc/self/statm").read_text().split()[0])  # in pages
        except OSError:  # not Linux
            self._most = None
            return
        import resource

        is_worker = resource.getrlimit(resource.RLIMIT_AS)[0] == MEMORY
        most = min(used * resource.getpagesize() + more, MEMORY)
        self._most = most if is_worker else None

    def __enter__(self) -> None:
        self._limit(self._most)

    def __exit__(self, _: object, error: object, __: object) -> None:
        self._limit(MEMORY)
        if isinstance(error, MemoryError):
            raise UnreadableError(f"needs over {size(self._more)} of memory") from error

    def _limit(self, most: int | None) -> None:
        if self._most is not None and most is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (most, MEMORY))
