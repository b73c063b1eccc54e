"""Readings: how much of texts and passages the encoder read.

A file of entries (row, tokens, tokens read), 64-bit integers: only rows whose text was read in
part, or that have no text. It only grows; of several entries of a row, the last one holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.vectors.append_only import appending, block_digests

from .passages import DocumentRows

PartlyRead = Mapping[int, tuple[int, int]]
"""Row -> tokens of its text and tokens read; both 0 if it has no text."""
ENTRY = np.dtype("<i8")
WIDTH = 3
ENTRY_BYTES = WIDTH * ENTRY.itemsize
FORGOTTEN = -1
"""Tokens of a row that was read whole in the end."""
Entries = NDArray[np.int64]


@dataclass(frozen=True)
class ReadingFile:
    """The file, and its committed number of entries."""

    path: Path
    count: int = 0

    @property
    def nbytes(self) -> int:
        """Committed size in bytes."""
        return self.count * ENTRY_BYTES

    def blocks(self) -> Iterator[tuple[int, str]]:
        """(number, SHA-256) of each block; the last may be short."""
        return block_digests(self.path, self.nbytes)

    def entries(self) -> Entries:
        """All entries (count, 3); raises `CorruptError` if the file is too short."""
        values = np.fromfile(self.path, dtype=ENTRY, count=self.count * WIDTH)
        if len(values) < self.count * WIDTH:
            raise CorruptError(f"{self.path}: {len(values)} numbers; expected {self.count * WIDTH}")
        return values.reshape(-1, WIDTH)

    def append(self, entries: Entries) -> ReadingFile:
        """Append entries durably; return the longer file."""
        with appending(self.path, self.nbytes) as file:
            file.write(np.ascontiguousarray(entries, dtype=ENTRY).data)
        return ReadingFile(self.path, self.count + len(entries))


class Readings:
    """Rows whose text was read only in part, with the tokens they have and those read.

    The file has the committed entries.
    """

    def __init__(self, file: ReadingFile | None = None) -> None:
        self.file = file
        self.added = list[Entries]()
        self._known: Entries | None = None

    def put(self, partly: PartlyRead) -> None:
        """Add rows whose text was read only in part."""
        if partly:
            self._add([[row, tokens, read] for row, (tokens, read) in sorted(partly.items())])

    def forget(self, start: int, stop: int) -> None:
        """Forget how much of the texts of rows start .. stop was read, before they are read again.

        Rows without text stay.
        """
        known = self.entries()
        inside = (known[:, 0] >= start) & (known[:, 0] < stop) & (known[:, 1] != 0)
        if rows := known[inside, 0].tolist():
            self._add([[row, FORGOTTEN, FORGOTTEN] for row in rows])

    def _add(self, entries: list[list[int]]) -> None:
        self.added.append(np.array(entries, dtype=np.int64))
        self._known = None

    def entries(self) -> Entries:
        """The entry of each row (n, 3), by row."""
        if self._known is None:
            committed = [] if self.file is None else [self.file.entries()]
            empty = np.zeros((0, WIDTH), dtype=np.int64)
            latest = np.concatenate([empty, *committed, *self.added])[::-1]
            _, last = np.unique(latest[:, 0], return_index=True)
            known = latest[last]
            self._known = known[known[:, 1] != FORGOTTEN]
        return self._known

    def of(self, rows: Rows) -> PartlyRead:
        """The given rows whose text was read only in part: row -> tokens, tokens read."""
        known = self.entries()
        chosen = known[np.isin(known[:, 0], rows)]
        return {row: (tokens, read) for row, tokens, read in chosen.tolist()}

    def textless(self, start: int = 0) -> Rows:
        """Rows from `start` on of documents without text, and so without a vector, in order."""
        if self.file is None and not self.added:
            return np.zeros(0, dtype=np.int64)
        known = self.entries()
        rows: Rows = known[(known[:, 0] >= start) & (known[:, 1] == 0), 0]
        return rows

    def partly_read(self, rows: DocumentRows, deleted: Rows, first: int = 0) -> tuple[Rows, float]:
        """First rows of the live documents from row `first` on whose text or passages were read
        only in part, in order, and the share of these tokens that was read.

        `rows` are those of the documents, and `deleted` those of deleted ones.
        """
        known = self.entries()
        known = known[(known[:, 0] >= first) & (known[:, 1] > known[:, 2]) & (known[:, 2] >= 0)]
        known = known[np.isin(known[:, 0], deleted, invert=True)]
        if not len(known):
            return known[:, 0], 1.0
        documents = np.unique(rows.documents(known[:, 0]))
        return documents, float(known[:, 2].sum() / known[:, 1].sum())
