"""Snapshot manager: the newest snapshot, and the one change at a time that makes the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import TypeVar

from slimdex.indexes.errors import CorruptError, InputError

from ..catalog.database import RenumberedError
from .commit_log import CommitLog
from .snapshot import Snapshot, first_snapshot

T = TypeVar("T")


class SnapshotManager:
    """The newest snapshot of a commit log, shared by threads.

    After a failed change it asks the catalog for the outcome; if the catalog can't be read, it asks
    again before the next operation.

    `shown` is the snapshot for searches; each change replaces it.
    """

    def __init__(self, commit_log: CommitLog) -> None:
        self._commit_log = commit_log
        self.shown = first_snapshot(commit_log)
        self._in_doubt = False  # True after a failed change of unknown outcome
        self._changing = RLock()

    @property
    def snapshot(self) -> Snapshot:
        """The committed state; while the disk fails, the state before."""
        if self._in_doubt:
            with self._changing, suppress(OSError, CorruptError):
                self._settle()
        return self.shown

    def read(self, read: Callable[[Snapshot], T]) -> T:
        """Call `read` with the newest snapshot, and again if that is replaced meanwhile.

        Raises `InputError` if there are no documents yet.
        """
        while True:
            snapshot = self.snapshot
            if snapshot.state.settings is None:
                unfinished = (
                    "; an unfinished build: run it again" if self._commit_log.state.source else ""
                )
                raise InputError(f"{self._commit_log.path} holds no documents yet{unfinished}")
            try:
                return read(snapshot)
            except RenumberedError:  # a compaction was committed but not yet published
                if self._changing.acquire(timeout=0.001):
                    try:
                        self._settle()
                    finally:
                        self._changing.release()
            except (CorruptError, OSError):  # files may have been deleted during loading
                with self._changing:
                    self._settle()
                    if snapshot is self.shown:
                        raise

    @contextmanager
    def unchanged(self) -> Iterator[Snapshot]:
        """The newest snapshot, with changes locked out."""
        with self._changing:
            yield self.snapshot

    @contextmanager
    def change(self) -> Iterator[None]:
        """Context of a change; if it fails, reload the committed state.

        Raises `InputError` if the commit log is read-only, the folder was moved or replaced, or
        this thread is already making a change.
        """
        path, store = self._commit_log.path, self._commit_log.store
        if store.database.read_only:
            raise InputError(
                f"{path}: opened with read_only=True; expected to be opened for changes"
            )
        with self._changing:
            store.database.check_place()
            self._settle()
            if store.database.in_transaction:  # of this thread: others wait
                raise InputError(f"{path}: a change is under way; expected one at a time")
            try:
                yield
            except BaseException:
                self._in_doubt = True
                with suppress(OSError, CorruptError):  # the error that led here says more
                    self._settle()
                raise

    def _settle(self) -> None:
        if self._in_doubt:
            self._commit_log.read_again()
        now = (self._commit_log.state.generation, self._commit_log.store.database.epoch)
        if now != (self.shown.state.generation, self.shown.epoch):
            self.shown = first_snapshot(self._commit_log)
        self._in_doubt = False
