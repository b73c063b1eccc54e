"""Every finite float16, against numpy's own conversion."""

from __future__ import annotations

import numpy as np
import pytest

from slimdex.indexes.vectors.half_precision import BLOCK, to_float32

BITS = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = BITS[np.isfinite(BITS)].reshape(-1, 64)


def test_every_float16_is_converted_exactly() -> None:
    expected = FINITE.astype(np.float32)
    np.testing.assert_array_equal(to_float32(FINITE), expected)
    assert (np.signbit(to_float32(FINITE)) == np.signbit(expected)).all()


def test_several_blocks_are_converted_into_a_given_array() -> None:
    X = np.tile(FINITE, (4, 1))
    assert X.size > BLOCK
    out = np.empty(X.shape, dtype=np.float32)
    assert to_float32(X, out) is out
    np.testing.assert_array_equal(out, X.astype(np.float32))


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_empty_arrays_keep_their_shape(shape: tuple[int, int]) -> None:
    out = to_float32(np.zeros(shape, dtype=np.float16))
    assert out.shape == shape
    assert out.dtype == np.float32


def test_other_types_are_converted() -> None:
    assert to_float32(np.array([[0.1]], dtype=np.float32)).tolist() == [[np.float32(0.1)]]
