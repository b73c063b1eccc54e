"""ReducedIndex: a reducer, the codes it feeds, and rescoring from the vectors on disk."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from .arrays import SCAN_ROWS, Matrix, Rows, as_matrix, batches, normalize_rows
from .kinds import Kind
from .progress import Progress, silent
from .reducer import Reducer
from .rescorer import Rescorer
from .vector_file import VectorFile
from .vector_index import FaissIndex, VectorIndex, top_k

TRAINING_ROWS = 65_536
"""Codebooks are trained on at most this many rows: 16 centroids use 4,096 of them."""
NO_ROWS: Rows = np.empty(0, dtype=np.int64)


class ReducedIndex:
    """Search over the rows of a `VectorFile`; scores are cosines, best first.

    Parameters
    ----------
    reducer : fitted, from the vectors' d dimensions to the index's k.
    index : codes of rows ``0 .. len(index)`` of `vectors`; `extend` brings it up to date.
    vectors : the encoder's vectors.
    rescorer, norms : the full-dimension metric, and each row's length in it (n, 1).
        Without them the order of the codes is final.
    candidates : how many of the nearest codes are rescored for each query.
    """

    def __init__(
        self,
        reducer: Reducer,
        index: VectorIndex,
        vectors: VectorFile,
        *,
        rescorer: Rescorer | None = None,
        norms: VectorFile | None = None,
        candidates: int = 0,
    ) -> None:
        self.reducer, self.index, self.vectors = reducer, index, vectors
        self.rescorer, self.norms, self.candidates = rescorer, norms, candidates

    def __len__(self) -> int:
        return len(self.index)

    def train(self, kind: Kind, seed: int = 0) -> None:
        """Replace the codes by an empty index of `kind`, trained on a sample of the rows."""
        rows = np.arange(len(self.vectors))
        if len(rows) > TRAINING_ROWS:
            chosen = np.random.default_rng(seed).choice(len(rows), TRAINING_ROWS, replace=False)
            rows = np.sort(chosen)
        sample = [self._reduce(self.vectors.take(rows[part])) for part in batches(len(rows))]
        k = self.reducer.n_components
        self.index = FaissIndex(kind, k, len(self.vectors)).train(np.concatenate(sample))

    def extend(self, progress: Progress = silent) -> None:
        """Add the rows that the vector file has and the codes or the norms have not."""
        total = len(self.vectors)
        for chunk in self.vectors.scan(len(self.index)):
            self.index.add(self._reduce(chunk))
            progress("indexing", len(self.index), total)
        if self.rescorer is not None and self.norms is not None:
            for chunk in self.vectors.scan(len(self.norms)):
                self.norms.append(self.rescorer.norms(chunk))

    def search(
        self, queries: Matrix, k: int, rows: Rows | None = None, exclude: Rows = NO_ROWS
    ) -> tuple[Matrix, Rows]:
        """Scores (q, k) and rows (q, k) for queries (q, d), padded with -inf and -1.

        With `rows` the search is exact over those rows. `exclude` (sorted) never comes back.
        """
        queries = as_matrix(queries, dim=self.vectors.dim, name="queries")
        if rows is not None:
            rows = np.setdiff1d(rows, exclude, assume_unique=True)
        if self.rescorer is None or self.norms is None:
            return self._nearest_codes(queries, k, rows, exclude)
        metric = _Metric(self.vectors, self.rescorer, self.norms)
        if rows is not None:
            return _exact(metric, queries, k, rows)
        _, found = self._nearest_codes(queries, max(self.candidates, k), None, exclude)
        best = [_rescored(metric, q[None], f, k) for q, f in zip(queries, found, strict=True)]
        return _stack(best, k)

    @property
    def nbytes(self) -> int:
        """Resident bytes: codes, reducer and metric. The vector file stays on disk."""
        return (
            self.index.nbytes + self.reducer.nbytes + (self.rescorer.nbytes if self.rescorer else 0)
        )

    @property
    def fixed_nbytes(self) -> int:
        """What of `nbytes` does not grow with the rows: reducer, metric, codebooks, padding."""
        return round(self.nbytes - len(self) * self.index.row_nbytes)

    def _reduce(self, X: Matrix) -> Matrix:
        return normalize_rows(self.reducer.transform(X))

    def _nearest_codes(
        self, queries: Matrix, count: int, rows: Rows | None, exclude: Rows
    ) -> tuple[Matrix, Rows]:
        """The `count` best codes of each query, with more asked for until none is short."""
        reduced = self._reduce(queries)
        if rows is not None or not len(exclude):
            return self.index.search(reduced, count, rows)
        total, live = len(self), len(self) - len(exclude)
        if live < total // 2:
            kept = np.setdiff1d(np.arange(total), exclude, assume_unique=True)
            return self.index.search(reduced, count, kept)
        ask = min(total, ceil(count * total / live) + 16)
        while True:
            scores, found = self.index.search(reduced, ask)
            found[np.isin(found, exclude)] = -1
            if ask == total or (found >= 0).sum(axis=1).min() >= min(count, live):
                return _compact(scores, found, count)
            ask = min(total, 2 * ask)


@dataclass(frozen=True)
class _Metric:
    """What rescoring reads: vectors and their norms on disk, and the full-dimension metric."""

    vectors: VectorFile
    rescorer: Rescorer
    norms: VectorFile

    def scores(self, queries: Matrix, rows: Rows) -> Matrix:
        """Cosines (q, n) of queries with the given rows (n,)."""
        return self.rescorer.scores(queries, self.vectors.take(rows), self.norms.take(rows))


def _rescored(metric: _Metric, query: Matrix, found: Rows, k: int) -> tuple[Matrix, Rows]:
    rows = np.sort(found[found >= 0])  # in the order they lie on disk
    return top_k(metric.scores(query, rows), rows, k)


def _exact(metric: _Metric, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
    """The k best of `rows`, a chunk at a time."""
    scores: Matrix = np.empty((len(queries), 0), dtype=np.float32)
    best: Rows = np.empty((len(queries), 0), dtype=np.int64)
    for part in batches(len(rows), SCAN_ROWS):
        found, found_rows = top_k(metric.scores(queries, rows[part]), rows[part], k)
        scores, best = np.hstack([scores, found]), np.hstack([best, found_rows])
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        scores = np.take_along_axis(scores, order, axis=1)
        best = np.take_along_axis(best, order, axis=1)
    return _pad(scores, best, k)


def _pad(scores: Matrix, rows: Rows, k: int) -> tuple[Matrix, Rows]:
    n = rows.shape[1]
    all_scores = np.full((len(scores), k), -np.inf, dtype=np.float32)
    all_rows = np.full((len(rows), k), -1, dtype=np.int64)
    all_scores[:, :n], all_rows[:, :n] = scores, rows
    return all_scores, all_rows


def _stack(results: list[tuple[Matrix, Rows]], k: int) -> tuple[Matrix, Rows]:
    if not results:
        return np.empty((0, k), dtype=np.float32), np.empty((0, k), dtype=np.int64)
    padded = [_pad(scores, rows, k) for scores, rows in results]
    return np.vstack([s for s, _ in padded]), np.vstack([r for _, r in padded])


def _compact(scores: Matrix, rows: Rows, count: int) -> tuple[Matrix, Rows]:
    """Each query's found rows moved to the left, in order, and cut to `count`."""
    kept = []
    for score, row in zip(scores, rows, strict=True):
        live = row >= 0
        kept.append((score[live][None, :count], row[live][None, :count]))
    return _stack(kept, count)
