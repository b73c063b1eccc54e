"""SharedLock: many may read at a time, or one may write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


class SharedLock:
    """A lock that readers share; a writer who waits goes before readers who come later.

    It is not reentrant: who holds it must not ask for it again.

    >>> lock = SharedLock()
    >>> with lock.shared(), lock.shared():
    ...     pass
    >>> with lock.exclusive():
    ...     pass
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._readers = self._waiting = 0
        self._writing = False

    def shared(self) -> SharedLock:
        """Hold it together with others who share it, in a `with`: the lock itself does that."""
        return self

    def __enter__(self) -> None:
        with self._changed:
            while self._writing or self._waiting:
                self._changed.wait()
            self._readers += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._readers -= 1
            if not self._readers:
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold it alone."""
        with self._changed:
            self._waiting += 1
            try:
                while self._writing or self._readers:
                    self._changed.wait()
            finally:
                self._waiting -= 1
                self._changed.notify_all()  # should the wait end by Ctrl-C
            self._writing = True
        try:
            yield
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
