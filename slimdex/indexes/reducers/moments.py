"""Moments: exact mean and scatter of rows, accumulated in batches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import CorruptError, InputError
from slimdex.system.threads import product

from ..arrays import Matrix, as_matrix, batches
from ..tensors import check_tensor, load_tensors, save_tensors


class Moments:
    """Count, mean (d,) and scatter (d, d) of rows, in float64.

    ``scatter = sum_i (x_i - mean)^T (x_i - mean)``, so the population covariance is
    ``scatter / n``. Sums are combined pairwise (Chan, Golub and LeVeque 1983), so batches,
    merged parts and the whole agree to rounding, and `subtract` undoes `update`.

    >>> m = Moments(2).update(np.array([[0, 0], [2, 4]], dtype=np.float32))
    >>> m.n, m.mean.tolist(), m.covariance().tolist()
    (2, [1.0, 2.0], [[1.0, 2.0], [2.0, 4.0]])
    """

    def __init__(self, dim: int) -> None:
        self.n = 0
        self.mean = np.zeros(dim)
        self.scatter = np.zeros((dim, dim))

    @classmethod
    def of(cls, chunks: Iterable[Matrix], dim: int) -> Moments:
        """Compute the moments of rows (n_i, dim) in chunks."""
        moments = cls(dim)
        for chunk in chunks:
            moments.update(chunk)
        return moments

    @property
    def dim(self) -> int:
        """Dimensions of the rows."""
        return len(self.mean)

    @classmethod
    def of_rows(cls, X: Matrix) -> Moments:
        """Compute the moments of rows (n, d)."""
        return cls(X.shape[1]).update(X)

    def update(self, X: Matrix) -> Self:
        """Add the rows of `X` (n, d)."""
        X = as_matrix(X, dim=self.dim)
        for part in batches(len(X)):
            self.merge(self._of_batch(X[part]))
        return self

    def merge(self, other: Moments) -> Self:
        """Add the rows of `other`, which is unchanged."""
        self._combine(other, +1)
        return self

    def subtract(self, other: Moments) -> Self:
        """Remove rows added before, given by their own moments.

        Raises `InputError` if `other` has more rows than these moments.
        """
        if other.n > self.n:
            raise InputError(f"subtract: {other.n} rows; expected at most the {self.n} seen")
        self._combine(other, -1)
        return self

    def covariance(self, beta: float = 1.0) -> NDArray[np.float64]:
        """Population covariance (d, d) around ``beta * mean``.

        ``mean_i (x_i - beta*mean)^T (x_i - beta*mean) = C + (1 - beta)^2 mean^T mean``
        (the matrix that Su 2022, "BERT-whitening with hyper-parameters", decomposes).
        """
        centred = self.scatter / max(self.n, 1)
        return centred + (1.0 - beta) ** 2 * np.outer(self.mean, self.mean)

    def copy(self) -> Moments:
        """Return an independent copy."""
        return Moments(self.dim).merge(self)

    def save(self, path: Path) -> None:
        """Write as safetensors, with each row of the symmetric scatter from its diagonal on.

        The scatter is rounded to float32, which changes eigenvalues by less than rounding the
        vectors to float16 does.
        """
        upper = [row[i:] for i, row in enumerate(self.scatter)]
        scatter = np.concatenate(upper).astype(np.float32)
        save_tensors(path, "moments", {"n": self.n}, {"mean": self.mean, "scatter": scatter})

    @classmethod
    def load(cls, path: Path) -> Moments:
        """Load a file written by `save`; raise `CorruptError` for anything else."""
        kind, params, arrays = load_tensors(path)
        if kind != "moments" or set(arrays) != {"mean", "scatter"}:
            raise CorruptError(f"{path}: holds {kind!r}; expected moments")
        check_tensor(path, "mean", arrays["mean"], (None,), np.float64)
        dim = len(arrays["mean"])

        scatter = arrays["scatter"]
        check_tensor(path, "scatter", scatter, (dim * (dim + 1) // 2,), np.float32)
        if type(params.get("n")) is not int or not 0 <= params["n"] < 1 << 62:
            raise CorruptError(f"{path}: n={params.get('n')!r}; expected a number of rows")
        moments = cls(dim)
        moments.n = params["n"]
        moments.mean = arrays["mean"]
        moments.scatter = _symmetric(scatter, dim)
        return moments

    def _of_batch(self, X: Matrix) -> Moments:
        """Compute the moments of some rows (n, d), converted to float64 all at once."""
        rows = X.astype(np.float64)
        part = Moments(self.dim)
        part.n = len(rows)
        part.mean = rows.mean(axis=0)
        rows -= part.mean
        part.scatter = product(rows.T, rows)
        return part

    def _combine(self, other: Moments, sign: int) -> None:
        """Add the rows of `other` if the sign is 1, or remove them if it is -1."""
        if other.dim != self.dim:
            raise InputError(f"moments of {other.dim} dimensions; expected {self.dim}")
        n = self.n + sign * other.n
        if n == 0:  # no rows: zeros, free of rounding errors
            self.n = 0
            self.mean = np.zeros(self.dim)
            self.scatter = np.zeros_like(self.scatter)
            return

        # Chan et al.: scatters add up, with a term for the distance between the means.
        delta = other.mean - self.mean
        self.scatter += sign * other.scatter
        self.scatter += (sign * self.n * other.n / n) * np.outer(delta, delta)
        self.mean = self.mean + (sign * other.n / n) * delta
        self.n = n


def _symmetric(upper: NDArray[np.float32], dim: int) -> NDArray[np.float64]:
    """Rebuild a symmetric matrix (dim, dim) from its rows, each from the diagonal on."""
    matrix = np.empty((dim, dim))
    start = 0
    for i in range(dim):
        stop = start + dim - i
        matrix[i, i:] = upper[start:stop]
        matrix[i:, i] = upper[start:stop]
        start = stop
    return matrix
