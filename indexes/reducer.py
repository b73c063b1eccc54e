"""What a reducer is: anything that maps (n, d) rows to (n, n_components) rows."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Protocol, Self

from .arrays import Matrix, Rows
from .moments import Moments


class RowFile(Protocol):
    """Rows (len, dim) of which any can be read at a time, as from a `VectorFile`."""

    @property
    def dim(self) -> int:
        """Dimensions of a row."""
        ...

    def __len__(self) -> int: ...

    def take(self, rows: Rows) -> Matrix:
        """The rows of these numbers, as float32 (len(rows), dim)."""
        ...


class Reducer(Protocol):
    """scikit-learn's contract: `__init__` only stores, `fit` returns self, fitted state ends in
    an underscore."""

    name: ClassVar[str]
    bounded_by_rank: ClassVar[bool]
    """Whether components beyond the rank of the data hold nothing."""
    min_rows: ClassVar[int]
    """Rows that it takes to learn."""

    @classmethod
    def check_components(cls, n_components: int, dim: int) -> None:
        """Raise `InputError` for components that rows of `dim` dimensions never have."""
        ...

    @classmethod
    def configured(cls, n_components: int, beta: float, gamma: float) -> Self:
        """An unfitted reducer, given what an index's settings know; most ignore beta and gamma."""
        ...

    @property
    def n_components(self) -> int:
        """Dimensions that are kept."""
        ...

    @property
    def n_features(self) -> int:
        """d, the dimensions of the rows that it was fitted to."""
        ...

    @property
    def nbytes(self) -> int:
        """Resident bytes once fitted."""
        ...

    def fit(self, X: Matrix) -> Self:
        """Learn from rows (n, d)."""
        ...

    def fit_vectors(self, vectors: RowFile, moments: Moments) -> Self:
        """Learn from rows on disk, or from their moments, which are known already."""
        ...

    def transform(self, X: Matrix) -> Matrix:
        """Rows (n, d) to (n, n_components)."""
        ...

    def save(self, path: Path) -> None:
        """Write as safetensors, the parameters as JSON in its header."""
        ...

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote; raises `CorruptError` for anything else."""
        ...
