"""AffineMap: carries vectors from one space into another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from ..arrays import Matrix, as_matrix
from ..errors import CorruptError
from ..execution.threads import product
from ..tensors import check_tensor, load_tensors, save_tensors

KIND = "map"


@dataclass(frozen=True)
class AffineMap:
    """The map ``(x - source_mean) @ matrix + target_mean``.

    Attributes
    ----------
    name : the method that fitted it, with its parameter.
    source_mean : (d,) float32
    matrix : (d, e) float32
    target_mean : (e,) float32
    """

    name: str
    source_mean: Matrix
    matrix: Matrix
    target_mean: Matrix

    def __call__(self, X: Matrix) -> Matrix:
        """Map rows (n, d) to rows (n, e)."""
        rows = as_matrix(X, dim=len(self.source_mean))
        return as_matrix(product(rows - self.source_mean, self.matrix) + self.target_mean)

    def save(self, path: Path) -> None:
        """Write to a file."""
        arrays = {
            "source_mean": self.source_mean,
            "matrix": self.matrix,
            "target_mean": self.target_mean,
        }
        save_tensors(path, KIND, {"name": self.name}, arrays)

    @classmethod
    def load(cls, path: Path, shape: tuple[int, int]) -> Self:
        """Read a map of this shape from a file; raises `CorruptError` if it holds no such map."""
        kind, params, arrays = load_tensors(path)
        expected = {"source_mean": shape[:1], "matrix": shape, "target_mean": shape[1:]}
        if kind != KIND or arrays.keys() != expected.keys() or type(params.get("name")) is not str:
            raise CorruptError(f"{path}: holds {kind!r}; expected a {KIND}")
        for name, its in expected.items():
            check_tensor(path, name, arrays[name], its, np.float32)
        return cls(params["name"], **arrays)
