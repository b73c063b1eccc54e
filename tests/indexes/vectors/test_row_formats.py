"""Blocks of int8 and int4 with a scale each: against a definition in Python's own numbers."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from slimdex.indexes.arrays import LARGEST, Matrix
from slimdex.indexes.vectors.row_formats import (
    BLOCK,
    CONVERTED_AT_ONCE,
    FLOAT16,
    INT4,
    INT8,
    LARGEST_CENTER,
    Blocks,
    center_of,
)

both = pytest.mark.parametrize("format", [INT8, INT4], ids=["int8", "int4"])

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


def by_definition(format: Blocks, row: list[float]) -> tuple[list[int], bytes, list[float]]:
    """Integers, scales and the values that they stand for, a block at a time."""
    lowest, highest, most = {8: (-127, 127, 127), 4: (-8, 7, 8)}[format.bits]
    ints, scales, values = list[int](), b"", list[float]()
    for first in range(0, len(row), BLOCK):
        block = row[first : first + BLOCK]
        largest = max(map(abs, block))
        written = bfloat16(float(np.float32(largest) / np.float32(most)))
        if most > highest and -largest not in block and any(written):
            written = bytes([written[0], written[1] | 0x80])  # a negative scale
        (scale,) = struct.unpack("<f", b"\0\0" + written)
        quotients = [np.float32(x) / np.float32(scale) if scale else 0.0 for x in block]
        # Halves go to the even neighbour, as IEEE 754 has it.
        ints += [min(max(round(float(q)), lowest), highest) for q in quotients]
        values += [scale * i for i in ints[first:]]
        scales += written
    return ints, scales, values


def in_bytes(format: Blocks, ints: list[int]) -> bytes:
    """Integers as bytes; with 4 bits, the first half are the lower bits of these."""
    if format.bits == 8:
        return np.array(ints, np.int8).tobytes()
    half = (len(ints) + 1) // 2
    upper = [*ints[half:], 0]
    return bytes((ints[i] & 15) | (upper[i] & 15) << 4 for i in range(half))


def test_a_center_is_a_mean_that_float16_holds() -> None:
    X = np.array([[1, 70, -60000, 0.1], [2, 80, -65000, 0.1]], dtype=np.float32)
    assert center_of(X).tolist() == [1.5, 75, -LARGEST_CENTER, float(np.float16(0.1))]


@both
@pytest.mark.parametrize("dim", [1, 31, 32, 33, 64, 384, 100])
def test_rows_equal_the_definition(format: Blocks, dim: int, rng: np.random.Generator) -> None:
    drawn = rng.normal(size=(20, dim)) * rng.lognormal(sigma=3, size=dim)
    X: Matrix = drawn.astype(np.float32)
    X[3], X[4, :40] = 0.0, 0.0
    rows = format.pack(X)
    assert rows.shape == (20, format.width(dim))
    assert rows.shape[1] == (dim * format.bits + 7) // 8 + 2 * -(-dim // 32)
    for row, x, wide in zip(rows, X, format.unpack(rows, dim), strict=True):
        ints, scales, values = by_definition(format, x.tolist())
        assert row.tobytes() == in_bytes(format, ints) + scales
        assert wide.tolist() == values


@both
@example(X=np.array([[1e-40, 0]], dtype=np.float32))  # the scale becomes 0, without a sign
@given(X=ROWS)
def test_unpacked_rows_are_packed_to_the_same_bytes(format: Blocks, X: np.ndarray) -> None:
    rows = format.pack(X)
    wide = format.unpack(rows, X.shape[1])
    np.testing.assert_array_equal(format.pack(wide), rows)
    assert np.abs(wide).max() <= LARGEST


@both
@example(X=np.array([[8.03, -8.03]], dtype=np.float32))
@example(X=np.array([[65504, -65504]], dtype=np.float32))
@given(X=ROWS)
def test_no_number_is_off_by_more_than_half_a_step(format: Blocks, X: np.ndarray) -> None:
    """With 4 bits, by a step and the scale's rounding: the opposite of the largest becomes 7."""
    dim = X.shape[1]
    wide = format.unpack(format.pack(X), dim)
    most, steps = (127, 0.5) if format is INT8 else (8, 1)
    for first in range(0, dim, BLOCK):
        block = slice(first, first + BLOCK)
        largest = np.abs(X[:, block]).max(axis=1, keepdims=True).astype(np.float64)
        error = np.abs(wide[:, block].astype(np.float64) - X[:, block])
        half = steps * largest / most * (1 + 2**-4) + most * np.finfo(np.float32).tiny
        beyond = largest - format.highest * format.largest_scale  # if the scale was limited
        assert (error <= np.maximum(half, beyond)).all()


@both
def test_rows_are_unpacked_into_a_given_array(format: Blocks, rng: np.random.Generator) -> None:
    X = rng.normal(size=(5, 70)).astype(np.float32)
    width = format.width(70)
    wider = np.zeros((5, 90), dtype=np.int8)
    wider[:, :width] = format.pack(X)
    out = np.full((5, 70), np.nan, dtype=np.float32)
    assert format.unpack(wider[:, :width], 70, out) is out
    np.testing.assert_array_equal(out, format.unpack(format.pack(X), 70))
    assert format.unpack(format.pack(X[:0]), 70).shape == (0, 70)


def test_every_float16_is_converted_exactly() -> None:
    expected = FINITE.astype(np.float32)
    unpacked = FLOAT16.unpack(FINITE, FINITE.shape[1])
    np.testing.assert_array_equal(unpacked, expected)
    assert (np.signbit(unpacked) == np.signbit(expected)).all()


def test_several_blocks_are_converted_into_a_given_array() -> None:
    X = np.tile(FINITE, (4, 1))
    assert X.size > CONVERTED_AT_ONCE
    out = np.empty(X.shape, dtype=np.float32)
    assert FLOAT16.unpack(X, X.shape[1], out) is out
    np.testing.assert_array_equal(out, X.astype(np.float32))
