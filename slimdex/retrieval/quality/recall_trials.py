"""Agreement trials: the share of the ten nearest by exact search that settings would find.

The ten nearest in a metric (beta, gamma) are found once, exactly, in one pass over the vectors.
Then a setting is tried by its codes alone: a neighbour is found with c candidates if fewer than c
codes are nearer, so one search gives the agreement for every number of candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import NO_ROWS, Matrix, Rows, batches
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import FLAT, kind_named
from slimdex.indexes.ranking import agreement
from slimdex.indexes.reducers.reducer import reduce_rows
from slimdex.indexes.search.reduced_index import ReducedIndex, train_index
from slimdex.indexes.search.rescoring import Metric, Rescorer
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.progress import progress

from ..store.snapshot import Snapshot
from ..store.state import Certificate

SENTENCE = "holds if real queries are no harder than these"
"""Condition under which every bound holds."""
ERROR = 0.05
"""Probability that a bound does not hold."""
NEAREST = 10
ROWS_TOGETHER = 32_768
"""Rows that exact search holds as float32 at a time: 50 MB at 384 dimensions."""
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

    def __init__(self, snapshot: Snapshot, folder: Path) -> None:
        self.moments = snapshot.moments()
        self.vectors: VectorFile = snapshot.index.vectors
        self.hidden = snapshot.hidden
        self.live = snapshot.searchable_rows()
        self._folder = folder

    def exact(self, pool: Pool, rescorer: Rescorer) -> Rows:
        """Rows (q, 10) of the nearest live rows in a metric, padded with -1."""
        count = NEAREST + pool.held_out.shape[1]  # enough even if all held-out rows are near
        _, nearest = _search_in_metric(self.vectors, rescorer, self.live, pool.vectors, count)
        return without_held_out(nearest, pool.held_out)[:, :NEAREST]

    def suits(self, settings: Settings) -> bool:
        """Return whether there are enough vectors for a fit to keep these settings."""
        try:
            fitted, _ = settings.checked(self.vectors.dim).fitted(self.moments)
        except InputError:
            return False
        return fitted == settings

    def build(self, settings: Settings) -> ReducedIndex:
        """Build an index of all rows as `reduce` would, with codes only in memory."""
        reducer = settings.fit_reducer(self.vectors, self.moments)
        metric = None
        if settings.rescores:
            rescorer = Rescorer.fit(self.moments, settings.beta, settings.gamma)
            # The norms in a metric are computed once for all settings.
            path = self._folder / f"norms-{settings.beta:g}-{settings.gamma:g}"
            rows = path.stat().st_size // 4 if path.exists() else 0  # a float32 for each
            metric = Metric(rescorer, self.vectors, VectorFile(path, 1, rows, FLOAT32))
        index = ReducedIndex(
            reducer,
            train_index(kind_named(settings.kind), reducer, self.vectors),
            self.vectors,
            metric=metric,
            asked_candidates=settings.candidates,
        )
        index.extend()
        return index

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


def exact_nearest_of(index: ReducedIndex, pool: Pool, rows: Rows) -> Rows:
    """Rows (q, 10) of the nearest of some rows in the order that an index approximates.

    The rows that are held out of each query's answers are left out.
    """
    count = NEAREST + pool.held_out.shape[1]
    _, nearest = exact_search(index, rows, pool.vectors, count)
    return without_held_out(nearest, pool.held_out)[:, :NEAREST]


def exact_search(index: ReducedIndex, rows: Rows, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
    """Search some rows in the order that an index approximates; return scores and rows (q, k).

    That is its metric or, if it doesn't rescore, the order of the reduced vectors.
    """
    if index.metric is not None:
        return _search_in_metric(index.vectors, index.metric.rescorer, rows, queries, k)
    reduce = partial(reduce_rows, index.reducer)
    return _search(index.vectors, reduce, rows, reduce(queries), k)


def _search_in_metric(
    vectors: VectorFile, rescorer: Rescorer, rows: Rows, queries: Matrix, k: int
) -> tuple[Matrix, Rows]:
    """Search some rows in a metric; return scores and rows (q, k).

    With the shift b of a probe a, its score ``(a . x - b) / |x|`` is the product of (a, -b) and
    (x, 1) / |x|, which FAISS computes in blocks.
    """
    probes = rescorer.probes(queries)
    shifts = np.zeros(len(queries), np.float32) if probes.shifts is None else probes.shifts

    def with_norm(X: Matrix) -> Matrix:
        norms = rescorer.norms(X)
        wide = np.hstack([X, np.ones_like(norms)])
        return np.divide(wide, norms, out=np.zeros_like(wide), where=norms > 0)

    return _search(vectors, with_norm, rows, np.hstack([probes.vectors, -shifts[:, None]]), k)


def _search(
    vectors: VectorFile,
    transform: Callable[[Matrix], Matrix],
    rows: Rows,
    queries: Matrix,
    k: int,
) -> tuple[Matrix, Rows]:
    """Scores and rows (q, k) of the largest products of transformed vectors and queries."""
    best = np.empty((len(queries), 0), np.float32)
    best_rows = np.empty((len(queries), 0), np.int64)
    for part in batches(len(rows), ROWS_TOGETHER):
        index = FaissIndex(FLAT, queries.shape[1])
        for piece in batches(part.stop, start=part.start):
            index.add(transform(vectors.take(rows[piece])))
        scores, positions = index.search(queries, k)
        found = np.where(positions >= 0, rows[part][positions], -1)

        # The best of this part and those before.
        both = np.hstack([best, scores])
        order = np.argsort(-both, axis=1, kind="stable")[:, :k]
        best = np.take_along_axis(both, order, axis=1)
        best_rows = np.take_along_axis(np.hstack([best_rows, found]), order, axis=1)
        progress("searching exactly", part.stop, len(rows))
    return best, best_rows


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


def ranks_of(rows: Rows, truth: Rows, held_out: Rows, most: int) -> Ranks:
    """Ranks of each query's true neighbours (q, 10) among the rows (q, n) of a search, best first.

    Rows that are held out of a query's answers (q, w) are ignored.

    >>> rows = np.array([[9, 4, 7, 5]])
    >>> ranks_of(rows, truth=np.array([[4, 5, 6]]), held_out=np.array([[9]]), most=100).tolist()
    [[0.0, 2.0, inf]]
    """
    out = np.full(truth.shape, np.inf)
    for i, (ranked, wanted) in enumerate(zip(without_held_out(rows, held_out), truth, strict=True)):
        is_same = ranked == wanted[:, None]
        is_ranked = is_same.any(axis=1)
        out[i, is_ranked] = is_same.argmax(axis=1)[is_ranked]
    out[out >= most] = np.inf
    out[truth < 0] = np.nan
    return out


def said(proof: Certificate, rows: int, noun: str = "documents") -> str:
    """Describe a proved bound for an index with this number of rows.

    `noun` says what a row is: passages if texts are cut, since agreement then counts the ten
    nearest of these.

    >>> proof = Certificate(0.9944, 0.9912, 0.05, "a log", 500, 1000, 0.99)
    >>> print(said(proof, 1000))
    agreement@10 with exact search 0.9944, at least 0.99 with 95% confidence, by 500 \
queries: a log; measured on all 1,000 documents; holds if real queries are no harder than these
    >>> "measured on 1,000 documents; now there are 2,500" in said(proof, 2500)
    True
    """
    measured = f"all {rows:,} {noun}"
    if rows != proof.rows:
        measured = f"{proof.rows:,} {noun}; now there are {rows:,}"
    return (
        f"agreement@10 with exact search {proof.estimate:.4f}, at least {proof.promised:.4g} "
        f"with {100 * (1 - proof.error):.4g}% confidence, by {proof.queries:,} queries: "
        f"{proof.pool}; measured on {measured}; {SENTENCE}"
    )
