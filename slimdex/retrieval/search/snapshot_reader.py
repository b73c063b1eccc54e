"""Snapshot reader: answers from one snapshot and its documents, all of the same moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.timing import stage

from ..catalog.database import RenumberedError
from ..catalog.store import DocumentStore
from ..documents import Document, Hit
from ..lexical.fusion import AUTO, FOUND_BY, MEANING, Fusion
from ..storage.snapshot import Snapshot
from .dense import DenseSearch
from .document_search import Search, hit_of, nearest_documents
from .fused import FusedSearch, OwnSearches
from .request import PASSAGE, SearchRequest

if TYPE_CHECKING:
    import pyarrow

READ_AT_ONCE = 1024
"""Documents per read when iterating over all of them."""


class Nearest(NamedTuple):
    """Rows found for queries, best first.

    Attributes
    ----------
    scores : (q, k), cosines, padded with -inf.
    rows : (q, k), padded with -1.
    found_by : (q, k), places in `FOUND_BY`; None if all were found by their meaning.
    """

    scores: Matrix
    rows: Rows
    found_by: Rows | None = None


@dataclass(frozen=True)
class SnapshotReader:
    """A snapshot and the catalog with its documents.

    Methods that read the catalog raise `RenumberedError` once a compaction has renumbered its rows:
    then a newer snapshot is required.
    """

    store: DocumentStore
    snapshot: Snapshot

    def opened(self) -> SnapshotReader:
        """Open the documents' files, so that they stay readable when deleted."""
        self.snapshot.documents()
        return self

    def fusion(self, request: SearchRequest) -> Fusion | None:
        """The fusion with lexical search for a request; None without it.

        Raises `InputError` if one is named and there is no lexical index.
        """
        fusion = request.fusion(self.snapshot.state.fusion)
        if fusion is not None and self.snapshot.state.words is None:
            if request.hybrid == AUTO:
                return None
            path = self.snapshot.path
            raise InputError(
                f"hybrid={request.hybrid!r}: {path} has no lexical index; expected one "
                f"(`slimdex lexical {path}` builds it)"
            )
        return fusion

    def nearest(self, request: SearchRequest) -> Nearest:
        """Return the nearest rows (q, k) to encoded queries, padded with -inf and -1.

        Raises `InputError` if `where` is invalid, or there are no words to fuse with.
        """
        fusion = self.fusion(request)
        snapshot, queries, k = self.snapshot, request.query_vectors, request.limit
        index, rescored = snapshot.index, request.candidates
        words = None if fusion is None else snapshot.words
        allowed = self._allowed(request.where)
        if rescored is None:
            rescored = index.candidates_for(k)
        dense = DenseSearch(index, snapshot.hidden, rescored, allowed)

        def found(search: Search, queries: NDArray[Any], least: int) -> tuple[Matrix, Rows]:
            if request.group_by == PASSAGE:
                return search(queries, k)
            rows, total = snapshot.document_rows, snapshot.state.rows
            return nearest_documents(search, queries, k, rows, total, least)

        least = rescored if allowed is None else 0
        if fusion is None:
            return Nearest(*found(dense, queries, least))
        assert words is not None
        assert request.texts is not None
        fused = FusedSearch(OwnSearches(dense, words), fusion, request.texts, queries)
        scores, rows = found(fused, np.arange(len(queries)), least)
        return Nearest(scores, rows, fused.found_by(rows))

    def nearest_documents(self, request: SearchRequest) -> tuple[Matrix, Rows]:
        """As `nearest`, with documents by their first rows, which `compact` renumbers."""
        scores, rows, _ = self.nearest(request)
        return scores, self.snapshot.document_rows.documents(rows)

    def _allowed(self, where: str | None) -> Rows | None:
        """All rows of the documents that match a condition; None without one."""
        if where is None:
            return None
        snapshot = self.opened().snapshot  # a filter may wait, while others remove files
        with stage("filter"):
            found = self.store.documents.rows_where(where, snapshot.state.rows, snapshot.epoch)
            return snapshot.document_rows.all_rows(found)

    def shown(self, scores: Matrix, rows: Rows, found_by: Rows | None = None) -> list[list[Hit]]:
        """Hits of each query from `Nearest`; `found_by` is by default "meaning" for all."""
        firsts = self.snapshot.document_rows.documents(rows)
        found = sorted({int(row) for row in firsts.flat if row >= 0})
        with stage("fetch"):
            documents = self.documents(found)
        by = np.full(rows.shape, MEANING) if found_by is None else found_by
        return [
            [
                hit_of(documents[first], row - first, score, FOUND_BY[how])
                for score, row, first, how in zip(*own, strict=True)
                if row >= 0
            ]
            for own in zip(*(each.tolist() for each in (scores, rows, firsts, by)), strict=True)
        ]

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Documents by their first row, from the file if current, otherwise from the catalog."""
        self.store.database.ensure_open()
        file = self.snapshot.documents()
        if file is None:
            return self.store.documents.read(rows, self.snapshot.epoch)
        return file.documents(rows, self.snapshot.columns)

    def every_document(self) -> Iterator[Document]:
        """Iterate over the documents, in the order of their rows."""
        rows = self.snapshot.live_documents()
        for part in batches(len(rows), READ_AT_ONCE):
            try:
                found = self.documents(rows[part].tolist())
            except RenumberedError as error:
                path = self.snapshot.path
                raise InputError(f"{path} was compacted meanwhile; begin again") from error
            yield from (found[int(row)] for row in rows[part])

    def row_of(self, id: str) -> int:
        """First row of a document; raises `InputError` if its id is unknown."""
        return self.store.ids.row_by_id([id], self.snapshot.epoch)[id]

    def rows_of(self, ids: Sequence[str]) -> list[int]:
        """First rows of these ids, in their order; raises `InputError` if an id is unknown."""
        rows = self.store.ids.row_by_id(ids, self.snapshot.epoch)
        if max(rows.values(), default=-1) >= self.snapshot.state.rows:
            raise RenumberedError  # added since: a newer snapshot has them
        return [rows[id] for id in ids]

    def listed(self, rows: Sequence[int], *, vectors: bool = False) -> list[Document]:
        """Documents of first rows, in their order, with their vectors if asked for."""
        found = self.documents(rows)
        if vectors and rows:
            firsts = np.unique(rows)
            X = self.snapshot.index.vectors.take(self.snapshot.document_rows.all_rows(firsts))
            ends = np.cumsum(self.snapshot.document_rows.counts_of(firsts))[:-1]
            for first, own in zip(firsts.tolist(), np.split(X, ends), strict=True):
                found[first] = replace(found[first], vectors=own)
        return [found[row] for row in rows]

    def arrow(self, rows: Rows) -> pyarrow.Table:
        """Id, title, text and the user's columns of documents by their first rows, in order."""
        return self.store.documents.arrow(rows, self.snapshot.epoch)

    def rows_where(self, where: str | None) -> Rows:
        """First rows of live documents, or of those that match a condition, in order."""
        if where is None:
            return self.snapshot.live_documents()
        found = self.store.documents.rows_where(
            where, self.snapshot.state.rows, self.snapshot.epoch
        )
        return np.setdiff1d(found, self.snapshot.deleted, assume_unique=True)
