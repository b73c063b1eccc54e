"""Lower confidence bound of a mean, from samples between 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slimdex.errors import InputError

LARGEST_BET = 0.9
"""Largest share of the capital staked on one sample. Any value below 1 is valid; large stakes give
tighter bounds for samples near 1, as agreements are, and looser ones after a sample of 0."""
HALVINGS = 30
"""Bisection steps: the bound is found to 1e-9."""


def betting_bound(
    samples: ArrayLike, error: float = 0.05, stages: Sequence[int] | None = None
) -> float:
    """Lower bound of the mean that holds with probability ``1 - error`` for any distribution.

    A gambler with capital 1 bets that each sample exceeds m, with stakes chosen from the samples
    before it. If the mean is at most m, the capital reaches ``1 / error`` with probability at
    most `error`, so every m for which it does is ruled out. The bound is the least m that remains
    (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting": the
    one-sided predictable plug-in).

    The capital may be looked at after any number of samples (Ville's inequality). So the bounds of
    all stages hold together with probability ``1 - error``: a caller may add samples if the first
    stage proves too little, without splitting the error.

    Parameters
    ----------
    samples : (n,), each 0 to 1, independent, in an order that does not depend on their values.
    error : above 0, below 1.
    stages : planned numbers of samples, ascending, fixed before the first sample; by default only
        n. The stakes are those for the end of each stage.

    Raises
    ------
    InputError
        If there are no samples, more than planned, or one is not between 0 and 1.

    >>> round(betting_bound(np.ones(500)), 4), round(betting_bound(np.ones(2000)), 4)
    (0.9933, 0.9983)
    >>> round(betting_bound([0.9, 1.0] * 500), 4)
    0.9456
    >>> betting_bound([0.5, 1.5])
    Traceback (most recent call last):
    ...
    slimdex.errors.InputError: sample 1.5; expected 0 to 1
    """
    x = np.asarray(samples, dtype=np.float64)
    if not 0 < error < 1:
        raise InputError(f"error={error}; expected above 0 and below 1")
    if x.ndim != 1 or not len(x):
        raise InputError(f"samples: shape {x.shape}; expected one or more in a row")
    inside = (x >= 0) & (x <= 1)  # also refuses NaN
    if not inside.all():
        raise InputError(f"sample {x[~inside][0]:g}; expected 0 to 1")
    planned = np.asarray([len(x)] if stages is None else stages)
    if len(x) > planned[-1]:
        raise InputError(f"{len(x):,} samples; expected the planned {planned[-1]:,} or fewer")
    bets = _bets(x, error, planned)
    needed = -np.log(error)  # logarithm of the capital 1 / error

    # The bound never exceeds the samples' mean, even if early gains rule out that mean.
    low = 0.0
    high = float(x.mean())
    if _best_capital(x, bets, high) >= needed:
        return high

    # Bisection: means below `low` are ruled out, `high` is not.
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _best_capital(x, bets, middle) >= needed:
            low = middle
        else:
            high = middle
    return low


def _bets(x: NDArray[np.float64], error: float, stages: NDArray[np.int64]) -> NDArray[np.float64]:
    """Stakes (n,), each computed from the variance of the samples before it.

    `stages` are the planned numbers of samples; a stake suits the end of its sample's stage.
    """
    count = np.arange(1, len(x) + 1)
    ends = stages[np.searchsorted(stages, count)]

    # Start as if after one sample, with a mean of 1/2 and a variance of 1/4.
    means = (0.5 + np.cumsum(x)) / (count + 1)
    variances = (0.25 + np.cumsum((x - means) ** 2)) / (count + 1)
    variances_before = np.concatenate([[0.25], variances[:-1]])
    bets: NDArray[np.float64] = np.sqrt(-2 * np.log(error) / (variances_before * ends))
    return bets


def _best_capital(x: NDArray[np.float64], bets: NDArray[np.float64], mean: float) -> float:
    """Logarithm of the largest capital reached by betting that samples exceed `mean`.

    A sample multiplies the capital, at first 1, by ``1 + bet * (sample - mean)``. The larger
    `mean` is, the less capital is reached.
    """
    largest: Any = LARGEST_BET / mean if mean > 0 else np.inf
    gains = np.log1p(np.minimum(bets, largest) * (x - mean))
    return float(np.cumsum(gains).max())
