"""Deep search: the results of a search for few rows, followed by those of searches for more.

A search rescores more rows for more results, so a search for a hundred may find other first ten
than a search for ten. Measures at ten count what a search for ten finds, and measures at a hundred
what a search for a hundred finds; one list serves both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows

Ranking = Callable[[int], tuple[Matrix, Rows]]
"""Number of results -> scores and rows (1, k) for one query, best first, padded with -inf, -1."""
NEAREST, DEPTH = LIMITS = (10, 100)
"""Numbers of results that are measured: for agreement and most measures, and for recall@100."""
STEP = 1e-6
"""Difference of score between the last result of a search and the first that a deeper one adds."""


def deep(searches: Sequence[tuple[Ranking, int]]) -> tuple[list[float], list[int]]:
    """Scores and rows for a query, best first.

    Parameters
    ----------
    searches : each with its number of results, in rising order. The rows that a search adds to
        those before it have lower scores.
    """
    values, rows = list[float](), list[int]()
    for search, count in searches:
        scores, found = search(count)
        is_new = (found[0] >= 0) & ~np.isin(found[0], rows)
        more = scores[0][is_new].astype(np.float64)
        if values and len(more):
            more += min(0.0, values[-1] - STEP - float(more[0]))
        values, rows = values + more.tolist(), rows + found[0][is_new].tolist()
    depth = searches[-1][1]
    return values[:depth], rows[:depth]


def measured(search: Ranking, depth: int, more: int = 0) -> list[tuple[Ranking, int]]:
    """Searches for each of `LIMITS` below `depth`, and for `depth`.

    `more` results are added to each limit, for those that are dropped afterwards.
    """
    limits = [limit + more for limit in LIMITS if limit + more < depth]
    return [(search, limit) for limit in [*limits, depth]]
