"""Bounds: what a sample of numbers between 0 and 1 proves of the mean that they are drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError

LARGEST_BET = 0.9
"""Share of the capital that one sample can lose. Below 1 any is valid; samples near 1, which a
agreement is made of, repay large ones, and one of 0 among them costs the more."""
HALVINGS = 30
"""Of the interval that the bound is searched in: to 1e-9."""


def betting_bound(samples: ArrayLike, error: float = 0.05) -> float:
    """A number that the mean is not below, but with probability `error`, whatever the distribution.

    A gambler who begins with 1 bets on each sample being larger than m, with what the samples
    before it advise. If the mean is m, or less, it is no more likely than `error` that the capital
    ever reaches ``1 / error``. So all m for which it has are ruled out, and the bound is the least
    that is left (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by
    betting": the predictable plug-in, the half of it that bets on larger means).

    Parameters
    ----------
    samples : (n,), each 0 to 1, independent and in an order that has nothing to do with them.
    error : above 0, below 1.

    Raises
    ------
    InputError
        If there are no samples, or one is no such number.

    >>> round(betting_bound(np.ones(500)), 4), round(betting_bound(np.ones(2000)), 4)
    (0.9933, 0.9983)
    >>> round(betting_bound([0.9, 1.0] * 500), 4)
    0.9456
    >>> betting_bound([0.5, 1.5])
    Traceback (most recent call last):
    ...
    slimdex.indexes.errors.InputError: sample 1.5; expected 0 to 1
    """
    x = np.asarray(samples, dtype=np.float64)
    if not 0 < error < 1:
        raise InputError(f"error={error}; expected above 0 and below 1")
    if x.ndim != 1 or not len(x):
        raise InputError(f"samples: shape {x.shape}; expected one or more in a row")
    inside = (x >= 0) & (x <= 1)  # also refuses NaN
    if not inside.all():
        raise InputError(f"sample {x[~inside][0]:g}; expected 0 to 1")
    bets, needed = _bets(x, error), -np.log(error)
    low, high = 0.0, float(x.mean())
    if _best_capital(x, bets, high) >= needed:  # of an early run that did not last
        return high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _best_capital(x, bets, middle) >= needed:
            low = middle
        else:
            high = middle
    return low


def _bets(x: NDArray[np.float64], error: float) -> NDArray[np.float64]:
    """How much is bet on each sample, by the mean and spread of those before it."""
    count = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (count + 1)
    spreads = (0.25 + np.cumsum((x - means) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], spreads[:-1]])
    bets: NDArray[np.float64] = np.sqrt(-2 * np.log(error) / (before * len(x)))
    return bets


def _best_capital(x: NDArray[np.float64], bets: NDArray[np.float64], mean: float) -> float:
    """The logarithm of the most that is ever had; it falls as `mean` grows."""
    largest: Any = LARGEST_BET / mean if mean > 0 else np.inf
    return float(np.cumsum(np.log1p(np.minimum(bets, largest) * (x - mean))).max())
