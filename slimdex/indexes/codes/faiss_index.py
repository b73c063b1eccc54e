"""FaissIndex: nearest-neighbour search over encoded rows, by FAISS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import CorruptError, InputError
from slimdex.system.once import cached_property
from slimdex.system.shared_lock import SharedLock
from slimdex.system.threads import product

from ..arrays import Matrix, Rows, as_matrix
from ..ranking import best_of, first_allowed, top_k
from .faiss_library import faiss
from .halved_codes import Halves, clone, halve, whole_of
from .kinds import PQ_MOST_ROWS, Kind, nprobe

ROUNDS_4BIT = 10
"""Iterations of k-means for 16 centroids; FAISS's 25 take three times as long without benefit."""
ROUNDS_LISTS = 10
"""Iterations of k-means for inverted lists, FAISS's default too."""
ONE_QUERY_SCAN = 11
"""FAISS's number of the fast scan of lists for one query at a time. For one query it is faster than
the default, the scan for many queries, and for many hardly slower."""
SCANNED = 64
"""A search scans this many rows in less time than it takes to add one."""
COPY_ONE_ROW_IN = 32
"""For fewer than one row in 32, decoding and re-encoding rows is faster than ranking all codes."""
METRICS = (faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2)
SHORTER = np.float32(0.5)
"""Length at which rows compared by distance are stored; a power of two avoids rounding.

For a unit query q, ``5/4 - |q - x/2|^2`` is ``q.x + (1 - |x|^2) / 4``: a correction for rows that
codes shorten. At length 1 the factor would be 1/2, which suits highest scores near 1; 1/4 suits
highest scores near 1/2, as between questions and their answers.
"""
TINY = np.finfo(np.float32).tiny


