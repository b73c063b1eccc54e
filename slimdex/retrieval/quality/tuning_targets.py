"""Targets of tuning, settings that were tried, the result, and shares of the error."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.confidence_bound import betting_bound
from slimdex.indexes.options import AUTO
from slimdex.indexes.settings import Settings
from slimdex.system.atomic_files import in_units

from ..store.state import Certificate
from .recall_trials import ERROR, said

PROVING = 1500
"""Queries of the first stage of a proof: they prove .003 less than the mean."""
DOUBLINGS = 2
"""Times that queries made of the documents are doubled if they prove too little."""
CHOSEN = "chosen"
"""Verdict on settings that are proved."""


@dataclass(frozen=True)
class Target:
    """Target of tuning.

    Parameters
    ----------
    agreement
        share of the ten nearest by exact search that is found; above 0, below 1.
    ram
        largest number of resident bytes, None for any.
    p99_ms
        largest 99th percentile of a search's milliseconds, from a vector to rows.
    """

    agreement: float = 0.99
    ram: int | None = None
    p99_ms: float | None = None

    def checked(self) -> Target:
        """Return self; raises `InputError` for an agreement that can't be reached or proved."""
        count = most_made()
        most = provable(count)
        if not 0 < self.agreement <= most:
            raise InputError(
                f"agreement={self.agreement:g}; expected above 0 and at most {most:.4f}, which "
                f"{count:,} queries can prove"
            )
        for name in ("ram", "p99_ms"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name}={value}; expected above 0")
        return self

    def excess(self, ram: int, p99_ms: float) -> str | None:
        """Return the limit that these figures exceed, as text; None if they exceed none."""
        if self.ram is not None and ram > self.ram:
            return in_units(self.ram)
        if self.p99_ms is not None and p99_ms > self.p99_ms:
            return f"{self.p99_ms:g} ms"
        return None


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
    verdict: str  # `CHOSEN`, or why not


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
        lines = [self.metric, self.asked]
        if self.chosen is not None and self.certificate is not None:
            proved = said(self.certificate, self.rows, self.noun)
            lines += [
                f"chosen: {name_of(self.chosen.settings)}, {in_units(self.chosen.ram)} in memory, "
                f"the least that was found to reach an agreement of {self.target.agreement:g}",
                f"proved: {proved}",
            ]
        return [line for line in (*lines, self.lacking, self.words) if line]


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


def name_of(settings: Settings) -> str:
    """Describe what determines memory and time."""
    count = AUTO if settings.candidates is None else f"{settings.candidates:,}"
    return f"{settings.kind}, k={settings.k}, {count} candidates"
