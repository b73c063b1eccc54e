"""Laws against scipy's own solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from slimdex.bench.planning.laws import Law, Observation, least_squares
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


def seen(rows: float, value: float) -> Observation:
    return Observation(value, {"once": 1.0, "rows": rows})


LAW = Law.fitted("time", [seen(n, 3 + 0.5 * n) for n in (5, 10, 100, 1000)])


def test_what_made_the_figures_is_found_again() -> None:
    assert LAW.coefficients == pytest.approx({"once": 3, "rows": 0.5})
    assert LAW({"once": 1, "rows": 50, "more": 9}) == pytest.approx(28)
    assert LAW.error(seen(10, 4)) == pytest.approx(1)


def test_nothing_to_fit() -> None:
    with pytest.raises(InputError, match="no rows to plan time by"):
        Law.fitted("time", [])
    with pytest.raises(InputError, match="no rows to plan time by that tell of lists"):
        Law.fitted("time", [Observation(1.0, {"lists": 0.0})])
