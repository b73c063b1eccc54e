"""The file of a commit's sets of rows, which later manifests name.

These have only what has changed since, so that a commit takes as long with ten million rows as with
a thousand. A commit writes another file once that is too much.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from slimdex.errors import CorruptError
from slimdex.indexes.arrays import Rows, from_row, merged, without
from slimdex.indexes.search.reduced_index import NO_ROWS
from slimdex.system.atomic_files import FileRecord, publish
from slimdex.system.json_text import READABLE, parsed

from .passages import NO_DOCUMENT_ROWS, DocumentRows
from .row_bits import bits_of, rows_of

ROWS = "rows"
"""Role of the file among those of the state."""
LENGTH = 8
"""Bytes of the length of the JSON, which the sets follow."""
SETS = ("deleted", "textless", "continued")
"""Sets of rows. The last one contains the rows of documents after each one's first."""
LEAST_LATER = 4096
LATER_SHARE = 256
"""Most rows after those of the file, or one row in so many, if that is more."""
MOST_CHANGED = 1024
"""Most rows of the file that were deleted since, or have come back."""


@dataclass(frozen=True)
class RowSets:
    """Sets of the rows from 0 on.

    Attributes
    ----------
    deleted, textless : rows of deleted documents, and of those without text, in order.
    documents : which rows are those of one document.
    """

    deleted: Rows = field(default_factory=lambda: NO_ROWS)
    textless: Rows = field(default_factory=lambda: NO_ROWS)
    documents: DocumentRows = NO_DOCUMENT_ROWS

    @property
    def last(self) -> int:
        """The last row of any set; -1 if they are empty."""
        ends: list[int] = [*self.deleted[-1:].tolist(), *self.textless[-1:].tolist()]
        return max([self.documents.last, *ends])

    def bits(self, first: int = 0) -> list[bytes]:
        """Each set of `SETS`, a bit for each row from `first` on."""
        ends = (from_row(rows, first) - first for rows in (self.deleted, self.textless))
        return [*map(bits_of, ends), self.documents.bits(first)]

    def replaced_from(self, first: int, bits: list[memoryview]) -> RowSets:
        """With other sets of the rows from `first` on, as of `bits`."""
        deleted, textless, continued = bits
        later = DocumentRows.of_bits(continued, first)
        return RowSets(
            deleted=_replaced_from(self.deleted, first, deleted),
            textless=_replaced_from(self.textless, first, textless),
            documents=self.documents.replaced_from(first, later),
        )

    def with_deleted(self, changed: Rows) -> RowSets:
        """With rows deleted that were not, and those back that were."""
        return replace(self, deleted=exchanged(self.deleted, changed)) if len(changed) else self


NO_ROW_SETS = RowSets()


@dataclass(frozen=True)
class RowFile:
    """The file that a manifest names, if any.

    Attributes
    ----------
    rows : rows 0 .. rows are in the file.
    changed : rows in the file that were deleted since, or have come back, in order.
    """

    record: FileRecord | None = None
    rows: int = 0
    changed: Rows = field(default_factory=lambda: NO_ROWS)

    def with_changed(self, rows: Rows) -> RowFile:
        """With more rows (n,), in order, that are deleted or come back."""
        inside = rows[: np.searchsorted(rows, self.rows)]
        return replace(self, changed=exchanged(self.changed, inside)) if len(inside) else self

    def is_outgrown(self, rows: int) -> bool:
        """Whether a manifest of so many rows should name a new file."""
        later = rows - self.rows
        return later > max(LEAST_LATER, rows // LATER_SHARE) or len(self.changed) > MOST_CHANGED

    @staticmethod
    def write(path: Path, rows: int, sets: RowSets) -> FileRecord:
        """Write the sets of so many rows to a file, durably."""
        bits = sets.bits()
        lengths = dict(zip(SETS, map(len, bits), strict=True))
        header = json.dumps({"rows": rows, "bytes": lengths}).encode()
        data = b"".join([len(header).to_bytes(LENGTH, "little"), header, *bits])
        return publish(path, lambda new: new.write_bytes(data))

    @classmethod
    def read(cls, folder: Path, record: FileRecord, similar: RowSets) -> tuple[RowFile, RowSets]:
        """Read the sets of a file; those of documents that are as in `similar` share its memory.

        Raises `FileNotFoundError` if it is missing, and `CorruptError` if it is damaged.
        """
        path = folder / record.name
        data = path.read_bytes()
        if sha256(data).hexdigest() != record.sha256:
            raise CorruptError(f"{path}: damaged; restore it from a copy")
        header, start = header_of(memoryview(data))
        rows = header["rows"]
        if type(rows) is not int or rows < 0:
            raise CorruptError(f"{path}: {rows!r} rows; expected a whole number")
        sets = similar.replaced_from(0, sets_of(header, memoryview(data), start))
        if sets.last >= rows:
            raise CorruptError(f"{path}: row {sets.last}; expected fewer than {rows}")
        return cls(record, rows), sets


NO_ROW_FILE = RowFile()


def header_of(data: memoryview) -> tuple[Any, int]:
    """The JSON at the start of some bytes, which has its length before it; where it ends."""
    stop = LENGTH + int.from_bytes(data[:LENGTH], "little")
    return parsed(str(data[LENGTH:stop], "utf-8"), READABLE), stop


def sets_of(header: Any, data: memoryview, start: int) -> list[memoryview]:
    """The bits of each set of `SETS`, of which the header says how many bytes each has."""
    lengths = [header["bytes"][name] for name in SETS]
    stops = [start + sum(lengths[: i + 1]) for i in range(len(lengths))]
    return [data[stop - length : stop] for stop, length in zip(stops, lengths, strict=True)]


def exchanged(rows: Rows, others: Rows) -> Rows:
    """Return the numbers that only one of two sorted arrays has, sorted.

    >>> exchanged(np.array([1, 4, 7]), np.array([2, 4])).tolist()
    [1, 2, 7]
    """
    return merged(without(rows, others), without(others, rows))


def _replaced_from(rows: Rows, first: int, bits: memoryview) -> Rows:
    later = rows_of(bits) + first
    before = rows[: np.searchsorted(rows, first)]
    return np.concatenate([before, later]) if len(later) else before
