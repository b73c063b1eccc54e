"""What reducers that are trained share: which rows they see, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .arrays import Matrix, Rows, as_matrix, batches
from .reducer import RowFile

if TYPE_CHECKING:
    import torch

MOST_ROWS = 131_072
"""Rows that are trained on, at most; a sample of those that there are."""
HELD_OUT = 0.05
"""Share of the rows that the training is stopped by."""


def sample_of(X: Matrix, seed: int) -> Matrix:
    """At most `MOST_ROWS` rows, in order; no others are read, so `X` may be memory-mapped."""
    return as_matrix(X[_sample(len(X), seed)])


def sample_of_file(vectors: RowFile, seed: int) -> Matrix:
    """The same rows of a file as `sample_of` takes of a matrix."""
    rows = _sample(len(vectors), seed)
    return np.concatenate([vectors.take(rows[part]) for part in batches(len(rows))])


def held_out(n: int) -> int:
    """How many of n rows are not trained on: one at least.

    >>> held_out(1000), held_out(2)
    (50, 1)
    """
    return max(1, round(n * HELD_OUT))


def shuffled(n: int, size: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """The numbers of n rows in random order, `size` at a time."""
    import torch

    order = torch.randperm(n, generator=generator)
    return (order[low : low + size] for low in range(0, n, size))


def _sample(n: int, seed: int) -> Rows:
    if n <= MOST_ROWS:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, MOST_ROWS, replace=False))
