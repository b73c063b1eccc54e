"""Selection: the rows of an index that are exported, with their documents and their vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches, without
from slimdex.indexes.errors import InputError, shortened
from slimdex.indexes.reduced_index import reduced

from ..collection.snapshot import Snapshot
from ..collection.view import View
from ..documents import Hit
from ..search.document_search import hit_of

if TYPE_CHECKING:
    import pyarrow

REDUCED, FULL = VECTORS = ("reduced", "full")
"""Vectors as the codes see them, k dimensions of unit length; or the encoder's, as on disk."""
ROWS_AT_ONCE = 8192
"""Rows that are in memory at a time, with their documents."""


@dataclass(frozen=True)
class Selection:
    """Rows of one snapshot, in order: those that a search can find, or some of them.

    A row is a passage where texts are cut, and else a document.

    Attributes
    ----------
    rows : (n,), by their numbers in the index.
    vectors : `REDUCED` or `FULL`.
    """

    view: View
    rows: Rows
    vectors: str

    @classmethod
    def of(cls, view: View, vectors: str, where: str | None = None) -> Selection:
        """The rows of all documents that have text, or of those that a condition holds for.

        Raises
        ------
        InputError
            If there are none, or `where` is no condition.
        """
        snapshot = view.snapshot
        documents = snapshot.live_documents() if where is None else view.rows_where(where)
        rows = without(snapshot.document_rows.all_rows(documents), snapshot.hidden)
        if not len(rows):
            said = "no documents" if where is None else f"where {shortened(where)} holds for none"
            raise InputError(f"{snapshot.path}: {said} with text; expected some to export")
        return cls(view, rows, vectors)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that has the rows."""
        return self.view.snapshot

    @property
    def dim(self) -> int:
        """Of the vectors that are exported."""
        index = self.snapshot.index
        return index.vectors.dim if self.vectors == FULL else index.reducer.n_components

    @property
    def is_cut(self) -> bool:
        """Whether the index has documents of several passages."""
        return not self.snapshot.document_rows.is_one_each

    def firsts(self, rows: Rows) -> Rows:
        """The first row of the document that each of some rows (n,) is of."""
        return self.snapshot.document_rows.documents(rows)

    def count_documents(self) -> int:
        """How many documents the rows are of."""
        return len(np.unique(self.firsts(self.rows)))

    def parts(self) -> Iterator[Rows]:
        """The rows, some thousands at a time."""
        return (self.rows[part] for part in batches(len(self.rows), ROWS_AT_ONCE))

    def take(self, rows: Rows) -> Matrix:
        """The vectors (n, dim) of some of the rows."""
        index = self.snapshot.index
        X = index.vectors.take(rows)
        return X if self.vectors == FULL else reduced(index.reducer, X)

    def ids(self, rows: Rows) -> list[str]:
        """The ids of the documents that some of the rows are of, one for each."""
        firsts, place = np.unique(self.firsts(rows), return_inverse=True)
        found = self.view.store.ids.of(firsts, self.snapshot.epoch)
        return [found[i] for i in place.tolist()]

    def hits(self, rows: Rows) -> list[Hit]:
        """The documents and passages of some of the rows, with no score."""
        firsts = self.firsts(rows)
        found = self.view.documents(np.unique(firsts).tolist())
        return [
            hit_of(found[first], row - first, 0.0)
            for row, first in zip(rows.tolist(), firsts.tolist(), strict=True)
        ]

    def table(self, documents: Rows) -> pyarrow.Table:
        """Id, title, text and the user's columns of some documents, by their first rows (n,)."""
        return self.view.store.documents.arrow(documents, self.snapshot.epoch)
