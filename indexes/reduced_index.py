"""ReducedIndex: a reducer, the codes it feeds, and rescoring from the vectors on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from threading import Lock

import numpy as np

from .arrays import LARGEST, Matrix, Rows, as_matrix, batches, contains, normalize_rows, without
from .choices import usual_candidates
from .errors import InputError
from .filtered_search import FilteredSearch
from .kinds import Kind
from .progress import progress
from .ranking import best_of, compacted, stacked, top_k
from .reducer import Reducer
from .rescoring import Metric, Probes, Rescorer
from .search_costs import Costs
from .timing import stage
from .vector_file import VectorFile
from .vector_index import FaissIndex, VectorIndex
from .workers import HERE, Workers

NO_ROWS: Rows = np.empty(0, dtype=np.int64)
SHARED_ROWS = 8192
"""Rows added at most to codes that others are searching; beyond that a copy takes them."""


@dataclass(frozen=True)
class Reduction:
    """What an index keeps of rows (n, d): reduced (n, k), and norms (n, 1) in a metric, if any."""

    reducer: Reducer
    rescorer: Rescorer | None

    def __call__(self, rows: Matrix) -> tuple[Matrix, Matrix | None]:
        """Reduced rows of unit length, and the rows' norms."""
        norms = None if self.rescorer is None else self.rescorer.norms(rows)
        return reduced(self.reducer, rows), norms


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
    candidates : how many of the nearest codes are rescored for each query; None: as many as hold
        the agreement for so many rows, see `choices.usual_candidates`.
    """

    def __init__(
        self,
        reducer: Reducer,
        index: VectorIndex,
        vectors: VectorFile,
        *,
        metric: Metric | None = None,
        candidates: int | None = None,
    ) -> None:
        self.reducer, self.index, self.vectors = reducer, index, vectors
        self.metric, self.asked_candidates = metric, candidates
        self._costs: Costs | None = None
        self._timing = Lock()

    def __len__(self) -> int:
        return min(len(self.index), len(self.vectors))

    def grown(self, vectors: VectorFile) -> ReducedIndex:
        """An index of the same vector file with more rows; this one keeps to its own."""
        few = len(vectors) - len(self) <= SHARED_ROWS
        index = self.index if few else self.index.copy()
        metric = self.metric and self.metric.on(vectors)
        grown = ReducedIndex(
            self.reducer, index, vectors, metric=metric, candidates=self.asked_candidates
        )
        grown._costs = self._costs
        grown.extend()
        return grown

    def kept(self, vectors: VectorFile, norms: VectorFile | None) -> ReducedIndex:
        """The same reducer, metric and codebooks over a file with other rows; `extend` codes it."""
        metric = None
        if self.metric is not None and norms is not None:
            metric = replace(self.metric, vectors=vectors, norms=norms)
        index = self.index.copy(empty=True)
        kept = ReducedIndex(
            self.reducer, index, vectors, metric=metric, candidates=self.asked_candidates
        )
        kept._costs = self._costs
        return kept

    def extend(self, workers: Workers = HERE) -> None:
        """Add the rows that the vector file has and the codes or the norms have not.

        Workers reduce chunks of rows; the codebooks, which they would have to be sent, are here.
        """
        norms = self.metric.norms if self.metric else None
        stop = start = min(len(self.index), len(self.index) if norms is None else len(norms))
        rescorer = self.metric.rescorer if self.metric else None
        reduction = Reduction(self.reducer, rescorer)
        for chunk, (short, lengths) in workers.map(reduction, self.vectors.scan(start)):
            stop += len(chunk)
            if len(self.index) < stop:
                self.index.add(short[len(self.index) - stop :])
            if norms is not None and lengths is not None and len(norms) < stop:
                norms.append(lengths[len(norms) - stop :])
            progress("indexing", stop, len(self.vectors))

    def search(
        self,
        queries: Matrix,
        k: int,
        rows: Rows | None = None,
        exclude: Rows = NO_ROWS,
        candidates: int | None = None,
    ) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k) for queries (q, d), padded with -inf and -1.

        k is cut to the number of rows. With `rows` (sorted) the search is among those.
        `exclude` (sorted) never comes back. `candidates` are rescored for this search alone in
        place of the index's own; with 0 the order of the codes is final.
        """
        if candidates and self.metric is None:
            raise InputError(
                f"candidates={candidates}: this index was made with candidates=0 and rescores "
                "none; expected 0, or another index (`reduce` makes one)"
            )
        metric = None if candidates == 0 else self.metric
        candidates = self.candidates if candidates is None else candidates
        queries = as_matrix(queries, dim=self.vectors.dim, name="queries", largest=LARGEST)
        k = min(k, len(self))
        if not k or not len(queries):
            return best_of([], len(queries), k)
        if rows is not None:
            with stage("scan"):
                rows = without(rows, exclude)
                if metric is None:
                    return self.index.search(reduced(self.reducer, queries), k, rows)
                filtered = FilteredSearch(self.reducer, self.index, metric, candidates)
                return filtered.search(queries, k, rows, self.costs)
        if metric is None:
            with stage("scan"):
                return self._nearest_codes(queries, k, exclude)
        candidates = min(max(candidates, k), len(self))
        with stage("scan"):
            _, found = self._nearest_codes(queries, candidates, exclude)
        with stage("rescore"):
            each = zip(metric.probes(queries).each(), found, strict=True)
            return stacked([_rescored(metric, probe, rows, k) for probe, rows in each], k)

    def filtered(self) -> FilteredSearch:
        """The search among given rows, for an index that rescores."""
        assert self.metric is not None
        return FilteredSearch(self.reducer, self.index, self.metric, self.candidates)

    def costs(self) -> Costs:
        """What its ways cost: timed when first asked, and again when the index has doubled."""
        with self._timing:
            if self._costs is None or len(self) > 2 * self._costs.total:
                self._costs = self.filtered().timed(len(self))
            return self._costs

    @property
    def candidates(self) -> int:
        """Rows that are rescored for each query."""
        if self.metric is None:
            return 0
        asked = self.asked_candidates
        return usual_candidates(len(self)) if asked is None else asked

    @property
    def nbytes(self) -> int:
        """Resident bytes: codes, reducer and metric. The vector file stays on disk."""
        metric = self.metric.rescorer.nbytes if self.metric else 0
        return self.index.nbytes + self.reducer.nbytes + metric

    @property
    def fixed_nbytes(self) -> int:
        """What of `nbytes` does not grow with the rows: reducer, metric, codebooks, padding."""
        return round(self.nbytes - len(self) * self.index.row_nbytes)

    def _nearest_codes(self, queries: Matrix, count: int, exclude: Rows) -> tuple[Matrix, Rows]:
        """The `count` best codes of each query, with more asked for until none is short."""
        short = reduced(self.reducer, queries)
        total, live = len(self), len(self) - len(exclude)
        later = len(self.index) - total  # rows that are being added, for others to see
        ask = ceil(count * total / max(live, 1)) + 16 + later if len(exclude) or later else count
        while True:
            scores, found = self.index.search(short, min(ask, total + later))
            if ask == count and not len(exclude) and found.min() >= 0 and found.max() < total:
                return scores, found
            hidden = (found >= total) | contains(exclude, found)
            if not (len(exclude) or hidden.any() or (found[:, :count] < 0).any()):
                return scores[:, :count], found[:, :count]
            kept = (found >= 0) & ~hidden
            if kept.sum(axis=1).min() >= min(count, live):
                return compacted(scores, found, kept, count)
            if ask >= total + later:  # a graph or lists that are not all gone through
                return self.index.search(short, count, without(np.arange(total), exclude))
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
    index = FaissIndex(kind, reducer.n_components, len(vectors))
    return index.train(training_sample(reducer, vectors, kind.max_rows, seed))


def training_sample(reducer: Reducer, vectors: VectorFile, most: int, seed: int = 0) -> Matrix:
    """Reduced rows (n, k) to train on, in their order: all, or a random choice of `most`."""
    rows = np.arange(len(vectors))
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(seed).choice(len(rows), most, replace=False))
    return np.concatenate(
        [reduced(reducer, vectors.take(rows[part])) for part in batches(len(rows))]
    )


def _rescored(metric: Metric, probe: Probes, found: Rows, k: int) -> tuple[Matrix, Rows]:
    rows = np.sort(found)  # in the order they lie on disk
    if rows[0] < 0:
        rows = rows[rows >= 0]
    return top_k(metric.scores(probe, rows), rows, k)
