"""Training data of reducers fitted by torch: samples, held-out rows, shuffled batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from ..arrays import Matrix, as_matrix, batches, sampled
from ..errors import InputError
from ..vectors.vector_file import VectorFile
from .moments import Moments
from .reducer import Reducer

if TYPE_CHECKING:
    import torch

MOST_ROWS = 131_072
"""Largest number of training rows; larger collections are sampled."""
HELD_OUT = 0.05
"""Share of the rows held out for early stopping."""


class TrainedReducer(Reducer):
    """Base class of reducers that torch fits to a sample of the rows."""

    min_rows: ClassVar[int] = 2
    random_state: int

    def fit(self, X: Matrix) -> Self:
        """Fit to a sample of rows (n, d); `X` may be memory-mapped.

        Raises `InputError` for fewer than 2 rows, n_components above d or invalid parameters, or if
        torch is missing.
        """
        self._require_torch()
        return self._fit(as_matrix(X[sampled(len(X), MOST_ROWS, self.random_state)]))

    def fit_vectors(self, vectors: VectorFile, moments: Moments) -> Self:
        """Fit to a sample of the rows on disk, the same as `fit` takes."""
        self._require_torch()
        rows = sampled(len(vectors), MOST_ROWS, self.random_state)
        return self._fit(np.concatenate([vectors.take(rows[part]) for part in batches(len(rows))]))

    @abstractmethod
    def _fit(self, X: Matrix) -> Self:
        """Fit to rows (n, d)."""

    def _require_torch(self) -> None:
        if find_spec("torch") is None:
            raise InputError(
                f"{type(self).__name__} is trained with torch, which is missing; expected the "
                "extra torch (pip install 'slimdex[torch]')"
            )


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
