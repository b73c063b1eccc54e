"""Options of an index and their defaults; imports quickly, for help texts."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

AUTO = "auto"
"""Kind chosen by the number of rows: see `kinds.by_size`."""

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
"""Names of the reducers; `reducers.reducer` has their classes in this order."""


CANDIDATES, CANDIDATES_TO = 200, 60_000
"""Default candidates, and the rows up to which they suffice; larger indexes need more."""
GROWTH = 0.47
"""Power of the rows with which candidates grow."""
USUAL_LIMIT = 10
"""Number of results that an index's candidates are for; more results need more candidates."""


def usual_candidates(rows: int) -> int:
    """Default number of rows to rescore for a query.

    The more rows, the more false neighbours rank among the true ones by their codes. Agreement
    stays constant if candidates grow with nearly the square root of the rows.

    >>> usual_candidates(5_000), usual_candidates(480_000), usual_candidates(1_183_499)
    (200, 530, 810)
    """
    return max(CANDIDATES, 10 * round(CANDIDATES * math.pow(rows / CANDIDATES_TO, GROWTH) / 10))


def candidates_for(limit: int, usual: int) -> int:
    """Number of rows to rescore in a search for `limit` rows.

    `usual` is enough for `USUAL_LIMIT` rows or fewer. Beyond that, the share of the nearest that
    a search finds stays constant if candidates grow in proportion to the limit.

    >>> [candidates_for(limit, usual=200) for limit in (1, 10, 11, 100)]
    [200, 200, 220, 2000]
    """
    return math.ceil(usual * max(limit, USUAL_LIMIT) / USUAL_LIMIT)


@dataclass(frozen=True)
class Choices:
    """Settings for reducing, encoding and rescoring vectors; `Settings` validates them."""

    k: int | None = None
    beta: float = 0.0
    gamma: float = 0.25
    kind: str = AUTO
    candidates: int | None = None
    reducer: str = "whitening"

    @property
    def rescores(self) -> bool:
        """True if candidates are rescored."""
        return self.candidates != 0

    def as_dict(self) -> dict[str, Any]:
        """Fields by name, JSON-serialisable."""
        return asdict(self)