class FaissIndex:
    """FAISS index of one `Kind`. Threads may search while one adds rows.

    Scores are inner products; a kind that compares by distance estimates them, for unit rows.

    Parameters
    ----------
    kind : encoding of the rows.
    dim : dimensions of a row.
    rows : expected number of rows, which determines the number of inverted lists.

    >>> from slimdex.indexes.codes.kinds import FLAT
    >>> index = FaissIndex(FLAT, dim=2)
    >>> index.add(np.array([[1, 0], [0, 1]], dtype=np.float32))
    >>> scores, rows = index.search(np.array([[0.6, 0.8]], dtype=np.float32), k=1)
    >>> rows.tolist(), scores.round(1).tolist()
    ([[1]], [[0.800000011920929]])
    """

    def __init__(self, kind: Kind, dim: int, rows: int = 0) -> None:
        metric = faiss.METRIC_L2 if kind.by_distance else faiss.METRIC_INNER_PRODUCT
        self._index: Any = faiss.index_factory(dim, kind.factory(dim, rows), metric)
        self._lock = SharedLock()
        self._tune()

    def _tune(self) -> None:
        """Set FAISS's parameters for a few hundred candidates; they are saved with the index."""
        index = self._core()
        if isinstance(index, faiss.IndexIVF):
            index.nprobe = nprobe(index.nlist)
            index.cp.niter = ROUNDS_LISTS
            index.cp.min_points_per_centroid = 1  # else FAISS prints a warning
        if isinstance(index, faiss.IndexIVFFastScan):
            index.implem = ONE_QUERY_SCAN
        if isinstance(index, faiss.IndexHNSW):
            index.hnsw.efConstruction = 200
            index.hnsw.efSearch = 128
        if hasattr(index, "do_polysemous_training"):
            index.do_polysemous_training = False  # minutes for an unused search method
        if hasattr(index, "pq"):
            index.pq.cp.min_points_per_centroid = 1  # else FAISS prints a warning
            if index.pq.nbits <= 4:
                index.pq.cp.niter = ROUNDS_4BIT

    @property
    def probes(self) -> tuple[int, int] | None:
        """Inverted lists that a search probes, and their total; None without lists."""
        index = self._core()
        return (int(index.nprobe), int(index.nlist)) if isinstance(index, faiss.IndexIVF) else None

    def set_parameters(self, parameters: str) -> None:
        """Set FAISS search parameters, such as ``"efSearch=64"`` or ``"nprobe=8,quantizer_ef=32"``.

        Raises `InputError` if this kind of index has no such parameter.
        """
        with _faiss_errors(f"parameters {parameters!r}"), self._lock.exclusive():
            space: Any = faiss.ParameterSpace()  # FAISS's stub has the wrong overload
            space.set_index_parameters(self._index, parameters)
            index = self._core()
            if isinstance(index, faiss.IndexIVF):
                # Beyond nlist, residual codes give undefined scores.
                index.nprobe = min(index.nprobe, index.nlist)

    def _core(self) -> Any:
        """Index behind a kind's transformations, if any.

        For halves, this is the last one: both have the same parameters and codebooks.
        """
        index = self._index.last if isinstance(self._index, Halves) else self._index
        index = faiss.downcast_index(index)
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
        """Fit codebooks to rows (n, k); raise `InputError` if there are too few."""
        X = as_matrix(X, dim=self.dim)
        with _faiss_errors(f"{len(X)} vectors to train on"), _few_threads(len(X)):
            self._index.train(self._shorten(X))
        return self

    def add(self, X: Matrix) -> None:
        """Append rows (n, k)."""
        with self._lock.exclusive(), _few_threads(len(X)):
            self._index.add(self._shorten(as_matrix(X, dim=self.dim)))
            self._index = halve(self._index)

    def copy(self, *, empty: bool = False) -> FaissIndex:
        """Return a copy with the same codebooks, without rows if `empty`."""
        other = FaissIndex.__new__(FaissIndex)
        other._lock = SharedLock()
        with self._lock.shared():
            other._index = clone(self._index, empty=empty)
        return other

    def with_transform(self, weight: Matrix | None, bias: NDArray[np.float32] | None) -> FaissIndex:
        """Return an index of the same codes that first maps (n, d) inputs and normalises them.

        `weight` (k, d) and `bias` (k,) are those of ``x @ weight.T + bias``; None for no map or no
        bias.
        """
        other = FaissIndex.__new__(FaissIndex)
        other._lock = self._lock  # both may use the same FAISS index
        other._index = faiss.IndexPreTransform(whole_of(self._index))

        # The transformation prepended last is applied first.
        other._index.prepend_transform(faiss.NormalizationTransform(self.dim))
        if weight is not None:
            linear: Any = faiss.LinearTransform(weight.shape[1], len(weight), bias is not None)
            faiss.copy_array_to_vector(np.ascontiguousarray(weight).ravel(), linear.A)
            if bias is not None:
                faiss.copy_array_to_vector(bias, linear.b)
            linear.is_trained = True
            other._index.prepend_transform(linear)
        return other

    def quantize(self, X: Matrix) -> Matrix:
        """Encode and decode rows (n, k), without adding them.

        Raises `InputError` if codes of this kind can't be decoded.
        """
        other = self.copy(empty=True)
        other.add(X)
        with _faiss_errors():
            ivf = faiss.try_extract_index_ivf(other._index)
            if ivf is not None:
                ivf.make_direct_map()  # needed to look up a row in inverted lists
            rows: Matrix = other._index.reconstruct_n(0, len(X))
        return rows / SHORTER if self._by_distance else rows  # undoes `_shorten`

    def search(self, queries: Matrix, k: int, rows: Rows | None = None) -> tuple[Matrix, Rows]:
        """Return scores (q, k) and rows (q, k), best first, padded with -inf and -1.

        With `rows`, the search compares all of them and no others.
        """
        queries = as_matrix(queries, dim=self.dim, name="queries")

        # Distances rank like cosines for queries of unit length.
        lengths = None
        if self._by_distance:
            lengths = np.sqrt(np.vecdot(queries, queries))[:, None]
            lengths[lengths == 0.0] = TINY  # a zero query can't be divided by its length
            queries = queries / lengths

        # A small search is faster on one thread. FAISS divides queries among its threads, so a
        # single query uses one anyway.
        try:
            work = len(queries) * len(self) // SCANNED if len(queries) > 1 else 0
            with self._lock.shared(), _few_threads(work):
                if rows is not None:
                    scores, hits = self._among(queries, k, rows)
                else:
                    scores, hits = _as_cosines(self._index, self._index.search(queries, k))
        except RuntimeError as error:
            raise _input_error("this kind of index", error) from error

        # Inner products are cosines times the lengths of the queries.
        return scores if lengths is None else scores * lengths, hits

    def _among(self, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        """Return scores and rows (q, k) of a search among `rows` only, padded with -inf and -1.

        The method is the fastest that this kind of index supports.
        """
        if not len(rows) or not len(queries):
            return best_of([], len(queries), k)  # padding only
        are_few = len(rows) < len(self) // COPY_ONE_ROW_IN
        if self._takes_rows:
            results = self._select(queries, k, rows)
        elif are_few and isinstance(self._core(), faiss.IndexPQFastScan):
            results = self._search_copy(queries, k, rows)
        else:
            results = self._search_all(queries, k, rows)
        return self._fill_up(queries, *results, rows)

    def _fill_up(
        self, queries: Matrix, scores: Matrix, hits: Rows, rows: Rows
    ) -> tuple[Matrix, Rows]:
        """Fill up short results (q, k) with the best of the missing `rows`, in place.

        FAISS's fast scans never return the very worst codes.
        """
        counts = (hits >= 0).sum(axis=1)
        expected = min(hits.shape[1], len(rows))
        for i in np.flatnonzero(counts < expected):
            start = counts[i]
            missing = np.setdiff1d(rows, hits[i])
            products = self._code_products(queries[i : i + 1], missing)
            rest, rest_rows = top_k(products, missing, expected - start)
            # Scores must not rise down the ranking.
            worst = scores[i, start - 1] if start else np.inf
            scores[i, start:expected] = np.minimum(rest[0], worst)
            hits[i, start:expected] = rest_rows[0]
        return scores, hits

    def _code_products(self, queries: Matrix, rows: Rows) -> Matrix:
        """Inner products (q, n) with decoded rows; -1, the minimum, if rows can't be decoded."""
        try:
            X: Matrix = self._index.reconstruct_batch(rows)
        except RuntimeError:  # inverted lists can't look up a row
            return np.full((len(queries), len(rows)), -1, dtype=np.float32)
        if self._by_distance:
            return _cosines(((queries[:, None] - X) ** 2).sum(axis=2))
        products: Matrix = product(queries, X.T)
        return products

    @cached_property
    def _by_distance(self) -> bool:
        return bool(self._index.metric_type == faiss.METRIC_L2)

    def _shorten(self, X: Matrix) -> Matrix:
        """Shorten rows that are compared by distance, as FAISS stores them: see `SHORTER`."""
        return X * SHORTER if self._by_distance else X

    @cached_property
    def _takes_rows(self) -> bool:
        """True if FAISS's row selector works: some kinds refuse it or ignore it."""
        if isinstance(self._index, Halves):
            return False
        # A search for two results among the last row alone has to return that row only.
        last = len(self) - 1
        try:
            _, hits = self._select(np.ones((1, self.dim), np.float32), 2, np.array([last]))
        except RuntimeError:
            return False
        return bool(hits.tolist() == [[last, -1]])

    def _select(self, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        """Search among exactly `rows`, by FAISS's selector."""
        index = self._index
        core = self._core()
        bits = np.packbits(self._mask(rows), bitorder="little")
        params: Any = faiss.SearchParameters()
        ivf = faiss.try_extract_index_ivf(index)
        if ivf is not None:
            params = faiss.SearchParametersIVF()
            params.nprobe = ivf.nlist  # the rows may be in any list
        elif isinstance(core, faiss.IndexHNSW):
            # A search of the graph would miss some rows; its storage is searched completely.
            index = core.storage
        selector: Any = faiss.IDSelectorBitmap  # FAISS's stubs have the C++ signature only
        params.sel = selector(bits)
        return _as_cosines(index, index.search(queries, k, params=params))

    def _search_all(self, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        """Search all rows for more and more results until k of them are in `rows`.

        Results that are not in `rows` are dropped.
        """
        allowed = self._mask(rows)
        needed = min(k, len(rows))
        # Of this many results, on average a few more than k are in `rows`.
        ask = min(len(self), ceil(1.1 * k * len(self) / len(rows)) + 16)
        while True:
            scores, hits = _as_cosines(self._index, self._index.search(queries, ask))
            is_allowed = allowed[hits] & (hits >= 0)  # -1 (no row) would look up the last row
            if ask == len(self) or is_allowed.sum(axis=1).min() >= needed:
                return first_allowed(scores, hits, is_allowed, k)
            ask = min(len(self), 2 * ask)

    def _search_copy(self, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        """Search a temporary index of these rows: decoding and encoding a row keeps its code."""
        index = faiss.clone_index(self._without_rows)
        with _few_threads(len(rows)):
            index.add(self._index.reconstruct_batch(rows))
            scores, hits = _as_cosines(index, index.search(queries, k))
        return scores, np.where(hits < 0, -1, rows[hits])  # hits are positions in `rows`

    @cached_property
    def _without_rows(self) -> Any:
        return clone(self._index, empty=True)

    def _mask(self, rows: Rows) -> NDArray[np.bool_]:
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[rows] = True
        return mask

    @property
    def nbytes(self) -> int:
        """Resident bytes, counted from FAISS's serialised index."""
        total = 0

        def count(data: bytes) -> None:
            nonlocal total
            total += len(data)

        writer = faiss.PyCallbackIOWriter(count)  # type: ignore[attr-defined]
        with self._lock.shared():
            faiss.write_index(whole_of(self._index), writer)
        return total

    @property
    def row_nbytes(self) -> float:
        """Resident bytes per row: its code and, depending on the kind, its id or graph links."""
        index = self._core()
        if isinstance(index, faiss.IndexFlatCodes | faiss.IndexFastScan):
            return float(index.sa_code_size())
        if isinstance(index, faiss.IndexIVF):
            return float(index.code_size + np.dtype(np.int64).itemsize)
        return self.nbytes / max(len(self), 1)

    def save(self, path: Path) -> None:
        """Write in FAISS's format."""
        # FAISS's own writer misses a full disk at the end of the file
        with path.open("wb") as file, self._lock.shared():
            writer = faiss.PyCallbackIOWriter(file.write)  # type: ignore[attr-defined]
            faiss.write_index(whole_of(self._index), writer)

    @classmethod
    def load(cls, path: Path) -> FaissIndex:
        """Load a file written by `save`. Verify its checksum first: FAISS does not validate it."""
        index = cls.__new__(cls)
        index._lock = SharedLock()
        try:
            index._index = halve(faiss.read_index(str(path)))
        except (RuntimeError, MemoryError) as error:
            raise CorruptError(f"{path}: not a FAISS index ({_reason(error)})") from error
        if index._index.metric_type not in METRICS:
            raise CorruptError(f"{path}: unknown metric; expected inner products or distances")
        return index


@contextmanager
def _few_threads(rows: int) -> Iterator[None]:
    """Use one OpenMP thread for work comparable to adding at most `PQ_MOST_ROWS` rows.

    That is faster than waking other threads, and concurrent callers don't wait for each other's.
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
def _faiss_errors(what: str = "this kind of index") -> Iterator[None]:
    """Turn FAISS's errors into `InputError`: only FAISS knows what a factory string supports."""
    try:
        yield
    except RuntimeError as error:
        raise _input_error(what, error) from error


def _input_error(what: str, error: RuntimeError) -> InputError:
    """Create an `InputError` from an error of FAISS."""
    return InputError(f"{what}: FAISS says {_reason(error)}; try another kind")


def _as_cosines(index: Any, results: tuple[Matrix, Rows]) -> tuple[Matrix, Rows]:
    """Convert FAISS's results (q, k) to scores and rows, with -inf where it returned no row.

    Distances become cosines; inner products stay as they are.
    """
    scores, rows = results
    if index.metric_type == faiss.METRIC_L2:
        scores = _cosines(scores)
    if rows.size and rows[:, -1].min() < 0:  # -1 (no row) comes last
        scores[rows < 0] = -np.inf
    return scores, rows


def _cosines(distances: Matrix) -> Matrix:
    """Estimate cosines of unit queries from squared distances: see `SHORTER`."""
    return 1 + SHORTER**2 - distances


def _reason(error: Exception) -> str:
    """Return the last clause of a FAISS message, the part about the input."""
    return (str(error) or type(error).__name__).splitlines()[0].rsplit(": ", 1)[-1].strip()
