"""Every finite float16, by both ways, against numpy's own conversion."""

from __future__ import annotations

import numpy as np
import pytest

from slimdex.indexes.vectors import half_precision
from slimdex.indexes.vectors.half_precision import to_float32, to_float32_by_shifts

BITS = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = BITS[np.isfinite(BITS)].reshape(-1, 64)


def test_no_number_changes_by_shifts() -> None:
    expected = FINITE.astype(np.float32)
    np.testing.assert_array_equal(to_float32_by_shifts(FINITE), expected)
    assert (np.signbit(to_float32_by_shifts(FINITE)) == np.signbit(expected)).all()


def test_no_number_changes() -> None:
    expected = FINITE.astype(np.float32)
    np.testing.assert_array_equal(to_float32(FINITE), expected)
    assert (np.signbit(to_float32(FINITE)) == np.signbit(expected)).all()


def test_without_numkong_the_answer_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    before = to_float32(FINITE)
    monkeypatch.setattr(half_precision, "numkong", None)
    np.testing.assert_array_equal(to_float32(FINITE), before)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_nothing_stays_nothing(shape: tuple[int, int]) -> None:
    out = to_float32(np.zeros(shape, dtype=np.float16))
    assert out.shape == shape
    assert out.dtype == np.float32


def test_other_numbers_are_converted() -> None:
    assert to_float32(np.array([[0.1]], dtype=np.float32)).tolist() == [[np.float32(0.1)]]
