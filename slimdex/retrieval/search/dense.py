"""Dense search: the rows whose vectors are nearest to a query's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.search.reduced_index import ReducedIndex

LEAST = np.float32(-1)
"""Cosine of rows that codes leave out."""


@dataclass(frozen=True)
class DenseSearch:
    """The nearest rows of an index, by codes and rescoring.

    Attributes
    ----------
    hidden : rows never to find, sorted.
    candidates : rows to rescore for each query.
    allowed : rows to search among, sorted; by default all.
    """

    index: ReducedIndex
    hidden: Rows
    candidates: int
    allowed: Rows | None = None

    def __call__(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k) of encoded queries (q, d), padded with -inf and -1."""
        return self.index.search(queries, k, self.allowed, self.hidden, self.candidates)

    def cosines(self, queries: Matrix, rows: Sequence[Rows]) -> list[NDArray[np.float32]]:
        """Scores of each query (q, d) with rows of its own (n,), which are sorted."""
        metric = None if self.candidates == 0 else self.index.metric
        if metric is None:
            return [self._of_codes(queries[i : i + 1], own) for i, own in enumerate(rows)]
        probes = metric.probes(queries).each()
        return [metric.scores(*each)[0] for each in zip(probes, rows, strict=True)]

    def _of_codes(self, query: Matrix, rows: Rows) -> NDArray[np.float32]:
        (scores,), (found,) = self.index.search(query, len(rows), rows, candidates=0)
        cosines = np.full(len(rows), LEAST, dtype=np.float32)
        cosines[np.searchsorted(rows, found[found >= 0])] = scores[found >= 0]
        return cosines
