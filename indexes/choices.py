"""Choices: what an index can be asked for, and what it is by default; light enough to be shown."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

AUTO = "auto"
"""The kind that is chosen by the number of rows: see `kinds.by_size`."""

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


CANDIDATES, CANDIDATES_TO = 200, 60_000
"""So many candidates up to so many rows; beyond, as many more as hold the agreement."""


def usual_candidates(rows: int) -> int:
    """Rows that are rescored for a query where no number is asked for.

    Among more rows more of them lie between the true neighbours by their codes alone: agreement
    holds if candidates grow as the cube root of the rows.

    >>> usual_candidates(5_000), usual_candidates(480_000), usual_candidates(1_183_499)
    (200, 400, 540)
    """
    return max(CANDIDATES, 10 * round(CANDIDATES * math.cbrt(rows / CANDIDATES_TO) / 10))


@dataclass(frozen=True)
class Choices:
    """How vectors are reduced, kept and rescored: see `Settings`."""

    k: int | None = None
    beta: float = 0.0
    gamma: float = 0.25
    kind: str = AUTO
    candidates: int | None = None
    reducer: str = "whitening"

    @property
    def rescores(self) -> bool:
        """Whether any candidates are rescored."""
        return self.candidates != 0

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, as JSON can hold them."""
        return asdict(self)
