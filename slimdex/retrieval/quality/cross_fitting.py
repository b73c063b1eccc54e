"""Cross-fitting: the gain of a choice, measured by queries that did not take part in it.

The best of many options is partly the luckiest one. Its gain on the queries that chose it is too
large on average, and passes a test by these queries too often.
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

HALVES_ERROR = 0.033
"""Error of a bound on gains of `cross_fitted` measures that in fact is wrong with probability .05.

Halves that choose the same option gain together, so their mean spreads more than that of as many
independent queries: .05 would stand for .066 (of 25 equally good options, simulated).
"""


def best_option(measured: NDArray[np.float64]) -> int:
    """The column of largest mean (q, options), the first one of several."""
    return int(measured.mean(axis=0).argmax())


def cross_fitted(measured: NDArray[np.float64]) -> NDArray[np.float64]:
    """Measure (q,) of each query by the option that is best for the other half of the queries.

    `measured` (q, options) has the queries in random order.

    >>> cross_fitted(np.array([[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]])).tolist()
    [0.0, 0.0]
    """
    half = len(measured) // 2
    first, last = measured[:half], measured[half:]
    return np.concatenate([first[:, best_option(last)], last[:, best_option(first)]])


def gain_bound(gains: NDArray[np.float64], error: float) -> float:
    """Lower bound of the mean of gains (q,), which may be wrong with probability `error`."""
    if len(gains) < 2:
        return -np.inf
    width = float(gains.std(ddof=1)) / sqrt(len(gains))
    return float(gains.mean()) - NormalDist().inv_cdf(1 - error) * width
