"""VectorIndex: rows in, nearest rows out. No other file of an index knows FAISS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any, Protocol, Self

import faiss
import numpy as np
from numpy.typing import NDArray

from . import score_aware
from .arrays import Matrix, Rows, as_matrix
from .errors import CorruptError, InputError
from .kinds import KINDS, PQ_MOST_ROWS, Kind
from .locks import SharedLock
from .ranking import best_of, compacted, top_k

ROUNDS_4BIT = 10
"""Of k-means for 16 centroids: FAISS's 25 take three times as long and find no more neighbours."""
ROUNDS_LISTS = 10
"""Of k-means for inverted lists, which FAISS does 10 times by itself as well."""
PROBE_ONE_IN = 4
"""One inverted list in so many is gone through."""
METRICS = (faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2)
SHORTER = np.float32(0.5)
"""Rows that are compared by distance are kept at this length; a power of two rounds nothing.

``5/4 - |q - x/2|^2`` of a unit query q is ``q.x + (1 - |x|^2) / 4``. At length 1 it would be a half
that is taken off for ``|x|^2``, which is right where the best scores are near 1; a quarter is right
for those near a half, as questions and their answers have.
"""
ALONG = 3.0
"""How much more the error along a row counts than others, in kinds that compare by distance.

1 and 8 find less, in the mean of five sets and two models.
"""
TINY = np.finfo(np.float32).tiny
COPY_ONE_ROW_IN = 32
"""One row in so many are few: it is quicker to decode and encode them than to sort all codes."""


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

    @property
    def probes(self) -> tuple[int, int] | None:
        """How many inverted lists a search goes through, and of how many; None without lists."""
        ...

    def __len__(self) -> int: ...

    def train(self, X: Matrix) -> Self:
        """Fit codebooks to rows (n, k)."""
        ...

    def add(self, X: Matrix) -> None:
        """Append rows (n, k): they become rows ``len .. len + n - 1``."""
        ...

    def search(self, queries: Matrix, k: int, rows: Rows | None = None) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k) of the nearest, among the given rows if there are any."""
        ...

    def copy(self, *, empty: bool = False) -> VectorIndex:
        """Another one with the same rows, or with the codebooks alone."""
        ...

    def decoded(self, X: Matrix) -> Matrix:
        """Rows (n, k) as their codes would give them back; it need not hold them."""
        ...

    def save(self, path: Path) -> None:
        """Write it to a file."""
        ...


class FaissIndex:
    """A FAISS index of one `Kind`. Threads may search it while one adds to it.

    Scores are inner products. A kind that compares by distance estimates them from it, for rows of
    unit length.

    Parameters
    ----------
    kind : how rows are kept.
    dim : dimensions of a row.
    rows : how many rows are expected; inverted lists are sized by it.

    >>> from slimdex.indexes.kinds import FLAT
    >>> index = FaissIndex(FLAT, dim=2)
    >>> index.add(np.array([[1, 0], [0, 1]], dtype=np.float32))
    >>> scores, rows = index.search(np.array([[0.6, 0.8]], dtype=np.float32), k=1)
    >>> rows.tolist(), scores.round(1).tolist()
    ([[1]], [[0.800000011920929]])
    """

    def __init__(self, kind: Kind, dim: int, rows: int = 0) -> None:
        factory = kind.factory(dim, rows)
        try:
            metric = faiss.METRIC_L2 if kind.by_distance else faiss.METRIC_INNER_PRODUCT
            self._index: Any = faiss.index_factory(dim, factory, metric)
        except RuntimeError as error:
            raise InputError(
                f"kind {kind.name!r} at {dim} dimensions: {_reason(error)}; expected "
                f"{', '.join(KINDS)} or a FAISS factory string"
            ) from error
        self._lock = SharedLock()
        self._tune()

    def _tune(self) -> None:
        """Search-time settings for candidate lists of some hundreds (saved with the index)."""
        index = self._core()
        if isinstance(index, faiss.IndexIVF):
            index.nprobe = max(16, index.nlist // PROBE_ONE_IN)
            index.nprobe = min(index.nprobe, index.nlist)
            index.cp.niter = ROUNDS_LISTS
            index.cp.min_points_per_centroid = 1  # or FAISS writes a warning to the terminal
        if isinstance(index, faiss.IndexHNSW):
            index.hnsw.efConstruction = 200
            index.hnsw.efSearch = 128
        if hasattr(index, "do_polysemous_training"):
            index.do_polysemous_training = False  # minutes, for a way to search that is not used
        if hasattr(index, "pq"):
            index.pq.cp.min_points_per_centroid = 1  # as above
            if index.pq.nbits <= 4:
                index.pq.cp.niter = ROUNDS_4BIT

    @property
    def probes(self) -> tuple[int, int] | None:
        """How many inverted lists a search goes through, and of how many; None without lists."""
        index = self._core()
        return (int(index.nprobe), int(index.nlist)) if isinstance(index, faiss.IndexIVF) else None

    def set_parameters(self, parameters: str) -> None:
        """FAISS's search-time parameters, as ``"efSearch=64"`` or ``"nprobe=8,quantizer_ef=32"``.

        Raises
        ------
        InputError
            If this kind of index has no such parameter.
        """
        with _refusals(f"parameters {parameters!r}"), self._lock.exclusive():
            space: Any = faiss.ParameterSpace()  # FAISS's own stub takes its overload for another
            space.set_index_parameters(self._index, parameters)
            index = self._core()
            if isinstance(index, faiss.IndexIVF):  # of residual codes, more give any scores at all
                index.nprobe = min(index.nprobe, index.nlist)

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
        """Dimensions of a row, k."""
        return int(self._index.d)

    def train(self, X: Matrix) -> Self:
        """Learn codebooks from rows (n, k); raises `InputError` if there are too few."""
        X = as_matrix(X, dim=self.dim)
        with _refusals(f"{len(X)} vectors to train on"), _threads_worth(len(X)):
            self._index.train(X * SHORTER if self._by_distance else X)
        if self._is_score_aware:
            rows = score_aware.laid(X, self._index.pq.M)
            words = score_aware.trained(rows, self._codewords, ALONG)
            faiss.copy_array_to_vector((words * SHORTER).ravel(), self._index.pq.centroids)
            self.__dict__.pop("_codewords", None)
        return self

    def add(self, X: Matrix) -> None:
        """Append rows (n, k); raises `InputError` for a factory string that can't."""
        with _refusals(), self._lock.exclusive():
            self._index.add(self._kept(X))

    def copy(self, *, empty: bool = False) -> FaissIndex:
        """Another index with the same codebooks, and with the same rows unless `empty`."""
        other = FaissIndex.__new__(FaissIndex)
        other._lock = SharedLock()
        with _refusals(), self._lock.shared():
            other._index = faiss.clone_index(self._index)
        if empty:
            other._index.reset()
        return other

    def behind(self, weight: Matrix | None, bias: NDArray[np.float32] | None) -> FaissIndex:
        """One that takes rows and queries (n, d): maps them, brings them to unit length, and shares
        the codes of this one.

        Parameters
        ----------
        weight, bias : (k, d) and (k,), of ``x @ weight.T + bias``; None for no map, or no bias.
        """
        other = FaissIndex.__new__(FaissIndex)
        other._lock, other._index = self._lock, faiss.IndexPreTransform(self._index)
        other._index.prepend_transform(faiss.NormalizationTransform(self.dim))
        if weight is not None:
            first: Any = faiss.LinearTransform(weight.shape[1], len(weight), bias is not None)
            faiss.copy_array_to_vector(np.ascontiguousarray(weight).ravel(), first.A)
            if bias is not None:
                faiss.copy_array_to_vector(bias, first.b)
            first.is_trained = True
            other._index.prepend_transform(first)
        return other

    def decoded(self, X: Matrix) -> Matrix:
        """Rows (n, k) as their codes would give them back; none is added.

        Raises
        ------
        InputError
            For a factory string whose codes can't be decoded.
        """
        other = self.copy(empty=True)
        other.add(X)
        with _refusals():
            if (ivf := faiss.try_extract_index_ivf(other._index)) is not None:
                ivf.make_direct_map()  # without it inverted lists do not know where a row is
            rows: Matrix = other._index.reconstruct_n(0, len(X))
        return rows / SHORTER if self._by_distance else rows

    def search(self, queries: Matrix, k: int, rows: Rows | None = None) -> tuple[Matrix, Rows]:
        """Scores (q, k) and rows (q, k), best first, padded with -inf and -1.

        With `rows`, only those are looked at, and all of them are.
        """
        queries = as_matrix(queries, dim=self.dim, name="queries")
        if not self._by_distance:
            return self._refusing(queries, k, rows)
        lengths = np.sqrt(np.vecdot(queries, queries))[:, None]
        lengths[lengths == 0.0] = TINY
        scores, found = self._refusing(queries / lengths, k, rows)
        return scores * lengths, found

    def _refusing(self, queries: Matrix, k: int, rows: Rows | None) -> tuple[Matrix, Rows]:
        try:
            with self._lock.shared():
                return self._search(queries, k, rows)
        except RuntimeError as error:
            raise _refusal("this kind of index", error) from error

    def _search(self, queries: Matrix, k: int, rows: Rows | None) -> tuple[Matrix, Rows]:
        if rows is None:
            with _threads_worth(0 if len(queries) == 1 and not self._has_lists else len(self)):
                return _nearest(self._index, queries, k)
        if not len(rows) or not len(queries):
            return best_of([], len(queries), k)
        if self._takes_rows:
            found = self._select(queries, k, rows)
        elif len(rows) < len(self) // COPY_ONE_ROW_IN and isinstance(
            self._core(), faiss.IndexPQFastScan
        ):
            found = self._copied(queries, k, rows)
        else:
            found = self._dropping(queries, k, rows)
        return self._completed(queries, *found, rows)

    def _completed(
        self, queries: Matrix, scores: Matrix, found: Rows, rows: Rows
    ) -> tuple[Matrix, Rows]:
        """Answers that are short, filled up: fast scans never give back the very worst codes."""
        count = (found >= 0).sum(axis=1)
        wanted = min(found.shape[1], len(rows))
        for i in np.flatnonzero(count < wanted):
            have, missing = count[i], np.setdiff1d(rows, found[i])
            rest, others = top_k(self._decoded(queries[i : i + 1], missing), missing, wanted - have)
            last = scores[i, have - 1] if have else np.inf
            scores[i, have:wanted], found[i, have:wanted] = np.minimum(rest[0], last), others[0]
        return scores, found

    def _decoded(self, queries: Matrix, rows: Rows) -> Matrix:
        """Inner products (q, n) with decoded rows, or the least of unit rows where none can be."""
        try:
            X: Matrix = self._index.reconstruct_batch(rows)
        except RuntimeError:  # inverted lists do not know where a row is
            return np.full((len(queries), len(rows)), -1, dtype=np.float32)
        if self._by_distance:
            return _cosines(((queries[:, None] - X) ** 2).sum(axis=2))
        products: Matrix = queries @ X.T
        return products

    @cached_property
    def _by_distance(self) -> bool:
        return bool(self._index.metric_type == faiss.METRIC_L2)

    @cached_property
    def _is_score_aware(self) -> bool:
        return self._by_distance and isinstance(self._index, faiss.IndexPQFastScan)

    @cached_property
    def _codewords(self) -> score_aware.Codewords:
        """Of rows of unit length, (runs, 16, width)."""
        coder = self._index.pq
        words: Matrix = faiss.vector_to_array(coder.centroids).reshape(coder.M, coder.ksub, -1)
        return words / SHORTER

    def _kept(self, X: Matrix) -> Matrix:
        """Rows as FAISS is given them; to it those that were decoded have the codes they had."""
        X = as_matrix(X, dim=self.dim)
        if not self._by_distance:
            return X
        if self._is_score_aware:
            codes = score_aware.coded(score_aware.laid(X, self._index.pq.M), self._codewords, ALONG)
            X = score_aware.decoded(codes, self._codewords).reshape(X.shape)
        return X * SHORTER

    @cached_property
    def _has_lists(self) -> bool:
        return self.probes is not None

    @cached_property
    def _takes_rows(self) -> bool:
        """Whether FAISS can be told which rows to look at: some kinds refuse, or take no notice."""
        last = len(self) - 1
        try:
            _, found = self._select(np.ones((1, self.dim), np.float32), 2, np.array([last]))
        except RuntimeError:
            return False
        return bool(found.tolist() == [[last, -1]])

    def _select(self, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        """All of `rows` and no other, by FAISS's selector."""
        index, core = self._index, self._core()
        bits = np.packbits(self._mask(rows), bitorder="little")
        params: Any = faiss.SearchParameters()
        if (ivf := faiss.try_extract_index_ivf(index)) is not None:
            params = faiss.SearchParametersIVF()
            params.nprobe = ivf.nlist
        elif isinstance(core, faiss.IndexHNSW):  # the graph would miss some
            index, queries = core.storage, self._transformed(queries)
        selector: Any = faiss.IDSelectorBitmap  # FAISS's stubs know the C++ signature only
        params.sel = selector(bits)
        return _nearest(index, queries, k, params)

    def _dropping(self, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        """Ask for more codes, until enough of them are of `rows`; the others are dropped."""
        allowed, wanted = self._mask(rows), min(k, len(rows))
        ask = min(len(self), ceil(1.1 * k * len(self) / len(rows)) + 16)
        while True:
            scores, found = _nearest(self._index, queries, ask)
            kept = allowed[found] & (found >= 0)
            if ask == len(self) or kept.sum(axis=1).min() >= wanted:
                return compacted(scores, found, kept, k)
            ask = min(len(self), 2 * ask)

    def _copied(self, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        """The same codes in an index of their own: a decoded row is encoded as it was."""
        index = faiss.clone_index(self._without_rows)
        with _threads_worth(len(rows)):
            index.add(self._index.reconstruct_batch(rows))
            scores, found = _nearest(index, queries, k)
        return scores, np.where(found < 0, -1, rows[found])

    @cached_property
    def _without_rows(self) -> Any:
        index = faiss.clone_index(self._index)
        index.reset()
        return index

    def _mask(self, rows: Rows) -> NDArray[np.bool_]:
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[rows] = True
        return mask

    def _transformed(self, queries: Matrix) -> Matrix:
        """Queries as they come out of the transformations before the core."""
        index = self._index
        while isinstance(index, faiss.IndexPreTransform):
            chain: Any = index.chain
            for i in range(chain.size()):
                queries = faiss.downcast_VectorTransform(chain.at(i)).apply(queries)
            index = faiss.downcast_index(index.index)
        return queries

    @property
    def nbytes(self) -> int:
        """Resident bytes: FAISS writes what it holds, so the length of that is counted."""
        total = 0

        def count(data: bytes) -> None:
            nonlocal total
            total += len(data)

        writer = faiss.PyCallbackIOWriter(count)  # type: ignore[attr-defined]
        with self._lock.shared():
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
        if index._index.metric_type not in METRICS:
            raise CorruptError(f"{path}: another metric; expected inner products or distances")
        return index


@contextmanager
def _threads_worth(rows: int) -> Iterator[None]:
    """One thread for work on few rows, or on all for one query, which FAISS gives one thread.

    Then it is shorter than waking the others, and several callers don't wait for each other's.
    """
    threads = faiss.omp_get_max_threads()
    if rows > PQ_MOST_ROWS or threads == 1:
        yield
        return
    faiss.omp_set_num_threads(1)
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
        raise _refusal(what, error) from error


def _refusal(what: str, error: RuntimeError) -> InputError:
    return InputError(f"{what}: FAISS says {_reason(error)}; try another kind")


def _nearest(index: Any, queries: Matrix, k: int, params: Any = None) -> tuple[Matrix, Rows]:
    """Scores and rows, with -inf where FAISS has found no more; those places are the last."""
    scores, rows = index.search(queries, k, params=params)
    if index.metric_type == faiss.METRIC_L2:
        scores = _cosines(scores)
    if rows.size and rows[:, -1].min() < 0:
        scores[rows < 0] = -np.inf
    return scores, rows


def _cosines(distances: Matrix) -> Matrix:
    """Of unit queries with rows, by their squared distances: see `SHORTER`."""
    return 1 + SHORTER**2 - distances


def _reason(error: Exception) -> str:
    """The last clause of a FAISS message, which is the part about the input."""
    return (str(error) or type(error).__name__).splitlines()[0].rsplit(": ", 1)[-1].strip()
