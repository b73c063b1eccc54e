"""Dense search: the rows whose vectors are nearest to a query's."""

from __future__ import annotations

from dataclasses import dataclass

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.search.reduced_index import ReducedIndex


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

    def among(self, rows: Rows, query: Matrix) -> tuple[Matrix, Rows]:
        """Scores and rows (1, n) of all given rows (n,), which are sorted."""
        return self.index.search(query, len(rows), rows, candidates=self.candidates)
