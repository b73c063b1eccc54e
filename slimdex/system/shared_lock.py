"""Shared lock: many readers, or one writer, among the threads of a process."""

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
        self._readers = 0
        self._waiting_writers = 0
        self._writing = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock as a reader."""
        with self._changed:
            while self._writing or self._waiting_writers:
                self._changed.wait()
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                if not self._readers:
                    self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock as the writer."""
        with self._changed:
            self._waiting_writers += 1
            try:
                while self._writing or self._readers:
                    self._changed.wait()
            finally:
                self._waiting_writers -= 1
                self._changed.notify_all()  # wakes the readers if Ctrl-C ended the wait
            self._writing = True
        try:
            yield
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
