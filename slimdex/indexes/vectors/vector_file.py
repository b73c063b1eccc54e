"""VectorFile: append-only rows on disk, with random access and scans."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator
from pathlib import Path
from threading import local
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import CorruptError, InputError
from slimdex.system.append_only import BLOCK_BYTES, appending, block_digests, sync_open

from ..arrays import SCAN_ROWS, Matrix, Rows, as_matrix, batches
from .row_formats import FLOAT16, FLOAT32, Packed, RowFormat

COLD_ROW_S = 3e-6
"""Seconds per row above which rows count as read from disk; a cached row takes a tenth of that."""
FEW_ROWS = 32
"""Smallest number of rows for that estimate; with fewer, the call itself takes longer."""


class VectorFile:
    """File of contiguous rows in one format, without a header.

    The file may be longer than ``rows``: bytes of an interrupted append after the last committed
    row are ignored, and overwritten by the next append.

    Parameters
    ----------
    path : created by the first append.
    dim : numbers in a row.
    rows : number of committed rows.
    format : format of the rows, see `row_formats`. Methods take and return float32 in any case.
    center : vector (dim,) that is subtracted from rows of int8 or int4 before they are stored.

    >>> import tempfile
    >>> file = VectorFile(Path(tempfile.mkdtemp()) / "v.f16", dim=2)
    >>> file.append(np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32))
    >>> file.take(np.array([2, 0])).tolist()
    [[5.0, 6.0], [1.0, 2.0]]
    """

    def __init__(
        self,
        path: Path,
        dim: int,
        rows: int = 0,
        format: RowFormat = FLOAT16,
        center: NDArray[np.float32] | None = None,
    ) -> None:
        self.path = path
        self.dim = dim
        self.rows = rows
        self.format = format
        self.center = center
        self._width = format.width(dim)
        self.row_bytes = self._width * format.dtype.itemsize
        size = path.stat().st_size if path.exists() else 0
        if size < self.nbytes:
            raise CorruptError(f"{path}: {size} bytes; expected {self.nbytes} for {rows} rows")
        self._map: tuple[mmap.mmap | None, NDArray[np.generic]] | None = None
        self._cold = True  # True if the last rows read were not in the system's cache

    def __len__(self) -> int:
        return self.rows

    @property
    def nbytes(self) -> int:
        """Bytes of the committed rows."""
        return self.rows * self.row_bytes

    def append(self, X: Matrix) -> None:
        """Write rows (n, dim) after the last one and fsync them."""
        X = as_matrix(X, dim=self.dim)
        limit = self.format.largest
        largest = float(max(X.max(), -X.min())) if X.size else 0.0
        if largest > limit:
            raise InputError(f"vector value {largest:g}; its format holds up to {limit:g}")
        with appending(self.path, self.nbytes) as file:
            file.write(self._pack(X).data)
        self.rows += len(X)
        self._map = None  # it lacks these rows

    def preallocate(self, rows: int) -> VectorFile:
        """Create or extend the file to `rows` rows; new rows are zero until they are written."""
        with self.path.open("ab") as file:
            if file.tell() < rows * self.row_bytes:
                file.truncate(rows * self.row_bytes)
        return VectorFile(self.path, self.dim, rows, self.format, self.center)

    def rows_of_block(self, block: int) -> range:
        """Rows that overlap a block; the first and last may extend into its neighbours."""
        start = block * BLOCK_BYTES
        stop = min(start + BLOCK_BYTES, self.nbytes)
        return range(start // self.row_bytes, -(-stop // self.row_bytes))  # rounded down and up

    def overwrite(self, block: int, X: Matrix) -> str:
        """Overwrite a block, given the rows that overlap it; return its SHA-256."""
        start = block * BLOCK_BYTES
        length = min(BLOCK_BYTES, self.nbytes - start)

        # The first row may begin in the previous block, and the last one may end in the next.
        first_row = self.rows_of_block(block).start
        offset = start - first_row * self.row_bytes
        data = self._pack(as_matrix(X, dim=self.dim)).tobytes()
        data = data[offset : offset + length]
        with self.path.open("r+b") as file:
            file.seek(start)
            file.write(data)
            file.flush()
            sync_open(file.fileno(), self.path)
        return hashlib.sha256(data).hexdigest()

    def copy(self, path: Path, rows: Rows) -> VectorFile:
        """Copy the given rows, bit for bit, to a new file and fsync it."""
        with path.open("wb") as file:
            for part in batches(len(rows), SCAN_ROWS):
                file.write(self.map().take(rows[part], axis=0).data)
            file.flush()
            sync_open(file.fileno(), path)
        return VectorFile(path, self.dim, len(rows), self.format, self.center)

    def reopen(self) -> VectorFile:
        """Return a copy of this object, unaffected by later appends to this one."""
        return VectorFile(self.path, self.dim, self.rows, self.format, self.center)

    def take(self, rows: Rows) -> Matrix:
        """Read rows (n, dim) as float32 through a memory map."""
        start = perf_counter()
        raw = self.map().take(rows, axis=0)
        self._note_latency(rows, start)
        return self._unpack(raw)

    def holds(self, rows: Rows, X: Matrix) -> NDArray[np.bool_]:
        """Mark rows (n,) that have these values (n, dim), rounded as they are stored.

        >>> import tempfile
        >>> file = VectorFile(Path(tempfile.mkdtemp()) / "v.f16", dim=2)
        >>> file.append(np.array([[0.1, 2], [3, 4]], dtype=np.float32))
        >>> file.holds(np.array([0, 1]), np.array([[0.1, 2], [3, 4.1]], dtype=np.float32)).tolist()
        [True, False]
        """
        same: NDArray[np.bool_] = (self.map().take(rows, axis=0) == self._pack(X)).all(axis=1)
        return same

    def take_into_scratch(self, rows: Rows) -> Matrix:
        """Read rows as `take` does, into a buffer that this thread's next call overwrites.

        Allocating and freeing memory would take as long as reading the rows. Row numbers are not
        checked.
        """
        raw = _scratch.buffer(len(rows), self._width, self.format.dtype)
        wide = _scratch.buffer(len(rows), self.dim, FLOAT32.dtype)
        start = perf_counter()
        self.map().take(rows, axis=0, out=raw, mode="clip")  # other modes copy first
        self._note_latency(rows, start)
        return self._unpack(raw, wide)

    def _note_latency(self, rows: Rows, start: float) -> None:
        """Infer from the elapsed time whether the rows were cached."""
        self._cold = perf_counter() - start > COLD_ROW_S * max(len(rows), FEW_ROWS)

    def prefetch(self, rows: Rows) -> None:
        """Advise the system to read rows that `take` will need, if the last ones were not cached.

        It then reads them concurrently, four times as fast as page fault after page fault. For
        cached rows the advice, one call per row, is skipped.
        """
        if not self._cold or not hasattr(mmap, "MADV_WILLNEED"):
            return
        mapped, _ = self._mapping()
        if mapped is None:
            return
        # Advice has to start at a page boundary, so it starts with the page where the row begins.
        starts = rows * self.row_bytes
        pages = starts // mmap.PAGESIZE * mmap.PAGESIZE
        lengths = starts + self.row_bytes - pages
        for page, length in zip(pages.tolist(), lengths.tolist(), strict=True):
            mapped.madvise(mmap.MADV_WILLNEED, page, length)

    def scan(self, start: int = 0) -> Iterator[Matrix]:
        """Yield rows from `start` on in chunks of float32, without mapping pages."""
        stop = self.rows
        if start >= stop:
            return
        with self.path.open("rb") as file:
            file.seek(start * self.row_bytes)
            for part in batches(stop, SCAN_ROWS, start):
                count = (part.stop - part.start) * self._width
                chunk = np.fromfile(file, dtype=self.format.dtype, count=count)
                yield self._unpack(chunk.reshape(-1, self._width))

    def checksums(self) -> list[str]:
        """SHA-256 of each block; the last may be short."""
        return block_digests(self.path, self.nbytes)

    def map(self) -> NDArray[np.generic]:
        """Memory map of the rows in their format; stays valid if the file is unlinked.

        Raises `CorruptError` if the file has been cut since: reading would kill the process.
        """
        return self._mapping()[1]

    def _mapping(self) -> tuple[mmap.mmap | None, NDArray[np.generic]]:
        """Memory map and the array of its rows, created at the first use after an append.

        The map is None if there are no rows. Raises `CorruptError` as `map` does.
        """
        mapping = self._map  # another thread's append may clear it at any time
        if mapping is None:
            mapping = self._map_file()
            self._map = mapping
        check_length(mapping[0], self.path)
        return mapping

    def _map_file(self) -> tuple[mmap.mmap | None, NDArray[np.generic]]:
        """Map the committed rows into memory; without rows, the map is None."""
        if self.rows == 0:
            return None, np.zeros((0, self._width), dtype=self.format.dtype)
        with self.path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), self.nbytes, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_RANDOM"):
            # Candidates are scattered: without this each one reads 128 KiB ahead.
            mapped.madvise(mmap.MADV_RANDOM)
        numbers = np.frombuffer(mapped, dtype=self.format.dtype)
        return mapped, numbers.reshape(self.rows, self._width)

    def _pack(self, X: Matrix) -> Packed:
        """Convert rows (n, dim) to the format on disk, C-contiguous."""
        return self.format.pack(X if self.center is None else X - self.center)

    def _unpack(self, raw: Packed, out: Matrix | None = None) -> Matrix:
        """Convert rows in the format on disk to float32 (n, dim), into `out` if given."""
        wide = self.format.unpack(raw, self.dim, out)
        if self.center is not None:
            wide += self.center
        return wide


def check_length(mapped: mmap.mmap | bytes | None, path: Path) -> None:
    """Raise `CorruptError` if a mapped file is shorter than its map; one system call."""
    if not isinstance(mapped, mmap.mmap):
        return
    size = mapped.size()
    if size < len(mapped):
        raise CorruptError(
            f"{path}: cut to {size:,} bytes while it was open; expected {len(mapped):,}"
        )


class _Scratch(local):
    """Read buffers of each thread, one of each type, as large as its largest read."""

    def __init__(self) -> None:
        self._buffers: dict[np.dtype[Any], NDArray[Any]] = {}

    def buffer(self, rows: int, width: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a buffer (rows, width) of numbers of a type."""
        size = rows * width
        buffer = self._buffers.get(dtype)
        if buffer is None or len(buffer) < size:
            buffer = np.empty(size, dtype=dtype)
            self._buffers[dtype] = buffer
        return buffer[:size].reshape(rows, width)


_scratch = _Scratch()
