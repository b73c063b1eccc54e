"""Row flags: which rows continue a document, which have no text, and which are deleted.

The first two are bits of a byte for each row, in a file to which a commit appends those of its new
rows. Deletions are entries of another one: a row that is deleted, or ~row for one that comes back.
So a commit takes as long with ten million rows as with a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import CorruptError
from slimdex.indexes.arrays import NO_ROWS, Rows, from_row, merge_rows, without
from slimdex.system.append_only import AppendOnlyFile

from .passages import NO_DOCUMENT_ROWS, DocumentRows
from .state import State

CONTINUES = 1
TEXTLESS = 2
"""Flags of a row: it continues the document of the row before; its document has no text."""
DELETION = np.dtype("<i8")
"""An entry of the file of deletions."""


@dataclass(frozen=True)
class RowSets:
    """Sets of rows of all documents.

    Attributes
    ----------
    deleted, textless : rows of deleted documents, and of those without text, in order.
    documents : the documents that have several rows.
    """

    deleted: Rows = field(default_factory=lambda: NO_ROWS)
    textless: Rows = field(default_factory=lambda: NO_ROWS)
    documents: DocumentRows = NO_DOCUMENT_ROWS

    def flags(self, start: int, stop: int) -> bytes:
        """The flags of the rows from `start` to before `stop`."""
        flags = np.zeros(stop - start, dtype=np.uint8)
        flags[from_row(self.textless, start) - start] |= TEXTLESS
        rows = np.arange(start, stop)
        flags[self.documents.documents(rows) != rows] |= CONTINUES
        return flags.tobytes()

    def with_later(self, start: int, flags: NDArray[np.uint8], entries: Rows) -> RowSets:
        """Return these sets with flags of the rows from `start` on, and later deletions."""
        deleted, restored = _changes(entries)
        textless = start + np.flatnonzero(flags & TEXTLESS)
        documents = DocumentRows.of_flags((flags & CONTINUES) > 0, start)
        return RowSets(
            deleted=without(merge_rows(self.deleted, deleted), restored),
            textless=np.append(self.textless, textless),
            documents=self.documents.with_later(documents),
        )


NO_ROW_SETS = RowSets()


def flag_files(folder: Path, state: State) -> tuple[AppendOnlyFile, AppendOnlyFile]:
    """The files of flags and of deletions, with their committed sizes."""
    deletions = state.deletion_count * DELETION.itemsize
    return (
        AppendOnlyFile(folder / state.flags, state.rows),
        AppendOnlyFile(folder / state.deletions, deletions),
    )


def read_row_sets(
    folder: Path, state: State, before: tuple[State, RowSets] | None = None
) -> RowSets:
    """Read the sets of a state; only what is new since an earlier one of the same files.

    Raises `OSError` if a file is missing, and `CorruptError` if it is too short or invalid.
    """
    known = NO_ROW_SETS
    start = count = 0
    if before is not None:
        old, sets = before
        is_prefix = old.rows <= state.rows and old.deletion_count <= state.deletion_count
        if (old.flags, old.deletions) == (state.flags, state.deletions) and is_prefix:
            known = sets
            start = old.rows
            count = old.deletion_count
    flags, deletions = flag_files(folder, state)
    new = np.frombuffer(flags.read(start), dtype=np.uint8)
    entries = np.frombuffer(deletions.read(count * DELETION.itemsize), dtype=DELETION)
    try:
        known = known.with_later(start, new, entries)
    except ValueError as error:
        raise CorruptError(f"{flags.path}: {error}") from error
    if len(known.deleted) and known.deleted[-1] >= state.rows:
        raise CorruptError(f"{deletions.path}: row {known.deleted[-1]}; expected {state.rows} rows")
    return known


def changed_since(folder: Path, state: State, start: int) -> tuple[Rows, Rows]:
    """Rows that were deleted, and rows that came back, since there were `start` deletions.

    Both are in order; a row that was deleted and came back is in neither.
    """
    _, deletions = flag_files(folder, state)
    return _changes(np.frombuffer(deletions.read(start * DELETION.itemsize), dtype=DELETION))


def _changes(entries: Rows) -> tuple[Rows, Rows]:
    """Rows that some entries delete, and rows that they bring back, both in order."""
    # The entries of a row alternate: if there are as many of both kinds, nothing changes.
    rows, positions = np.unique(np.where(entries < 0, ~entries, entries), return_inverse=True)
    changes = np.bincount(positions, weights=np.where(entries < 0, -1, 1))
    return rows[changes > 0], rows[changes < 0]
