"""Every finite float16, against numpy's own conversion."""

from __future__ import annotations

import numpy as np

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
