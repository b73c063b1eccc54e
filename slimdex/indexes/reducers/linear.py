"""Linear reducers: affine maps ``(x - shift) @ components``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.system.threads import decomposition, eigh, product, threads_for

from ..arrays import SCAN_ROWS, Matrix, as_matrix, batches
from ..tensors import check_tensor, load_fitted, save_fitted
from ..vectors.vector_file import VectorFile
from .moments import Moments
from .reducer import Reducer


def principal_axes(
    moments: Moments, beta: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Eigendecomposition of ``moments.covariance(beta)``.

    Returns eigenvalues (d,) largest first, axes (d, d) as columns, and the rank of the data. Signs
    are fixed: the entry of largest magnitude in each axis is positive. Negative eigenvalues are
    rounding errors and become zero, as in scikit-learn's PCA.
    """
    # Largest eigenvalue first.
    values, axes = eigh(moments.covariance(beta))
    values = np.clip(values[::-1], 0.0, None)
    axes = axes[:, ::-1]

    # Fix the signs of the axes by the entry of largest magnitude in each column.
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(len(values))]
    axes = axes * np.where(largest < 0, -1.0, 1.0)

    # The rank: the number of eigenvalues above the rounding errors of stored moments, at most what
    # n rows can span.
    tolerance = np.linalg.norm(values) * np.finfo(np.float32).eps
    nonzero = int((values > tolerance).sum())
    centred = 1 if beta == 1.0 else 0  # centred rows span one dimension less
    rank = min(nonzero, max(moments.n - centred, 0))
    return values, axes, rank


