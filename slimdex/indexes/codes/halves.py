"""Halves: 4-bit product quantisation codes in two indexes, which two threads scan for one query.

FAISS scans one query's codes on one thread and can't scan a part of an index. So the rows are
divided between two indexes with the same codebooks. Together they give the answers of a single one,
since the distance of a row depends only on the query and that row. Files contain a single index.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from slimdex.system.spare import beside

from ..arrays import Matrix, Rows
from .library import faiss

HALVED_FROM = 250_000
"""Smallest number of rows that are divided."""


class Halves:
    """Two indexes of FAISS, with the members of one that `FaissIndex` uses.

    Attributes
    ----------
    first, last : rows are added to the last.
    """

    def __init__(self, first: Any, last: Any) -> None:
        self.first = first
        self.last = last
        self.d = last.d
        self.metric_type = last.metric_type

    @classmethod
    def of(cls, whole: Any) -> Self:
        """Divide an index of FAISS, and empty it."""
        rows = int(whole.ntotal)
        block = int(whole.bbs)
        codes = _codes(whole).copy()
        half = rows // 2 // block * block
        cut = half // block * whole.get_block_stride()
        whole.reset()
        return cls(_filled(whole, codes[:cut], half), _filled(whole, codes[cut:], rows - half))

    @property
    def ntotal(self) -> int:
        """Rows of both."""
        return int(self.first.ntotal) + int(self.last.ntotal)

    def whole(self) -> Any:
        """One index of all rows, a copy."""
        codes = np.concatenate([_codes(self.first), _codes(self.last)])
        return _filled(_emptied(self.last), codes, self.ntotal)

    def add(self, X: Matrix) -> None:
        """Append rows to the last."""
        self.last.add(X)

    def search(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Distances and rows (q, k), as FAISS returns them; ties are in the order of rows."""
        if len(queries) > 1:  # FAISS divides these among its threads
            return self._joined(self.first.search(queries, k), self.last.search(queries, k))
        with beside(lambda half: half.search(queries, k), [self.last]) as results:
            return self._joined(self.first.search(queries, k), *results())

    def _joined(
        self, found: tuple[Matrix, Rows], others: tuple[Matrix, Rows]
    ) -> tuple[Matrix, Rows]:
        rows = np.hstack([found[1], np.where(others[1] < 0, -1, others[1] + self.first.ntotal)])
        distances = np.hstack([found[0], others[0]])
        bits = distances.view(np.int32).astype(np.int64)  # positive floats sort like their bits
        keys = np.sort(bits << 32 | rows & 0xFFFFFFFF, axis=1)[:, : found[1].shape[1]]
        joined = keys.astype(np.int32).astype(np.int64)  # the lower bits, with -1
        return (keys >> 32).astype(np.int32).view(np.float32), joined

    def reconstruct_batch(self, rows: Rows) -> Matrix:
        """Decoded rows (n, k)."""
        X = np.empty((len(rows), self.d), dtype=np.float32)
        half = self.first.ntotal
        is_first = rows < half
        X[is_first] = self.first.reconstruct_batch(rows[is_first])
        X[~is_first] = self.last.reconstruct_batch(rows[~is_first] - half)
        return X


def halved(index: Any) -> Any:
    """Divide an index of many codes, and again once the last half is twice as large as the first.

    Other indexes are returned unchanged.
    """
    if isinstance(index, Halves):
        return index if 3 * index.first.ntotal >= index.ntotal else Halves.of(index.whole())
    is_divisible = type(index) is faiss.IndexPQFastScan and index.metric_type == faiss.METRIC_L2
    return Halves.of(index) if is_divisible and index.ntotal >= HALVED_FROM else index


def whole_of(index: Any) -> Any:
    """FAISS's index of all rows."""
    return index.whole() if isinstance(index, Halves) else index


def cloned(index: Any, *, empty: bool = False) -> Any:
    """Copy an index, without rows if `empty`; the empty copy is a single index."""
    if isinstance(index, Halves) and empty:
        return _emptied(index.last)
    if isinstance(index, Halves):
        return Halves(faiss.clone_index(index.first), faiss.clone_index(index.last))
    return _emptied(index) if empty else faiss.clone_index(index)


def _emptied(index: Any) -> Any:
    empty = faiss.clone_index(index)
    empty.reset()
    return empty


def _codes(index: Any) -> NDArray[np.uint8]:
    """Codes in blocks, as they are in memory; not a copy."""
    codes: NDArray[np.uint8] = faiss.rev_swig_ptr(index.codes.get(), index.codes.size())
    return codes


def _filled(empty: Any, codes: NDArray[np.uint8], rows: int) -> Any:
    index: Any = faiss.clone_index(empty)
    faiss.copy_array_to_AlignedTable(codes, index.codes)
    index.ntotal = rows
    index.ntotal2 = -(-rows // index.bbs) * index.bbs
    return index
