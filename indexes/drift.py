"""Drift: how far the rows of today are from those that a reducer and its codes were fitted on.

Both figures are of the fit that is in force, so that what they were then is two numbers and takes
no file: the share of variance that the axes keep, from moments, which are exact; and how much of a
row its code loses, from some rows.
"""

from __future__ import annotations

import numpy as np

from .arrays import Matrix, normalize_rows
from .errors import InputError
from .linear import Identity, Linear
from .moments import Moments
from .reducer import Reducer
from .vector_index import VectorIndex

SAMPLED_ROWS = 2048
"""Rows whose codes are decoded: the mean of so many is within some per cent of that of all."""


def variance_kept(reducer: Reducer, moments: Moments) -> float | None:
    """The share, 0 to 1, of the rows' variance that the reducer's axes keep.

    Variance is around what the reducer takes away from a row, its shift: with beta = 0 the mean
    counts. None for a reducer that is no linear map: it has no axes.

    >>> from slimdex.indexes.linear import Truncate
    >>> moments = Moments(2).update(np.array([[3, 1], [-3, -1]], dtype=np.float32))
    >>> variance_kept(Truncate(1).fit_moments(moments), moments)
    0.9
    """
    if not isinstance(reducer, Linear):
        return None
    if isinstance(reducer, Identity):
        return 1.0
    off = moments.mean - reducer.shift_
    scatter = moments.covariance() + np.outer(off, off)
    total = float(np.trace(scatter))
    if total <= 0.0:  # no rows, or all of them where the shift is: nothing is lost
        return 1.0
    axes, _ = np.linalg.qr(reducer.components_.astype(np.float64))
    return min(float(np.vdot(axes, scatter @ axes)) / total, 1.0)


def code_error(reducer: Reducer, index: VectorIndex, X: Matrix) -> float | None:
    """Mean squared distance of reduced rows of unit length from what their codes give back.

    Parameters
    ----------
    index : trained; its own rows play no part.
    X : rows (n, d) as the encoder gave them; those that are all zero are left out.

    None where there are no rows, or the codes can't be decoded.
    """
    X = X[X.any(axis=1)]
    if not len(X):
        return None
    short = normalize_rows(reducer.transform(X))
    try:
        lost = short - index.decoded(short)
    except InputError:
        return None
    return float(np.vecdot(lost, lost).mean())
