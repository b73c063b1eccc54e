"""View: what is asked of one snapshot and its documents; all answers are of the same moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.timing import stage

from ..catalog.database import RenumberedError
from ..catalog.store import DocumentStore
from ..documents import Document, Hit
from .document_search import hit_of, nearest_documents
from .hybrid_search import Worded, hybrid_search
from .snapshot import Snapshot

DOCUMENT, PASSAGE = PER = ("document", "passage")
"""What a search gives one hit for."""


@dataclass(frozen=True)
class View:
    """A snapshot beside the catalog that has its documents.

    All that asks the catalog raises `RenumberedError` once a compaction has given its rows other
    numbers: then a newer snapshot is to be asked.
    """

    store: DocumentStore
    snapshot: Snapshot

    def nearest(
        self,
        queries: Matrix,
        k: int,
        where: str | None = None,
        candidates: int | None = None,
        per: str = DOCUMENT,
        words: Worded | None = None,
    ) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k) of the nearest to encoded queries (q, d), padded with -inf and -1.

        Parameters
        ----------
        words : the queries' words, where they count beside meaning.

        Raises
        ------
        InputError
            If k is less than 1, or `where` is no expression.
        """
        if k < 1:
            raise InputError(f"limit={k}; expected 1 or more")
        snapshot, allowed = self.snapshot, None
        rows = snapshot.document_rows
        if where is not None:
            with stage("filter"):
                found = self.store.rows_where(where, snapshot.state.rows, snapshot.epoch)
                allowed = rows.all_rows(found)
        if words is not None:
            return self._fused(queries, k, words, allowed, candidates, per)

        def search(queries: Matrix, k: int) -> tuple[Matrix, Rows]:
            return snapshot.index.search(queries, k, allowed, snapshot.hidden, candidates)

        if per == PASSAGE or rows.is_one_each:
            return search(queries, k)
        least = 0 if allowed is not None else candidates or snapshot.index.candidates
        return nearest_documents(search, queries, k, rows, snapshot.state.rows, least)

    def _fused(
        self,
        queries: Matrix,
        k: int,
        words: Worded,
        allowed: Rows | None,
        candidates: int | None,
        per: str,
    ) -> tuple[Matrix, Rows]:
        """The same by meaning and words, each query by itself."""
        rows, total = self.snapshot.document_rows, self.snapshot.state.rows
        k = min(k, total)
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        found: Rows = np.full((len(queries), k), -1, dtype=np.int64)
        for i, text in enumerate(words.texts):
            query = queries[i : i + 1]
            search = hybrid_search(self.snapshot, text, words.fusion, allowed, candidates)
            if per == PASSAGE or rows.is_one_each:
                own = search(query, k)
            else:
                own = nearest_documents(search, query, k, rows, total)
            scores[i, : own[0].shape[1]], found[i, : own[1].shape[1]] = own[0][0], own[1][0]
        return scores, found

    def shown(self, scores: Matrix, rows: Rows) -> list[list[Hit]]:
        """Hits of each query from scores and rows (q, k), padded with -1."""
        firsts = self.snapshot.document_rows.documents(rows)
        found = sorted({int(row) for row in firsts.flat if row >= 0})
        with stage("fetch"):
            documents = self.documents(found)
        return [
            [
                hit_of(documents[int(first)], int(row - first), float(score))
                for score, row, first in zip(*own, strict=True)
                if row >= 0
            ]
            for own in zip(scores, rows, firsts, strict=True)
        ]

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Documents by their first row, from the file that has them so, or from the catalog."""
        self.store.ensure_open()
        file = self.snapshot.documents()
        if file is None:
            return self.store.documents(rows, self.snapshot.epoch)
        return file.documents(rows, self.snapshot.columns)

    def by_id(self, ids: Sequence[str]) -> list[Document]:
        """The documents of these ids, in their order.

        Raises
        ------
        InputError
            If an id is unknown.
        """
        rows = self.store.row_by_id(ids, self.snapshot.epoch)
        if max(rows.values(), default=-1) >= self.snapshot.state.rows:
            raise RenumberedError  # added since: the next snapshot has them
        found = self.documents([rows[id] for id in ids])
        return [found[rows[id]] for id in ids]

    def rows_where(self, where: str) -> Rows:
        """First rows of live documents that a condition holds for, in order."""
        found = self.store.rows_where(where, self.snapshot.state.rows, self.snapshot.epoch)
        return np.setdiff1d(found, self.snapshot.deleted, assume_unique=True)
