"""Locks between threads, which forked processes do not inherit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, RLock

from .forks import renewed


class ThreadLock:
    """Reentrant lock; in a forked process it is free, unless the thread that forked holds it.

    >>> lock = ThreadLock()
    >>> with lock, lock:
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = RLock()
        renewed(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def in_fork(self) -> None:
        """Take it from threads that a forked process lacks."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = RLock()


class SharedLock:
    """Readers-writer lock; a waiting writer precedes later readers.

    Not reentrant: its holder must not acquire it again. A fork waits for the writer: what it writes
    would stay incomplete in the forked process.

    >>> lock = SharedLock()
    >>> with lock.shared(), lock.shared():
    ...     pass
    >>> with lock.exclusive():
    ...     pass
    """

    def __init__(self) -> None:
        self.in_fork()
        renewed(self)

    def in_fork(self) -> None:
        """Take it from threads that a forked process lacks."""
        self._changed = Condition()
        self._readers = self._waiting = 0
        self._writing = False

    def before_fork(self) -> None:
        """Wait for the writer, as a reader."""
        self.__enter__()

    def after_fork(self) -> None:
        """Let writers go on."""
        self.__exit__()

    def shared(self) -> SharedLock:
        """Return the lock itself, which a `with` holds together with other readers."""
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
