"""Reducer protocol: maps rows (n, d) to rows (n, n_components)."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Protocol, Self

from ..arrays import Matrix, Rows
from .moments import Moments


class RowFile(Protocol):
    """Random access to rows (len, dim), such as a `VectorFile`."""

    @property
    def dim(self) -> int:
        """Dimensions of a row."""
        ...

    def __len__(self) -> int: ...

    def take(self, rows: Rows) -> Matrix:
        """Read rows by number, as float32 (len(rows), dim)."""
        ...


class Reducer(Protocol):
    """Reducer by scikit-learn's contract.

    `__init__` only stores parameters, `fit` returns self, fitted attributes end in an underscore.
    """

    name: ClassVar[str]
    bounded_by_rank: ClassVar[bool]
    """True if components beyond the rank of the data are zero."""
    min_rows: ClassVar[int]
    """Smallest number of rows to fit."""

    @classmethod
    def check_components(cls, n_components: int, dim: int) -> None:
        """Raise `InputError` if rows of `dim` dimensions can't have this many components."""
        ...

    @classmethod
    def configured(cls, n_components: int, beta: float, gamma: float) -> Self:
        """Create an unfitted reducer from an index's settings; most ignore beta and gamma."""
        ...

    @property
    def n_components(self) -> int:
        """Dimensions to keep."""
        ...

    @property
    def n_features(self) -> int:
        """Dimensions d of the rows that it was fitted on."""
        ...

    @property
    def nbytes(self) -> int:
        """Resident bytes once fitted."""
        ...

    def fit(self, X: Matrix) -> Self:
        """Fit to rows (n, d)."""
        ...

    def fit_vectors(self, vectors: RowFile, moments: Moments) -> Self:
        """Fit to rows on disk or to their moments."""
        ...

    def transform(self, X: Matrix) -> Matrix:
        """Reduce rows (n, d) to (n, n_components)."""
        ...

    def save(self, path: Path) -> None:
        """Write as safetensors, with the parameters as JSON in the header."""
        ...

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load a file written by `save`; raise `CorruptError` for anything else."""
        ...
