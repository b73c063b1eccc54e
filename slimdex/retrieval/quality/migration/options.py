"""Options of a migration: to stay, to map queries, or to encode everything again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.bounds import betting_bound

from ..certified_recall import ERROR

STAY, MAP, ENCODE = "stay", "map", "encode again"
SECONDS_AN_HOUR = 3600


@dataclass(frozen=True)
class Option:
    """One option and its quality.

    Attributes
    ----------
    name : `STAY`, `MAP` or `ENCODE`.
    estimate : mean nDCG@10 of the queries, 0 to 1.
    bound : lower bound of the mean over all such queries, wrong with probability 5%.
    gain : difference of the means from staying; None for that, and without the old encoder.
    gain_bound : its lower bound.
    hours : estimated time of encoding.
    """

    name: str
    estimate: float
    bound: float
    gain: float | None
    gain_bound: float | None
    hours: float

    @classmethod
    def of(
        cls,
        name: str,
        values: NDArray[np.float64],
        staying: NDArray[np.float64] | None,
        hours: float = 0.0,
    ) -> Option:
        """Compute from the nDCG@10 (q,) of each query, and those of staying."""
        gain = gain_bound = None
        if staying is not None:
            gain = float((values - staying).mean())
            gain_bound = gain_of(values, staying)
        return cls(
            name, float(values.mean()), betting_bound(values, ERROR), gain, gain_bound, hours
        )


def gain_of(values: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Lower bound of the mean difference of paired values between 0 and 1.

    >>> one = np.ones(1000)
    >>> gain_of(one, 0 * one) > 0.98, gain_of(one, one) <= 0
    (True, True)
    """
    return 2 * betting_bound((1 + values - others) / 2, ERROR) - 1


@dataclass(frozen=True)
class Migration:
    """Result of `Collection.migrate`.

    Attributes
    ----------
    options : measured, first to stay, if the old encoder can be loaded.
    advice : name of the recommended option.
    why : the reason for it.
    map : the method of the chosen map.
    sample : documents or passages that the map was fitted on.
    searched : those that the queries searched, encoded by both.
    pool : description of the queries.
    queries : their number.
    applied : True if the map is in use now.
    """

    options: Sequence[Option]
    advice: str
    why: str
    map: str
    sample: int
    searched: int
    pool: str
    queries: int
    applied: bool = False

    def option(self, name: str) -> Option | None:
        """The option of a name, if it was measured."""
        return next((option for option in self.options if option.name == name), None)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self) | {"error": ERROR}


def advised(
    stay: NDArray[np.float64] | None, mapped: NDArray[np.float64], again: NDArray[np.float64]
) -> tuple[str, str]:
    """The option to recommend, and the reason, by the nDCG@10 (q,) of each query.

    >>> good, bad = np.full(500, 0.9), np.full(500, 0.1)
    >>> advised(bad, bad, good)[0], advised(good, bad, good)[0], advised(None, good, good)[0]
    ('encode again', 'stay', 'map')
    """
    if stay is None:
        if (gain := gain_of(again, mapped)) > 0:
            return ENCODE, f"gains at least {100 * gain:.1f} nDCG@10 over the map"
        return MAP, "the old encoder can't be loaded, and encoding again shows no proved gain"
    gain, mapped_gain = gain_of(again, stay), gain_of(mapped, stay)
    if gain > 0 and gain >= mapped_gain:
        return ENCODE, f"gains at least {100 * gain:.1f} nDCG@10 over staying"
    if mapped_gain > 0:
        return MAP, f"gains at least {100 * mapped_gain:.1f} nDCG@10 over staying"
    return STAY, "neither the map nor encoding again shows a proved gain"
