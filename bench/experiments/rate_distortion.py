"""What no code of so many bits can beat, if rows were Gaussian: the rate-distortion bound.

Reverse water-filling (Cover and Thomas 2006, "Elements of Information Theory", section 10.3.3).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, normalize_rows
from slimdex.indexes.faiss_index import FaissIndex
from slimdex.indexes.kinds import FLAT


def least_errors(variances: NDArray[np.float64], bits: float) -> NDArray[np.float64]:
    """The mean squared error (k,) of each independent Gaussian axis, at so many bits for all.

    Axes that vary more than some level are coded down to it, the others get no bits.

    >>> least_errors(np.array([16.0, 4.0, 1.0]), bits=3).tolist()  # 2 bits, 1 and none
    [1.0, 1.0, 1.0]
    >>> least_errors(np.array([4.0, 4.0, 0.25]), bits=2).tolist()
    [1.0, 1.0, 0.25]
    """
    ordered = np.sort(variances[variances > 0])[::-1]
    count = np.arange(1, len(ordered) + 1)
    levels = np.exp2((np.cumsum(np.log2(ordered)) - 2 * bits) / count)
    coded = np.flatnonzero(levels <= ordered)
    return np.minimum(variances, levels[coded[-1]] if len(coded) else np.inf)


def bits_of_axes(variances: NDArray[np.float64], bits: float) -> NDArray[np.float64]:
    """How many of the bits (k,) each axis gets at that bound.

    >>> bits_of_axes(np.array([16.0, 4.0, 1.0]), bits=3).tolist()
    [2.0, 1.0, 0.0]
    """
    errors = least_errors(variances, bits)
    ratios = np.divide(variances, errors, out=np.ones_like(errors), where=errors > 0)
    return np.asarray(np.log2(ratios) / 2)


class IdealCodes:
    """Rows as an ideal code of so many bits gives them back, compared by cosine.

    They go through the channel that attains the bound: each axis is shrunk, and noise is added. Its
    errors are those of long blocks of Gaussian rows, which no code of single rows reaches; one can
    be better only by what rows have that is not Gaussian.

    Parameters
    ----------
    rows : (n, k), of whose axes the variances are taken.
    """

    def __init__(self, bits: int, rows: Matrix, seed: int = 0) -> None:
        variances = np.square(rows, dtype=np.float64).mean(axis=0)
        errors = least_errors(variances, bits)
        kept = 1 - np.divide(errors, variances, out=np.ones_like(errors), where=variances > 0)
        self._kept, self._noise = kept.astype(np.float32), np.sqrt(errors * kept)
        self._rng = np.random.default_rng(seed)
        self._index = FaissIndex(FLAT, rows.shape[1])
        self.row_nbytes = bits / 8

    def add(self, rows: Matrix) -> None:
        """Append rows (n, k)."""
        noise = self._rng.normal(scale=self._noise, size=rows.shape).astype(np.float32)
        self._index.add(normalize_rows(rows * self._kept + noise))

    def search(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k), best first."""
        return self._index.search(queries, k)
