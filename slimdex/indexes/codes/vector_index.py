"""VectorIndex protocol: nearest-neighbour search over rows."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, Self

from ..arrays import Matrix, Rows


class VectorIndex(Protocol):
    """Index of rows, numbered in the order they are added; scores are inner products."""

    @property
    def nbytes(self) -> int:
        """Resident bytes in total."""
        ...

    @property
    def row_nbytes(self) -> float:
        """Resident bytes per row."""
        ...

    @property
    def probes(self) -> tuple[int, int] | None:
        """Inverted lists that a search probes, and their total; None without lists."""
        ...

    def __len__(self) -> int: ...

    def train(self, X: Matrix) -> Self:
        """Fit codebooks to rows (n, k)."""
        ...

    def add(self, X: Matrix) -> None:
        """Append rows (n, k), numbered ``len .. len + n - 1``."""
        ...

    def search(self, queries: Matrix, k: int, rows: Rows | None = None) -> tuple[Matrix, Rows]:
        """Return scores and rows (q, k), nearest first, optionally among the given rows."""
        ...

    def copy(self, *, empty: bool = False) -> VectorIndex:
        """Return a copy, without rows if `empty`."""
        ...

    def decoded(self, X: Matrix) -> Matrix:
        """Encode and decode rows (n, k), without adding them."""
        ...

    def save(self, path: Path) -> None:
        """Write to a file."""
        ...
