"""Laws: a figure as a sum of terms, whose coefficients are fitted to rows that were measured.

No coefficient is below zero, since nothing gives back bytes or time, and what is made small is the
relative error: a figure of a small index counts as much as that of a large one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from slimdex.indexes.errors import InputError


@dataclass(frozen=True)
class Observation:
    """One measured figure.

    Attributes
    ----------
    value : above zero.
    terms : name -> what its coefficient is multiplied with.
    """

    value: float
    terms: Mapping[str, float]


@dataclass(frozen=True)
class Law:
    """Coefficients, and what they were fitted to.

    >>> seen = [Observation(5 + 2 * n, {"once": 1, "rows": n}) for n in (10, 20)]
    >>> law = Law.fitted("time", seen)
    >>> round(law({"once": 1, "rows": 40}), 6)
    85.0
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
