"""Readings: how much of texts and passages the encoder read, if not all.

They are stored in a file of entries (row, tokens, tokens read), 64-bit integers, for rows whose
text is empty or was read only in part. The file only grows; if a row has several entries, the last
one is valid.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows, contains
from slimdex.system.append_only import AppendOnlyFile

from .passages import DocumentRows

PartlyRead = Mapping[int, tuple[int, int]]
"""Row -> tokens of its text and tokens read; both 0 if it has no text."""
ENTRY = np.dtype("<i8")
WIDTH = 3
ENTRY_BYTES = WIDTH * ENTRY.itemsize
FORGOTTEN = -1
"""Tokens of a row that was read whole in the end."""
Entries = NDArray[np.int64]
NO_ENTRIES: Entries = np.zeros((0, WIDTH), dtype=np.int64)


class ReadingFile(AppendOnlyFile):
    """The file of entries."""

    @property
    def count(self) -> int:
        """Committed number of entries."""
        return self.nbytes // ENTRY_BYTES

    def entries(self, start: int = 0) -> Entries:
        """Read the entries (n, 3) from number `start` on; raises as `read`."""
        data = self.read(start * ENTRY_BYTES)
        return np.frombuffer(data, dtype=ENTRY).astype(np.int64).reshape(-1, WIDTH)

    def with_entries(self, entries: Entries) -> ReadingFile:
        """Append entries (n, 3) durably; return the longer file."""
        return self.append(entries.astype(ENTRY).tobytes())


class Readings:
    """Rows whose text was read only in part or is empty, with tokens and tokens read.

    Readings of a change have a `base`: those of the commit before it, which read the file once for
    both.

    Attributes
    ----------
    file : file of the committed entries; None if there are none.
    added : entries that a change adds.
    """

    def __init__(self, file: ReadingFile | None = None, base: Readings | None = None) -> None:
        self.file = file
        self._base = base
        self.added = list[Entries]()
        self._known: Entries | None = None  # what `entries` returns

        # What an earlier commit has read of the file: the valid entry of each row, and how many
        # entries it has read.
        self._before = NO_ENTRIES
        self._before_count = 0

    def for_change(self) -> Readings:
        """Return readings to which a change adds its own."""
        return Readings(self.file, self)

    def at_commit(self, file: ReadingFile | None) -> Readings:
        """Return the readings of a later commit; only new entries of its file are read."""
        if file == self.file:
            return self
        readings = Readings(file)
        if file is None or self.file is None or self._known is None:
            return readings
        if file.path == self.file.path and file.count > self.file.count:
            readings._before = self._known
            readings._before_count = self.file.count
        return readings

    def add(self, partly: PartlyRead) -> None:
        """Add rows whose text was read only in part, or that have no text."""
        if partly:
            self._add([[row, tokens, read] for row, (tokens, read) in sorted(partly.items())])

    def forget(self, start: int, stop: int) -> None:
        """Forget how much of some rows' texts was read, before these are read again.

        These are the rows from `start` to before `stop`, except those without text.
        """
        known = self.entries()
        rows = known[:, 0]
        tokens = known[:, 1]
        is_forgotten = (rows >= start) & (rows < stop) & (tokens != 0)
        forgotten = rows[is_forgotten].tolist()
        if forgotten:
            self._add([[row, FORGOTTEN, FORGOTTEN] for row in forgotten])

    def _add(self, entries: list[list[int]]) -> None:
        """Add entries, which are not in the file yet."""
        self.added.append(np.array(entries, dtype=np.int64))
        self._known = None

    def entries(self) -> Entries:
        """Valid entries (n, 3), at most one for each row, in the order of rows."""
        if self._known is None:
            self._known = _merge(self._committed(), self.added)
        return self._known

    def _entries_from(self, row: int) -> Entries:
        """Valid entries of this row and later ones."""
        known = self.entries()
        return known[_position(known, row) :]

    def _committed(self) -> Entries:
        """Valid entries without the added ones."""
        if self._base is not None:
            return self._base.entries()
        if self.file is None:
            return NO_ENTRIES
        return _merge(self._before, [self.file.entries(self._before_count)])

    def of(self, rows: Rows) -> PartlyRead:
        """The given rows whose text was read only in part: row -> tokens, tokens read."""
        known = self.entries()
        chosen = known[np.isin(known[:, 0], rows)]
        return {row: (tokens, read) for row, tokens, read in chosen.tolist()}

    def textless(self, start: int = 0) -> Rows:
        """Rows from `start` on of documents without text, and so without a vector, in order."""
        if self.file is None and not self.added:
            return np.zeros(0, dtype=np.int64)
        known = self._entries_from(start)
        rows: Rows = known[known[:, 1] == 0, 0]
        return rows

    def partly_read(
        self, rows: DocumentRows, deleted: Rows, first: int = 0
    ) -> tuple[Rows, int, int]:
        """Find the live documents whose text or passages were read only in part.

        Returns their first rows, in order, the tokens of these texts or passages, and how many of
        the tokens were read. Documents before row `first` are left out.

        `rows` says which documents have several rows; `deleted` are rows of deleted ones.
        """
        known = self._entries_from(first)
        known = known[(known[:, 1] > known[:, 2]) & (known[:, 2] >= 0)]
        known = known[~contains(deleted, known[:, 0])]
        documents = np.unique(rows.documents(known[:, 0])) if len(known) else known[:, 0]
        return documents, int(known[:, 1].sum()), int(known[:, 2].sum())


def _merge(known: Entries, added: Sequence[Entries]) -> Entries:
    """Merge known and added entries, in the order of rows; only the last of each row is kept.

    `known` is sorted by row, with one entry for each. Most added rows come after these.
    """
    # `unique` returns the first index of each row: in reversed order, that of its last entry.
    latest_first = np.concatenate([NO_ENTRIES, *added])[::-1]
    rows, indices = np.unique(latest_first[:, 0], return_index=True)

    # Known entries before the first added row stay as they are, without sorting.
    first = _position(known, rows[0]) if len(rows) else len(known)
    between = known[first:]
    between = between[np.isin(between[:, 0], rows, invert=True)]
    later = np.concatenate([between, latest_first[indices]])
    later = later[np.argsort(later[:, 0])]
    return np.concatenate([known[:first], later[later[:, 1] != FORGOTTEN]])


def _position(entries: Entries, row: int) -> int:
    """Position of the first entry of this row or a later one."""
    return bisect_left(entries[:, 0], row)  # numpy would copy the whole column
