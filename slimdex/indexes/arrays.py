"""Float32 matrices, one row per vector: the array type that this package passes around."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError

Matrix = NDArray[np.float32]
"""(n, d) float32, C-contiguous."""
Rows = NDArray[np.int64]
"""Row numbers; -1 stands for "no row"."""
Scores = NDArray[np.floating]
"""Scores of rows; -inf stands for "no row"."""
NO_ROWS: Rows = np.empty(0, dtype=np.int64)

LARGEST = float(np.finfo(np.float16).max)
SMALLEST = float(np.finfo(np.float16).smallest_normal)
"""Range of the numbers of a stored vector; squares of much larger numbers overflow."""
FLOAT32_SQUARED = float(np.finfo(np.float32).max)
"""Largest sum of squares that is finite in float32."""
SCAN_ROWS = 8192
"""Rows per read when scanning a file: 12 MB of float32 at 384 dimensions."""


def array_of(X: Any) -> NDArray[Any]:
    """Convert lists of numbers, an array, or one or several tensors of torch to an array.

    Raises `TypeError` or `ValueError` if lists differ in length.

    >>> array_of([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if isinstance(X, list | tuple) and X and hasattr(X[0], "detach"):
        X = [array_of(row) for row in X]
    if hasattr(X, "detach"):  # maybe on a GPU, with a gradient, or of a type that numpy lacks
        tensor = X.detach().cpu()
        X = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
    return np.asarray(X)


def as_matrix(
    X: Any, *, dim: int | None = None, name: str = "vectors", largest: float | None = None
) -> Matrix:
    """Check and convert to a C-contiguous float32 matrix.

    Raises `InputError` if `X` is not two-dimensional, does not have `dim` columns, or contains NaN,
    infinity or a number whose magnitude exceeds `largest`.

    >>> as_matrix([[1, 2], [3, 4]]).dtype
    dtype('float32')
    >>> as_matrix([[1.0, float("nan")]])
    Traceback (most recent call last):
    ...
    slimdex.errors.InputError: vectors: row 0, column 1 is nan; expected finite numbers
    """
    is_ready = isinstance(X, np.ndarray) and X.dtype == np.float32 and X.flags.c_contiguous
    out: Matrix = X if is_ready else _to_float32(X, name)
    if out.ndim != 2:
        raise InputError(f"{name}: shape {out.shape}; expected two dimensions (rows, columns)")
    if dim is not None and out.shape[1] != dim:
        raise InputError(f"{name}: {out.shape[1]} dimensions; expected {dim}")

    # One pass: no number exceeds the root of the sum of squares. The numbers themselves are checked
    # only if this sum is too large or NaN. Summed row by row: BLAS would wake threads for all rows.
    with np.errstate(over="ignore", invalid="ignore"):
        squares = float(np.vecdot(out, out).sum(dtype=np.float64))
    bound = FLOAT32_SQUARED if largest is None else largest**2
    if not squares <= bound:
        _check_numbers(out, name, largest)
    return out


def _to_float32(X: Any, name: str) -> Matrix:
    """Convert to a C-contiguous float32 array; raise `InputError` if `X` can't be."""
    try:
        X = array_of(X)
        if np.iscomplexobj(X):
            raise TypeError("complex numbers")
        with np.errstate(over="ignore"):  # overflow becomes infinity, which is refused
            return np.ascontiguousarray(X, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{name}: expected rows of numbers, all of one length ({error})"
        ) from error


def _check_numbers(X: Matrix, name: str, largest: float | None) -> None:
    """Raise `InputError` for NaN, infinity or a magnitude above `largest`."""
    finite = np.isfinite(X)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise InputError(
            f"{name}: row {row}, column {column} is {X[row, column]}; expected finite numbers"
        )
    magnitude = float(np.abs(X).max(initial=0.0))
    if largest is not None and magnitude > largest:
        raise InputError(
            f"{name}: value {magnitude:g}; expected at most {largest:g}, the limit of stored "
            "vectors"
        )


def normalize_rows(X: Matrix) -> Matrix:
    """Divide rows by their Euclidean length; zero rows stay zero.

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
    """Yield slices that cover rows `start` to n - 1, each at most `size` long.

    >>> list(batches(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    for low in range(start, n, size):
        yield slice(low, min(low + size, n))


def sample_rows(n: int, most: int, seed: int) -> Rows:
    """Choose rows among n, ascending: all, or a random sample of `most`.

    >>> sample_rows(3, 5, seed=0).tolist(), len(sample_rows(9, 5, seed=0))
    ([0, 1, 2], 5)
    """
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def contains(values: Rows, rows: Rows) -> NDArray[np.bool_]:
    """Return a mask of the `rows`, of any shape, that occur in the sorted `values`.

    >>> contains(np.array([2, 4]), np.array([[1, 2], [4, 5]])).tolist()
    [[False, True], [True, False]]
    """
    if not len(values):
        return np.zeros(rows.shape, dtype=np.bool_)
    positions = np.searchsorted(values, rows)
    positions = np.minimum(positions, len(values) - 1)  # for rows after the last value
    contained: NDArray[np.bool_] = values[positions] == rows
    return contained


def union(*parts: Rows) -> Rows:
    """Return the numbers of all parts, sorted, each once.

    NumPy's own functions import masked arrays at their first call, which would delay a search.

    >>> union(np.array([7, 1]), np.array([1, 4])).tolist()
    [1, 4, 7]
    """
    rows = np.sort(np.concatenate(parts))
    is_first = np.ones(len(rows), dtype=np.bool_)
    is_first[1:] = rows[1:] != rows[:-1]
    distinct: Rows = rows[is_first]
    return distinct


def merge_rows(rows: Rows, others: Rows) -> Rows:
    """Return the numbers of two sorted arrays, sorted, each once, in the time of one copy.

    >>> merge_rows(np.array([1, 4]), np.array([1, 2, 7])).tolist()
    [1, 2, 4, 7]
    """
    longer, shorter = (rows, others) if len(rows) >= len(others) else (others, rows)
    missing = shorter[~contains(longer, shorter)]
    if not len(missing):
        return longer
    return np.insert(longer, np.searchsorted(longer, missing), missing)


def from_row(rows: Rows, start: int) -> Rows:
    """Return those of sorted `rows` that are `start` or later.

    >>> from_row(np.array([1, 4, 7]), 4).tolist()
    [4, 7]
    """
    return rows[np.searchsorted(rows, start) :]


def without(rows: Rows, exclude: Rows) -> Rows:
    """Return sorted `rows` without sorted `exclude`, in the time of the shorter plus a copy.

    >>> without(np.array([1, 4, 7]), np.array([0, 4])).tolist()
    [1, 7]
    """
    if len(exclude) > len(rows):
        return rows[~contains(exclude, rows)]
    present = exclude[contains(rows, exclude)]
    if not len(present):
        return rows
    return np.delete(rows, np.searchsorted(rows, present))
