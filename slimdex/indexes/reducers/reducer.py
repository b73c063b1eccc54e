"""Reducer: maps rows (n, d) to rows (n, n_components)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

from ..arrays import Matrix
from ..errors import InputError
from ..vectors.vector_file import VectorFile
from .moments import Moments


class Reducer(ABC):
    """Base class of reducers, by scikit-learn's contract.

    `__init__` only stores parameters, `fit` returns self, fitted attributes end in an underscore.
    """

    name: ClassVar[str]
    bounded_by_rank: ClassVar[bool] = False
    """True if components beyond the rank of the data are zero."""
    min_rows: ClassVar[int] = 1
    """Smallest number of rows to fit."""

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components

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
