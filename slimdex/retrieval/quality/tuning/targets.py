"""Targets of tuning, settings that were tried, and the result."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import floor
from typing import Any

import numpy as np

from slimdex.indexes.bounds import betting_bound
from slimdex.indexes.errors import InputError
from slimdex.indexes.options import AUTO
from slimdex.indexes.settings import Settings

from ...atomic_files import in_units
from ...store.state import Certificate
from ..recall_trials import ERROR

PROVING = 1500
"""Queries of the first stage of a proof: they prove .003 less than the mean."""
DOUBLINGS = 2
"""Times that queries made of the documents are doubled if they prove too little."""


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
        count = most_made()
        if self.agreement > (most := provable(count)):
            raise InputError(
                f"agreement={self.agreement:g}: {count:,} queries prove {shown_down(most)} at "
                "most; expected no more than that"
            )
        for name in ("ram", "p99_ms"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name}={value}; expected above 0")
        return self


@dataclass(frozen=True)
class Tried:
    """A setting, measured on the choosing queries; if it was put to the proof, on the proving ones.

    Attributes
    ----------
    ram : bytes of the whole index in memory.
    estimate, bound : of the agreement; the bound has 95% confidence, or more if it was put to the
        proof.
    queries : number of queries of these.
    p50_ms, p99_ms : of a search, from a vector to rows.
    verdict : result.
    """

    settings: Settings
    ram: int
    estimate: float
    bound: float
    queries: int
    p50_ms: float
    p99_ms: float
    verdict: str = ""


@dataclass(frozen=True)
class Tuning:
    """Result of tuning.

    Attributes
    ----------
    rows : documents or passages that can be found.
    noun : what these are.
    metric : reason for (beta, gamma).
    chosen : None if nothing reaches the target.
    certificate : of the chosen settings, by queries that did not choose them.
    lacking : what was not reached, and the nearest result; None if all was reached.
    applied : True if the index has these settings now.
    asked : reason why the given queries prove nothing; None if they do, or none were given.
    words : result for lexical search, and the reason; None without labels or a lexical index.
    hybrid : fusion for `auto`, "off" for semantic search alone; None if labels chose none.
    """

    target: Target
    rows: int
    noun: str
    metric: str
    tried: list[Tried] = field(default_factory=list)
    chosen: Tried | None = None
    certificate: Certificate | None = None
    lacking: str | None = None
    applied: bool = False
    asked: str | None = None
    words: str | None = None
    hybrid: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON-serialisable values."""
        return {**asdict(self), "said": self.said}

    @property
    def said(self) -> list[str]:
        """The choice and its reasons, as lines for users."""
        lines = [self.metric, *([self.asked] if self.asked else [])]
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
    """Error level of the index at a place, from 1 on, of those that are put to the proof.

    >>> [round(error_at(place), 4) for place in (1, 2, 3, 4)]
    [0.025, 0.0083, 0.0042, 0.0025]
    >>> round(sum(map(error_at, range(1, 1000))), 4)
    0.05
    """
    return ERROR / (place * (place + 1))


def stages(available: int) -> list[int]:
    """Numbers of queries after which a proof is looked at.

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
    """The largest bound that this number of queries can prove of the first setting.

    >>> [round(provable(count), 4) for count in (0, 75, 6000)]
    [0.0, 0.9466, 0.9993]
    """
    return betting_bound(np.ones(queries), error_at(1), stages(queries)) if queries else 0.0


def shown_down(share: float) -> str:
    """Format a share with four digits, rounded down, so that it can be reached.

    >>> shown_down(0.99769)
    '0.9976'
    """
    return f"{floor(share * 1e4) / 1e4:.4f}"


def name_of(settings: Settings) -> str:
    """Describe what determines memory and time."""
    count = AUTO if settings.candidates is None else f"{settings.candidates:,}"
    return f"{settings.kind}, k={settings.k}, {count} candidates"
