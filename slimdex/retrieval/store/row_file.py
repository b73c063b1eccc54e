"""File of row sets: which rows are deleted, have no text, or continue a document.

A manifest has only what has changed since its file was written, so a commit takes as long with ten
million rows as with a thousand. A commit writes another file when there are many changes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from slimdex.errors import CorruptError
from slimdex.indexes.arrays import NO_ROWS, Rows, from_row, merge_rows, without
from slimdex.system.atomic_files import FileRecord, publish
from slimdex.system.json_text import READABLE, parse_json

from .passages import NO_DOCUMENT_ROWS, DocumentRows
from .row_bits import bits_of, rows_of

ROWS = "rows"
"""Role of the file in the state."""
LENGTH = 8
"""Bytes of the length of the JSON, which comes before the JSON; the sets come after it."""
SETS = ("deleted", "textless", "continued")
"""Sets of rows. The last one contains the rows of documents after each one's first."""
LEAST_LATER = 4096
LATER_SHARE = 256
"""Another file is written after this many new rows, or after one row in `LATER_SHARE` if that is
more."""
MOST_CHANGED = 1024
"""Largest number of rows of the file that were deleted or restored since."""


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

    @property
    def last(self) -> int:
        """Last row in any of the sets; -1 if all are empty."""
        last_rows: list[int] = [*self.deleted[-1:].tolist(), *self.textless[-1:].tolist()]
        return max([self.documents.last, *last_rows])

    def bits(self, first: int = 0) -> list[bytes]:
        """Return the sets in the order of `SETS`, a bit for each row from `first` on."""
        later = (from_row(rows, first) - first for rows in (self.deleted, self.textless))
        return [*map(bits_of, later), self.documents.bits(first)]

    def replace_from(self, first: int, bits: list[memoryview]) -> RowSets:
        """Replace the sets from row `first` on by those that `bits` returned."""
        deleted, textless, continued = bits
        later = DocumentRows.of_bits(continued, first)
        return RowSets(
            deleted=_replace_from(self.deleted, first, deleted),
            textless=_replace_from(self.textless, first, textless),
            documents=self.documents.replace_from(first, later),
        )

    def toggle(self, rows: Rows) -> RowSets:
        """Delete those of the rows that are not deleted, and restore the others."""
        return replace(self, deleted=symmetric_difference(self.deleted, rows))


NO_ROW_SETS = RowSets()


@dataclass(frozen=True)
class RowFile:
    """The file of row sets that a manifest names, and what has changed since it was written.

    Attributes
    ----------
    record : the file; None if the manifest names none.
    rows : number of the rows in the file.
    changed : rows in the file that were deleted or restored since, in order.
    """

    record: FileRecord | None = None
    rows: int = 0
    changed: Rows = field(default_factory=lambda: NO_ROWS)

    def with_changed(self, rows: Rows) -> RowFile:
        """Note rows (n,), in order, that are deleted or restored; only those in the file matter.

        A row that is changed twice is as the file has it, so it is no longer noted.
        """
        rows_in_file = rows[: np.searchsorted(rows, self.rows)]
        return replace(self, changed=symmetric_difference(self.changed, rows_in_file))

    def is_outgrown(self, rows: int) -> bool:
        """Return whether a manifest of `rows` rows should name a new file."""
        later = rows - self.rows
        has_many_later = later > max(LEAST_LATER, rows // LATER_SHARE)
        return has_many_later or len(self.changed) > MOST_CHANGED

    @staticmethod
    def write(path: Path, rows: int, sets: RowSets) -> FileRecord:
        """Write the sets of `rows` rows to a file, durably."""
        bits = sets.bits()
        lengths = dict(zip(SETS, map(len, bits), strict=True))
        header = json.dumps({"rows": rows, "bytes": lengths}).encode()
        data = b"".join([len(header).to_bytes(LENGTH, "little"), header, *bits])
        return publish(path, lambda new: new.write_bytes(data))

    @classmethod
    def read(cls, folder: Path, record: FileRecord, similar: RowSets) -> tuple[RowFile, RowSets]:
        """Read the file of a record, and its sets.

        Documents that equal those of `similar`, such as an earlier commit's, share their memory.
        Raises `FileNotFoundError` if it is missing, and `CorruptError` if it is damaged.
        """
        path = folder / record.name
        data = path.read_bytes()
        if sha256(data).hexdigest() != record.sha256:
            raise CorruptError(f"{path}: damaged; restore it from a copy")

        # The sets must only have rows of the file.
        header, start = header_of(memoryview(data))
        rows = header["rows"]
        if type(rows) is not int or rows < 0:
            raise CorruptError(f"{path}: {rows!r} rows; expected a whole number")
        sets = similar.replace_from(0, sets_of(header, memoryview(data), start))
        if sets.last >= rows:
            raise CorruptError(f"{path}: row {sets.last}; expected fewer than {rows}")
        return cls(record, rows), sets


NO_ROW_FILE = RowFile()


def header_of(data: memoryview) -> tuple[Any, int]:
    """Parse the JSON at the start of a file; return it, and where it ends."""
    stop = LENGTH + int.from_bytes(data[:LENGTH], "little")
    return parse_json(str(data[LENGTH:stop], "utf-8"), READABLE), stop


def sets_of(header: Any, data: memoryview, start: int) -> list[memoryview]:
    """Return the bits of each of `SETS`, which begin at `start`; the header has their lengths."""
    sets = []
    for name in SETS:
        stop = start + header["bytes"][name]
        sets.append(data[start:stop])
        start = stop
    return sets


def symmetric_difference(rows: Rows, others: Rows) -> Rows:
    """Return the numbers that only one of two sorted arrays has, sorted.

    >>> symmetric_difference(np.array([1, 4, 7]), np.array([2, 4])).tolist()
    [1, 2, 7]
    """
    return merge_rows(without(rows, others), without(others, rows))


def _replace_from(rows: Rows, first: int, bits: memoryview) -> Rows:
    """Replace the rows of a set from row `first` on by those that have a bit."""
    later = rows_of(bits) + first
    before = rows[: np.searchsorted(rows, first)]
    return np.concatenate([before, later]) if len(later) else before
