"""GivenEncoder: the encoder of an index whose vectors come from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError

GIVEN = "given"
"""Encoder type of an index without an encoder."""


class GivenEncoder:
    """Placeholder for the encoder of an index of given vectors; it can't encode."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Raise `InputError`: the vectors come from outside."""
        raise InputError(
            f"text {texts[0]!r}: this index was built from given vectors and has no encoder; "
            f"expected vectors of {self.dim} dimensions"
        )

    def spec(self) -> dict[str, Any]:
        """Return the dimensions, the only known property."""
        return {"type": GIVEN, "dim": self.dim}
