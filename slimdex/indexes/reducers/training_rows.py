"""Training data of reducers fitted by torch: samples, held-out rows, shuffled batches."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from ..arrays import Matrix, Rows, as_matrix, batches
from ..errors import InputError
from .linear import check_components
from .moments import Moments
from .reducer import RowFile

if TYPE_CHECKING:
    import torch

MOST_ROWS = 131_072
"""Largest number of training rows; larger collections are sampled."""
HELD_OUT = 0.05
"""Share of the rows held out for early stopping."""


class TrainedReducer:
    """Base class of reducers that torch fits to a sample of the rows."""

    bounded_by_rank: ClassVar[bool] = False
    min_rows: ClassVar[int] = 2
    n_components: int
    random_state: int

    @classmethod
    def check_components(cls, n_components: int, dim: int) -> None:
        """Raise `InputError` unless n_components is 1 to dim."""
        check_components(n_components, dim)

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components

    @classmethod
    def configured(cls, n_components: int, beta: float, gamma: float) -> Self:
        """Create a reducer of n_components; beta and gamma do not apply."""
        return cls(n_components)

    def fit(self, X: Matrix) -> Self:
        """Fit to a sample of rows (n, d); `X` may be memory-mapped.

        Raises `InputError` for fewer than 2 rows, n_components above d or invalid parameters, or if
        torch is missing.
        """
        self._require_torch()
        return self._fit(sample_of(X, self.random_state))

    def fit_vectors(self, vectors: RowFile, moments: Moments) -> Self:
        """Fit to a sample of the rows on disk."""
        self._require_torch()
        return self._fit(sample_of_file(vectors, self.random_state))

    def _fit(self, X: Matrix) -> Self:
        raise NotImplementedError

    def _require_torch(self) -> None:
        if find_spec("torch") is None:
            raise InputError(
                f"{type(self).__name__} is trained with torch, which is missing; expected the "
                "extra torch (pip install 'slimdex[torch]')"
            )


def sample_of(X: Matrix, seed: int) -> Matrix:
    """Sample at most `MOST_ROWS` rows, in order; `X` may be memory-mapped."""
    return as_matrix(X[_sample(len(X), seed)])


def sample_of_file(vectors: RowFile, seed: int) -> Matrix:
    """Sample the same rows from a file that `sample_of` takes from a matrix."""
    rows = _sample(len(vectors), seed)
    return np.concatenate([vectors.take(rows[part]) for part in batches(len(rows))])


def held_out(n: int) -> int:
    """Number of held-out rows, at least one, of n.

    >>> held_out(1000), held_out(2)
    (50, 1)
    """
    return max(1, round(n * HELD_OUT))


def shuffled(n: int, size: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Yield n row numbers in random order, `size` at a time."""
    import torch

    order = torch.randperm(n, generator=generator)
    return (order[low : low + size] for low in range(0, n, size))


def _sample(n: int, seed: int) -> Rows:
    if n <= MOST_ROWS:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, MOST_ROWS, replace=False))
