"""ReducedIndex: a reducer, the codes it feeds, and rescoring from the vectors on disk."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from .arrays import Matrix, Rows, as_matrix, batches, normalize_rows
from .kinds import Kind
from .progress import Progress, silent
from .reducer import Reducer
from .rescorer import Rescorer
from .vector_file import VectorFile
from .vector_index import FaissIndex, VectorIndex, best_of, top_k

NO_ROWS: Rows = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Metric:
    """What rescoring reads: the full-dimension metric, vectors and their lengths in it, on disk."""

    rescorer: Rescorer
    vectors: VectorFile
    norms: VectorFile

    def scores(self, queries: Matrix, rows: Rows) -> Matrix:
        """Cosines (q, n) of queries with the given rows (n,)."""
        return self.rescorer.scores(queries, self.vectors.take(rows), self.norms.take(rows))


class ReducedIndex:
    """Search over the rows of a `VectorFile`; scores are cosines, best first.

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
        return len(self.index)

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
        k = min(k, len(self))
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
        if rows is not None or not len(exclude) or not len(queries):
            return self.index.search(short, count, rows)
        total, live = len(self), len(self) - len(exclude)
        if live < total // 2:
            kept = np.setdiff1d(np.arange(total), exclude, assume_unique=True)
            return self.index.search(short, count, kept)
        ask = min(total, ceil(count * total / live) + 16)
        while True:
            scores, found = self.index.search(short, ask)
            found[np.isin(found, exclude)] = -1
            if ask == total or (found >= 0).sum(axis=1).min() >= min(count, live):
                return _compact(scores, found, count)
            ask = min(total, 2 * ask)


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
