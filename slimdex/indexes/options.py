"""Options of an index and their defaults; imports quickly, for help texts."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

AUTO = "auto"
"""Kind chosen by the number of rows: see `kinds.by_size`."""

REDUCERS = {
    "whitening": "linear.Whitening",
    "pca": "linear.Pca",
    "all-but-the-top": "linear.AllButTheTop",
    "autoencoder": "autoencoder.TiedAutoencoder",
    "flow": "flow.Flow",
    "identity": "linear.Identity",
    "truncate": "linear.Truncate",
    "random": "linear.RandomProjection",
}
"""Name of a reducer -> its module and class in `reducers`; in the order of help texts."""
MODEL = "model"
TABLE = "table"
QUERY_ENCODERS = (MODEL, TABLE)
"""Queries are encoded by the index's model, or by a token table fitted to its documents."""
CANDIDATES = 200
"""Default candidates of an index of at most `CANDIDATES_TO` rows; larger ones need more."""
CANDIDATES_TO = 60_000
GROWTH = 0.47
"""Power of the rows with which candidates grow."""
DEFAULT_LIMIT = 10
"""Number of results that an index's candidates are for; more results need more candidates."""


def default_candidates(rows: int) -> int:
    """Default number of rows to rescore for a query, in an index of this many rows.

    The more rows there are, the more of them rank wrongly among the nearest by their codes.
    Agreement stays constant if candidates grow with nearly the square root of the rows.

    >>> default_candidates(5_000), default_candidates(480_000), default_candidates(1_183_499)
    (200, 530, 810)
    """
    candidates = CANDIDATES * math.pow(rows / CANDIDATES_TO, GROWTH)
    return max(CANDIDATES, 10 * round(candidates / 10))


@dataclass(frozen=True)
class Choices:
    """Settings for reducing, encoding and rescoring vectors; `Settings` validates them."""

    k: int | None = None
    beta: float = 0.0
    gamma: float = 0.0
    kind: str = AUTO
    candidates: int | None = None
    reducer: str = "whitening"
    query_encoder: str = MODEL

    @property
    def rescores(self) -> bool:
        """True if candidates are rescored."""
        return self.candidates != 0

    def as_dict(self) -> dict[str, Any]:
        """Fields by name, JSON-serialisable."""
        return asdict(self)
