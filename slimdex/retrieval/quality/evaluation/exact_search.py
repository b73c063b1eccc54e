"""Exact searches over uncompressed vectors, the reference for an index."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import FLAT
from slimdex.indexes.execution.threads import product
from slimdex.indexes.ranking import best_of
from slimdex.indexes.search.reduced_index import reduced

from ...index import Index
from ...search.answer import BestRows
from ...store.passages import DocumentRows

QUERIES_TOGETHER = 256
"""Queries for each pass over the rows; their scores with 8,192 rows take 8 MB."""


class ExactSearch:
    """Exact search by cosine over float32 vectors at full dimension.

    All live vectors are read into memory, d * 4 bytes each.
    """

    def __init__(self, index: Index) -> None:
        snapshot = index.snapshot
        self._live, self._rows = snapshot.searchable_rows(), snapshot.document_rows
        vectors = snapshot.vectors()
        self._index = FaissIndex(FLAT, vectors.dim)
        for part in batches(len(self._live)):
            self._index.add(normalize_rows(vectors.take(self._live[part])))

    def __call__(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Return scores and documents' first rows (q, k) for encoded queries (q, d), best first."""
        return best_documents(self._nearest, queries, k, self._rows, len(self._live))

    def _nearest(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        scores, found = self._index.search(normalize_rows(queries), k)
        return scores, np.where(found >= 0, self._live[found], -1)

    def memory(self) -> dict[str, float]:
        """Memory in bytes, in the form of `memory` for an index."""
        row = self._index.row_nbytes
        return {
            "ram_bytes_per_vector": row,
            "ram_bytes_fixed": round(self._index.nbytes - row * len(self._index)),
            "disk_bytes_per_vector": row,
        }


class OwnMetricSearch:
    """Exact search in the index's metric; the index differs from it only by compression.

    If the index rescores, scores are cosines after whitening at full dimension; otherwise they are
    cosines of the reduced vectors. All vectors are read from disk for each batch of queries.
    """

    def __init__(self, index: Index) -> None:
        snapshot = index.snapshot
        self._index, self._live = snapshot.index, snapshot.searchable_rows()
        self._rows, self._settings = snapshot.document_rows, snapshot.state.settings

    def __call__(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Return scores and documents' first rows (q, k) for encoded queries (q, d), best first."""
        total = len(self._live)
        found = [
            best_documents(self._nearest, queries[part], k, self._rows, total)
            for part in batches(len(queries), QUERIES_TOGETHER)
        ]
        scores, rows = zip(*found, strict=True)
        return np.concatenate(scores), np.concatenate(rows)

    def _nearest(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        if self._index.metric is not None:
            return self._index.metric.nearest(queries, k, self._live)
        shorten, vectors = partial(reduced, self._index.reducer), self._index.vectors
        short = shorten(queries)
        chunks = (self._live[part] for part in batches(len(self._live)))
        scored = ((product(short, shorten(vectors.take(rows)).T), rows) for rows in chunks)
        return best_of(scored, len(short), k)

    def __str__(self) -> str:
        """Describe the metric in words."""
        settings = self._settings
        assert settings is not None
        if self._index.metric is None:
            return f"the vectors reduced to {settings.k} dimensions ({settings.reducer})"
        if settings.beta == settings.gamma == 0:
            return "the encoder's vectors, which are not whitened (beta=0, gamma=0)"
        return f"the encoder's vectors, whitened (beta={settings.beta:g}, gamma={settings.gamma:g})"


def best_documents(
    search: Callable[[Matrix, int], tuple[Matrix, Rows]],
    queries: Matrix,
    k: int,
    rows: DocumentRows,
    total: int,
) -> tuple[Matrix, Rows]:
    """Search rows, and return documents by their first rows."""
    best = BestRows(len(queries), k, None if rows.is_one_each else rows.documents, total)
    while not best.is_complete:
        best.add(*search(queries[best.left], best.ask))
    return best.scores, rows.documents(best.rows)
