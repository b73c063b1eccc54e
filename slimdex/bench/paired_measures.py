"""Measures of answers, each with a bootstrap interval paired with the uncompressed search.

Queries differ far more from each other than methods do, so a method is compared query by query:
the interval is that of the mean difference (percentile bootstrap over queries; Sakai 2006).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.ranking import agreement
from slimdex.retrieval.quality.evaluation import DEPTH, drop_rows

from .datasets import Dataset, PerQuery

RESAMPLES = 1000
CONFIDENCE = 0.95
ANSWERS = 10
"""Answers of a timed query."""
AGREEMENT = "agreement@10"


class Judge:
    """Measures answers to a data set against those of the uncompressed search.

    `scores` and `rows` are those of the exact search, (queries, depth).
    """

    def __init__(self, dataset: Dataset, scores: Matrix, rows: Rows) -> None:
        self.depth = rows.shape[1]
        self._dataset = dataset
        scores, self._exact_rows = self._without_self(scores, rows)
        self._exact = dataset.measures(scores, self._exact_rows)

    def columns(self, scores: Matrix, rows: Rows) -> dict[str, Any]:
        """Compute measures; for those by labels also the difference in points and its interval."""
        scores, rows = self._without_self(scores, rows)
        row = dict[str, Any]()
        for name, values in self._dataset.measures(scores, rows).items():
            row |= compare(name, 100 * values, 100 * self._exact[name])
        return row | with_interval(AGREEMENT, agreement(rows, self._exact_rows, 10))

    def _without_self(self, scores: Matrix, rows: Rows) -> tuple[Matrix, Rows]:
        return drop_rows(scores, rows, self._dataset.self_rows[:, None])


def depth_for(dataset: Dataset, depth: int = DEPTH) -> int:
    """Return how many answers to request to have `depth` without a query's own document.

    The number is at most that of the documents.
    """
    has_own_documents = bool((dataset.self_rows >= 0).any())
    return min(depth + (1 if has_own_documents else 0), len(dataset.ids))


def compare(name: str, values: PerQuery, base: PerQuery) -> dict[str, float]:
    """Return the mean of values of queries (q,), and its difference from a base with an interval.

    The interval is that of the difference, paired by query.

    >>> compare("ndcg@10", np.array([3.0, 5.0]), np.array([2.0, 4.0]))
    {'ndcg@10': 4.0, 'ndcg@10_delta': 1.0, 'ndcg@10_low': 1.0, 'ndcg@10_high': 1.0}
    """
    differences = values - base
    low, high = interval(differences)
    return {
        name: float(values.mean()),
        f"{name}_delta": float(differences.mean()),
        f"{name}_low": low,
        f"{name}_high": high,
    }


def with_interval(name: str, values: PerQuery) -> dict[str, float]:
    """Return the mean of values of queries (q,), and its 95% interval.

    >>> with_interval("recall@10", np.array([0.5, 0.5]))
    {'recall@10': 0.5, 'recall@10_low': 0.5, 'recall@10_high': 0.5}
    """
    low, high = interval(values)
    return {name: float(values.mean()), f"{name}_low": low, f"{name}_high": high}


def interval(values: PerQuery) -> tuple[float, float]:
    """Return the ends of the interval of the mean of values (q,).

    With a single query, both are its value.

    >>> interval(np.array([0.0, 3.0, 6.0]))
    (0.0, 6.0)
    """
    if len(values) < 2:
        return float(values.mean()), float(values.mean())
    # Of the extra `bench`, which `bench --help` must not need; and it takes 80 MB and a second.
    from scipy.stats import bootstrap

    ends = bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        batch=50,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(ends.low), float(ends.high)
