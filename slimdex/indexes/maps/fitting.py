"""Fitting of maps: orthogonal, ridge and reduced-rank, chosen on rows that were held out.

All centre both sides on the means of the rows that they are fitted on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..arrays import Matrix, Rows, as_matrix, normalize_rows
from ..errors import InputError
from ..execution.threads import decomposition, eigh, product, threads_for
from ..ranking import agreement, top_k
from .affine_map import AffineMap

PENALTIES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Ridge penalties, as multiples of the mean variance of the source's dimensions times the rows."""
RANKS = (64, 256)
"""Ranks of the reduced maps."""
HELD_OUT = 0.2
MOST_HELD_OUT, MOST_SEARCHED = 500, 4000
"""Rows that compare maps, and target rows that they search, at most."""
FEWEST = 10
"""Fewest pairs of rows to fit and choose a map."""
NEAREST = 10

Array = NDArray[np.float64]


class MapFits:
    """Maps from the rows of one space to those of another, of which row i is the same text.

    Parameters
    ----------
    X : (n, d) of the source.
    Y : (n, e) of the target.
    """

    def __init__(self, X: Matrix, Y: Matrix) -> None:
        source, target = as_matrix(X).astype(np.float64), as_matrix(Y).astype(np.float64)
        self._means = source.mean(axis=0), target.mean(axis=0)
        centred_source, centred_target = source - self._means[0], target - self._means[1]
        self._cross = product(centred_source.T, centred_target) / len(centred_source)
        self._covariance = product(centred_source.T, centred_source) / len(centred_source)
        values, self._axes = eigh(self._covariance)
        self._values = np.clip(values, 0.0, None)
        self._rotated = product(self._axes.T, self._cross)

    def orthogonal(self) -> AffineMap:
        """Rotation (and projection, if dimensions differ) with one scale: orthogonal Procrustes."""
        with threads_for(decomposition(max(self._cross.shape))):
            left, singular, right = np.linalg.svd(self._cross, full_matrices=False)
        rotation = product(left, right)
        # of unequal dimensions, only the part of the source that the rotation keeps is scaled
        spread = np.sum(product(self._covariance, rotation) * rotation)
        scale = singular.sum() / spread if spread > 0 else 1.0
        return self._made("orthogonal", scale * rotation)

    def ridge(self, penalty: float) -> AffineMap:
        """Ridge regression; `penalty` is in units of the mean variance of a dimension."""
        return self._made(f"ridge {penalty:g}", self._weights(penalty))

    def reduced(self, penalty: float, rank: int) -> AffineMap:
        """Ridge regression projected on the `rank` main directions of what it predicts."""
        weights = self._weights(penalty)
        values, axes = eigh(product(product(weights.T, self._covariance), weights))
        kept = axes[:, np.argsort(values)[::-1][:rank]]
        projected = product(product(weights, kept), kept.T)
        return self._made(f"rank {rank}, ridge {penalty:g}", projected)

    def _weights(self, penalty: float) -> Array:
        damped = self._values + penalty * self._values.mean()
        inverse = np.divide(1.0, damped, out=np.zeros_like(damped), where=damped > 0)
        weights: Array = product(self._axes, inverse[:, None] * self._rotated)
        return weights

    def _made(self, name: str, matrix: Array) -> AffineMap:
        source, target = (mean.astype(np.float32) for mean in self._means)
        return AffineMap(name, source, matrix.astype(np.float32), target)


def fit_map(X: Matrix, Y: Matrix) -> AffineMap:
    """Fit the map that is best on held-out rows, and fit it again on all rows.

    A map is better if rows that were held out find more of the ten target rows that their true
    vectors find. The rank is chosen for the best ridge penalty.

    Parameters
    ----------
    X : (n, d) of the source.
    Y : (n, e) of the target; row i is the same text.

    Raises
    ------
    InputError
        If the numbers of rows differ, or there are fewer than `FEWEST`.
    """
    if len(X) != len(Y) or len(X) < FEWEST:
        raise InputError(
            f"{len(X)} and {len(Y)} vectors; expected as many of both encoders, at least {FEWEST}"
        )
    order = np.random.default_rng(0).permutation(len(X))
    count = min(max(round(HELD_OUT * len(X)), 2), MOST_HELD_OUT)
    held, rest = order[:count], order[count:]
    trial, judge = MapFits(X[rest], Y[rest]), _Judge(X[held], Y[held], Y[rest[:MOST_SEARCHED]])
    penalty = max(PENALTIES, key=lambda each: judge(trial.ridge(each)))
    fits = MapFits(X, Y)
    made: dict[Callable[[MapFits], AffineMap], float] = {
        way: judge(way(trial)) for way in _ways(penalty, min(X.shape[1], Y.shape[1]))
    }
    return max(made, key=lambda way: made[way])(fits)


def _ways(penalty: float, most: int) -> list[Callable[[MapFits], AffineMap]]:
    ranks = [rank for rank in RANKS if rank < most]
    reduced = [partial(MapFits.reduced, penalty=penalty, rank=rank) for rank in ranks]
    return [partial(MapFits.ridge, penalty=penalty), MapFits.orthogonal, *reduced]


class _Judge:
    """Mean agreement@10 of mapped rows with their targets, both searching the same rows."""

    def __init__(self, X: Matrix, Y: Matrix, searched: Matrix) -> None:
        self._queries, self._unit = X, normalize_rows(searched)
        self._exact = self._nearest(Y)

    def __call__(self, made: AffineMap) -> float:
        return float(agreement(self._nearest(made(self._queries)), self._exact, NEAREST).mean())

    def _nearest(self, queries: Matrix) -> Rows:
        scores = product(normalize_rows(queries), self._unit.T)
        return top_k(scores, np.arange(len(self._unit)), NEAREST)[1]
