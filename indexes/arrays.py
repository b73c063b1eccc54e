"""Matrices of float32 rows: the one shape in which numbers travel through this package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError

Matrix = NDArray[np.float32]
"""(n, d) float32, C-contiguous."""
Rows = NDArray[np.int64]
"""Row numbers; -1 stands for "no row"."""

LARGEST = float(np.finfo(np.float16).max)
SMALLEST = float(np.finfo(np.float16).smallest_normal)
"""What a number of a vector on disk can be; squares of what is much more overflow."""
FLOAT32_SQUARED = float(np.finfo(np.float32).max)
"""A sum of squares that is finite in float32."""
SCAN_ROWS = 8192
"""Rows read at a time when a whole file is gone through: 12 MB of float32 at 384 dimensions."""


def as_matrix(
    X: Any, *, dim: int | None = None, name: str = "vectors", largest: float | None = None
) -> Matrix:
    """Check and convert to a C-contiguous float32 matrix.

    Raises
    ------
    InputError
        If `X` is not two-dimensional, has not `dim` columns, holds NaN or infinity, or a number
        whose magnitude is more than `largest`.

    >>> as_matrix([[1, 2], [3, 4]]).dtype
    dtype('float32')
    >>> as_matrix([[1.0, float("nan")]])
    Traceback (most recent call last):
    ...
    slimdex.indexes.errors.InputError: vectors: row 0, column 1 is nan; expected finite numbers
    """
    out = X if _is_ready(X) else _converted(X, name)
    if out.ndim != 2:
        raise InputError(f"{name}: shape {out.shape}; expected two dimensions (rows, columns)")
    if dim is not None and out.shape[1] != dim:
        raise InputError(f"{name}: {out.shape[1]} dimensions; expected {dim}")
    # No number can be larger than the root of the sum of their squares, which takes one pass.
    squares = float(np.vdot(out, out))
    if not squares <= (FLOAT32_SQUARED if largest is None else largest**2):
        _check_numbers(out, name, largest)
    return out


def _is_ready(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.dtype == np.float32 and X.flags.c_contiguous


def _converted(X: Any, name: str) -> Matrix:
    try:
        if np.iscomplexobj(X):
            raise TypeError("complex numbers")
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
            return np.ascontiguousarray(X, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{name}: expected rows of numbers, all of one length ({error})"
        ) from error


def _check_numbers(X: Matrix, name: str, largest: float | None) -> None:
    finite = np.isfinite(X)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise InputError(
            f"{name}: row {row}, column {column} is {X[row, column]}; expected finite numbers"
        )
    if largest is not None and (found := float(np.abs(X).max(initial=0.0))) > largest:
        raise InputError(
            f"{name}: value {found:g}; expected up to {largest:g}, as vectors on disk have"
        )


def normalize_rows(X: Matrix) -> Matrix:
    """Rows divided by their Euclidean length; zero rows stay zero.

    >>> normalize_rows(np.array([[3, 4], [0, 0]], dtype=np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    norms = np.sqrt(np.vecdot(X, X))[:, None]
    if norms.all():
        rows: Matrix = X / norms
        return rows
    out: Matrix = np.divide(X, norms, out=np.zeros_like(X), where=norms > 0)
    return out


def batches(n: int, size: int = SCAN_ROWS, start: int = 0) -> Iterator[slice]:
    """Slices that cover ``start .. n``, each at most `size` long.

    >>> list(batches(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    for low in range(start, n, size):
        yield slice(low, min(low + size, n))


def contains(values: Rows, rows: Rows) -> NDArray[np.bool_]:
    """Which of `rows`, of any shape, are among `values`, which are sorted.

    >>> contains(np.array([2, 4]), np.array([[1, 2], [4, 5]])).tolist()
    [[False, True], [True, False]]
    """
    if not len(values):
        return np.zeros(rows.shape, dtype=np.bool_)
    places = np.minimum(np.searchsorted(values, rows), len(values) - 1)
    contained: NDArray[np.bool_] = values[places] == rows
    return contained


def without(rows: Rows, exclude: Rows) -> Rows:
    """Sorted rows less sorted others; but for a copy, in the time of the shorter of the two.

    >>> without(np.array([1, 4, 7]), np.array([0, 4])).tolist()
    [1, 7]
    """
    if len(exclude) > len(rows):
        return rows[~contains(exclude, rows)]
    there = exclude[contains(rows, exclude)]
    return np.delete(rows, np.searchsorted(rows, there)) if len(there) else rows
