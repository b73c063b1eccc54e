"""FilteredSearch: nearest rows among a given subset, by a method that their number decides.

Exact, for at most `EXACT_ROWS` rows: read all allowed rows and score them in the full-dimension
metric.

By codes, for more: score allowed rows in that metric in the order of their codes, and stop when no
further row is likely to reach the best k. The error of the codes' scores is estimated from the rows
scored so far; they were selected by code alone, so their errors are a fair sample. A later row
would need an error of `DEVIATIONS` standard deviations. Easy queries stop early; hard queries and
coarse codes go deeper. A query that needs more than half of the rows is answered exactly.

As without a filter, in a large index with more than one allowed row in `WIDE`: rescore the nearest
codes that are allowed.

No clock decides: the same query has the same answer on any machine, under any load.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from ..arrays import Matrix, Rows, batches
from ..codes.faiss_index import FaissIndex
from ..ranking import first_allowed, top_k
from ..reducers.reducer import Reducer, reduce_rows
from .rescoring import Metric, Probes

EXACT_ROWS = 20_000
"""Largest number of allowed rows that are all scored. About there, rows of 384 numbers take as long
to score as to search by codes."""
DEVIATIONS = 6.5
"""With 5, agreement@10 is 0.9999 for default codes and 0.9993 for codes of half the size; with 6
and with 7, 0.9999 for both. Errors have heavier tails than a normal distribution."""
LEAST_SAMPLE = 100
"""Smallest sample for estimating the error."""
AHEAD = 4
"""Factor by which successive batches of codes grow; least size of the first one, in samples."""
FIRST_SHARE = 64
"""The first batch of codes has at least one row in 64 of the index. Ranking these takes a fraction
of a scan's time, and each further batch costs another scan."""
WIDE = 64
"""A wide filter allows more than one row in 64. In a large index, a search as without a filter then
finds as many of the ten best, or more. To be sure of all takes several times as long."""
WIDE_FROM = 250_000
"""Smallest number of rows of such a large index."""
SPARE = 1.5
"""Factor of the codes to ask for; a factor of 1 has enough allowed rows on average."""
QUERIES_TOGETHER = 32
"""Queries whose codes are searched together."""


