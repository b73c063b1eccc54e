"""Ids: where documents are, by a hash of their ids.

A file has the hashes of the documents in the rows before its reach, in order, and the row of each.
A commit writes another one when many rows have come since; until then, these are in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.system.atomic_files import FileRecord, publish

IDS = "ids"
"""Role of the file in the state."""
NUMBER = np.dtype("<u4")
"""Of hashes and rows: of a million ids, one in 4,000 has the hash of another."""
LEAST_LATER = 1024
LATER_SHARE = 16
"""Another file is written after so many later rows, or one row in so many, if that is more."""


@dataclass(frozen=True)
class IdFile:
    """Hashes of ids (n,), in order, and the row of each (n,); some rows may be deleted."""

    hashes: NDArray[np.uint32]
    rows: NDArray[np.uint32]

    @classmethod
    def read(cls, folder: Path, record: FileRecord | None) -> IdFile:
        """Map a file, once it is checked; without one there are no ids."""
        if record is None:
            return NO_IDS
        record.check(folder)
        table = np.memmap(folder / record.name, dtype=NUMBER, mode="r")
        count = len(table) // 2
        return cls(table[:count], table[count:])

    def with_later(self, hashes: NDArray[np.uint32], rows: NDArray[np.integer]) -> IdFile:
        """Return these and later ones, in any order."""
        hashes = np.append(self.hashes, hashes)
        order = np.argsort(hashes, kind="stable")
        return IdFile(hashes[order], np.append(self.rows, rows.astype(NUMBER))[order])

    def write(self, path: Path) -> FileRecord:
        """Write a file."""
        table = np.stack([self.hashes, self.rows])
        return publish(path, lambda new: new.write_bytes(table.tobytes()))

    def find(self, ids: Sequence[str]) -> Rows:
        """Rows (n,), in order, of the documents that may have one of these ids: a few may not."""
        hashes = np.unique(hashes_of(ids))
        starts = np.searchsorted(self.hashes, hashes, "left")
        counts = np.searchsorted(self.hashes, hashes, "right") - starts
        firsts = np.cumsum(counts) - counts
        positions = np.repeat(starts - firsts, counts) + np.arange(counts.sum())
        return np.sort(self.rows[positions].astype(np.int64))


NO_IDS = IdFile(np.zeros(0, NUMBER), np.zeros(0, NUMBER))


def hashes_of(ids: Sequence[str]) -> NDArray[np.uint32]:
    """A hash of 32 bits of each id."""
    digests = (blake2b(id.encode(), digest_size=NUMBER.itemsize).digest() for id in ids)
    return np.frombuffer(b"".join(digests), dtype=NUMBER)
