"""Passages of documents, their rows, and the parts of their texts.

It omits most documents: those of one row whose text has no parts. While a document is added, its
entry first contains its parts but no passages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Rows
from slimdex.system.json_text import parsed

from ..documents import Document, Lines, Part
from ..passages import Passage


@dataclass(frozen=True)
class DocumentRows:
    """First rows (m,) of the documents with several rows, in order, and how many each has (m,)."""

    firsts: Rows
    counts: Rows

    @classmethod
    def of_continued(cls, rows: Rows) -> DocumentRows:
        """Documents from all their rows but each one's first, in order.

        Raises `ValueError` if these contain row 0.
        """
        if len(rows) and rows[0] <= 0:
            raise ValueError("row 0; expected it to begin a document")
        starts = np.flatnonzero(np.diff(rows, prepend=-1) != 1)
        return cls(rows[starts] - 1, np.diff(starts, append=len(rows)) + 1)

    def continued(self) -> Rows:
        """All rows of these documents but each one's first, in order."""
        return np.delete(self.all_rows(self.firsts), np.cumsum(self.counts) - self.counts)

    @property
    def is_one_each(self) -> bool:
        """True if every document has one row."""
        return not len(self.firsts)

    def documents(self, rows: Rows) -> Rows:
        """First row of the document of each row, in any shape; -1 for -1."""
        if self.is_one_each:
            return rows
        place = np.searchsorted(self.firsts, rows, side="right") - 1
        first = self.firsts[place]
        inside = (place >= 0) & (rows < first + self.counts[place])
        return np.where(inside, first, rows)

    def all_rows(self, documents: Rows) -> Rows:
        """All rows of documents (n,), given in order."""
        counts = self.counts_of(documents)
        if self.is_one_each or not len(documents):
            return documents
        before = np.cumsum(counts) - counts
        rows: Rows = np.repeat(documents - before, counts) + np.arange(counts.sum())
        return rows

    def counts_of(self, documents: Rows) -> Rows:
        """Number of rows of each of the documents (n,)."""
        counts: Rows = np.ones(len(documents), dtype=np.int64)
        if not self.is_one_each:
            place = np.searchsorted(self.firsts, documents)
            place[place == len(self.firsts)] = 0
            is_cut = self.firsts[place] == documents
            counts[is_cut] = self.counts[place[is_cut]]
        return counts

    def number(self, rows: Rows) -> int:
        """Number of documents that consist of these rows."""
        return len(rows) - int((self.counts - 1)[np.isin(self.firsts, rows)].sum())

    def number_before(self, row: int) -> int:
        """Number of documents in the rows 0 .. row, which is a document's first row or the end."""
        return row - int((self.counts - 1)[self.firsts < row].sum())

    def with_later(self, later: DocumentRows) -> DocumentRows:
        """These documents, and later ones."""
        return DocumentRows(
            *map(np.append, (self.firsts, self.counts), (later.firsts, later.counts))
        )


@dataclass(frozen=True)
class Cut:
    """Passages of a document, one row each, and the parts of its text."""

    passages: Sequence[Passage] = ()
    parts: Sequence[Part] = ()

    def of(self, document: Document) -> Document:
        """Return a document with its parts and passages."""
        return Document(
            id=document.id,
            text=document.text,
            title=document.title,
            metadata=document.metadata,
            parts=self.parts,
            passages=tuple((passage.start, passage.end) for passage in self.passages),
        )

    def contents(self, text: str) -> list[str]:
        """Texts to encode, one per passage."""
        return [passage.content(text) for passage in self.passages]


def parts_written(parts: Iterable[Part]) -> str | None:
    """Serialise parts for a segment; None if there are none.

    >>> parts_written([Part(0, ["A"], 1), Part(7, lines=[(7, 12), (30, 14)])])
    '[[0,["A"],1,""],[7,[],null,"",[0,12,23,2]]]'
    """
    values = [_part_written(part) for part in parts]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")) if values else None


def _part_written(part: Part) -> list[Any]:
    """Values of a part; lines, which are many, by what they are more than those before."""
    written: list[Any] = [part.start, [*part.headings], part.page, part.anchor]
    if part.lines:
        pairs = pairwise([(part.start, 0), *part.lines])
        written.append([more for one, other in pairs for more in np.subtract(other, one).tolist()])
    return written


def parts_read(values: Iterable[Any]) -> tuple[Part, ...]:
    """Convert parsed JSON of `parts_written` to parts; raises `ValueError` if it is invalid."""
    parts = list[Part]()
    for start, headings, page, anchor, *lines in values:
        part = Part(start, tuple(headings), page, anchor, _lines_read(start, *lines))
        if why := part_fault(part):
            raise ValueError(why)
        parts.append(part)
    return tuple(parts)


def _lines_read(start: int, written: Sequence[int] = ()) -> Lines:
    """The lines of a part from what `_part_written` has written."""
    offset = start
    line = 0
    pairs = list[tuple[int, int]]()
    for further, lines in zip(written[::2], written[1::2], strict=True):
        offset = offset + further
        line = line + lines
        pairs.append((offset, line))
    return tuple(pairs)


def part_fault(part: Any) -> str | None:
    """Reason why a part is invalid; None if it is valid."""
    if not isinstance(part, Part) or type(part.start) is not int or part.start < 0:
        return f"{part!r}; expected a Part whose start is a whole number, 0 or more"
    headings = part.headings
    is_list = isinstance(headings, Sequence) and not isinstance(headings, str)
    if not is_list or not all(isinstance(each, str) for each in headings):
        return f"headings={part.headings!r}; expected texts"
    if part.page is not None and type(part.page) is not int:
        return f"page={part.page!r}; expected a whole number or None"
    if not isinstance(part.anchor, str):
        return f"anchor={part.anchor!r}; expected a str"
    return _lines_fault(part)


def _lines_fault(part: Part) -> str | None:
    if not isinstance(part.lines, Sequence):
        return f"lines={part.lines!r}; expected (offset, line) pairs"
    before = (part.start, 1)
    for pair in part.lines:
        is_pair = isinstance(pair, Sequence) and [type(number) for number in pair] == [int, int]
        if not is_pair or pair[0] < before[0] or pair[1] < before[1]:
            return f"lines={part.lines!r}; expected (offset, line), which grow, from {before}"
        before = (pair[0], pair[1])
    return None


def cut_of(
    starts: list[int] | None, ends: list[int] | None, contexts: list[str] | None, parts: str | None
) -> Cut:
    """The cut of a document from what a segment has of it."""
    passages = [
        Passage(*each) for each in zip(starts or (), ends or (), contexts or (), strict=True)
    ]
    return Cut(passages, parts_read(parsed(parts)) if parts else ())
