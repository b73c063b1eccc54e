"""Targets of tuning, settings that were tried, the result, and proofs of an agreement.

An agreement is proved by queries that chose nothing. Many settings are tried, and queries are
added. Nevertheless, at most 5% of all searches may prove something false. Each number of candidates
of each index is a hypothesis:

- Those of an index are tested from the most candidates down; after the first that isn't proved,
  fewer are not considered. So a false one is proved only if the one of the most candidates among
  the false ones is, and together they err no more often than that one (fixed-sequence testing).
- Queries are added in stages, by a bound that holds after all stages at once: see `betting_bound`.
- Indexes share the error: the first one gets a half, the next ones a sixth, a twelfth and so on.
  Which place an index has depends only on the queries that choose.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import Rows
from slimdex.indexes.confidence_bound import betting_bound
from slimdex.indexes.options import AUTO
from slimdex.indexes.settings import Settings
from slimdex.system.atomic_files import in_units

from ..store.state import Certificate
from .query_pools import Draw
from .recall_trials import ERROR, NEAREST, Pool, Ranks, recalls

PROVING = 1500
"""Queries of the first stage of a proof: they prove .003 less than the mean."""
DOUBLINGS = 2
"""Times that queries made of the documents are doubled if they prove too little."""
MOST_NEEDED = 1_000_000
"""Largest number of queries to advise."""
Shares = NDArray[np.float64]
"""(q,): agreement of each query."""


@dataclass(frozen=True)
class Target:
    """Target of tuning.

    Parameters
    ----------
    agreement : share of the ten nearest by exact search that is found; above 0, below 1.
    ram : largest number of resident bytes, None for any.
    p99_ms : largest 99th percentile of a search's milliseconds, from a vector to rows.
    """

    agreement: float = 0.99
    ram: int | None = None
    p99_ms: float | None = None

    def checked(self) -> Target:
        """Return self; raises `InputError` for an agreement that can't be reached or proved."""
        if not 0 < self.agreement < 1:
            raise InputError(f"agreement={self.agreement}; expected above 0 and below 1")

        # Few queries can't prove an agreement near 1.
        count = most_made()
        most = provable(count)
        if self.agreement > most:
            raise InputError(
                f"agreement={self.agreement:g}: {count:,} queries prove {round_down(most)} at "
                "most; expected no more than that"
            )
        for name in ("ram", "p99_ms"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name}={value}; expected above 0")
        return self


@dataclass(frozen=True)
class TrialResult:
    """A setting, measured on the choosing queries or, if put to the proof, on the proving ones."""

    settings: Settings
    ram: int  # bytes of the whole index in memory
    estimate: float  # of the agreement
    bound: float  # of 95% confidence, or more if it was put to the proof
    queries: int  # number of queries
    p50_ms: float  # of a search, from a vector to rows
    p99_ms: float
    verdict: str = ""  # result


