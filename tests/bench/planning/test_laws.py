"""Laws against scipy's own solver, and evidence by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from slimdex.bench.planning.laws import (
    EXTRAPOLATED,
    INTERPOLATED,
    MEASURED,
    Law,
    Observation,
    least_squares,
    weakest,
)
from slimdex.indexes.errors import InputError


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 8))
def test_coefficients_are_those_of_scipy(seed: int, terms: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(rows, terms)) * 10.0 ** rng.integers(-6, 7, size=terms)
    b = rng.normal(size=rows)
    ours = least_squares(A, b)
    scale = np.abs(A).max(axis=0)
    theirs, rest = nnls(A / scale, b)
    assert ours.min() >= 0
    assert np.linalg.norm(A @ ours - b) == pytest.approx(rest, abs=1e-6)
    if rows > terms:  # or there may be several solutions
        assert ours * scale == pytest.approx(theirs, rel=1e-4, abs=1e-4)


def seen(rows: float, value: float, dim: float = 384, processor: str = "P") -> Observation:
    terms = {"once": 1.0, "rows": rows}
    return Observation(value, terms, {"rows": rows, "dim": dim}, processor)


LAW = Law.fitted("time", [seen(n, 3 + 0.5 * n) for n in (10, 100, 1000)] + [seen(5, 5.5, 768)])


def test_what_made_the_figures_is_found_again() -> None:
    assert LAW.coefficients == pytest.approx({"once": 3, "rows": 0.5})
    assert LAW({"once": 1, "rows": 50, "more": 9}) == pytest.approx(28)
    assert LAW.error(seen(10, 4)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("at", "status", "beyond", "along"),
    [
        ({"rows": 100, "dim": 384}, MEASURED, 1, ""),
        ({"rows": 101, "dim": 384}, MEASURED, 1, ""),  # to 2%
        ({"rows": 100, "dim": 768}, INTERPOLATED, 1, ""),
        ({"rows": 500, "dim": 384}, INTERPOLATED, 1, ""),
        ({"rows": 4000, "dim": 384}, EXTRAPOLATED, 4, "rows"),
        ({"rows": 2000, "dim": 3072}, EXTRAPOLATED, 4, "dim"),
        ({"rows": 2.5, "dim": 384}, EXTRAPOLATED, 2, "rows"),
        ({"rows": 100, "dim": 384, "unknown": 7}, MEASURED, 1, ""),
    ],
)
def test_evidence(at: dict[str, float], status: str, beyond: float, along: str) -> None:
    found = LAW.evidence(at)
    assert (found.status, found.along, found.rows) == (status, along, (5, 1000))
    assert found.beyond == pytest.approx(beyond)


def test_lists_say_nothing_of_codes_without_them() -> None:
    few = [seen(100, 5), seen(1000, 50)]
    lists = [Observation(9, {"once": 1, "rows": 5000}, {**seen(5000, 9).at, "lists": 40}, "P")]
    law = Law.fitted("time", [replace(one, at={**one.at, "lists": 0}) for one in few] + lists)
    without = law.evidence({"rows": 2000, "dim": 384, "lists": 0})
    assert (without.status, without.beyond, without.rows) == (EXTRAPOLATED, 2, (100, 1000))
    assert law.evidence({"rows": 5000, "dim": 384, "lists": 40}).status == MEASURED


def test_a_sum_rests_on_its_weakest_part() -> None:
    other = Law.fitted("other", [seen(10, 2, processor="Q"), seen(20, 5, processor="Q")])
    at = {"rows": 100.0, "dim": 384.0}
    found = weakest([LAW.evidence(at), other.evidence(at)])
    assert (found.status, found.beyond, found.said) == (EXTRAPOLATED, 5, "x5 beyond rows")
    assert found.processors == ("P", "Q")
    assert found.error == other.evidence(at).error > 0.01


def test_nothing_to_fit() -> None:
    with pytest.raises(InputError, match="no rows to plan time by"):
        Law.fitted("time", [])
    with pytest.raises(InputError, match="no rows to plan time by that tell of lists"):
        Law.fitted("time", [Observation(1.0, {"lists": 0.0}, {"rows": 1}, "P")])
