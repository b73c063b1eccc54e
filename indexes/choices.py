"""Choices: what an index can be asked for, and what it is by default; light enough to be shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

REDUCERS = (
    "whitening",
    "pca",
    "all-but-the-top",
    "autoencoder",
    "flow",
    "identity",
    "truncate",
    "random",
)
"""Names of the reducers, in the order of `registry.REDUCERS`, which has their classes."""


@dataclass(frozen=True)
class Choices:
    """How vectors are reduced, kept and rescored: see `Settings`."""

    k: int | None = None
    beta: float = 0.0
    gamma: float = 0.25
    kind: str = "pq"
    candidates: int = 200
    reducer: str = "whitening"

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, as JSON can hold them."""
        return asdict(self)
