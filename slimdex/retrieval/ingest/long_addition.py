"""Long addition: several batches that users see as one addition.

While it runs, the index records its progress for searches. Afterwards, `undo` undoes all batches at
once.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Self

from slimdex.errors import InputError, SlimdexError
from slimdex.system.atomic_files import FileRecord

from ..index import Index
from ..store.manifest import Undo
from ..store.next_commit import Change
from ..store.state import PartialAddition, State
from ..store.work_folder import work_folder
from .batches import Batch
from .fitting import refit
from .undoing import withdraw

REFIT_GROWTH = 8
"""Growth since the last fit, as a factor, after which a long addition fits again."""


class LongAddition:
    """Track the batches of an addition; an only batch is not recorded.

    In a new index, reducer and codes are fitted to the first batch, and to all documents at the
    end, so that answers equal those of a single batch.

    Attributes
    ----------
    documents : number of documents that are committed or were unchanged so far.
    """

    def __init__(self, index: Index) -> None:
        state = index.state
        self._index = index
        self._stack = ExitStack()
        stopped = state.unfinished
        self._is_first = state.settings is None or (stopped is not None and stopped.builds)
        self._work = ""
        self._undo_file: FileRecord | None = None  # the manifest before the first batch
        self.documents = 0
        self._is_long = stopped is not None  # whether it has several batches, or resumes some

    def __enter__(self) -> Self:
        if self._is_first:  # searches find nothing yet and can say why
            self._open()
        return self

    def _open(self) -> None:
        """Create the work folder if there is none yet; it stays locked while this process lives."""
        if not self._work:
            self._work = self._stack.enter_context(work_folder(self._index.path)).name

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def begin(self, change: Change, batch: Batch, expected: int) -> Undo:
        """Record the progress in a batch's change; return how the change can be undone."""
        if not batch.is_only:
            self._is_long = True
            self._open()
            mark = PartialAddition(self._work, batch.stop, expected, self._is_first)
            change.state = replace(change.state, unfinished=mark)

        # Batches of one addition are undone together, unless others have changed the index in
        # between.
        last = change.base.state.files.get("before")
        is_ours = self._undo_file is not None and last == self._undo_file
        return "with the last" if is_ours else "alone"

    def note_commit(self, change: Change, batch: Batch) -> None:
        """Note a committed batch, and fit again if the index has grown by `REFIT_GROWTH`."""
        # A commit that can be undone alone has written the previous manifest to a new file.
        self.documents = batch.stop
        before = change.base.state.files.get("before")
        after = change.state.files.get("before")
        if after != before:
            self._undo_file = after

        # After the last batch, `finish` fits.
        state = change.state
        if batch.is_last or not self._needs_fit(state):
            return
        if state.rows >= REFIT_GROWTH * max(int(state.fit["rows"]), 1):
            with suppress(InputError):  # too few rows yet for what was requested
                refit(self._index, state.requested, "with the last")

    def finish(self) -> list[str] | None:
        """Fit a new index to all its documents and clear the progress.

        Returns the notes of the fit; None if there was none.
        """
        state = self._index.state
        notes = None
        if self._is_long and self._needs_fit(state) and state.fit["rows"] != state.rows:
            notes = refit(self._index, state.requested, "with the last")

        # The mark of an unfinished build stays, unless this addition has continued the build.
        mark = state.unfinished
        if mark is not None and (self._is_first or not mark.builds):
            with self._index.change() as change:
                change.commit(replace(change.state, unfinished=None), undo="with the last")
        return notes

    def _needs_fit(self, state: State) -> bool:
        """Whether the index is new, or was too small for the requested settings before."""
        settings = state.settings
        if settings is None:
            return False
        return self._is_first or not state.requested.matches(settings, state.dim)

    def stop(self, error: SlimdexError, *, withdraws: bool) -> None:
        """Undo the batches before an error if `withdraws`; otherwise note on it that they remain.

        They also remain if others have changed the index since.
        """
        if not self.documents:
            return
        if withdraws and self._undo_file is not None and withdraw(self._index, self._undo_file):
            return
        error.add_note(f"{self.documents:,} documents are in: run it again to continue")
