"""Snapshot manager: the newest snapshot, of this process's commits and those of others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import sleep

from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.execution.forks import renewed
from slimdex.indexes.execution.locks import ThreadLock

from .commit_log import CommitLog
from .snapshot import Snapshot


class SnapshotManager:
    """The newest snapshot of a commit log, shared by threads.

    It follows other processes' commits. After a failed change the manifest tells the outcome; if
    it can't be read, it is read again before the next operation.
    """

    def __init__(self, commit_log: CommitLog) -> None:
        self._commit_log = commit_log
        self._shown = Snapshot.of(commit_log)
        self._in_doubt = False  # True after a failed change of unknown outcome
        self._has_turn = False  # True while this process alone commits
        self._changing, self._following = ThreadLock(), ThreadLock()
        renewed(self)

    def in_fork(self) -> None:
        """Leave the turn to the process that has it, and read what is committed."""
        self._has_turn, self._in_doubt = False, True

    @property
    def snapshot(self) -> Snapshot:
        """The committed state; while the disk fails, the state before."""
        with suppress(OSError, CorruptError):
            self._follow()
        return self._shown

    def show(self, snapshot: Snapshot | None = None) -> None:
        """Give the committed state to searches from now on; only within `change`.

        By default with what is in memory of the state before.
        """
        self._shown = snapshot or self._shown.followed_by(self._commit_log)

    def opened(self) -> Snapshot:
        """The committed state with its documents open, which stay readable.

        Until then, other processes may remove the files of an older state.
        """
        while True:
            snapshot = self.snapshot
            try:
                snapshot.store.database.open()
            except (CorruptError, OSError):
                if self.is_newest(snapshot):
                    raise
            else:
                return snapshot

    def is_newest(self, snapshot: Snapshot) -> bool:
        """True if no other state was committed since.

        Within a change of this process, a committed state is shown a moment later.
        """
        if self._has_turn:
            with suppress(OSError, CorruptError):
                sleep(0.001)
                return self._commit_log.committed_now() == snapshot.manifest
        return self.snapshot.manifest == snapshot.manifest

    @contextmanager
    def unchanged(self) -> Iterator[Snapshot]:
        """The committed state, with changes by this process locked out."""
        with self._changing:
            self._follow()
            yield self._shown

    @contextmanager
    def change(self) -> Iterator[None]:
        """Context of a change, in the writers' turn; if it fails, reload the committed state.

        Raises `InputError` if the folder was moved or replaced, or this thread is already in a
        transaction, and `InUseError` if other writers keep their turn.
        """
        log = self._commit_log
        with self._changing:
            if log.in_transaction:  # of this thread: others wait
                raise InputError(f"{log.path}: a change is under way; expected one at a time")
            log.check_place()
            if self._has_turn:
                yield
                return
            before = self._shown
            with log.turn(), self._own_turn():
                yield
            del before  # only now: freeing it takes milliseconds

    @contextmanager
    def _own_turn(self) -> Iterator[None]:
        try:
            with self._following:
                self._has_turn = True
                if self._in_doubt:
                    self._commit_log.read_again()
                    self._in_doubt = False
                self._adopt()
            yield
        except BaseException:
            self._in_doubt = True
            with suppress(OSError, CorruptError):  # the error that led here says more
                self._commit_log.read_again()
                self._adopt()
                self._in_doubt = False
            raise
        finally:
            self._has_turn = False

    def _follow(self) -> None:
        """Show what other processes have committed."""
        if self._has_turn:
            return
        with self._following:
            if self._has_turn:  # it came meanwhile
                return
            if self._in_doubt:
                self._commit_log.read_again()
                self._in_doubt = False
            else:
                self._commit_log.follow()
            self._adopt()

    def _adopt(self) -> None:
        if self._commit_log.manifest is not self._shown.manifest:
            self._shown = self._shown.followed_by(self._commit_log)
