"""Laws: a figure as a sum of terms, whose coefficients are fitted to rows that were measured.

No coefficient is below zero, since nothing gives back bytes or time, and what is made small is the
relative error: a figure of a small index counts as much as that of a large one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from slimdex.indexes.errors import InputError

MEASURED, INTERPOLATED, EXTRAPOLATED = "measured", "interpolated", "extrapolated"
SAID = {"missed": "recall", "dim": "dimensions"}
"""What figures are told at, where people call it otherwise."""
SAME = 0.02
"""By how much two sizes may differ and be the same."""


@dataclass(frozen=True)
class Observation:
    """One measured figure.

    Attributes
    ----------
    value : above zero.
    terms : name -> what its coefficient is multiplied with.
    at : what it was measured at: rows and dim, or others that evidence is judged by.
    processor : that it was measured on.
    """

    value: float
    terms: Mapping[str, float]
    at: Mapping[str, float]
    processor: str


@dataclass(frozen=True)
class Evidence:
    """How far a figure rests on what was measured.

    Attributes
    ----------
    status : measured, interpolated or extrapolated.
    beyond : how many times further than the nearest that was measured; 1 unless extrapolated.
    along : in what it is that far: rows, dim, ...; "" unless extrapolated.
    rows : the fewest and the most rows that were measured, where rows play a part.
    error : the largest relative error of the law at what was measured.
    processors : that it was measured on.
    """

    status: str
    beyond: float
    along: str
    rows: tuple[int, int] | None
    error: float
    processors: tuple[str, ...]

    @property
    def said(self) -> str:
        """In few words.

        >>> Evidence(EXTRAPOLATED, 99.6, "rows", (60_000, 10_000_000), 0.1, ()).said
        'x100 beyond rows'
        >>> Evidence(EXTRAPOLATED, 2.5, "missed", None, 0.1, ()).said
        'x2.5 beyond recall'
        """
        if self.status != EXTRAPOLATED:
            return self.status
        times = f"{self.beyond:,.0f}" if self.beyond >= 99.5 else f"{self.beyond:.2g}"
        return f"x{times} beyond {SAID.get(self.along, self.along)}"

    def as_dict(self) -> dict[str, object]:
        """As JSON has it."""
        return {
            "status": self.status,
            "beyond": round(self.beyond, 3),
            "along": self.along,
            "measured_rows": list(self.rows) if self.rows else None,
            "worst_error": round(self.error, 4),
            "processors": list(self.processors),
        }


@dataclass(frozen=True)
class Law:
    """Coefficients, and what they were fitted to.

    >>> seen = [Observation(5 + 2 * n, {"once": 1, "rows": n}, {"rows": n}, "P") for n in (10, 20)]
    >>> law = Law.fitted("time", seen)
    >>> round(law({"once": 1, "rows": 40}), 6), law.evidence({"rows": 40}).beyond
    (85.0, 2.0)
    """

    name: str
    coefficients: Mapping[str, float]
    seen: tuple[Observation, ...]

    @classmethod
    def fitted(cls, name: str, seen: Sequence[Observation]) -> Law:
        """The law of least squares of relative errors, with coefficients of zero or more.

        Raises
        ------
        InputError
            If nothing was measured, or nothing with one of the terms.
        """
        if not seen:
            raise InputError(f"no rows to plan {name} by; expected those of `slimdex bench`")
        names = list(seen[0].terms)
        if missing := [term for term in names if not any(one.terms[term] for one in seen)]:
            raise InputError(f"no rows to plan {name} by that tell of {missing[0]}; expected some")
        terms = np.array([[one.terms[name] / one.value for name in names] for one in seen])
        found = least_squares(terms, np.ones(len(seen)))
        return cls(name, dict(zip(names, found.tolist(), strict=True)), tuple(seen))

    def __call__(self, terms: Mapping[str, float]) -> float:
        """The figure for these terms."""
        return sum(each * terms[name] for name, each in self.coefficients.items())

    def error(self, one: Observation) -> float:
        """By how much the law is above what was measured, relative to it."""
        return self(one.terms) / one.value - 1

    def evidence(self, at: Mapping[str, float]) -> Evidence:
        """How far a figure at these sizes rests on what was measured; not all play a part.

        Indexes with inverted lists say nothing of those without them, nor the other way round.
        """
        at = {name: value for name, value in at.items() if name in self.seen[0].at}
        alike = [one for one in self.seen if _has_lists(one.at) == _has_lists(at)] or self.seen
        far = {name: _beyond([one.at[name] for one in alike], value) for name, value in at.items()}
        along = max(far, key=lambda name: far[name])
        known = [one.at["rows"] for one in alike if "rows" in one.at]
        status = EXTRAPOLATED if far[along] > 1 + SAME else INTERPOLATED
        if any(all(same(one.at[name], value) for name, value in at.items()) for one in alike):
            status = MEASURED
        return Evidence(
            status,
            far[along] if status == EXTRAPOLATED else 1.0,
            along if status == EXTRAPOLATED else "",
            (int(min(known)), int(max(known))) if known else None,
            max(abs(self.error(one)) for one in alike),
            tuple(dict.fromkeys(one.processor for one in alike)),
        )


def _has_lists(at: Mapping[str, float]) -> bool:
    return at.get("lists", 0) > 0


def _beyond(known: Sequence[float], value: float) -> float:
    """How many times a value is above the largest, or below the smallest."""
    if not value:
        return 1.0
    return max(value / max(known) if max(known) else np.inf, min(known) / value, 1.0)


def weakest(all_of: Sequence[Evidence]) -> Evidence:
    """The evidence of a sum: that of the part that rests on least."""
    order = (MEASURED, INTERPOLATED, EXTRAPOLATED)
    least = max(all_of, key=lambda one: (order.index(one.status), one.beyond))
    return replace(
        least,
        error=max(one.error for one in all_of),
        processors=tuple(dict.fromkeys(name for one in all_of for name in one.processors)),
    )


def same(one: float, other: float) -> bool:
    """Whether two sizes are the same, to 2%."""
    return abs(one - other) <= SAME * max(abs(one), abs(other))


def least_squares(
    terms: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Coefficients (p,) of zero or more that bring terms (n, p) nearest to values (n,).

    Terms are few, so that every set of them is tried: the best of those without a coefficient
    below zero is the solution.

    >>> least_squares(np.array([[1.0, 1.0], [1.0, 2.0]]), np.array([3.0, 1.0])).round(6).tolist()
    [2.0, 0.0]
    """
    count = terms.shape[1]
    scale = np.maximum(np.abs(terms).max(axis=0), np.finfo(float).tiny)
    best, least = np.zeros(count), float(values @ values)
    for size in range(1, count + 1):
        for chosen in map(list, combinations(range(count), size)):
            found = np.linalg.lstsq(terms[:, chosen] / scale[chosen], values, rcond=None)[0]
            rest = values - terms[:, chosen] / scale[chosen] @ found
            if found.min() >= 0 and rest @ rest < least * (1 - 1e-9):
                best, least = np.zeros(count), float(rest @ rest)
                best[chosen] = found / scale[chosen]
    return best
