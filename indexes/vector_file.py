"""VectorFile: rows on disk, appended once, read at random or from end to end."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .arrays import SCAN_ROWS, Matrix, Rows, as_matrix, batches
from .errors import CorruptError, InputError

BLOCK_BYTES = 1 << 22
"""Checksums are kept for blocks of 4 MiB, so that an append hashes no more than its own."""


class VectorFile:
    """Rows of one dtype, back to back, without a header.

    The file may be longer than ``rows``: what an interrupted append left behind the last
    committed row is ignored, and overwritten by the next append.

    Parameters
    ----------
    path : the file; it is created by the first append.
    dim : numbers in a row.
    rows : how many rows count.
    dtype : float16 for vectors, float32 for the norms beside them.

    >>> import tempfile
    >>> file = VectorFile(Path(tempfile.mkdtemp()) / "v.f16", dim=2)
    >>> file.append(np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32))
    >>> file.take(np.array([2, 0])).tolist()
    [[5.0, 6.0], [1.0, 2.0]]
    """

    def __init__(self, path: Path, dim: int, rows: int = 0, dtype: DTypeLike = np.float16) -> None:
        self.path, self.dim, self.rows = path, dim, rows
        self.dtype = np.dtype(dtype)
        self.row_bytes = dim * self.dtype.itemsize
        size = path.stat().st_size if path.exists() else 0
        if size < self.nbytes:
            raise CorruptError(f"{path}: {size} bytes; expected {self.nbytes} for {rows} rows")
        self._map: NDArray[np.generic] | None = None

    def __len__(self) -> int:
        return self.rows

    @property
    def nbytes(self) -> int:
        """Bytes on disk that count."""
        return self.rows * self.row_bytes

    def append(self, X: Matrix) -> None:
        """Write rows (n, dim) after the last one and fsync them."""
        X = as_matrix(X, dim=self.dim)
        limit = float(np.finfo(self.dtype).max)
        largest = float(max(X.max(), -X.min())) if X.size else 0.0
        if largest > limit:
            raise InputError(f"vector value {largest:g}; {self.dtype} holds up to {limit:g}")
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        with os.fdopen(descriptor, "r+b") as file:
            file.truncate(self.nbytes)
            file.seek(self.nbytes)
            file.write(np.ascontiguousarray(X, dtype=self.dtype).data)
            file.flush()
            os.fsync(file.fileno())
        self.rows += len(X)
        self._map = None

    @classmethod
    def made_whole(cls, path: Path, dim: int, rows: int) -> VectorFile:
        """A file with room for its rows; those that are missing are zero until overwritten."""
        with path.open("ab") as file:
            size = rows * dim * np.dtype(np.float16).itemsize
            if file.tell() < size:
                file.truncate(size)
        return cls(path, dim, rows)

    def rows_of_block(self, block: int) -> range:
        """The rows of which a block has bytes; the first and last may lie in others, too."""
        first, after = block * BLOCK_BYTES, min((block + 1) * BLOCK_BYTES, self.nbytes)
        return range(first // self.row_bytes, -(-after // self.row_bytes))

    def overwrite(self, block: int, X: Matrix) -> str:
        """Write a block anew from the rows that it has bytes of; returns its SHA-256."""
        rows = self.rows_of_block(block)
        offset = block * BLOCK_BYTES - rows.start * self.row_bytes
        data = np.ascontiguousarray(as_matrix(X, dim=self.dim), dtype=self.dtype).tobytes()
        data = data[offset : offset + min(BLOCK_BYTES, self.nbytes - block * BLOCK_BYTES)]
        with self.path.open("r+b") as file:
            file.seek(block * BLOCK_BYTES)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return hashlib.sha256(data).hexdigest()

    def copy(self, path: Path, rows: Rows) -> VectorFile:
        """A new file of the given rows, bit for bit and fsynced."""
        with path.open("wb") as file:
            for part in batches(len(rows), SCAN_ROWS):
                file.write(self.map().take(rows[part], axis=0).data)
            file.flush()
            os.fsync(file.fileno())
        return VectorFile(path, self.dim, len(rows), self.dtype)

    def reopened(self) -> VectorFile:
        """The same rows as a value of their own, which appends to this one do not change."""
        return VectorFile(self.path, self.dim, self.rows, self.dtype)

    def take(self, rows: Rows) -> Matrix:
        """The given rows (n, dim) as float32, read through a memory map."""
        return _widened(self.map().take(rows, axis=0))

    def scan(self, start: int = 0, stop: int | None = None) -> Iterator[Matrix]:
        """Rows start .. stop in chunks of float32, read so that no page stays mapped."""
        stop = self.rows if stop is None else stop
        if start >= stop:
            return
        with self.path.open("rb") as file:
            file.seek(start * self.row_bytes)
            for part in batches(stop, SCAN_ROWS, start):
                count = (part.stop - part.start) * self.dim
                chunk = np.fromfile(file, dtype=self.dtype, count=count)
                yield _widened(chunk.reshape(-1, self.dim))

    def blocks(self, first: int = 0) -> Iterator[tuple[int, str]]:
        """(number, SHA-256) of each block from `first` on; the last one may be short."""
        return block_digests(self.path, self.nbytes, first)

    def map(self) -> NDArray[np.generic]:
        """The rows (n, dim) in a memory map, which outlives the file's name."""
        mapped = self._map  # another thread's append may forget it at any time
        if mapped is None:
            mapped = self._map = self._mapped()
        return mapped

    def _mapped(self) -> NDArray[np.generic]:
        if self.rows == 0:
            return np.zeros((0, self.dim), dtype=self.dtype)
        with self.path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), self.nbytes, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_RANDOM"):
            # Candidates lie far apart: without this each costs a read-ahead of 128 KiB.
            mapped.madvise(mmap.MADV_RANDOM)
        return np.frombuffer(mapped, dtype=self.dtype).reshape(self.rows, self.dim)


def block_digests(path: Path, nbytes: int, first: int = 0) -> Iterator[tuple[int, str]]:
    """(number, SHA-256) of each block of a file's first bytes, from `first` on."""
    if nbytes <= first * BLOCK_BYTES:
        return
    with path.open("rb") as file:
        file.seek(first * BLOCK_BYTES)
        for part in batches(nbytes, BLOCK_BYTES, first * BLOCK_BYTES):
            data = file.read(part.stop - part.start)
            yield part.start // BLOCK_BYTES, hashlib.sha256(data).hexdigest()


def _widened(X: NDArray[np.generic]) -> Matrix:
    """Finite float16 to float32 by shifting bits, four times as fast as `astype` does it.

    Exponent and fraction move to their places in a float32, the sign to the bits above them, of
    which all but the first are cleared. Multiplying by 2^112 corrects the exponent's bias, and
    makes subnormal numbers right too.
    """
    if X.dtype != np.float16:
        return X.astype(np.float32)
    bits = X.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= np.int32(-0x70002000)
    out = bits.view(np.float32)
    out *= np.float32(2.0**112)
    return out
