"""Agreement trials: the share of the ten nearest by exact search that settings would find.

The ten nearest in a metric (beta, gamma) are found once, exactly, in one pass over the vectors.
Then a setting is tried by its codes alone: a neighbour is found with c candidates if fewer than c
codes are nearer, so one search gives the agreement for every number of candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches, contains, sample_rows, without
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import FLAT, kind_named
from slimdex.indexes.ranking import agreement
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.reducers.reducer import reduce_rows
from slimdex.indexes.search.reduced_index import NO_ROWS, ReducedIndex, train_index
from slimdex.indexes.search.rescoring import Metric, Rescorer
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.progress import progress

from ..store.snapshot import Snapshot

ERROR = 0.05
"""Probability that a bound does not hold."""
NEAREST = 10
ROWS_TOGETHER = 32_768
"""Rows that exact search holds as float32 at a time: 50 MB at 384 dimensions."""
SCREENED_ROWS = 65_536
"""Largest sample of rows to screen settings on."""
SLACK = 512
"""Allowance for codes of other queries' neighbours in a sample's ranking."""

Ranks = NDArray[np.float64]
"""(q, 10): number of other codes nearer than each true neighbour's; infinite if unknown."""


@dataclass(frozen=True)
class Pool:
    """Queries to measure an index with."""

    name: str  # description of the queries
    vectors: Matrix  # (q, d)
    held_out: Rows  # (q, w), rows of the documents that each was made of, padded with -1
    texts: Sequence[str] = ()  # one per query, or more, if any

    @classmethod
    def of_queries(cls, name: str, vectors: Matrix) -> Pool:
        """Queries not made from documents."""
        return cls(name, vectors, np.empty((len(vectors), 0), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.vectors)

    def part(self, chosen: slice) -> Pool:
        """A slice of the queries, without their texts."""
        return Pool(self.name, self.vectors[chosen], self.held_out[chosen])

    def join(self, other: Pool) -> Pool:
        """These queries and others of their kind, without their texts."""
        width = max(self.held_out.shape[1], other.held_out.shape[1])
        count = len(self.held_out)
        held_out: Rows = np.full((count + len(other.held_out), width), -1, dtype=np.int64)
        held_out[:count, : self.held_out.shape[1]] = self.held_out
        held_out[count:, : other.held_out.shape[1]] = other.held_out
        vectors = np.concatenate([self.vectors, other.vectors])
        return Pool(self.name, vectors, held_out)


def recalls(ranks: Ranks, count: int) -> NDArray[np.float64]:
    """Return the share (q,) of each query's neighbours that are among the first `count` codes.

    `ranks` (q, n) has the number of codes nearer than each neighbour's, or inf if it is unknown.
    NaN pads the ranks of a query with fewer than n neighbours.

    >>> recalls(np.array([[0.0, 3.0, np.inf, np.nan]]), 3).tolist()
    [0.3333333333333333]
    """
    exists = ~np.isnan(ranks)
    matches = (ranks < count) & exists
    shares: NDArray[np.float64] = matches.sum(axis=1) / np.maximum(exists.sum(axis=1), 1)
    return shares


class Trials:
    """Tries settings on a snapshot's vectors, without changing it.

    The folder is for temporary files: 4 bytes per row and metric.
    """

    def __init__(self, snapshot: Snapshot, moments: Moments, folder: Path) -> None:
        self.snapshot = snapshot
        self.moments = moments
        self.vectors: VectorFile = snapshot.index.vectors
        self.hidden = snapshot.hidden
        self.live = without(np.arange(len(self.vectors)), self.hidden)
        self._folder = folder
        self._sample: tuple[Rows, Matrix] | None = None

    def exact(self, pool: Pool, rescorer: Rescorer) -> Rows:
        """Rows (q, 10) of the nearest live rows in a metric, padded with -1."""
        return exact_nearest(self.vectors, rescorer, pool, self.live)

    def screen(self, settings: Settings, pool: Pool, truth: Rows, most: int) -> Ranks:
        """Estimate the ranks by the codes of a sample of the rows; exact if it has all rows.

        The settings have a k, and a kind that searches all its codes. `truth` is of `exact`; ranks
        from `most` on are infinite.
        """
        sample, vectors = self._sample_with(truth)

        # Codes of the sample.
        reducer = settings.fit_reducer(self.vectors, self.moments)
        codes = train_index(kind_named(settings.kind), reducer, self.vectors)
        for part in batches(len(sample)):
            codes.add(reduce_rows(reducer, vectors[part]))

        # Their order for each query; each row of the sample stands for `weight` rows.
        weight = len(self.live) / min(SCREENED_ROWS, len(self.live))
        # The sample also has the neighbours of other queries, which do not count.
        slack = SLACK if weight > 1 else 0
        count = min(ceil(most / weight) + slack + pool.held_out.shape[1], len(sample))
        _, positions = codes.search(reduce_rows(reducer, pool.vectors), count)
        rows = np.where(positions >= 0, sample[positions], -1)
        if weight == 1:
            return ranks_of(rows, truth, pool.held_out, most)
        return ranks_of(
            rows=rows,
            truth=truth,
            held_out=pool.held_out,
            most=most,
            drawn=contains(self._draw(), rows),
            weight=weight,
        )

    def build(self, settings: Settings) -> ReducedIndex:
        """Build an index of all rows as `reduce` would, with codes only in memory."""
        path = self._folder / f"norms-{settings.beta:g}-{settings.gamma:g}"
        return build_index(self.vectors, settings, self.moments, path)

    def ranks(self, index: ReducedIndex, pool: Pool, truth: Rows, most: int) -> Ranks:
        """Ranks of the true neighbours by all codes of an index, without rescoring."""
        count = min(most + pool.held_out.shape[1], len(self.live))
        _, rows = index.search(pool.vectors, count, exclude=self.hidden, candidates=0)
        return ranks_of(rows, truth, pool.held_out, most)

    def measure(
        self, index: ReducedIndex, pool: Pool, truth: Rows
    ) -> tuple[NDArray[np.float64], list[float]]:
        """Agreement of each query by the search that users get, and the seconds of each."""
        rows, seconds = answers(index, pool, self.hidden)
        return agreement(rows, truth, NEAREST), seconds

    def _draw(self) -> Rows:
        """Draw the same random sample of live rows at each call; all rows if there are few."""
        return self.live[sample_rows(len(self.live), SCREENED_ROWS, seed=0)]

    def _sample_with(self, truth: Rows) -> tuple[Rows, Matrix]:
        """Return the sample and all true neighbours, in order, with their vectors.

        They stay in memory for other settings with the same neighbours.
        """
        neighbours = truth[truth >= 0]
        if self._sample is None or not np.isin(neighbours, self._sample[0]).all():
            rows = np.union1d(self._draw(), neighbours)
            self._sample = (rows, self.vectors.take(rows))
        return self._sample


def build_index(
    vectors: VectorFile, settings: Settings, moments: Moments, norms: Path
) -> ReducedIndex:
    """Build an index of all rows as `reduce` would, in memory, with settings for these moments.

    The file of norms is created unless it exists; then it must have the norms in this metric.
    """
    reducer = settings.fit_reducer(vectors, moments)
    metric = None
    if settings.rescores:
        rescorer = Rescorer.fit(moments, settings.beta, settings.gamma)
        rows = norms.stat().st_size // 4 if norms.exists() else 0  # a float32 for each
        metric = Metric(rescorer, vectors, VectorFile(norms, 1, rows, FLOAT32))
    codes = train_index(kind_named(settings.kind), reducer, vectors)
    index = ReducedIndex(reducer, codes, vectors, metric=metric, candidates=settings.candidates)
    index.extend()
    return index


def exact_nearest(vectors: VectorFile, rescorer: Rescorer, pool: Pool, rows: Rows) -> Rows:
    """Rows (q, 10) of the nearest of some rows in a metric, padded with -1.

    The rows that are held out of each query's answers are left out. With the shift b of a probe a,
    its score ``(a . x - b) / |x|`` is the product of (a, -b) and (x, 1) / |x|, which FAISS computes
    in blocks.
    """
    probes = rescorer.probes(pool.vectors)
    shifts = np.zeros(len(pool), np.float32) if probes.shifts is None else probes.shifts
    queries = np.hstack([probes.vectors, -shifts[:, None]])

    def with_norm(X: Matrix) -> Matrix:
        norms = rescorer.norms(X)
        wide = np.hstack([X, np.ones_like(norms)])
        return np.divide(wide, norms, out=np.zeros_like(wide), where=norms > 0)

    return _nearest(vectors, with_norm, queries, pool.held_out, rows)


def exact_nearest_of(index: ReducedIndex, pool: Pool, rows: Rows) -> Rows:
    """Rows (q, 10) of the nearest of some rows in the order that an index approximates.

    That is its metric or, if it doesn't rescore, the order of the reduced vectors.
    """
    if index.metric is not None:
        return exact_nearest(index.vectors, index.metric.rescorer, pool, rows)
    reduce = partial(reduce_rows, index.reducer)
    return _nearest(index.vectors, reduce, reduce(pool.vectors), pool.held_out, rows)


def _nearest(
    vectors: VectorFile,
    transform: Callable[[Matrix], Matrix],
    queries: Matrix,
    held_out: Rows,
    rows: Rows,
) -> Rows:
    """Rows (q, 10) with the largest products of transformed vectors and queries.

    Rows held out of a query's answers (q, w) are left out.
    """
    count = NEAREST + held_out.shape[1]  # enough even if all held-out rows are near

    def chunks() -> Iterator[tuple[Matrix, Rows]]:
        for part in batches(len(rows), ROWS_TOGETHER):
            index = FaissIndex(FLAT, queries.shape[1])
            for piece in batches(part.stop, start=part.start):
                index.add(transform(vectors.take(rows[piece])))
            scores, positions = index.search(queries, count)
            progress("searching exactly", part.stop, len(rows))
            yield scores, np.where(positions >= 0, rows[part][positions], -1)

    best = best_of_each(chunks(), len(queries), count)
    return without_held_out(best, held_out)[:, :NEAREST]


def answers(index: ReducedIndex, pool: Pool, hidden: Rows = NO_ROWS) -> tuple[Rows, list[float]]:
    """Search for each query of a pool as users do, one at a time, without held-out rows.

    Returns the rows (q, 10), padded with -1, and the seconds of each query.
    """
    nearest: Rows = np.full((len(pool), NEAREST), -1, dtype=np.int64)
    seconds = []
    for i, (query, held_out) in enumerate(zip(pool.vectors, pool.held_out, strict=True)):
        excluded = np.union1d(hidden, held_out[held_out >= 0])
        start = perf_counter()
        _, rows = index.search(query[None], NEAREST, exclude=excluded)
        seconds.append(perf_counter() - start)
        nearest[i, : rows.shape[1]] = rows[0]
    return nearest, seconds


def best_of_each(chunks: Iterator[tuple[Matrix, Rows]], queries: int, k: int) -> Rows:
    """Merge the scores and rows (queries, n) of all parts; return the best rows (queries, k)."""
    scores = np.full((queries, k), -np.inf, dtype=np.float32)
    rows = np.full((queries, k), -1, dtype=np.int64)
    for new_scores, new_rows in chunks:
        both_scores = np.hstack([scores, new_scores])
        both_rows = np.hstack([rows, new_rows])
        order = np.argsort(-both_scores, axis=1, kind="stable")[:, :k]
        scores = np.take_along_axis(both_scores, order, axis=1)
        rows = np.take_along_axis(both_rows, order, axis=1)
    return rows


def without_held_out(rows: Rows, held_out: Rows) -> Rows:
    """Remove each query's held-out rows from answers (q, n), keeping the order, padded with -1.

    >>> without_held_out(np.array([[4, 5, 6], [7, 8, 9]]), np.array([[5, 4], [-1, 9]])).tolist()
    [[6, -1, -1], [7, 8, -1]]
    """
    if not held_out.shape[1]:
        return rows
    gone = is_held_out(rows, held_out)
    order = np.argsort(gone, axis=1, kind="stable")
    remaining: Rows = np.take_along_axis(np.where(gone, -1, rows), order, axis=1)
    return remaining


def is_held_out(rows: Rows, held_out: Rows) -> NDArray[np.bool_]:
    """Mark answers (q, n) that are held out of each query's answers (q, w).

    >>> is_held_out(np.array([[4, 5, -1], [7, 8, 9]]), np.array([[5, -1], [-1, 9]])).tolist()
    [[False, True, False], [False, False, True]]
    """
    masks = [np.isin(answer, out[out >= 0]) for answer, out in zip(rows, held_out, strict=True)]
    return np.array(masks, dtype=np.bool_).reshape(rows.shape)  # also if there are no queries


def ranks_of(
    rows: Rows,
    truth: Rows,
    held_out: Rows,
    most: int,
    drawn: NDArray[np.bool_] | None = None,
    weight: float = 1.0,
) -> Ranks:
    """Ranks of each query's true neighbours (q, 10) among the rows (q, n) of a search, best first.

    Rows that are held out of a query's answers (q, w) are ignored. Rows of a sample, `drawn`
    (q, n), stand for `weight` rows each; others count once, and only if they are the query's
    neighbours.

    >>> rows = np.array([[9, 4, 7, 5]])
    >>> ranks_of(rows, truth=np.array([[4, 5, 6]]), held_out=np.array([[9]]), most=100).tolist()
    [[0.0, 2.0, inf]]
    """
    out = np.full(truth.shape, np.inf)
    gone = is_held_out(rows, held_out)
    for i, (ranked, wanted) in enumerate(zip(rows, truth, strict=True)):
        # Matches (10, n) of neighbours and ranked rows; -1 pads both.
        same = (ranked == wanted[:, None]) & (wanted >= 0)[:, None]

        # How many rows each ranked row stands for.
        counts = np.full(len(ranked), weight) if drawn is None else np.where(drawn[i], weight, 0.0)
        counts[same.any(axis=0)] = 1.0
        counts[(ranked < 0) | gone[i]] = 0.0

        # A neighbour's rank is the number of rows before it.
        before = np.cumsum(counts) - counts
        is_ranked = same.any(axis=1)
        out[i, is_ranked] = before[same.argmax(axis=1)[is_ranked]]
    out[out >= most] = np.inf
    out[truth < 0] = np.nan
    return out
