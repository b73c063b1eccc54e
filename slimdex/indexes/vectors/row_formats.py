"""Formats of rows on disk: floating-point numbers, and blocks of int8 or int4 with a scale each.

Blockwise quantisation (Dettmers et al. 2022, "8-bit optimizers via block-wise quantization") keeps
a scale for each 32 neighbouring numbers. One scale per row would leave few steps for most numbers
when some dimensions are much larger: outlier dimensions of transformers, or the first dimensions
after PCA.

A row of d numbers is stored as its integers, followed by ceil(d / 32) scales in bfloat16. Packing a
row that was read gives the same bytes again: the number that decided the scale has its integer
again. The product of an integer and a scale of 8 bits is exact in float32.

Sentence vectors of many encoders lie close together: they share a large mean, whose part of the
scale would coarsen what distinguishes them. So a center near the mean is subtracted first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import LARGEST, Matrix, batches

BLOCK = 32
"""Numbers that share a scale."""
SCALE = np.dtype("<u2")
"""The upper half of a float32 is a bfloat16."""
_HALF = np.uint32(0x8000)
_UPPER = np.uint32(0xFFFF0000)
LARGEST_CENTER = 256.0
"""Largest magnitude of a center, so that differences from it fit the largest scale."""
CONVERTED_AT_ONCE = 1 << 17
"""Numbers of float16: half a megabyte, which stays in the processor's cache."""

Packed = NDArray[np.generic]
"""Rows (n, `width`) in the format on disk."""


