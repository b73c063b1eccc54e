"""Selection: the rows to export, with their documents and vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slimdex.errors import InputError, shorten
from slimdex.indexes.arrays import Matrix, Rows, batches, without
from slimdex.indexes.reducers.reducer import reduce_rows

from ..documents import Hit
from ..search.answer import hit_of
from ..store.snapshot import Snapshot

REDUCED = "reduced"
FULL = "full"
VECTORS = (REDUCED, FULL)
"""Names of the vectors: reduced to k dimensions of unit length, or the encoder's as on disk."""
ROWS_AT_ONCE = 8192
"""Rows in memory at a time, with their documents."""


@dataclass(frozen=True)
class Selection:
    """Rows of a snapshot, in order: all searchable rows, or a subset.

    A row is a passage if texts are cut, otherwise a document.
    """

    snapshot: Snapshot
    rows: Rows  # (n,), numbers in the index
    vectors: str  # `REDUCED` or `FULL`

    @classmethod
    def of(cls, snapshot: Snapshot, vectors: str, where: str | None = None) -> Selection:
        """Select the rows of all documents with text, or of those that match a condition.

        Raises `InputError` if there are none, or `where` is not a valid condition.
        """
        rows_of_documents = snapshot.document_rows.all_rows(snapshot.rows_where(where))
        rows = without(rows_of_documents, snapshot.hidden)  # deleted, or without text
        if not len(rows):
            which = "documents" if where is None else f"documents where {shorten(where)}"
            raise InputError(f"{snapshot.path}: no {which} with text; expected some to export")
        return cls(snapshot, rows, vectors)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def dim(self) -> int:
        """Dimensions of the exported vectors."""
        index = self.snapshot.index
        return index.vectors.dim if self.vectors == FULL else index.reducer.n_components

    @property
    def is_cut(self) -> bool:
        """True if the index has documents of several passages."""
        return not self.snapshot.document_rows.is_one_each

    def firsts(self, rows: Rows) -> Rows:
        """Return the first row of each row's document (n,), which identifies the document."""
        return self.snapshot.document_rows.documents(rows)

    def parts(self) -> Iterator[Rows]:
        """Yield the rows, some thousands at a time."""
        for part in batches(len(self.rows), ROWS_AT_ONCE):
            yield self.rows[part]

    def take(self, rows: Rows) -> Matrix:
        """Read the vectors (n, dim) of some rows, reduced if the selection requires it."""
        index = self.snapshot.index
        X = index.vectors.take(rows)
        return X if self.vectors == FULL else reduce_rows(index.reducer, X)

    def hits(self, rows: Rows) -> list[Hit]:
        """Documents and passages of some rows, without scores."""
        firsts = self.firsts(rows)
        documents = self.snapshot.store.documents(np.unique(firsts).tolist())
        hits = []
        for row, first in zip(rows.tolist(), firsts.tolist(), strict=True):
            hits.append(hit_of(documents[first], row - first))
        return hits
