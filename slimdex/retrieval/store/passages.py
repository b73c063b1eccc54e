"""Rows of documents that are cut into passages, and the parts of texts as they are stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows

from ..documents import Part, part_fault


@dataclass(frozen=True)
class DocumentRows:
    """The documents with several rows: first row of each (m,), in order, and row counts (m,).

    Any other row is a document of one row.
    """

    firsts: Rows
    counts: Rows

    @classmethod
    def of_flags(cls, flags: NDArray[np.bool_], first: int = 0) -> DocumentRows:
        """Read documents from a flag of each row (n,): whether it continues the one before it.

        The first flag is that of row `first`. Raises `ValueError` if that continues a document.
        """
        # Each run of flags covers the rows of a document after its first one.
        edges = np.flatnonzero(np.diff(flags, prepend=False, append=False))
        starts = edges[::2]
        stops = edges[1::2]
        if len(starts) and not starts[0]:
            raise ValueError(f"row {first}; expected it to begin a document")
        return cls(first + starts - 1, stops - starts + 1)

    @property
    def is_one_each(self) -> bool:
        """True if every document has one row."""
        return not len(self.firsts)

    def documents(self, rows: Rows) -> Rows:
        """First row of the document of each row, in any shape; -1 (no row) stays -1."""
        if self.is_one_each:
            return rows

        # Only the last of these documents that begins at or before a row may include it.
        position = np.searchsorted(self.firsts, rows, side="right") - 1  # -1 if there is none
        first = self.firsts[position]
        is_inside = (position >= 0) & (rows < first + self.counts[position])
        return np.where(is_inside, first, rows)

    def first_rows(self, rows: Rows) -> Rows:
        """Return those of some rows (n,) with which a document begins."""
        first_rows: Rows = rows[self.documents(rows) == rows]
        return first_rows

    def all_rows(self, documents: Rows) -> Rows:
        """All rows, in order, of documents that are given by their first rows (n,), in order."""
        if self.is_one_each or not len(documents):
            return documents

        # The rows of a document are its first row plus 0, 1, 2 and so on: their position in the
        # result, less the number of rows of the documents before.
        counts = self.counts_of(documents)
        before = np.cumsum(counts) - counts
        rows: Rows = np.repeat(documents - before, counts) + np.arange(counts.sum())
        return rows

    def counts_of(self, documents: Rows) -> Rows:
        """Number of rows of each document, given by its first row (n,); 1 for any other row."""
        counts: Rows = np.ones(len(documents), dtype=np.int64)
        if not self.is_one_each:
            position = np.searchsorted(self.firsts, documents)
            position[position == len(self.firsts)] = 0  # of an earlier document, so not equal
            is_cut = self.firsts[position] == documents
            counts[is_cut] = self.counts[position[is_cut]]
        return counts

    def with_later(self, later: DocumentRows) -> DocumentRows:
        """Return these documents and later ones."""
        if later.is_one_each:
            return self
        firsts = np.append(self.firsts, later.firsts)
        return DocumentRows(firsts, np.append(self.counts, later.counts))


NO_DOCUMENT_ROWS = DocumentRows(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
"""All documents have one row each."""


def parts_written(parts: Iterable[Part]) -> list[list[Any]]:
    """Convert parts for JSON. (offset, line) pairs are many: their differences are written.

    >>> parts_written([Part(0, ["A"], 1), Part(7, lines=[(7, 12), (30, 14)])])
    [[0, ['A'], 1, ''], [7, [], None, '', [0, 12, 23, 2]]]
    """
    written = list[list[Any]]()
    for part in parts:
        values: list[Any] = [part.start, [*part.headings], part.page, part.anchor]
        if part.lines:
            steps = np.diff([(part.start, 0), *part.lines], axis=0)
            values.append(steps.ravel().tolist())
        written.append(values)
    return written


def parts_read(written: Iterable[Any]) -> tuple[Part, ...]:
    """Restore parts from `parts_written`; raises `ValueError` or `TypeError` if that fails."""
    parts = list[Part]()
    for start, headings, page, anchor, *steps in written:
        further = steps[0] if steps else []
        _, *offsets = accumulate(further[::2], initial=start)
        lines = tuple(zip(offsets, accumulate(further[1::2]), strict=True))
        part = Part(start, tuple(headings), page, anchor, lines)
        if why := part_fault(part):
            raise ValueError(why)
        parts.append(part)
    return tuple(parts)
