"""Reducer: maps rows (n, d) to rows (n, n_components).

To add one, name its class in `options.REDUCERS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

import numpy as np

from slimdex.errors import CorruptError, InputError
from slimdex.system.progress import progress

from ..arrays import Matrix, as_matrix, batches, normalize_rows, sample_rows
from ..options import REDUCERS
from ..tensors import load_tensors
from ..vectors.vector_file import VectorFile
from .moments import Moments

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
MOST_ROWS = 131_072
"""Largest number of training rows; larger collections are sampled."""
HELD_OUT = 0.05
"""Share of the rows held out for early stopping."""


@dataclass(eq=False)
class Reducer(ABC):
    """Base class of reducers, by scikit-learn's contract.

    The parameters are the fields, `fit` returns self, fitted attributes end in an underscore.
    """

    name: ClassVar[str]
    bounded_by_rank: ClassVar[bool] = False
    """True if components beyond the rank of the data are zero."""
    min_rows: ClassVar[int] = 1
    """Smallest number of rows to fit."""

    n_components: int

    @classmethod
    def check_components(cls, n_components: int, dim: int) -> None:
        """Raise `InputError` if rows of `dim` dimensions can't have this many components."""
        if not 1 <= n_components <= dim:
            raise InputError(
                f"n_components={n_components}; expected 1 to the {dim} dimensions of the vectors"
            )

    @classmethod
    def configured(cls, n_components: int, beta: float, gamma: float) -> Self:
        """Create an unfitted reducer from an index's settings; most ignore beta and gamma."""
        return cls(n_components)

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Dimensions d of the rows that it was fitted on."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Resident bytes once fitted."""

    @abstractmethod
    def fit(self, X: Matrix) -> Self:
        """Fit to rows (n, d); `X` may be memory-mapped."""

    @abstractmethod
    def fit_vectors(self, vectors: VectorFile, moments: Moments) -> Self:
        """Fit to rows on disk or to their moments."""

    @abstractmethod
    def transform(self, X: Matrix) -> Matrix:
        """Reduce rows (n, d) to (n, n_components)."""

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write as safetensors, with the parameters as JSON in the header."""

    @classmethod
    @abstractmethod
    def load(cls, path: Path) -> Self:
        """Load a file written by `save`; raise `CorruptError` for anything else."""


class TrainedReducer(Reducer):
    """Base class of reducers that torch fits to a sample of the rows."""

    min_rows: ClassVar[int] = 2
    epochs: int
    patience: int
    random_state: int
    losses_: list[float]

    def fit(self, X: Matrix) -> Self:
        """Fit to a sample of rows (n, d); `X` may be memory-mapped.

        Raises `InputError` for fewer than 2 rows, n_components above d or invalid parameters, or if
        torch is missing.
        """
        self._require_torch()
        rows = sample_rows(len(X), MOST_ROWS, self.random_state)
        return self._fit(as_matrix(X[rows]))

    def fit_vectors(self, vectors: VectorFile, moments: Moments) -> Self:
        """Fit to a sample of the rows on disk, the same as `fit` takes."""
        self._require_torch()
        rows = sample_rows(len(vectors), MOST_ROWS, self.random_state)
        X = np.concatenate([vectors.take(rows[part]) for part in batches(len(rows))])
        return self._fit(X)

    @abstractmethod
    def _fit(self, X: Matrix) -> Self:
        """Fit to rows (n, d)."""

    def _best_epoch(
        self, train: Callable[[], float], copy: Callable[[], T], below: Callable[[float], float]
    ) -> T:
        """Train until the held-out loss stops falling; return the copy made after the best epoch.

        Parameters
        ----------
        train : trains for an epoch and returns the held-out loss.
        copy : returns a copy of the parameters that are trained.
        below : least loss so far -> bound below which a loss is an improvement.
        """
        self.losses_ = list[float]()
        least = np.inf
        epochs_since_best = 0
        best = copy()
        for epoch in range(1, self.epochs + 1):
            loss = train()
            self.losses_.append(loss)
            progress(f"training the {self.name}", epoch, self.epochs)
            if loss < below(least):
                least = loss
                epochs_since_best = 0
                best = copy()
                continue
            epochs_since_best += 1
            if epochs_since_best > self.patience:
                break
        return best

    def _require_torch(self) -> None:
        if find_spec("torch") is None:
            raise InputError(
                f"{type(self).__name__} is trained with torch, which is missing; expected the "
                "extra torch (pip install 'slimdex[torch]')"
            )


def reduce_rows(reducer: Reducer, X: Matrix) -> Matrix:
    """Reduce rows (n, d) to k dimensions and unit length."""
    return normalize_rows(reducer.transform(X))


def validation_rows(n: int) -> int:
    """Number of n rows to hold out from training, at least one.

    >>> validation_rows(1000), validation_rows(2)
    (50, 1)
    """
    return max(1, round(n * HELD_OUT))


def shuffle(n: int, size: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Yield n row numbers in random order, `size` at a time."""
    import torch  # takes a second, and is needed only for training

    order = torch.randperm(n, generator=generator)
    return (order[low : low + size] for low in range(0, n, size))


def reducer_class(name: str) -> type[Reducer]:
    """Import the class of a reducer by its name, one of `options.REDUCERS`.

    >>> reducer_class("pca").__name__
    'Pca'
    """
    module, _, class_name = REDUCERS[name].partition(".")
    reducer: type[Reducer] = getattr(import_module(f".{module}", __package__), class_name)
    return reducer


def load_reducer(path: Path) -> Reducer:
    """Load a saved reducer; raise `CorruptError` if its class is unknown."""
    name, _, _ = load_tensors(path)
    if name not in REDUCERS:
        expected = ", ".join(REDUCERS)
        raise CorruptError(f"{path}: holds {name!r}; expected one of {expected}")
    return reducer_class(name).load(path)
