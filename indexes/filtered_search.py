"""FilteredSearch: the nearest among some rows, by the cheaper of two ways to the same answer.

Exact: read all allowed rows and score them in the full-dimension metric.

By the codes: go down the allowed rows in the order of their codes, score them in that metric, and
stop where no further row can be expected to get among the best k. How far the codes' scores are
off is seen in the rows scored so far: since they were chosen by their codes alone, their errors
are a fair sample. A row further down would need an error of `DEVIATIONS` standard deviations.
So easy queries stop early, hard ones and coarse codes go as deep as they need, and a query that
has taken as long as scoring all rows would, is answered that way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from .arrays import Matrix, Rows, batches, normalize_rows
from .ranking import top_k
from .reducer import Reducer
from .rescoring import Metric, Probes
from .search_costs import TIMED_QUERIES, Costs
from .vector_index import VectorIndex

DEVIATIONS = 7.0
"""With 6, agreement@10 is 0.9999 for the default and 0.9994 for codes of half the size; with 7 it
is 1.0000 and 0.9999. Errors have longer tails than a normal distribution."""
LEAST_SAMPLE = 100
"""Rows whose errors are looked at, at least."""
AHEAD = 4
"""Codes are asked for in lots, each so many times the one before; the first is so many samples."""
QUERIES_TOGETHER = 32
"""Queries for which codes are asked at a time."""
USUAL_K = 10
"""Answers that are asked for when the two ways are timed."""


@dataclass(frozen=True)
class FilteredSearch:
    """The nearest k of given rows (n,), sorted, for queries (q, d).

    All ways give scores and rows (q, k), best first, padded with -inf and -1.

    Parameters
    ----------
    candidates : rows rescored for each query, at least.
    """

    reducer: Reducer
    index: VectorIndex
    metric: Metric
    candidates: int

    def timed(self, total: int) -> Costs:
        """What both ways cost among `total` rows, some of which are the queries."""
        rows = np.linspace(0, total - 1, TIMED_QUERIES + 2).astype(np.int64)[1:-1]

        def exact(queries: Matrix, rows: Rows) -> object:
            return self.metric.nearest(queries, USUAL_K, rows)

        def by_codes(queries: Matrix, rows: Rows) -> object:
            return self.by_codes(queries, USUAL_K, rows)

        queries = self.metric.vectors.take(rows)
        return Costs.measured(queries, total, exact, by_codes)

    def search(
        self, queries: Matrix, k: int, rows: Rows, timed: Callable[[], Costs]
    ) -> tuple[Matrix, Rows]:
        """By the way that costs less; `timed` is only called if there is a choice."""
        if len(rows) <= self._sample(k):
            return self.metric.nearest(queries, k, rows)
        costs = timed()
        if not costs.prefer_codes(len(rows), len(queries)):
            return self.metric.nearest(queries, k, rows)
        return self.by_codes(queries, k, rows, patience=costs.exact(len(rows)))

    def by_codes(
        self, queries: Matrix, k: int, rows: Rows, patience: float = np.inf
    ) -> tuple[Matrix, Rows]:
        """By the codes, but for queries that are not done after so many seconds of `patience`."""
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        found = np.full((len(queries), k), -1, dtype=np.int64)
        lot = min(AHEAD * self._sample(k), len(rows))
        hard = []
        for part in batches(len(queries), QUERIES_TOGETHER):
            short = normalize_rows(self.reducer.transform(queries[part]))
            codes = self.index.search(short, lot, rows)
            for i, own in enumerate(zip(*codes, strict=True), part.start):
                answer = self._descend(queries[i : i + 1], k, rows, *own, patience)
                if answer is None:
                    hard.append(i)
                else:
                    width = answer[1].shape[1]
                    scores[i, :width], found[i, :width] = answer[0][0], answer[1][0]
        if hard:
            scores[hard], found[hard] = self.metric.nearest(queries[hard], k, rows)
        return scores, found

    def _descend(
        self, query: Matrix, k: int, rows: Rows, codes: Matrix, found: Rows, patience: float
    ) -> tuple[Matrix, Rows] | None:
        """Rescore one query's codes in their order until the rest can't matter; None: too slow.

        `codes` and `found` are scores and rows (m,) of the first lot.
        """
        start, scored = perf_counter(), np.empty(0, dtype=np.float32)
        probe = self.metric.probes(query)
        seen = min(self._sample(k), len(found))
        while perf_counter() - start <= patience:
            scored = np.append(scored, self._scores(probe, found[len(scored) : seen]))
            needed = int((codes >= _least_code(codes[:seen], scored, k)).sum())
            if needed > seen:
                seen = needed
            elif needed < len(codes) or len(codes) >= len(rows):
                return top_k(scored[None], found[:seen], k)
            else:
                lot = min(AHEAD * len(codes), len(rows))
                codes, found = self._more(query, lot, rows, codes, found)
        return None

    def _more(
        self, query: Matrix, lot: int, rows: Rows, codes: Matrix, found: Rows
    ) -> tuple[Matrix, Rows]:
        """The codes there are, and after them the others of a larger lot.

        Codes of equal score may come in another order this time.
        """
        short = normalize_rows(self.reducer.transform(query))
        (scores,), (more,) = self.index.search(short, lot, rows)
        new = ~np.isin(more, found, assume_unique=True)
        return np.append(codes, scores[new]), np.append(found, more[new])

    def _scores(self, probe: Probes, rows: Rows) -> Matrix:
        """Cosines (n,) of one query with rows, which are read in the order they lie on disk."""
        order = np.argsort(rows)
        out = np.empty(len(rows), dtype=np.float32)
        out[order] = self.metric.scores(probe, rows[order])[0]
        return out

    def _sample(self, k: int) -> int:
        return max(self.candidates, k, LEAST_SAMPLE)


def _least_code(codes: Matrix, scored: Matrix, k: int) -> float:
    """The score by its code that a row must have to be likely among the best k."""
    if len(scored) < k:
        return -np.inf
    errors = scored - codes
    kth = np.partition(scored, -k)[-k]
    return float(kth - errors.mean() - DEVIATIONS * errors.std())
