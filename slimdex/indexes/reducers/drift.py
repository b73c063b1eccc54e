"""Drift: how well a reducer and codebooks still fit the current rows.

Two numbers, compared with their values at fitting time: the share of variance that the axes keep,
from the exact moments, and the mean quantisation error, from a sample of rows.
"""

from __future__ import annotations

import numpy as np

from slimdex.errors import InputError
from slimdex.system.threads import decomposition, product, threads_for

from ..arrays import Matrix
from ..codes.faiss_index import FaissIndex
from .linear import Identity, Linear
from .moments import Moments
from .reducer import Reducer, reduce_rows

SAMPLED_ROWS = 2048
"""Sample size for the quantisation error: its mean is within a few per cent of that of all rows."""


def variance_kept(reducer: Reducer, moments: Moments) -> float | None:
    """Share, 0 to 1, of the rows' variance that the reducer's axes keep.

    Variance is measured around the reducer's shift, so with beta = 0 it includes the mean. None
    for a reducer that is not linear.

    >>> from slimdex.indexes.reducers.linear import Truncate
    >>> moments = Moments(2).update(np.array([[3, 1], [-3, -1]], dtype=np.float32))
    >>> variance_kept(Truncate(1).fit_moments(moments), moments)
    0.9
    """
    if not isinstance(reducer, Linear):
        return None
    if isinstance(reducer, Identity):
        return 1.0
    # The covariance around the shift, and its trace.
    centred = moments.mean - reducer.shift_
    covariance = moments.covariance() + np.outer(centred, centred)
    total = float(np.trace(covariance))
    if total <= 0.0:  # no rows, or all equal to the shift: nothing is lost
        return 1.0

    # The variance along the axes, once they are orthonormal.
    with threads_for(decomposition(len(covariance))):
        axes, _ = np.linalg.qr(reducer.components_.astype(np.float64))
    along_axes = np.vecdot(axes.T, product(covariance, axes).T).sum()
    return min(float(along_axes) / total, 1.0)


def code_error(reducer: Reducer, index: FaissIndex, X: Matrix) -> float | None:
    """Mean squared distance between reduced unit rows and their decoded codes.

    Parameters
    ----------
    index : trained; its rows are not used.
    X : rows (n, d) from the encoder; zero rows are skipped.

    Returns
    -------
    None if there are no rows or the codes can't be decoded.
    """
    X = X[X.any(axis=1)]
    if not len(X):
        return None
    short = reduce_rows(reducer, X)
    try:
        differences = short - index.quantize(short)
    except InputError:  # such codes can't be decoded
        return None
    return float(np.vecdot(differences, differences).mean())
