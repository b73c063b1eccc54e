"""Conversion of float16 rows to float32, faster than numpy's scalar `astype`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Matrix

try:  # 5 to 20 times as fast as numpy
    import numkong
except ImportError:  # no wheel for this machine
    numkong = None  # type: ignore[assignment]


def to_float32(X: NDArray[np.generic], out: Matrix | None = None) -> Matrix:
    """Convert finite C-contiguous rows (n, d) to float32 exactly, into `out` if given.

    >>> to_float32(np.array([[1.5, -0.1]], dtype=np.float16)).tolist()
    [[1.5, -0.0999755859375]]
    """
    if X.dtype == np.float16 and X.size and numkong is not None:
        out = np.empty(X.shape, dtype=np.float32) if out is None else out
        numkong.astype(X, "float32", out=out)
        return out
    wide: Matrix = to_float32_by_shifts(X) if X.dtype == np.float16 else X.astype(np.float32)
    if out is not None:
        out[:] = wide
    return wide if out is None else out


def to_float32_by_shifts(X: NDArray[np.generic]) -> Matrix:
    """Convert with numpy alone, four times as fast as `astype`.

    Shift exponent and fraction to their float32 positions and clear the copies of the sign bit.
    Multiplying by 2^112 corrects the exponent's bias, for subnormal numbers too.
    """
    bits = X.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= np.int32(-0x70002000)
    out: Matrix = bits.view(np.float32)
    out *= np.float32(2.0**112)
    return out
