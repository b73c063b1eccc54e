"""SparseRows: a sparse matrix by rows, and its products with dense ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches
from slimdex.system.threads import product

AT_ONCE = 1 << 21
"""Numbers gathered in memory at a time."""


@dataclass(frozen=True)
class SparseRows:
    """A sparse matrix: the entries of each row, row after row.

    Attributes
    ----------
    lengths : number of entries of each row (n,).
    columns : column of each entry.
    weights : value of each entry.
    """

    lengths: Rows
    columns: Rows
    weights: NDArray[np.float32]

    def times(self, dense: Matrix) -> Matrix:
        """Product (n, d) with a dense matrix (columns, d).

        Rows of equal length take one matrix product, (m, 1, length) by (m, length, d).

        >>> rows = SparseRows(np.array([2, 0]), np.array([0, 1]), np.array([1, 3], np.float32))
        >>> rows.times(np.array([[1], [2]], np.float32)).tolist()
        [[7.0], [0.0]]
        """
        lengths = self.lengths
        out = np.zeros((len(lengths), dense.shape[1]), dtype=np.float32)
        starts = np.cumsum(lengths) - lengths
        most = max(1, AT_ONCE // dense.shape[1])  # rows of `dense` that are in memory at a time
        for length in np.unique(lengths[lengths > 0]).tolist():
            rows = np.flatnonzero(lengths == length)
            for low in range(0, length, most):  # a row may have millions of entries
                offsets = np.arange(low, min(low + most, length))
                for part in batches(len(rows), max(1, most // len(offsets))):
                    entries = starts[rows[part], None] + offsets
                    factors = dense[self.columns[entries]]
                    out[rows[part]] += product(self.weights[entries][:, None, :], factors)[:, 0]
        return out

    def transposed(self, columns: int) -> SparseRows:
        """The transpose of a matrix with this many columns."""
        order = np.argsort(self.columns, kind="stable")
        rows = np.repeat(np.arange(len(self.lengths)), self.lengths)
        lengths = np.bincount(self.columns, minlength=columns)
        return SparseRows(lengths, rows[order], self.weights[order])

    def normalized(self) -> SparseRows:
        """The rows scaled to unit length."""
        rows = np.repeat(np.arange(len(self.lengths)), self.lengths)
        squares = np.bincount(rows, self.weights.astype(np.float64) ** 2, len(self.lengths))
        weights = (self.weights / np.sqrt(squares[rows])).astype(np.float32)
        return SparseRows(self.lengths, self.columns, weights)
