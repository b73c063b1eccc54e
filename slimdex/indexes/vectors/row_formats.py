"""Rows on disk: float16, converted faster than by numpy's `astype`, and blockwise int8.

Int8 rows have one byte per number, and a scale for each 32 neighbours: blockwise quantisation
(Dettmers et al. 2022, "8-bit optimizers via block-wise quantization"; llama.cpp's Q8_0 also has
blocks of 32). One scale per row would leave few steps for most numbers when some dimensions are
much larger: outlier dimensions of transformers, or the first dimensions after PCA.

A row of d numbers is stored as d bytes followed by ceil(d / 32) scales in bfloat16. A scale is the
block's largest magnitude / 127. Packing a row that was read therefore gives the same bytes again:
the largest number is 127 again. The product of 7 bits and a scale of 8 bits is exact in float32.

Sentence vectors of many encoders lie close together: they share a large mean, whose part of the
scale would coarsen what distinguishes them. So a center near the mean is subtracted first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Matrix, batches

BLOCK = 32
"""Numbers that share a scale."""
STEPS = 127
LARGEST_SCALE = np.float32(512)
"""Largest scale: the largest float16 numbers are read as 127 * 512, within float16's range."""
SCALE = np.dtype("<u2")
"""The upper half of a float32 is a bfloat16."""
_HALF = np.uint32(0x8000)
_UPPER = np.uint32(0xFFFF0000)
LARGEST_CENTER = 256.0
"""Largest magnitude of a center, so that differences from it fit the largest scale."""
CONVERTED_AT_ONCE = 1 << 17
"""Numbers of float16: half a megabyte, which stays in the processor's cache."""


def packed_width(dim: int) -> int:
    """Bytes of a row of `dim` numbers.

    >>> packed_width(384), packed_width(33), packed_width(1)
    (408, 37, 3)
    """
    return dim + SCALE.itemsize * _blocks(dim)


def pack(X: Matrix) -> NDArray[np.int8]:
    """Pack rows (n, d), with magnitudes up to `arrays.LARGEST`, to (n, packed_width(d)).

    >>> rows = pack(np.array([[254, -3, 2, 0]], dtype=np.float32))
    >>> rows[:, :4].tolist(), unpack(rows, dim=4).tolist()
    ([[127, -2, 1, 0]], [[254.0, -4.0, 2.0, 0.0]])
    """
    n, dim = X.shape
    padded = np.zeros((n, _blocks(dim) * BLOCK), dtype=np.float32)
    padded[:, :dim] = X
    blocks = padded.reshape(n, _blocks(dim), BLOCK)

    # The scale of a block depends on its largest number.
    largest = np.abs(blocks).max(axis=2)
    scales = np.minimum(_round_scales(largest / np.float32(STEPS)), LARGEST_SCALE)
    divisors = np.where(scales == 0.0, np.float32(np.inf), scales)  # no division by zero
    blocks /= divisors[:, :, None]
    np.rint(padded, out=padded)
    np.clip(padded, -STEPS, STEPS, out=padded)

    # The bytes of a row: its numbers, then its scales.
    out = np.empty((n, packed_width(dim)), dtype=np.int8)
    out[:, :dim] = padded[:, :dim]
    bits = scales.view(np.uint32) >> np.uint32(16)
    out[:, dim:] = bits.astype(SCALE).view(np.int8)
    return out


def unpack(rows: NDArray[np.int8], dim: int, out: Matrix | None = None) -> Matrix:
    """Unpack (n, packed_width(dim)) to float32 rows (n, dim), into C-contiguous `out` if given.

    A packed row has `dim` numbers of 8 bits, followed by a scale for each block of them. A scale is
    the upper 16 bits of a float32.
    """
    wide = np.empty((len(rows), dim), dtype=np.float32) if out is None else out
    np.copyto(wide, rows[:, :dim])
    bits = rows[:, dim:].view(SCALE).astype(np.uint32)
    bits <<= np.uint32(16)
    scales = bits.view(np.float32)
    full = dim // BLOCK
    blocks = wide[:, : full * BLOCK].reshape(len(rows), full, BLOCK)  # a view
    blocks *= scales[:, :full, None]
    if full < scales.shape[1]:  # the last block is shorter
        wide[:, full * BLOCK :] *= scales[:, full:]
    return wide


def center_of(X: Matrix) -> NDArray[np.float32]:
    """The mean (d,) of some rows (n, d), in numbers that float16 can hold.

    >>> center_of(np.array([[1, 2], [3, 4]], dtype=np.float32)).tolist()
    [2.0, 3.0]
    """
    mean = X.mean(axis=0).clip(-LARGEST_CENTER, LARGEST_CENTER)
    center: NDArray[np.float32] = mean.astype(np.float16).astype(np.float32)
    return center


def _blocks(dim: int) -> int:
    return -(-dim // BLOCK)


def _round_scales(scales: Matrix) -> Matrix:
    """Round to the nearest bfloat16; subnormal scales become 0."""
    bits = scales.view(np.uint32)
    bits = (bits + _HALF) & _UPPER
    near = bits.view(np.float32)
    near[scales < np.finfo(np.float32).tiny] = 0.0
    return near


def to_float32(X: NDArray[np.generic], out: Matrix | None = None) -> Matrix:
    """Convert finite C-contiguous rows (n, d) to float32 exactly, into `out` if given.

    >>> to_float32(np.array([[1.5, -0.1]], dtype=np.float16)).tolist()
    [[1.5, -0.0999755859375]]
    """
    out = np.empty(X.shape, dtype=np.float32) if out is None else out
    if X.dtype != np.float16:
        out[:] = X
        return out
    for part in batches(len(X), max(CONVERTED_AT_ONCE // max(X.shape[1], 1), 1)):
        _shift(X[part], out[part])
    return out


def _shift(X: NDArray[np.generic], out: Matrix) -> None:
    """Convert float16 `X` to float32 in `out`: shift its bits to their float32 positions."""
    bits = out.view(np.int32)
    bits[:] = X.view(np.int16)  # copies the sign bit into all higher bits
    bits <<= 13  # the fraction's 10 bits are followed by 13 more in float32
    bits &= np.int32(-0x70002000)  # clears copies of the sign bit, except the highest
    out *= np.float32(2.0**112)  # corrects the exponent's bias, for subnormal numbers too
