"""ReducedIndex: a reducer, the codes it feeds, and rescoring from the vectors on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from .arrays import Matrix, Rows, as_matrix, batches, normalize_rows
from .errors import InputError
from .kinds import Kind
from .progress import Progress, silent
from .reducer import Reducer
from .rescorer import Rescorer
from .vector_file import VectorFile
from .vector_index import FaissIndex, VectorIndex, best_of, top_k

NO_ROWS: Rows = np.empty(0, dtype=np.int64)
SHARED_ROWS = 8192
"""Rows added at most to codes that others are searching; beyond that a copy takes them."""

LARGEST = float(np.finfo(np.float16).max)
"""What a vector on disk can hold; squares of what is much more overflow."""


@dataclass(frozen=True)
class Metric:
    """What rescoring reads: the full-dimension metric, vectors and their lengths in it, on disk."""

    rescorer: Rescorer
    vectors: VectorFile
    norms: VectorFile

    def on(self, vectors: VectorFile) -> Metric:
        """The metric over a vector file that has grown; this one's norms stay as they are."""
        return replace(self, vectors=vectors, norms=self.norms.reopened())

    def scores(self, queries: Matrix, rows: Rows) -> Matrix:
        """Cosines (q, n) of queries with the given rows (n,)."""
        return self.rescorer.scores(queries, self.vectors.take(rows), self.norms.take(rows))


