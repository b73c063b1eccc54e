"""Blocks of int8 with a scale each: against a definition in Python's own numbers."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from slimdex.indexes.arrays import LARGEST, Matrix
from slimdex.indexes.vectors.row_formats import (
    BLOCK,
    CONVERTED_AT_ONCE,
    LARGEST_CENTER,
    center_of,
    pack,
    packed_width,
    to_float32,
    unpack,
)

MAGNITUDES = st.floats(-LARGEST, LARGEST, width=32)
ROWS = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=70), elements=MAGNITUDES)
BITS = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = BITS[np.isfinite(BITS)].reshape(-1, 64)


def bfloat16(value: float) -> bytes:
    """The nearest, by trying both neighbours; halves away from zero."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    lower = bits >> 16
    low, high = (struct.unpack("<f", struct.pack("<I", b << 16))[0] for b in (lower, lower + 1))
    return struct.pack("<H", lower if value - low < high - value else lower + 1)


def by_definition(row: list[float]) -> tuple[list[int], bytes, list[float]]:
    """Integers, scales and the values that they stand for, a block at a time."""
    ints, scales, values = list[int](), b"", list[float]()
    for first in range(0, len(row), BLOCK):
        block = row[first : first + BLOCK]
        written = bfloat16(float(np.float32(max(map(abs, block))) / np.float32(127)))
        (scale,) = struct.unpack("<f", b"\0\0" + written)
        quotients = [np.float32(x) / np.float32(scale) if scale else 0.0 for x in block]
        ints += [round(float(q)) for q in quotients]  # halves to even, as IEEE 754 has it
        values += [scale * i for i in ints[first:]]
        scales += written
    return ints, scales, values


def test_a_center_is_a_mean_that_float16_holds() -> None:
    X = np.array([[1, 70, -60000, 0.1], [2, 80, -65000, 0.1]], dtype=np.float32)
    assert center_of(X).tolist() == [1.5, 75, -LARGEST_CENTER, float(np.float16(0.1))]


def test_a_case_worked_by_hand() -> None:
    """Scales 1 and 0.5: 1.0 is 0x3f80 as a bfloat16, 0.5 is 0x3f00."""
    X = np.zeros((1, 34), dtype=np.float32)
    X[0, [0, 1, 2, 31]] = [127, -127, 2.4, 0.4]
    X[0, [32, 33]] = [-63.5, 1.2]
    rows = pack(X)
    ints = [127, -127, 2, *[0] * 28, 0, -127, 2]
    assert rows.tobytes() == np.array(ints, np.int8).tobytes() + b"\x80\x3f\x00\x3f"
    assert unpack(rows, 34)[0, [0, 1, 2, 31, 32, 33]].tolist() == [127, -127, 2, 0, -63.5, 1]


@pytest.mark.parametrize("dim", [1, 31, 32, 33, 64, 384, 100])
def test_rows_equal_the_definition(dim: int, rng: np.random.Generator) -> None:
    drawn = rng.normal(size=(20, dim)) * rng.lognormal(sigma=3, size=dim)
    X: Matrix = drawn.astype(np.float32)
    X[3], X[4, :40] = 0.0, 0.0
    rows = pack(X)
    assert rows.shape == (20, packed_width(dim)) == (20, dim + 2 * -(-dim // 32))
    for row, x, wide in zip(rows, X, unpack(rows, dim), strict=True):
        ints, scales, values = by_definition(x.tolist())
        assert row.tobytes() == np.array(ints, np.int8).tobytes() + scales
        assert wide.tolist() == values


@given(ROWS)
def test_unpacked_rows_are_packed_to_the_same_bytes(X: np.ndarray) -> None:
    rows = pack(X)
    wide = unpack(rows, X.shape[1])
    np.testing.assert_array_equal(pack(wide), rows)
    assert np.abs(wide).max() <= LARGEST


@given(ROWS)
def test_no_number_is_off_by_more_than_half_a_step(X: np.ndarray) -> None:
    dim = X.shape[1]
    wide = unpack(pack(X), dim)
    for first in range(0, dim, BLOCK):
        block = slice(first, first + BLOCK)
        largest = np.abs(X[:, block]).max(axis=1, keepdims=True).astype(np.float64)
        error = np.abs(wide[:, block].astype(np.float64) - X[:, block])
        half = largest / 254 * (1 + 2**-7) + 127 * np.finfo(np.float32).tiny
        assert (error <= np.maximum(half, largest - 127 * 512)).all()


def test_int8_has_the_range_of_float16() -> None:
    X = np.array([[65504, -65504, 512, 255], [65024, 0, 0, 0]], dtype=np.float32)
    wide = unpack(pack(X), 4)
    assert wide.tolist() == [[65024, -65024, 512, 0], [65024, 0, 0, 0]]


def test_rows_are_unpacked_into_a_given_array(rng: np.random.Generator) -> None:
    X = rng.normal(size=(5, 70)).astype(np.float32)
    wider = np.zeros((5, 90), dtype=np.int8)
    wider[:, : packed_width(70)] = pack(X)
    out = np.full((5, 70), np.nan, dtype=np.float32)
    assert unpack(wider[:, : packed_width(70)], 70, out) is out
    np.testing.assert_array_equal(out, unpack(pack(X), 70))
    assert unpack(pack(X[:0]), 70).shape == (0, 70)


def test_every_float16_is_converted_exactly() -> None:
    expected = FINITE.astype(np.float32)
    np.testing.assert_array_equal(to_float32(FINITE), expected)
    assert (np.signbit(to_float32(FINITE)) == np.signbit(expected)).all()


def test_several_blocks_are_converted_into_a_given_array() -> None:
    X = np.tile(FINITE, (4, 1))
    assert X.size > CONVERTED_AT_ONCE
    out = np.empty(X.shape, dtype=np.float32)
    assert to_float32(X, out) is out
    np.testing.assert_array_equal(out, X.astype(np.float32))