@dataclass(frozen=True)
class Floats:
    """Rows of floating-point numbers of one type, `dtype`.

    >>> FLOAT16.width(384), FLOAT16.dtype.itemsize
    (384, 2)
    """

    dtype: np.dtype[np.floating[Any]]

    @property
    def largest(self) -> float:
        """Largest magnitude of a number."""
        return float(np.finfo(self.dtype).max)

    def width(self, dim: int) -> int:
        """Numbers of type `dtype` in a row of `dim` dimensions."""
        return dim

    def pack(self, X: Matrix) -> Packed:
        """Round rows (n, dim) to this type."""
        return np.ascontiguousarray(X, dtype=self.dtype)

    def unpack(self, rows: Packed, dim: int, out: Matrix | None = None) -> Matrix:
        """Convert finite C-contiguous rows (n, dim) to float32 exactly, into `out` if given.

        >>> FLOAT16.unpack(np.array([[1.5, -0.1]], dtype=np.float16), dim=2).tolist()
        [[1.5, -0.0999755859375]]
        """
        wide = np.empty(rows.shape, dtype=np.float32) if out is None else out
        if self.dtype != np.float16:
            wide[:] = rows
            return wide

        # Shift the bits of float16 to their positions in float32.
        for part in batches(len(rows), max(CONVERTED_AT_ONCE // max(dim, 1), 1)):
            bits = wide[part].view(np.int32)
            bits[:] = rows[part].view(np.int16)  # copies the sign bit into all higher bits
            bits <<= 13  # the fraction's 10 bits are followed by 13 more in float32
            bits &= np.int32(-0x70002000)  # clears copies of the sign bit, except the highest
            wide[part] *= np.float32(2.0**112)  # the exponent's bias, for subnormal numbers too
        return wide


@dataclass(frozen=True)
class Blocks:
    """Rows of integers of 8 or 4 bits, with a scale for each 32.

    With 8 bits, the integers go from -127 to 127, and a scale is the block's largest magnitude
    / 127. With 4 bits, they go from -8 to 7. The largest magnitude is always -8, so the scale is
    negative if that number is positive: all 16 integers are used (as in llama.cpp's Q4_0). The
    first half of a row's numbers are the lower bits of its bytes, the second half the upper ones.

    Parameters
    ----------
    bits : 8 or 4.
    highest : largest positive integer.
    most : largest magnitude of an integer, that of a block's largest number.
    largest_scale : in bfloat16; with it, the largest numbers and a center together are within
        float16's range.

    >>> INT8.width(384), INT4.width(384), INT4.width(33), INT4.width(1)
    (408, 216, 21, 3)
    """

    bits: int
    highest: int
    most: int
    largest_scale: float

    @property
    def dtype(self) -> np.dtype[np.int8]:
        """Type of the numbers in the file: bytes."""
        return np.dtype(np.int8)

    @property
    def largest(self) -> float:
        """Largest magnitude of a number, which may be read back as a slightly smaller one."""
        return LARGEST

    def width(self, dim: int) -> int:
        """Bytes of a row of `dim` dimensions."""
        return self._integer_bytes(dim) + SCALE.itemsize * _block_count(dim)

    def pack(self, X: Matrix) -> Packed:
        """Pack rows (n, dim), with magnitudes up to `largest`, to (n, width).

        >>> rows = INT8.pack(np.array([[254, -3, 2, 0]], dtype=np.float32))
        >>> rows[:, :4].tolist(), INT8.unpack(rows, dim=4).tolist()
        ([[127, -2, 1, 0]], [[254.0, -4.0, 2.0, 0.0]])
        >>> INT4.unpack(INT4.pack(np.array([[8, -3, 2.4, -7]], dtype=np.float32)), dim=4).tolist()
        [[8.0, -3.0, 2.0, -7.0]]
        """
        n, dim = X.shape
        padded = np.zeros((n, _block_count(dim) * BLOCK), dtype=np.float32)
        padded[:, :dim] = X
        blocks = padded.reshape(n, _block_count(dim), BLOCK)

        scales = self._scales(blocks)
        divisors = np.where(scales == 0.0, np.float32(np.inf), scales)  # no division by zero
        blocks /= divisors[:, :, None]
        np.rint(padded, out=padded)
        np.clip(padded, -self.most, self.highest, out=padded)

        # The bytes of a row: its numbers, then its scales.
        out = np.empty((n, self.width(dim)), dtype=np.int8)
        self._write_integers(padded[:, :dim].astype(np.int8), out)
        bits = scales.view(np.uint32) >> np.uint32(16)
        out[:, self._integer_bytes(dim) :] = bits.astype(SCALE).view(np.int8)
        return out

    def unpack(self, rows: Packed, dim: int, out: Matrix | None = None) -> Matrix:
        """Unpack (n, width) to float32 rows (n, dim), into C-contiguous `out` if given.

        A scale is the upper 16 bits of a float32.
        """
        wide = np.empty((len(rows), dim), dtype=np.float32) if out is None else out
        as_bytes = rows.view(np.int8)
        self._read_integers(as_bytes, wide)
        bits = as_bytes[:, self._integer_bytes(dim) :].view(SCALE).astype(np.uint32)
        bits <<= np.uint32(16)
        scales = bits.view(np.float32)
        full = dim // BLOCK
        blocks = wide[:, : full * BLOCK].reshape(len(rows), full, BLOCK)  # a view
        blocks *= scales[:, :full, None]
        if full < scales.shape[1]:  # the last block is shorter
            wide[:, full * BLOCK :] *= scales[:, full:]
        return wide

    def _integer_bytes(self, dim: int) -> int:
        """Bytes of a row's integers: rounded up if two share a byte."""
        return -(-dim * self.bits // 8)

    def _scales(self, blocks: Matrix) -> Matrix:
        """Return the scale (n, b) of each block (n, b, 32), which its largest number decides."""
        largest = np.abs(blocks).max(axis=2)
        scales = _round_scales(largest / np.float32(self.most))
        np.minimum(scales, np.float32(self.largest_scale), out=scales)
        if self.highest < self.most:
            largest_is_positive = blocks.min(axis=2) > -largest
            np.negative(scales, out=scales, where=largest_is_positive & (scales > 0.0))
        return scales

    def _write_integers(self, integers: NDArray[np.int8], out: NDArray[np.int8]) -> None:
        """Write integers (n, dim) to the beginning of the rows `out`."""
        dim = integers.shape[1]
        if self.bits == 8:
            out[:, :dim] = integers
            return
        half = self._integer_bytes(dim)
        out[:, :half] = integers[:, :half] & np.int8(0x0F)
        out[:, : dim - half] |= integers[:, half:] << np.int8(4)

    def _read_integers(self, rows: NDArray[np.int8], out: Matrix) -> None:
        """Read the integers at the beginning of packed rows into `out` (n, dim)."""
        dim = out.shape[1]
        if self.bits == 8:
            out[:] = rows[:, :dim]
            return
        # Avoid shifts: numpy does not vectorise them.
        half = self._integer_bytes(dim)
        lower = rows[:, :half] & np.int8(0x0F)
        lower ^= np.int8(8)
        lower -= np.int8(8)  # 8 to 15 are -8 to -1
        out[:, :half] = lower
        upper = out[:, half:]
        upper[:] = rows[:, : dim - half] & np.int8(-16)
        upper *= np.float32(1 / 16)


FLOAT16 = Floats(np.dtype(np.float16))
FLOAT32 = Floats(np.dtype(np.float32))
INT8 = Blocks(bits=8, highest=127, most=127, largest_scale=512.0)
INT4 = Blocks(bits=4, highest=7, most=8, largest_scale=8128.0)
RowFormat = Floats | Blocks
STORED: dict[str, RowFormat] = {"fp16": FLOAT16, "int8": INT8, "int4": INT4}
"""Names of the formats of vectors."""


def center_of(X: Matrix) -> NDArray[np.float32]:
    """The mean (d,) of some rows (n, d), in numbers that float16 can hold.

    >>> center_of(np.array([[1, 2], [3, 4]], dtype=np.float32)).tolist()
    [2.0, 3.0]
    """
    mean = X.mean(axis=0).clip(-LARGEST_CENTER, LARGEST_CENTER)
    center: NDArray[np.float32] = mean.astype(np.float16).astype(np.float32)
    return center


def _block_count(dim: int) -> int:
    return -(-dim // BLOCK)


def _round_scales(scales: Matrix) -> Matrix:
    """Round to the nearest bfloat16; subnormal scales become 0."""
    bits = scales.view(np.uint32)
    bits = (bits + _HALF) & _UPPER
    near = bits.view(np.float32)
    near[scales < np.finfo(np.float32).tiny] = 0.0
    return near
