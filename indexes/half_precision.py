"""Half precision: float16 rows as float32, which numpy's own `astype` does one number at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arrays import Matrix

try:  # 5 to 20 times as fast as anything that numpy has
    import numkong
except ImportError:  # no wheel for this machine
    numkong = None  # type: ignore[assignment]


def widened(X: NDArray[np.generic], out: Matrix | None = None) -> Matrix:
    """Finite rows (n, d), C-contiguous, as float32, in `out` if that is given; no number changes.

    >>> widened(np.array([[1.5, -0.1]], dtype=np.float16)).tolist()
    [[1.5, -0.0999755859375]]
    """
    if X.dtype == np.float16 and X.size and numkong is not None:
        out = np.empty(X.shape, dtype=np.float32) if out is None else out
        numkong.astype(X, "float32", out=out)
        return out
    wide: Matrix = widened_by_shifts(X) if X.dtype == np.float16 else X.astype(np.float32)
    if out is not None:
        out[:] = wide
    return wide if out is None else out


def widened_by_shifts(X: NDArray[np.generic]) -> Matrix:
    """The same with numpy alone, four times as fast as `astype`.

    Exponent and fraction move to their places in a float32, the sign to the bits above them, of
    which all but the first are cleared. Multiplying by 2^112 corrects the exponent's bias, and
    makes subnormal numbers right too.
    """
    bits = X.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= np.int32(-0x70002000)
    out: Matrix = bits.view(np.float32)
    out *= np.float32(2.0**112)
    return out
