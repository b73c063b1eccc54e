"""SharedLock: a readers-writer lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


class SharedLock:
    """Readers-writer lock; a waiting writer precedes later readers.

    Not reentrant: its holder must not acquire it again.

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
        self._share = _Share(self)

    def shared(self) -> _Share:
        """Hold the lock as a reader, in a `with` statement."""
        return self._share

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock as the writer."""
        with self._changed:
            self._waiting += 1
            try:
                while self._writing or self._readers:
                    self._changed.wait()
            finally:
                self._waiting -= 1
                self._changed.notify_all()  # if Ctrl-C ended the wait
            self._writing = True
        try:
            yield
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()


class _Share:
    """Context manager of readers; stateless, so all share one."""

    def __init__(self, lock: SharedLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        lock = self._lock
        with lock._changed:
            while lock._writing or lock._waiting:
                lock._changed.wait()
            lock._readers += 1

    def __exit__(self, *error: object) -> None:
        lock = self._lock
        with lock._changed:
            lock._readers -= 1
            if not lock._readers:
                lock._changed.notify_all()