@dataclass(frozen=True)
class FilteredSearch:
    """Search for the nearest k of some sorted rows (n,), for queries (q, d).

    All methods return scores and rows (q, k), best first, padded with -inf and -1. Equal scores are
    in the order of rows.

    `candidates` is the minimum number of rows rescored for each query.
    """

    reducer: Reducer
    index: FaissIndex
    metric: Metric
    candidates: int
    exact_rows: int = EXACT_ROWS
    wide_from: int = WIDE_FROM

    def search(self, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        """Search exactly among few rows, and by codes among many."""
        if len(rows) <= max(self.exact_rows, self._sample(k)):
            return self.metric.nearest(queries, k, rows)
        is_wide = WIDE * len(rows) > len(self.index)
        if is_wide and len(self.index) >= self.wide_from:
            return self.metric.rescore(queries, k, self._allowed_candidates(queries, k, rows))
        return self.by_codes(queries, k, rows)

    def by_codes(self, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        """Search by codes; search exactly for queries that need more than half of the rows."""
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        hits = np.full((len(queries), k), -1, dtype=np.int64)
        first_batch = max(AHEAD * self._sample(k), len(self.index) // FIRST_SHARE)
        count = min(first_batch, len(rows))

        # Codes decide which rows are rescored, query by query.
        hard = []
        for part in batches(len(queries), QUERIES_TOGETHER):
            short = reduce_rows(self.reducer, queries[part])
            codes, code_hits = self.index.search(short, count, rows)
            for i, batch in enumerate(zip(codes, code_hits, strict=True), part.start):
                answer = self._descend(queries[i : i + 1], k, rows, *batch)
                if answer is None:
                    hard.append(i)
                    continue
                best, best_rows = answer
                width = best_rows.shape[1]
                scores[i, :width] = best[0]
                hits[i, :width] = best_rows[0]

        # Hard queries are compared with all rows.
        if hard:
            scores[hard], hits[hard] = self.metric.nearest(queries[hard], k, rows)
        return scores, hits

    def _allowed_candidates(self, queries: Matrix, k: int, rows: Rows) -> Rows:
        """Return the rows (q, m) to rescore: allowed rows among the nearest codes of the index.

        A query with too few of them gets its m nearest codes among the allowed rows.
        """
        short = reduce_rows(self.reducer, queries)
        count = min(max(self.candidates, k), len(rows))
        ask = min(ceil(SPARE * count * len(self.index) / len(rows)), len(self.index))
        scores, hits = self.index.search(short, ask)

        # Select the allowed rows; -1 (no row) would look up the last row.
        is_allowed = np.zeros(len(self.index), dtype=bool)  # faster than `contains` for so many
        is_allowed[rows] = True
        allowed_hits = is_allowed[hits] & (hits >= 0)
        _, candidates = first_allowed(scores, hits, allowed_hits, count)

        has_few = allowed_hits.sum(axis=1) < count
        if has_few.any():
            _, candidates[has_few] = self.index.search(short[has_few], count, rows)
        return candidates

    def _descend(
        self, query: Matrix, k: int, rows: Rows, codes: Matrix, hits: Rows
    ) -> tuple[Matrix, Rows] | None:
        """Rescore one query's rows in code order until the remaining ones are unlikely to matter.

        Returns scores and rows (1, k), best first, or None if more than half of `rows` would have
        to be rescored. `codes` and `hits` are the code scores and rows (m,) of the first batch,
        best first.
        """
        full_scores = np.empty(0, dtype=np.float32)
        probe = self.metric.rescorer.probes(query)
        count = min(self._sample(k), len(hits))  # rows to rescore
        while 2 * count <= len(rows):
            rest = hits[len(full_scores) : count]
            full_scores = np.append(full_scores, self._scores(probe, rest))
            least = _least_code(codes[:count], full_scores, k)
            needed = int((codes >= least).sum())
            is_last_batch = len(codes) >= len(rows)
            if needed > count:
                count = needed
            elif needed < len(codes) or is_last_batch:
                # Sort by row, so that equal scores are in the order of rows.
                order = np.argsort(hits[:count])
                return top_k(full_scores[None, order], hits[order], k)
            else:
                # All codes of this batch matter, so the next ones may, too.
                batch_size = min(AHEAD * len(codes), len(rows))
                codes, hits = self._more(query, batch_size, rows, codes, hits)
        return None

    def _more(
        self, query: Matrix, count: int, rows: Rows, codes: Matrix, hits: Rows
    ) -> tuple[Matrix, Rows]:
        """Extend `codes` and `hits` to `count` results; those already there keep their order.

        Codes of equal score may be ordered differently in the larger batch.
        """
        (scores,), (more,) = self.index.search(reduce_rows(self.reducer, query), count, rows)
        is_new = ~np.isin(more, hits, assume_unique=True)
        return np.append(codes, scores[is_new]), np.append(hits, more[is_new])

    def _scores(self, probe: Probes, rows: Rows) -> Matrix:
        """Cosines (n,) of one query with rows, which are read in file order."""
        order = np.argsort(rows)
        out = np.empty(len(rows), dtype=np.float32)
        out[order] = self.metric.scores(probe, rows[order])[0]
        return out

    def _sample(self, k: int) -> int:
        """Number of rows that are rescored first, to estimate the error of the codes' scores."""
        return max(self.candidates, k, LEAST_SAMPLE)


def _least_code(codes: Matrix, full_scores: Matrix, k: int) -> float:
    """Code score below which a row is unlikely to be among the best k.

    `codes` and `full_scores` are the code scores and full scores (n,) of the rows rescored so far.
    """
    if len(full_scores) < k:
        return -np.inf  # any row may be among the best
    errors = full_scores - codes
    kth = np.partition(full_scores, -k)[-k]
    return float(kth - errors.mean() - DEVIATIONS * errors.std())
