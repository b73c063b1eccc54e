"""ReducedIndex: search by reduced codes, rescored with the vectors on disk."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from math import ceil

import numpy as np

from slimdex.errors import InputError
from slimdex.system.progress import progress, stage
from slimdex.system.workers import IN_THIS_PROCESS, Workers

from ..arrays import (
    LARGEST,
    NO_ROWS,
    Matrix,
    Rows,
    as_matrix,
    batches,
    contains,
    sample_rows,
    without,
)
from ..codes.faiss_index import FaissIndex
from ..codes.kinds import TRAINING_ROWS_OF_LIST, Kind
from ..options import DEFAULT_LIMIT, default_candidates
from ..ranking import best_of, first_allowed
from ..reducers.reducer import Reducer, reduce_rows
from ..vectors.vector_file import VectorFile
from .filtered_search import FilteredSearch
from .rescoring import Metric, Rescorer

SHARED_ROWS = 8192
"""Largest number of rows added to codes in use; more are added to a copy."""


@dataclass(eq=False)
class ReducedIndex:
    """Search over the rows of a `VectorFile`; scores are cosines, best first.

    Searches return rows of `vectors` only, even while `with_rows_of` adds others to shared codes.

    Parameters
    ----------
    reducer : fitted, from the vectors' d dimensions to the index's k.
    index : codes of rows ``0 .. len(index)`` of `vectors`; `extend` adds the others.
    vectors : the encoder's vectors.
    metric : for rescoring; None ranks by codes alone.
    asked_candidates : number of nearest codes to rescore for ten results; None scales with the
        rows, see `options.default_candidates`.
    """

    reducer: Reducer
    index: FaissIndex
    vectors: VectorFile
    _: KW_ONLY
    metric: Metric | None = None
    asked_candidates: int | None = None

    def __len__(self) -> int:
        return min(len(self.index), len(self.vectors))

    def map(self) -> None:
        """Map the files of rows, which may be deleted before they are first needed."""
        self.vectors.map()
        if self.metric is not None:
            self.metric.norms.map()

    def with_rows_of(self, vectors: VectorFile, norms: VectorFile | None = None) -> ReducedIndex:
        """Return an index of the same vector file with more rows; this one is unchanged.

        `norms` is the file of norms if another process has extended it already.
        """
        # Both objects may share the codes: each ignores rows that its vector file lacks.
        is_shared = len(vectors) - len(self) <= SHARED_ROWS
        index = self.index if is_shared else self.index.copy()
        metric = self.metric and self.metric.with_vectors(vectors)
        if metric is not None and norms is not None:
            metric = replace(metric, norms=norms)
        extended = replace(self, index=index, vectors=vectors, metric=metric)
        extended.extend()
        return extended

    def without_rows(self, vectors: VectorFile, norms: VectorFile | None) -> ReducedIndex:
        """Return an empty index over another file, with the same reducer, metric and codebooks."""
        metric = None
        if self.metric is not None and norms is not None:
            metric = replace(self.metric, vectors=vectors, norms=norms)
        index = self.index.copy(empty=True)
        return replace(self, index=index, vectors=vectors, metric=metric)

    def extend(self, workers: Workers = IN_THIS_PROCESS) -> None:
        """Add the rows of the vector file that the codes or the norms lack.

        Workers reduce chunks of rows; encoding stays in this process, which has the codebooks.
        """
        norms = self.metric.norms if self.metric else None
        rescorer = self.metric.rescorer if self.metric else None
        start = len(self.index)
        if norms is not None:
            start = min(start, len(norms))

        # Codes or norms may already have the first rows of a chunk: only the rest is added.
        stop = start
        reduction = partial(_reduce_with_norms, self.reducer, rescorer)
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
        """Return scores and rows (q, k) for queries (q, d), padded with -inf and -1.

        Parameters
        ----------
        k : at most the number of rows; a larger k is cut to that.
        rows : sorted; restricts the search.
        exclude : sorted; never returned.
        candidates : rows to rescore in this search, at least k; 0 ranks by codes alone. By
            default `candidates_for(k)`.
        """
        if candidates and self.metric is None:
            raise InputError(
                f"candidates={candidates}: this index was built with candidates=0 and can't "
                "rescore; expected 0, or an index rebuilt by `reduce`"
            )
        metric = None if candidates == 0 else self.metric
        if candidates is None:
            candidates = self.candidates_for(k)
        queries = as_matrix(queries, dim=self.vectors.dim, name="queries", largest=LARGEST)
        k = min(k, len(self))
        if not k or not len(queries):
            return best_of([], len(queries), k)  # padding only

        # Among some rows.
        if rows is not None:
            with stage("scan"):
                rows = without(rows, exclude)
                if metric is None:
                    return self.index.search(reduce_rows(self.reducer, queries), k, rows)
                filtered = FilteredSearch(self.reducer, self.index, metric, candidates)
                return filtered.search(queries, k, rows)

        # Among all: candidates by their codes, ordered by their full vectors.
        if metric is None:
            with stage("scan"):
                return self._nearest_codes(queries, k, exclude)
        candidates = min(max(candidates, k), len(self))
        with stage("scan"):
            _, nearest = self._nearest_codes(queries, candidates, exclude)
        with stage("rescore"):
            return metric.rescore(queries, k, nearest)

    def candidates_for(self, limit: int) -> int:
        """Number of rows to rescore for `limit` results.

        `candidates` suffice for `DEFAULT_LIMIT` results or fewer. Beyond that, agreement stays
        constant if they grow in proportion to the limit.
        """
        return ceil(self.candidates * max(limit, DEFAULT_LIMIT) / DEFAULT_LIMIT)

    @property
    def candidates(self) -> int:
        """Number of rows to rescore for ten results or fewer."""
        if self.metric is None:
            return 0
        requested = self.asked_candidates
        return default_candidates(len(self)) if requested is None else requested

    @property
    def nbytes(self) -> int:
        """Resident bytes: codes, reducer and metric. The vector file stays on disk."""
        metric = self.metric.rescorer.nbytes if self.metric else 0
        return self.index.nbytes + self.reducer.nbytes + metric

    @property
    def fixed_nbytes(self) -> int:
        """Part of `nbytes` that is independent of the rows: reducer, metric, codebooks, padding."""
        return round(self.nbytes - len(self) * self.index.row_nbytes)

    def _nearest_codes(self, queries: Matrix, count: int, exclude: Rows) -> tuple[Matrix, Rows]:
        """Return scores and rows (q, count) of the best codes, without the rows of `exclude`.

        More and more codes are requested until each query has enough allowed ones.
        """
        short = reduce_rows(self.reducer, queries)
        total = len(self)
        live = total - len(exclude)
        newer = len(self.index) - total  # rows that another thread is adding to shared codes
        ask = count
        if len(exclude) or newer:
            ask = ceil(count * total / max(live, 1)) + 16 + newer

        while True:
            scores, hits = self.index.search(short, min(ask, total + newer))

            # Usually nothing is excluded or newer, and all results are returned.
            if ask == count and not len(exclude) and hits.min() >= 0 and hits.max() < total:
                return scores, hits
            is_hidden = (hits >= total) | contains(exclude, hits)
            if not (len(exclude) or is_hidden.any() or (hits[:, :count] < 0).any()):
                return scores[:, :count], hits[:, :count]

            # Otherwise, return the first allowed results if each query has enough of them.
            is_allowed = (hits >= 0) & ~is_hidden
            if is_allowed.sum(axis=1).min() >= min(count, live):
                return first_allowed(scores, hits, is_allowed, count)
            if ask >= total + newer:
                # A graph or inverted lists are searched only in part: compare all allowed rows.
                return self.index.search(short, count, without(np.arange(total), exclude))
            newer = len(self.index) - total
            ask *= 2


def _reduce_with_norms(
    reducer: Reducer, rescorer: Rescorer | None, rows: Matrix
) -> tuple[Matrix, Matrix | None]:
    """Return rows (n, d) reduced to (n, k), and their lengths (n, 1) in the metric, if any."""
    norms = None if rescorer is None else rescorer.norms(rows)
    return reduce_rows(reducer, rows), norms


def train_index(kind: Kind, reducer: Reducer, vectors: VectorFile) -> FaissIndex:
    """Create an empty index of `kind`, trained on the vectors, or a random sample of them."""
    index = FaissIndex(kind, reducer.n_components, len(vectors))
    _, lists = index.probes or (0, 0)
    most_rows = max(kind.max_rows, TRAINING_ROWS_OF_LIST * lists)
    rows = sample_rows(len(vectors), most_rows, seed=0)
    chunks = [reduce_rows(reducer, vectors.take(rows[part])) for part in batches(len(rows))]
    return index.train(np.concatenate(chunks))