class ReducedIndex:
    """Search over the rows of a `VectorFile`; scores are cosines, best first.

    Those who search it see the rows of `vectors` and no others, although `grown` may add more to
    the codes meanwhile.

    Parameters
    ----------
    reducer : fitted, from the vectors' d dimensions to the index's k.
    index : codes of rows ``0 .. len(index)`` of `vectors`; `extend` brings it up to date.
    vectors : the encoder's vectors.
    metric : for rescoring; without it the order of the codes is final.
    candidates : how many of the nearest codes are rescored for each query.
    """

    def __init__(
        self,
        reducer: Reducer,
        index: VectorIndex,
        vectors: VectorFile,
        *,
        metric: Metric | None = None,
        candidates: int = 0,
    ) -> None:
        self.reducer, self.index, self.vectors = reducer, index, vectors
        self.metric, self.candidates = metric, candidates

    def __len__(self) -> int:
        return min(len(self.index), len(self.vectors))

    def grown(self, vectors: VectorFile, progress: Progress = silent) -> ReducedIndex:
        """An index of the same vector file with more rows; this one keeps to its own."""
        few = len(vectors) - len(self) <= SHARED_ROWS
        index = self.index if few else self.index.copy()
        metric = self.metric and self.metric.on(vectors)
        grown = ReducedIndex(
            self.reducer, index, vectors, metric=metric, candidates=self.candidates
        )
        grown.extend(progress)
        return grown

    def kept(self, vectors: VectorFile, norms: VectorFile | None) -> ReducedIndex:
        """The same reducer, metric and codebooks over a file with other rows; `extend` codes it."""
        metric = None
        if self.metric is not None and norms is not None:
            metric = replace(self.metric, vectors=vectors, norms=norms)
        index = self.index.copy(empty=True)
        return ReducedIndex(self.reducer, index, vectors, metric=metric, candidates=self.candidates)

    def extend(self, progress: Progress = silent) -> None:
        """Add the rows that the vector file has and the codes or the norms have not."""
        norms = self.metric.norms if self.metric else None
        stop = start = min(len(self.index), len(self.index) if norms is None else len(norms))
        for chunk in self.vectors.scan(start):
            stop += len(chunk)
            if len(self.index) < stop:
                self.index.add(reduced(self.reducer, chunk[len(self.index) - stop :]))
            if self.metric and len(self.metric.norms) < stop:
                new = chunk[len(self.metric.norms) - stop :]
                self.metric.norms.append(self.metric.rescorer.norms(new))
            progress("indexing", stop, len(self.vectors))

    def search(
        self, queries: Matrix, k: int, rows: Rows | None = None, exclude: Rows = NO_ROWS
    ) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k) for queries (q, d), padded with -inf and -1.

        k is cut to the number of rows. With `rows` the search is exact over those rows.
        `exclude` (sorted) never comes back.
        """
        queries = as_matrix(queries, dim=self.vectors.dim, name="queries")
        if (largest := float(np.abs(queries).max(initial=0.0))) > LARGEST:
            raise InputError(
                f"queries: value {largest:g}; expected up to {LARGEST:g}, as vectors on disk have"
            )
        k = min(k, len(self))
        if not k:
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        if rows is not None:
            rows = np.setdiff1d(rows, exclude, assume_unique=True)
        if self.metric is None or not len(queries):
            return self._nearest_codes(queries, k, rows, exclude)
        if rows is not None:
            chunks = (rows[part] for part in batches(len(rows)))
            return best_of(((self.metric.scores(queries, c), c) for c in chunks), len(queries), k)
        candidates = min(max(self.candidates, k), len(self))
        _, found = self._nearest_codes(queries, candidates, None, exclude)
        each = zip(queries, found, strict=True)
        return _stack([_rescored(self.metric, query[None], rows, k) for query, rows in each], k)

    @property
    def nbytes(self) -> int:
        """Resident bytes: codes, reducer and metric. The vector file stays on disk."""
        metric = self.metric.rescorer.nbytes if self.metric else 0
        return self.index.nbytes + self.reducer.nbytes + metric

    @property
    def fixed_nbytes(self) -> int:
        """What of `nbytes` does not grow with the rows: reducer, metric, codebooks, padding."""
        return round(self.nbytes - len(self) * self.index.row_nbytes)

    def _nearest_codes(
        self, queries: Matrix, count: int, rows: Rows | None, exclude: Rows
    ) -> tuple[Matrix, Rows]:
        """The `count` best codes of each query, with more asked for until none is short."""
        short = reduced(self.reducer, queries)
        if rows is not None or not len(queries):
            return self.index.search(short, count, rows)
        total, live = len(self), len(self) - len(exclude)
        if 2 * live < total:
            kept = np.setdiff1d(np.arange(total), exclude, assume_unique=True)
            return self.index.search(short, count, kept)
        later = len(self.index) - total  # rows that are being added, for others to see
        ask = ceil(count * total / live) + 16 + later if len(exclude) or later else count
        while True:
            scores, found = self.index.search(short, min(ask, total + later))
            hidden = (found >= total) | _contains(exclude, found)
            if not hidden.any():
                return scores[:, :count], found[:, :count]
            found[hidden] = -1
            if ask >= total + later or (found >= 0).sum(axis=1).min() >= min(count, live):
                return _compact(scores, found, count)
            later = len(self.index) - total
            ask *= 2


def reduced(reducer: Reducer, X: Matrix) -> Matrix:
    """Rows (n, d) as the codes see them: reduced to k dimensions, of unit length."""
    return normalize_rows(reducer.transform(X))


def trained(
    kind: Kind,
    reducer: Reducer,
    vectors: VectorFile,
    seed: int = 0,
) -> FaissIndex:
    """An empty index of `kind` for these vectors, trained on a sample of them."""
    rows = np.arange(len(vectors))
    if len(rows) > kind.max_rows:
        chosen = np.random.default_rng(seed).choice(len(rows), kind.max_rows, replace=False)
        rows = np.sort(chosen)
    sample = [reduced(reducer, vectors.take(rows[part])) for part in batches(len(rows))]
    index = FaissIndex(kind, reducer.n_components, len(vectors))
    return index.train(np.concatenate(sample))


def _rescored(metric: Metric, query: Matrix, found: Rows, k: int) -> tuple[Matrix, Rows]:
    rows = np.sort(found[found >= 0])  # in the order they lie on disk
    return top_k(metric.scores(query, rows), rows, k)


def _contains(values: Rows, rows: Rows) -> NDArray[np.bool_]:
    """Which of `rows` are among `values`, which are sorted."""
    if not len(values):
        return np.zeros(rows.shape, dtype=np.bool_)
    places = np.minimum(np.searchsorted(values, rows), len(values) - 1)
    contained: NDArray[np.bool_] = values[places] == rows
    return contained


def _pad(scores: Matrix, rows: Rows, k: int) -> tuple[Matrix, Rows]:
    n = rows.shape[1]
    all_scores = np.full((len(scores), k), -np.inf, dtype=np.float32)
    all_rows = np.full((len(rows), k), -1, dtype=np.int64)
    all_scores[:, :n], all_rows[:, :n] = scores, rows
    return all_scores, all_rows


def _stack(results: list[tuple[Matrix, Rows]], k: int) -> tuple[Matrix, Rows]:
    if not results:
        return np.empty((0, k), dtype=np.float32), np.empty((0, k), dtype=np.int64)
    padded = [r if r[1].shape[1] == k else _pad(*r, k) for r in results]
    if len(padded) == 1:
        return padded[0]
    return np.vstack([s for s, _ in padded]), np.vstack([r for _, r in padded])


def _compact(scores: Matrix, rows: Rows, count: int) -> tuple[Matrix, Rows]:
    """Each query's found rows moved to the left, in order, and cut to `count`."""
    kept = []
    for score, row in zip(scores, rows, strict=True):
        live = row >= 0
        kept.append((score[live][None, :count], row[live][None, :count]))
    return _stack(kept, count)
