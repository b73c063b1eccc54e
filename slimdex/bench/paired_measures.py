"""Measures of answers, each with a bootstrap interval paired with the uncompressed search.

Queries differ far more from each other than methods do, so a method is compared query by query:
the interval is that of the mean difference (percentile bootstrap over queries; Sakai 2006).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.ranking import agreement
from slimdex.retrieval.quality.evaluation import DEPTH, drop_rows
from slimdex.retrieval.quality.labels import per_query

from .datasets import Dataset

RESAMPLES = 1000
CONFIDENCE = 0.95
AGREEMENT = "agreement@10"


class Judge:
    """Measures answers to a data set against those of the uncompressed search.

    `scores` and `rows` are those of the exact search, (queries, depth), as deep as `self.depth`.
    """

    def __init__(self, dataset: Dataset, scores: Matrix, rows: Rows) -> None:
        self._dataset = dataset
        scores, self._exact_rows = self._without_own(scores, rows)
        self._exact = self._per_query(scores, self._exact_rows)

    def columns(self, scores: Matrix, rows: Rows) -> dict[str, Any]:
        """Compute measures; for those by labels also the difference in points and its interval."""
        scores, rows = self._without_own(scores, rows)
        found = self._per_query(scores, rows)
        agreed = agreement(rows, self._exact_rows, 10)
        differences = {name: 100 * (found[name] - self._exact[name]) for name in found}
        low, high = interval(np.stack([*differences.values(), agreed]))
        out: dict[str, Any] = {}
        for i, (name, values) in enumerate(found.items()):
            out[name] = float(100 * values.mean())
            out[f"{name}_delta"] = float(differences[name].mean())
            out[f"{name}_low"], out[f"{name}_high"] = float(low[i]), float(high[i])
        out[AGREEMENT] = float(agreed.mean())
        out[f"{AGREEMENT}_low"], out[f"{AGREEMENT}_high"] = float(low[-1]), float(high[-1])
        return out

    def _without_own(self, scores: Matrix, rows: Rows) -> tuple[Matrix, Rows]:
        return drop_rows(scores, rows, self._dataset.own_rows[:, None])

    def _per_query(self, scores: Matrix, rows: Rows) -> dict[str, NDArray[np.float64]]:
        data = self._dataset
        return per_query(scores, rows, data.query_ids, data.ids, data.qrels)


def depth_for(dataset: Dataset, depth: int = DEPTH) -> int:
    """Answers to request, so that `depth` are left without a query's own document."""
    return min(depth + bool((dataset.own_rows >= 0).any()), len(dataset.ids))


def interval(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper ends (m,) of the mean of each row of values (m, queries).

    For a single query both are its value.

    >>> low, high = interval(np.array([[1.0, 1.0, 1.0], [0.0, 3.0, 6.0]]))
    >>> low.tolist(), high.tolist()
    ([1.0, 0.0], [1.0, 6.0])
    """
    if values.shape[-1] < 2:
        return values.mean(axis=-1), values.mean(axis=-1)
    found = bootstrap(
        (values,),
        np.mean,
        axis=-1,
        n_resamples=RESAMPLES,
        batch=50,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return found.low, found.high
