"""Snapshot manager: the newest snapshot, of this process's commits and those of others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock

from slimdex.indexes.errors import CorruptError, InputError

from .commit_log import CommitLog
from .snapshot import Snapshot


class SnapshotManager:
    """The newest snapshot of a commit log, shared by threads.

    It follows other processes' commits. After a failed change it asks the catalog for the outcome;
    if the catalog can't be read, it asks again before the next operation.
    """

    def __init__(self, commit_log: CommitLog) -> None:
        self._commit_log = commit_log
        self._shown = Snapshot.of(commit_log)
        self._in_doubt = False  # True after a failed change of unknown outcome
        self._has_turn = False  # True while this process alone commits
        self._changing, self._following = RLock(), RLock()

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

    def follow_compaction(self, snapshot: Snapshot) -> None:
        """Show what is committed after a compaction that has renumbered a snapshot's rows."""
        self._follow(catalog=snapshot is self._shown)

    def is_newest(self, snapshot: Snapshot) -> bool:
        """True if no other state was committed since, by the head and the catalog."""
        if self.snapshot.state != snapshot.state:
            return False
        self._follow(catalog=True)
        return snapshot.state == self._shown.state

    @contextmanager
    def unchanged(self) -> Iterator[Snapshot]:
        """The state in the catalog, with changes by this process locked out."""
        with self._changing:
            self._follow(catalog=True)
            yield self._shown

    @contextmanager
    def change(self) -> Iterator[None]:
        """Context of a change, in the writers' turn; if it fails, reload the committed state.

        Raises `InputError` if the folder was moved or replaced, or this thread is already in a
        transaction, and `InUseError` if other writers keep their turn.
        """
        log = self._commit_log
        with self._changing:
            if log.store.database.in_transaction:  # of this thread: others wait
                raise InputError(f"{log.path}: a change is under way; expected one at a time")
            log.store.database.check_place()
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

    def _follow(self, *, catalog: bool = False) -> None:
        """Show what other processes have committed."""
        if self._has_turn and not catalog:
            return
        with self._following:
            if catalog or self._in_doubt:
                self._commit_log.follow_catalog()
                self._in_doubt = False
            elif not self._has_turn:
                self._commit_log.follow()
            self._adopt()

    def _adopt(self) -> None:
        if self._commit_log.state != self._shown.state:
            self._shown = self._shown.followed_by(self._commit_log)
