"""Halves: 4-bit product quantisation codes in two indexes, which two threads scan for one query.

FAISS scans one query's codes on one thread and can't scan a part of an index. So the rows are
divided between two indexes with the same codebooks. Together they give the answers of a single one,
since the distance of a row depends only on the query and that row. Files contain a single index.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from slimdex.system.spare_threads import in_parallel

from ..arrays import Matrix, Rows
from .faiss_library import faiss

HALVED_FROM = 250_000
"""Smallest number of rows that are divided."""


class Halves:
    """Two indexes of FAISS, with those members of a single one that `FaissIndex` uses.

    Attributes
    ----------
    first, last : the indexes; rows are added to the last.
    """

    def __init__(self, first: Any, last: Any) -> None:
        self.first = first
        self.last = last
        self.d = last.d
        self.metric_type = last.metric_type

    @classmethod
    def of(cls, whole: Any) -> Self:
        """Move the rows of an index of FAISS to two halves; the index is empty afterwards."""
        rows = int(whole.ntotal)
        codes = _codes(whole).copy()

        # FAISS stores codes in blocks of rows, so the first half consists of whole blocks.
        block_rows = int(whole.bbs)
        half = rows // 2 // block_rows * block_rows
        half_bytes = half // block_rows * whole.get_block_stride()
        whole.reset()
        first = _fill(whole, codes[:half_bytes], half)
        last = _fill(whole, codes[half_bytes:], rows - half)
        return cls(first, last)

    @property
    def ntotal(self) -> int:
        """Rows of both."""
        return int(self.first.ntotal) + int(self.last.ntotal)

    def whole(self) -> Any:
        """One index of all rows, a copy."""
        codes = np.concatenate([_codes(self.first), _codes(self.last)])
        return _fill(_empty_clone(self.last), codes, self.ntotal)

    def add(self, X: Matrix) -> None:
        """Append rows to the last."""
        self.last.add(X)

    def search(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Distances and rows (q, k), as FAISS returns them; ties are in the order of rows."""
        if len(queries) > 1:  # FAISS divides these among its threads
            return self._join(self.first.search(queries, k), self.last.search(queries, k))
        with in_parallel(lambda half: half.search(queries, k), [self.last]) as results:
            return self._join(self.first.search(queries, k), *results())

    def _join(self, first: tuple[Matrix, Rows], last: tuple[Matrix, Rows]) -> tuple[Matrix, Rows]:
        """Return the k nearest of both halves' distances and rows (q, k), nearest first.

        Equal distances are in the order of rows.
        """
        first_distances, first_rows = first
        last_distances, last_rows = last
        last_rows = np.where(last_rows < 0, -1, last_rows + self.first.ntotal)
        rows = np.hstack([first_rows, last_rows])
        distances = np.hstack([first_distances, last_distances])

        # Sort one integer per result: the distance in its upper 32 bits, the row in the lower.
        # Positive floats sort like their bits.
        k = first_rows.shape[1]
        bits = distances.view(np.int32).astype(np.int64)
        keys = np.sort(bits << 32 | rows & 0xFFFFFFFF, axis=1)[:, :k]
        joined = keys.astype(np.int32).astype(np.int64)  # the lower bits, with -1 for no row
        return (keys >> 32).astype(np.int32).view(np.float32), joined

    def reconstruct_batch(self, rows: Rows) -> Matrix:
        """Decoded rows (n, k)."""
        X = np.empty((len(rows), self.d), dtype=np.float32)
        half = self.first.ntotal
        is_first = rows < half
        X[is_first] = self.first.reconstruct_batch(rows[is_first])
        X[~is_first] = self.last.reconstruct_batch(rows[~is_first] - half)
        return X


def halve(index: Any) -> Any:
    """Divide an index of many codes into halves; return other indexes unchanged.

    Rows are added to the last half. Once it is more than twice as large as the first, the index is
    divided again.
    """
    if isinstance(index, Halves):
        is_balanced = 3 * index.first.ntotal >= index.ntotal
        return index if is_balanced else Halves.of(index.whole())
    is_divisible = type(index) is faiss.IndexPQFastScan and index.metric_type == faiss.METRIC_L2
    is_large = index.ntotal >= HALVED_FROM
    return Halves.of(index) if is_divisible and is_large else index


def whole_of(index: Any) -> Any:
    """Return FAISS's index of all rows, a copy if they are in halves."""
    return index.whole() if isinstance(index, Halves) else index


def clone(index: Any, *, empty: bool = False) -> Any:
    """Copy an index, without rows if `empty`; the empty copy is a single index."""
    if isinstance(index, Halves) and empty:
        return _empty_clone(index.last)
    if isinstance(index, Halves):
        return Halves(faiss.clone_index(index.first), faiss.clone_index(index.last))
    return _empty_clone(index) if empty else faiss.clone_index(index)


def _empty_clone(index: Any) -> Any:
    empty = faiss.clone_index(index)
    empty.reset()
    return empty


def _codes(index: Any) -> NDArray[np.uint8]:
    """Codes in blocks, as they are in memory; not a copy."""
    codes: NDArray[np.uint8] = faiss.rev_swig_ptr(index.codes.get(), index.codes.size())
    return codes


def _fill(empty: Any, codes: NDArray[np.uint8], rows: int) -> Any:
    """Return a copy of an empty index with the codes of some rows, as `_codes` returns them."""
    index: Any = faiss.clone_index(empty)
    faiss.copy_array_to_AlignedTable(codes, index.codes)
    index.ntotal = rows
    index.ntotal2 = -(-rows // index.bbs) * index.bbs  # rounded up to full blocks
    return index
