"""What a reducer is: anything that maps (n, d) rows to (n, n_components) rows."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, Self

from .arrays import Matrix


class Reducer(Protocol):
    """scikit-learn's contract: `__init__` only stores, `fit` returns self, fitted state ends in
    an underscore."""

    @property
    def n_components(self) -> int: ...

    @property
    def nbytes(self) -> int:
        """Resident bytes once fitted."""
        ...

    def fit(self, X: Matrix) -> Self:
        """Learn from rows (n, d)."""
        ...

    def transform(self, X: Matrix) -> Matrix:
        """Rows (n, d) to (n, n_components)."""
        ...

    def save(self, path: Path) -> None:
        """Write as safetensors, the parameters as JSON in its header."""
        ...