def whitening_axes(
    moments: Moments, beta: float, gamma: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scales (d,) ``lambda^(-gamma/2)`` and axes (d, d) of whitening.

    Directions without variance get the smallest nonzero eigenvalue, as zero has no inverse.
    """
    values, axes, rank = principal_axes(moments, beta)
    floor = values[rank - 1] if rank else 1.0
    return np.maximum(values, floor) ** (-gamma / 2), axes


class Linear(Reducer):
    """Base class of linear reducers.

    Attributes
    ----------
    shift_ : (d,) float32
    components_ : (d, n_components) float32
    """

    shift_: NDArray[np.float32]
    components_: Matrix

    @property
    def n_features(self) -> int:
        """Dimensions d of the rows that it was fitted on."""
        return len(self.shift_)

    @property
    def nbytes(self) -> int:
        """Resident bytes once fitted."""
        return self.shift_.nbytes + self.components_.nbytes

    def fit_moments(self, moments: Moments) -> Self:
        """Fit to the moments of rows."""
        raise NotImplementedError

    def fit_vectors(self, vectors: VectorFile, moments: Moments) -> Self:
        """Fit to the moments; the rows are not read."""
        return self.fit_moments(moments)

    def fit(self, X: Matrix) -> Self:
        """Fit to rows (n, d), read in chunks; `X` may be memory-mapped."""
        chunks = (as_matrix(X[part]) for part in batches(len(X), SCAN_ROWS))
        return self.fit_moments(Moments.of(chunks, X.shape[1]))

    def transform(self, X: Matrix) -> Matrix:
        """Reduce rows (n, d) to (n, n_components)."""
        X = as_matrix(X, dim=len(self.shift_))
        return np.ascontiguousarray(product(X - self.shift_, self.components_))

    def save(self, path: Path) -> None:
        """Write as safetensors."""
        arrays = {"shift": self.shift_, "components": self.components_}
        save_fitted(path, self, arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load a file written by `save`; raise `CorruptError` for anything else."""
        reducer: Self
        reducer, arrays = load_fitted(path, cls, {"shift", "components"})
        reducer.shift_ = arrays["shift"]
        reducer.components_ = arrays["components"]
        reducer._check_arrays(path)
        return reducer

    def _check_arrays(self, path: Path) -> None:
        check_tensor(path, "shift", self.shift_, (None,), np.float32)
        shape = (len(self.shift_), self.n_components)
        check_tensor(path, "components", self.components_, shape, np.float32)


@dataclass(eq=False)
class Whitening(Linear):
    """``(x - beta*mean) U_k diag(lambda_k^(-gamma/2))``.

    ``beta = gamma = 1`` is BERT-whitening (Su et al. 2021, algorithm 1), ``beta = 1, gamma = 0``
    is PCA, ``beta = gamma = 0`` a rotation that keeps every cosine when k = d (Su 2022, which
    introduces beta and gamma). U and lambda are eigenvectors and eigenvalues of the population
    covariance around ``beta * mean``.

    Parameters
    ----------
    n_components : int
        k, the dimensions to keep, at most d. Those beyond the rank of the data do no harm: all
        rows are equal there.
    beta : float
        Share of the mean to subtract.
    gamma : float
        Degree of whitening: 0 keeps the variances of the axes, 1 equalises them.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    >>> white = Whitening(2, beta=1.0, gamma=1.0).fit(X).transform(X)
    >>> np.cov(white.T, bias=True).round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    name = "whitening"
    bounded_by_rank = True

    beta: float = 0.0
    gamma: float = 0.0

    @classmethod
    def configured(cls, n_components: int, beta: float, gamma: float) -> Self:
        """Create ``Whitening(n_components, beta, gamma)``."""
        return cls(n_components, beta, gamma)

    def fit_moments(self, moments: Moments) -> Self:
        """Fit to moments; raise `InputError` if n_components exceeds d."""
        k = self.n_components
        self.check_components(k, moments.dim)
        scales, axes = whitening_axes(moments, self.beta, self.gamma)
        self.shift_ = (self.beta * moments.mean).astype(np.float32)
        self.components_ = (axes[:, :k] * scales[:k]).astype(np.float32)
        return self

    def balance_subspaces(self, groups: int) -> Self:
        """Reorder the fitted axes so that each subspace of k/groups axes has a similar variance.

        Product quantisation spends the same bits on each subspace. Axes sorted by variance are
        assigned to subspaces back and forth, which approximates the eigenvalue allocation of Ge et
        al. (2013, "Optimized Product Quantization", section 3.2). Cosines do not change.
        """
        # Each column is a subspace; axes are assigned row by row, alternately forwards and back.
        order = np.arange(self.n_components).reshape(-1, groups)
        order[1::2] = order[1::2, ::-1]
        self.components_ = np.ascontiguousarray(self.components_[:, order.T.ravel()])
        return self


class Pca(Whitening):
    """Principal component analysis: ``Whitening(k, beta=1, gamma=0)``."""

    name = "pca"

    def __init__(self, n_components: int) -> None:
        super().__init__(n_components, beta=1.0, gamma=0.0)

    @classmethod
    def configured(cls, n_components: int, beta: float, gamma: float) -> Self:
        """Create ``Pca(n_components)``; its beta and gamma are fixed."""
        return cls(n_components)


@dataclass(eq=False)
class AllButTheTop(Linear):
    """Removal of the mean and the first components, which encode word frequency, not meaning.

    Mu and Viswanath (2018, "All-but-the-Top", algorithm 1) keep all d dimensions of the rest. Here
    the ``n_components`` strongest principal components of the rest are kept; if that is all of
    them, cosines are the paper's.

    Parameters
    ----------
    n_components : int
        At most d minus `removed`.
    removed : int or None
        D, the number of components to remove; None means d/100, the paper's rule, at least 1.

    >>> X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32) * [9, 1, 1, 1]
    >>> left = AllButTheTop(3, removed=1).fit(X.astype(np.float32)).transform(X.astype(np.float32))
    >>> bool(left.std(axis=0).max() < 1.5)
    True
    """

    name = "all-but-the-top"
    bounded_by_rank = True

    removed: int | None = None

    @classmethod
    def check_components(cls, n_components: int, dim: int) -> None:
        """Raise `InputError` if n_components exceeds the dimensions that remain."""
        _check_remaining(n_components, dim, _top(dim))

    def fit_moments(self, moments: Moments) -> Self:
        """Fit to moments; raise `InputError` if too few components remain."""
        k = self.n_components
        d = moments.dim
        top = _top(d) if self.removed is None else self.removed
        _check_remaining(k, d, top)
        _, axes, _ = principal_axes(moments, beta=1.0)
        self.shift_ = moments.mean.astype(np.float32)
        self.components_ = np.ascontiguousarray(axes[:, top : top + k], dtype=np.float32)
        return self


class Truncate(Linear):
    """Truncation to the first ``n_components`` dimensions, a baseline without fitting.

    >>> X = np.array([[1, 2, 3]], dtype=np.float32)
    >>> Truncate(2).fit(X).transform(X).tolist()
    [[1.0, 2.0]]
    """

    name = "truncate"

    def fit_moments(self, moments: Moments) -> Self:
        """Check the dimensions; nothing is fitted."""
        self.check_components(self.n_components, moments.dim)
        self.shift_ = np.zeros(moments.dim, dtype=np.float32)
        self.components_ = np.eye(moments.dim, self.n_components, dtype=np.float32)
        return self


@dataclass(eq=False)
class RandomProjection(Linear):
    """Projection on ``n_components`` random orthogonal directions, uniformly distributed.

    A baseline independent of the data; it preserves cosines in expectation (Johnson and
    Lindenstrauss 1984).

    Parameters
    ----------
    n_components : int
        At most d.
    random_state : int
        The seed.

    >>> X = np.eye(4, dtype=np.float32)
    >>> projected = RandomProjection(4, random_state=1).fit(X).transform(X)
    >>> bool(np.allclose(projected @ projected.T, np.eye(4), atol=1e-6))
    True
    """

    name = "random"

    random_state: int = 0

    def fit_moments(self, moments: Moments) -> Self:
        """Draw the directions; only the dimensions of the data are used."""
        self.check_components(self.n_components, moments.dim)
        rng = np.random.default_rng(self.random_state)
        drawn = rng.standard_normal((moments.dim, self.n_components))
        with threads_for(decomposition(moments.dim)):
            basis, triangle = np.linalg.qr(drawn)
        # Without this correction the directions are not uniformly distributed.
        signs = np.where(np.diag(triangle) < 0, -1.0, 1.0)
        self.shift_ = np.zeros(moments.dim, dtype=np.float32)
        self.components_ = (basis * signs).astype(np.float32)
        return self


class Identity(Linear):
    """Identity map; ``n_components`` must equal d."""

    name = "identity"

    @classmethod
    def check_components(cls, n_components: int, dim: int) -> None:
        """Raise `InputError` unless n_components equals dim."""
        if n_components != dim:
            raise InputError(f"n_components={n_components}; identity keeps all {dim}")

    def fit_moments(self, moments: Moments) -> Self:
        """Check the dimensions; nothing is fitted."""
        self.check_components(self.n_components, moments.dim)
        self.shift_ = np.zeros(moments.dim, dtype=np.float32)
        self.components_ = np.empty((moments.dim, 0), dtype=np.float32)  # nothing to multiply by
        return self

    def transform(self, X: Matrix) -> Matrix:
        """Return the rows unchanged."""
        return as_matrix(X, dim=len(self.shift_))

    def _check_arrays(self, path: Path) -> None:
        check_tensor(path, "shift", self.shift_, (self.n_components,), np.float32)


def _top(d: int) -> int:
    """D = d/100, the rule of Mu and Viswanath, at least 1."""
    return max(1, round(d / 100))


def _check_remaining(k: int, d: int, top: int) -> None:
    """Raise `InputError` unless k components can remain after removing the first `top` of d."""
    if d <= top:
        raise InputError(f"all-but-the-top: vectors of {d} dimensions; expected {top + 1} or more")
    if not 1 <= k <= d - top:
        raise InputError(
            f"n_components={k}; expected 1 to {d - top}, the {d} dimensions of the vectors without "
            f"the first {top} components"
        )