@dataclass(frozen=True)
class Tuning:
    """Result of tuning."""

    target: Target
    rows: int  # documents or passages that can be found
    noun: str  # what these are
    metric: str  # reason for (beta, gamma)
    tried: list[TrialResult] = field(default_factory=list)
    chosen: TrialResult | None = None  # None if nothing reaches the target
    certificate: Certificate | None = None  # by queries that did not choose
    lacking: str | None = None  # what was not reached, and the nearest result
    applied: bool = False  # True if the index has these settings now
    asked: str | None = None  # why the given queries prove nothing; None if they do
    words: str | None = None  # result for lexical search, and the reason, if labels chose
    hybrid: str | None = None  # fusion for `auto`, "off" for semantic search alone

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON-serialisable values."""
        return {**asdict(self), "said": self.said}

    @property
    def said(self) -> list[str]:
        """The choice and its reasons, as lines for users."""
        lines = [self.metric]
        if self.asked:
            lines.append(self.asked)
        if self.chosen is not None and self.certificate is not None:
            lines.append(
                f"chosen: {name_of(self.chosen.settings)}, {in_units(self.chosen.ram)} in memory, "
                f"the least that was found to reach an agreement of {self.target.agreement:g}"
            )
            said = self.certificate.said(self.chosen.settings, self.rows, self.noun)
            lines.append(f"proved: {said}")
        if self.lacking:
            lines.append(self.lacking)
        if self.words:
            lines.append(self.words)
        return lines


def error_at(place: int) -> float:
    """Return the allowed probability that the proofs of one index are wrong.

    `place` is its number, from 1 on, among the indexes for which a proof is tried. For all of them
    together, the allowed probability is `ERROR`.

    >>> [round(error_at(place), 4) for place in (1, 2, 3, 4)]
    [0.025, 0.0083, 0.0042, 0.0025]
    >>> round(sum(map(error_at, range(1, 1000))), 4)
    0.05
    """
    return ERROR / (place * (place + 1))


def stages(available: int) -> list[int]:
    """Return the numbers of queries after which a proof is checked, up to all available ones.

    >>> stages(5_000), stages(700)
    ([1500, 3000, 5000], [700])
    """
    out = [min(PROVING, available)]
    while out[-1] < available:
        out.append(min(2 * out[-1], available))
    return out


def most_made() -> int:
    """Largest number of queries that are made of the documents for a proof."""
    return PROVING << DOUBLINGS


def provable(queries: int) -> float:
    """Return the largest agreement that this number of queries can prove for the first setting.

    They prove it if all of them agree fully.

    >>> [round(provable(count), 4) for count in (0, 75, 6000)]
    [0.0, 0.9466, 0.9993]
    """
    return betting_bound(np.ones(queries), error_at(1), stages(queries)) if queries else 0.0


def round_down(share: float) -> str:
    """Format a share with four digits, rounded down, so that it can be reached.

    >>> round_down(0.99769)
    '0.9976'
    """
    return f"{floor(share * 1e4) / 1e4:.4f}"


def name_of(settings: Settings) -> str:
    """Describe what determines memory and time."""
    count = AUTO if settings.candidates is None else f"{settings.candidates:,}"
    return f"{settings.kind}, k={settings.k}, {count} candidates"


class Proving:
    """Queries that prove an agreement: none at first, and at most `available` in the end.

    `draw` makes more of them. `exact` finds the rows (q, 10) that are nearest to queries.
    """

    def __init__(
        self, agreement: float, available: int, draw: Draw, exact: Callable[[Pool], Rows]
    ) -> None:
        self.agreement = agreement
        self.stages = stages(available)
        self._draw = draw
        self._exact = exact
        self.pool: Pool | None = None
        self.truth: Rows = np.empty((0, NEAREST), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.truth)

    def add_queries(self) -> bool:
        """Add the queries of the next stage; returns False if no stage is left."""
        stage = next((stage for stage in self.stages if stage > len(self)), None)
        if stage is None:
            return False
        new = self._draw(stage - len(self))
        self.truth = np.concatenate([self.truth, self._exact(new)])
        self.pool = new if self.pool is None else self.pool.join(new)
        return True

    def bound(self, shares: Shares, place: int) -> float:
        """Return the agreement that the first queries prove for the index at a place, from 1 on.

        `shares` are the agreements of these queries.
        """
        return betting_bound(shares, error_at(place), self.stages)

    def is_promising(self, shares: Shares, place: int) -> bool:
        """Return whether all available queries would prove the agreement with such shares."""
        if shares.mean() < self.agreement:
            return False
        as_many_as_available = np.resize(shares, self.stages[-1])  # repeats them
        return self.bound(as_many_as_available, place) >= self.agreement

    def least_promising(self, ranks: Ranks, counts: Sequence[int], place: int) -> int | None:
        """Return the smallest promising number of candidates in `counts`; None if none is.

        All larger numbers than a promising one are promising too, so bisection finds it.
        """
        least = bisect_left(
            counts, True, key=lambda count: self.is_promising(recalls(ranks, count), place)
        )
        return counts[least] if least < len(counts) else None

    def least_proved(self, ranks: Ranks, counts: Sequence[int], place: int) -> int | None:
        """Return the smallest of `counts` of candidates that is proved, with all larger ones.

        None if even the largest is not proved.
        """
        proved = None
        for count in reversed(counts):
            if self.bound(recalls(ranks, count), place) < self.agreement:
                break
            proved = count
        return proved

    def queries_needed(self, shares: Shares, place: int) -> int | None:
        """Estimate how many queries with such shares prove the agreement; None for too many."""
        count = float(self.stages[-1])
        while count <= MOST_NEEDED:
            repeated = np.resize(shares, round(count))
            if betting_bound(repeated, error_at(place)) >= self.agreement:
                return int(float(f"{count:.1e}"))  # rounded to two digits
            count *= 1.25
        return None
