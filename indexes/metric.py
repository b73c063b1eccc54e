"""Metric: cosines at full dimension, from the vectors and their lengths on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .arrays import Matrix, Rows, batches
from .ranking import best_of
from .rescorer import Rescorer
from .vector_file import VectorFile

PIECE_BYTES = 1 << 20
"""Of float32 rows scored at a time: more leaves the processor's cache and wakes BLAS's threads."""


@dataclass(frozen=True)
class Metric:
    """What rescoring reads: the full-dimension metric, vectors and their lengths in it, on disk."""

    rescorer: Rescorer
    vectors: VectorFile
    norms: VectorFile

    def on(self, vectors: VectorFile) -> Metric:
        """The metric over a vector file that has grown; this one's norms stay as they are."""
        return replace(self, vectors=vectors, norms=self.norms.reopened())

    def scores(self, queries: Matrix, rows: Rows) -> Matrix:
        """Cosines (q, n) of queries (q, d) with the given rows (n,)."""
        out = np.empty((len(queries), len(rows)), dtype=np.float32)
        for part in batches(len(rows), max(PIECE_BYTES // (4 * self.vectors.dim), 1)):
            vectors, norms = self.vectors.take(rows[part]), self.norms.take(rows[part])
            out[:, part] = self.rescorer.scores(queries, vectors, norms)
        return out

    def nearest(self, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k) of the nearest of the given rows (n,), padded with -inf and -1."""
        chunks = (rows[part] for part in batches(len(rows)))
        return best_of(((self.scores(queries, chunk), chunk) for chunk in chunks), len(queries), k)
