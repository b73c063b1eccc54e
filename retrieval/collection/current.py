"""Current: the state that readers see, and the one change at a time that makes the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import TypeVar

from slimdex.indexes.errors import CorruptError, InputError

from ..catalog.database import RenumberedError
from .ledger import Ledger
from .snapshot import Snapshot, first_snapshot

T = TypeVar("T")


class Current:
    """The newest snapshot of a ledger, shared by threads.

    Nobody else decides what became of a change that failed: the catalog is asked, and where it
    can't be read, it is asked again before anything else is done.

    Attributes
    ----------
    shown : the snapshot that searches get; whoever makes a change puts the next one here.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.shown = first_snapshot(ledger)
        self._in_doubt = False  # whether a change failed, and nobody has seen what became of it
        self._changing = RLock()

    @property
    def snapshot(self) -> Snapshot:
        """What is committed, or what was before a failure, while the disk still fails."""
        if self._in_doubt:
            with self._changing, suppress(OSError, CorruptError):
                self._settle()
        return self.shown

    def read(self, read: Callable[[Snapshot], T]) -> T:
        """What `read` makes of the newest snapshot, if need be of one that comes after it.

        Raises
        ------
        InputError
            If there are no documents yet.
        """
        while True:
            snapshot = self.snapshot
            if snapshot.state.settings is None:
                unfinished = (
                    "; an unfinished build: run it again" if self._ledger.state.source else ""
                )
                raise InputError(f"{self._ledger.path} holds no documents yet{unfinished}")
            try:
                return read(snapshot)
            except RenumberedError:  # a compaction is committed and about to show its snapshot
                if self._changing.acquire(timeout=0.001):
                    try:
                        self._settle()
                    finally:
                        self._changing.release()
            except (CorruptError, OSError):  # files may have gone while they were loaded
                with self._changing:
                    self._settle()
                    if snapshot is self.shown:
                        raise

    @contextmanager
    def unchanged(self) -> Iterator[Snapshot]:
        """The newest snapshot, while no change is under way."""
        with self._changing:
            yield self.snapshot

    @contextmanager
    def change(self) -> Iterator[None]:
        """Around a change of the ledger, which is alone; should it fail, see what is committed.

        Raises
        ------
        InputError
            If the ledger may only be read, or this thread is in the middle of a change; if the
            folder was moved, or another has taken its place.
        """
        path, store = self._ledger.path, self._ledger.store
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
            self._ledger.read_again()
        now = (self._ledger.state.generation, self._ledger.store.database.epoch)
        if now != (self.shown.state.generation, self.shown.epoch):
            self.shown = first_snapshot(self._ledger)
        self._in_doubt = False
