"""The least error of codes of so many bits, against a search for it and against codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from slimdex.bench.experiments.rate_distortion import IdealCodes, bits_of_axes, least_errors
from slimdex.indexes.arrays import normalize_rows

VARIANCES = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20).map(np.array)


@given(VARIANCES, st.floats(0, 100))
def test_the_bits_are_all_spent_and_no_axis_errs_more_than_it_varies(
    variances: np.ndarray, bits: float
) -> None:
    errors = least_errors(variances, bits)
    assert (errors <= variances).all()
    assert np.ptp(errors[errors < variances]) <= 1e-9 * errors.max() if bits > 1e-6 else True
    assert bits_of_axes(variances, bits).sum() == pytest.approx(bits, abs=1e-6)


def test_no_other_way_to_deal_out_the_bits_errs_less() -> None:
    variances, bits = np.array([9.0, 5.0, 2.0, 0.7, 0.1]), 4.0
    found = minimize(
        lambda b: (variances * 4.0**-b).sum(),
        np.full(5, bits / 5),
        bounds=[(0, None)] * 5,
        constraints={"type": "eq", "fun": lambda b: b.sum() - bits},
    )
    np.testing.assert_allclose(bits_of_axes(variances, bits), found.x, atol=1e-3)
    assert least_errors(variances, bits).sum() == pytest.approx(found.fun)


def test_axes_that_do_not_vary_get_nothing() -> None:
    assert least_errors(np.array([4.0, 0.0]), 1).tolist() == [1.0, 0.0]
    assert bits_of_axes(np.zeros(3), 8).tolist() == [0.0, 0.0, 0.0]


def test_ideal_codes_err_by_the_bound() -> None:
    rng = np.random.default_rng(0)
    rows = normalize_rows((rng.normal(size=(4000, 64)) / np.arange(1, 65)).astype(np.float32))
    codes = IdealCodes(32, rows)
    codes.add(rows)
    assert codes.row_nbytes == 4
    variances = np.square(rows, dtype=np.float64).mean(axis=0)
    # of cosines: x.y / (|x| |y|) where E[x.y] = E|y|^2 = the sum of variances less errors
    cosine = np.sqrt((variances - least_errors(variances, 32)).sum() / variances.sum())
    scores, found = codes.search(rows[:300], len(rows))
    own = scores[found == np.arange(300)[:, None]]
    assert own.mean() == pytest.approx(cosine, abs=0.02)
