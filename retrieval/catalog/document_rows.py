"""DocumentRows: which rows of vectors are of which document."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slimdex.indexes.arrays import Rows


@dataclass(frozen=True)
class DocumentRows:
    """Documents are called by their first row, and have one, but for those that are cut.

    Parameters
    ----------
    firsts : (m,), the first rows of the documents that have several, in order.
    counts : (m,), how many rows each of them has, which come one after the other.

    >>> rows = DocumentRows(np.array([1]), np.array([3]))  # of 0, 1, 1, 1, 4
    >>> rows.documents(np.array([0, 2, 3, 4])).tolist()
    [0, 1, 1, 4]
    >>> rows.all_rows(np.array([1, 4])).tolist(), rows.number(np.array([1, 2, 3, 4]))
    ([1, 2, 3, 4], 2)
    """

    firsts: Rows
    counts: Rows

    @property
    def is_one_each(self) -> bool:
        """Whether every document has one row."""
        return not len(self.firsts)

    def documents(self, rows: Rows) -> Rows:
        """The first row of the document that each row is of, in any shape; -1 of -1."""
        if self.is_one_each:
            return rows
        place = np.searchsorted(self.firsts, rows, side="right") - 1
        first = self.firsts[place]
        inside = (place >= 0) & (rows < first + self.counts[place])
        return np.where(inside, first, rows)

    def all_rows(self, documents: Rows) -> Rows:
        """All rows of some documents (n,), which are in order."""
        counts = self.counts_of(documents)
        if self.is_one_each or not len(documents):
            return documents
        before = np.cumsum(counts) - counts
        rows: Rows = np.repeat(documents - before, counts) + np.arange(counts.sum())
        return rows

    def counts_of(self, documents: Rows) -> Rows:
        """How many rows each of some documents (n,) has."""
        counts: Rows = np.ones(len(documents), dtype=np.int64)
        if not self.is_one_each:
            place = np.searchsorted(self.firsts, documents)
            place[place == len(self.firsts)] = 0
            found = self.firsts[place] == documents
            counts[found] = self.counts[place[found]]
        return counts

    def number(self, rows: Rows) -> int:
        """How many documents these rows are, where they are all that those documents have."""
        return len(rows) - int(self._more[np.isin(self.firsts, rows)].sum())

    def number_before(self, row: int) -> int:
        """How many documents there are in the rows 0 .. row, the first of another or the end."""
        return row - int(self._more[self.firsts < row].sum())

    @cached_property
    def _more(self) -> Rows:
        return self.counts - 1
