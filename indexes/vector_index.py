"""VectorIndex: rows in, nearest rows out. FaissIndex is the only place that knows FAISS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

import faiss
import numpy as np

from .arrays import Matrix, Rows, as_matrix, batches
from .errors import CorruptError, InputError
from .kinds import PQ_MOST_ROWS, Kind
from .locks import SharedLock

ROUNDS_4BIT = 10
"""Of k-means for 16 centroids: FAISS's 25 take three times as long and find no more neighbours."""


class VectorIndex(Protocol):
    """Rows are numbered in the order they are added; scores are inner products."""

    @property
    def nbytes(self) -> int:
        """Resident bytes, all of it."""
        ...

    @property
    def row_nbytes(self) -> float:
        """Resident bytes that one more row costs."""
        ...

    def __len__(self) -> int: ...

    def train(self, X: Matrix) -> Self: ...

    def add(self, X: Matrix) -> None:
        """Append rows (n, k): they become rows ``len .. len + n - 1``."""
        ...

    def search(self, queries: Matrix, k: int, rows: Rows | None = None) -> tuple[Matrix, Rows]: ...

    def copy(self, *, empty: bool = False) -> VectorIndex: ...

    def save(self, path: Path) -> None: ...


class FaissIndex:
    """A FAISS index of one `Kind`, by inner product. Threads may search it while one adds to it.

    Parameters
    ----------
    kind : how rows are kept.
    dim : dimensions of a row.
    rows : how many rows are expected; inverted lists are sized by it.

    >>> from indexes.kinds import FLAT
    >>> index = FaissIndex(FLAT, dim=2)
    >>> index.add(np.array([[1, 0], [0, 1]], dtype=np.float32))
    >>> scores, rows = index.search(np.array([[0.6, 0.8]], dtype=np.float32), k=1)
    >>> rows.tolist(), scores.round(1).tolist()
    ([[1]], [[0.800000011920929]])
    """

    def __init__(self, kind: Kind, dim: int, rows: int = 0) -> None:
        factory = kind.factory(dim, rows)
        try:
            self._index: Any = faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
        except RuntimeError as error:
            raise InputError(
                f"kind {kind.name!r} at {dim} dimensions: {_reason(error)}; expected a kind "
                "that `slimdex build --help` lists or a FAISS factory string"
            ) from error
        self._lock = SharedLock()
        self._tune()

    def _tune(self) -> None:
        """Search-time settings for candidate lists of some hundreds (saved with the index)."""
        index = self._core()
        if isinstance(index, faiss.IndexIVF):
            index.nprobe = max(16, index.nlist // 8)
        if isinstance(index, faiss.IndexHNSW):
            index.hnsw.efConstruction = 200
            index.hnsw.efSearch = 128
        if hasattr(index, "pq") and index.pq.nbits <= 4:
            index.pq.cp.niter = ROUNDS_4BIT

    def set_parameters(self, parameters: str) -> None:
        """FAISS's search-time parameters, as ``"efSearch=64"`` or ``"nprobe=8,quantizer_ef=32"``.

        Raises
        ------
        InputError
            If this kind of index has no such parameter.
        """
        with _refusals(f"parameters {parameters!r}"):
            space: Any = faiss.ParameterSpace()  # FAISS's own stub takes its overload for another
            space.set_index_parameters(self._index, parameters)

    def _core(self) -> Any:
        """The index behind a transformation that a factory string may put before it."""
        index = faiss.downcast_index(self._index)
        while isinstance(index, faiss.IndexPreTransform):
            index = faiss.downcast_index(index.index)
        return index

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def dim(self) -> int:
        return int(self._index.d)

    def train(self, X: Matrix) -> Self:
        """Learn codebooks from rows (n, k); raises `InputError` if there are too few."""
        with _refusals(f"{len(X)} vectors to train on"), _threads_worth(len(X)):
            self._index.train(as_matrix(X, dim=self.dim))
        return self

    def add(self, X: Matrix) -> None:
        """Append rows (n, k); raises `InputError` for a factory string that can't."""
        with _refusals(), self._lock.exclusive():
            self._index.add(as_matrix(X, dim=self.dim))

    def copy(self, *, empty: bool = False) -> FaissIndex:
        """Another index with the same codebooks, and with the same rows unless `empty`."""
        other = FaissIndex.__new__(FaissIndex)
        other._lock = SharedLock()
        with _refusals(), self._lock.shared():
            other._index = faiss.clone_index(self._index)
        if empty:
            other._index.reset()
        return other

    def search(self, queries: Matrix, k: int, rows: Rows | None = None) -> tuple[Matrix, Rows]:
        """Scores (q, k) and rows (q, k), best first, padded with -inf and -1.

        With `rows`, only those are looked at, and all of them are.
        """
        queries = as_matrix(queries, dim=self.dim, name="queries")
        with _refusals(), self._lock.shared():
            return self._search(queries, k, rows)

    def _search(self, queries: Matrix, k: int, rows: Rows | None) -> tuple[Matrix, Rows]:
        if rows is None:
            return _padded(*self._index.search(queries, k))
        if (ivf := faiss.try_extract_index_ivf(self._index)) is not None:
            params = faiss.SearchParametersIVF()
            params.sel, params.nprobe = faiss.IDSelectorBatch(rows), ivf.nlist
            return _padded(*self._index.search(queries, k, params=params))
        return self._scan(queries, k, rows)

    def _scan(self, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        """Exact over the decoded codes of `rows`: fast-scan indexes take no selector."""
        chunks = (rows[part] for part in batches(len(rows)))
        return best_of(
            ((queries @ self._index.reconstruct_batch(chunk).T, chunk) for chunk in chunks),
            len(queries),
            k,
        )

    @property
    def nbytes(self) -> int:
        """Resident bytes: FAISS writes what it holds, so the length of that is counted."""
        total = 0

        def count(data: bytes) -> None:
            nonlocal total
            total += len(data)

        writer = faiss.PyCallbackIOWriter(count)  # type: ignore[attr-defined]
        faiss.write_index(self._index, writer)
        return total

    @property
    def row_nbytes(self) -> float:
        """Resident bytes a row: its code, and its id or links where the kind keeps them."""
        index = self._core()
        if isinstance(index, faiss.IndexFlatCodes | faiss.IndexFastScan):
            return float(index.sa_code_size())
        if isinstance(index, faiss.IndexIVF):
            return float(index.code_size + np.dtype(np.int64).itemsize)
        return self.nbytes / max(len(self), 1)

    def save(self, path: Path) -> None:
        """Write in FAISS's own format."""
        # FAISS's own files do not notice a disk full at the end
        with path.open("wb") as file, self._lock.shared():
            writer = faiss.PyCallbackIOWriter(file.write)  # type: ignore[attr-defined]
            faiss.write_index(self._index, writer)

    @classmethod
    def load(cls, path: Path) -> FaissIndex:
        """Read what `save` wrote. Only for files whose checksum is known: FAISS trusts them."""
        index = cls.__new__(cls)
        index._lock = SharedLock()
        try:
            index._index = faiss.read_index(str(path))
        except (RuntimeError, MemoryError) as error:
            raise CorruptError(f"{path}: not a FAISS index ({_reason(error)})") from error
        if index._index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise CorruptError(f"{path}: another metric; expected inner products")
        return index


def top_k(scores: Matrix, rows: Rows, k: int) -> tuple[Matrix, Rows]:
    """The k best of scores (q, n) that belong to `rows` (n,), best first.

    >>> top_k(np.array([[.1, .9, .5]], dtype=np.float32), np.array([4, 5, 6]), 2)[1].tolist()
    [[5, 6]]
    """
    k = min(k, scores.shape[1])
    if len(scores) == 1 and k:  # the usual case, which plain indexing serves twice as fast
        nearest = np.argpartition(-scores[0], k - 1)[:k]
        nearest = nearest[np.argsort(-scores[0, nearest], kind="stable")]
        return scores[:, nearest], rows[nearest][None]
    best = np.argpartition(-scores, k - 1, axis=1)[:, :k] if k else np.zeros((len(scores), 0), int)
    found = np.take_along_axis(scores, best, axis=1)
    order = np.argsort(-found, axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1), rows[np.take_along_axis(best, order, axis=1)]


def best_of(chunks: Iterable[tuple[Matrix, Rows]], queries: int, k: int) -> tuple[Matrix, Rows]:
    """The k best of scores (queries, n_i) for rows (n_i,) that come in chunks, padded.

    >>> chunks = [(np.array([[.1, .9]]), np.array([0, 1])), (np.array([[.5]]), np.array([2]))]
    >>> best_of(chunks, 1, 2)[1].tolist()
    [[1, 2]]
    """
    scores = np.full((queries, k), -np.inf, dtype=np.float32)
    rows = np.full((queries, k), -1, dtype=np.int64)
    for chunk_scores, chunk_rows in chunks:
        found, found_rows = top_k(chunk_scores, chunk_rows, k)
        both, both_rows = np.hstack([scores, found]), np.hstack([rows, found_rows])
        order = np.argsort(-both, axis=1, kind="stable")[:, :k]
        scores = np.take_along_axis(both, order, axis=1)
        rows = np.take_along_axis(both_rows, order, axis=1)
    return scores, rows


@contextmanager
def _threads_worth(rows: int) -> Iterator[None]:
    """One thread for k-means on few rows: its rounds are shorter than waking the others."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1 if rows <= PQ_MOST_ROWS else threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


@contextmanager
def _refusals(what: str = "this kind of index") -> Iterator[None]:
    """What FAISS refuses as an `InputError`: it knows what each of its factory strings can do."""
    try:
        yield
    except RuntimeError as error:
        raise InputError(f"{what}: FAISS says {_reason(error)}; try another kind") from error


def _padded(scores: Matrix, rows: Rows) -> tuple[Matrix, Rows]:
    scores[rows < 0] = -np.inf
    return scores, rows


def _reason(error: Exception) -> str:
    """The last clause of a FAISS message, which is the part about the input."""
    return (str(error) or type(error).__name__).splitlines()[0].rsplit(": ", 1)[-1].strip()
