"""Nearest: the rows or documents closest to the queries of a request, by meaning and by words.

The nearest rows may all belong to one document. So the search is repeated for more rows until it
has found enough documents or no rows are left. At least as many rows are rescored as requested.

With lexical search, each query is searched twice: in the whole collection at a fixed depth, which
sets the scales of the fusion (`Whole`), and as requested, which finds further rows. So the order of
two rows depends on neither filter, limit, batch nor candidates. Rows found only by lexical search
are scored by their vectors too, so that each has both scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, contains, without
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.timing import stage
from slimdex.indexes.ranking import compacted, stacked
from slimdex.indexes.search.reduced_index import ReducedIndex

from ..catalog.passages_table import DocumentRows
from ..encoders.runtimes.processor import cores
from ..lexical.fusion import AUTO, WORDED, Candidates, Fusion, Whole
from ..lexical.word_index import Found, WordIndex
from ..storage.snapshot import Snapshot
from .request import PASSAGE, SearchRequest

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

FIRST, MORE = 4, 4
"""Rows requested per document at first, and the factor of each repetition."""
LONG = 500_000
"""Rows, times queries, at which lexical search is worth threads; tantivy releases Python's lock."""
LEAST = np.float32(-1)
"""Cosine of rows that codes leave out."""
DenseSearch = Callable[[Matrix, int], tuple[Matrix, Rows]]
"""Encoded queries and k -> scores and rows (q, k or fewer), best first, padded with -inf and -1."""


@dataclass(frozen=True)
class Searches:
    """How to search the rows of documents.

    Attributes
    ----------
    dense : finds the nearest rows.
    documents : the documents of rows.
    total : number of rows, an upper limit of the documents to find.
    least : rows to request at first, if more than `FIRST` for each document.
    hybrid : searches in place of `dense`, if the request counts words, and the fusion of both.
    """

    dense: DenseSearch
    documents: DocumentRows
    total: int
    least: int = 0
    hybrid: tuple[IndexSearch, Fusion] | None = None


class Nearest(NamedTuple):
    """Rows found for queries, best first.

    Attributes
    ----------
    scores : (q, k), cosines, padded with -inf.
    rows : (q, k), padded with -1.
    found_by : (q, k), places in `FOUND_BY`; None if all were found by their meaning.
    """

    scores: Matrix
    rows: Rows
    found_by: Rows | None = None


def nearest(searches: Searches, request: SearchRequest) -> Nearest:
    """The nearest rows (q, k or fewer) to encoded queries, each the best of its document.

    Grouped by passage, a document may have several.
    """
    queries, k = request.query_vectors, request.limit
    any_row = request.group_by == PASSAGE or searches.documents.is_one_each
    k = k if any_row else min(k, searches.total)
    ask = k if any_row else max(FIRST * k, searches.least)
    wholes, candidates = list[Whole](), dict[int, Candidates]()
    if searches.hybrid is not None:
        wholes = searches.hybrid[0].whole(request.texts or (), queries)
    left, near = np.arange(len(queries)), queries
    while True:
        if searches.hybrid is None:
            hits = searches.dense(near, ask)
        else:
            both, fusion = searches.hybrid
            joined = both.candidates([wholes[i] for i in left], near, ask)
            candidates.update(zip(left.tolist(), joined, strict=True))
            hits = in_order(joined, fusion, ask)
        if any_row:
            scores, rows = hits
            break
        is_best = best_of_documents(searches.documents.documents(hits[1]))
        best = compacted(*hits, is_best, k)
        if near is queries:
            scores, rows = best
        else:
            scores[left], rows[left] = best
        if hits[1].shape[1] < ask or ask >= searches.total:
            break  # no rows are left
        left = left[(is_best.sum(axis=1) < k) & (hits[1][:, -1] >= 0)]
        if not len(left):
            break
        near, ask = queries[left], ask * MORE
    if searches.hybrid is None:
        return Nearest(scores, rows)
    found_by = [candidates[i].found_by(query_rows) for i, query_rows in enumerate(rows)]
    return Nearest(scores, rows, np.array(found_by, dtype=np.int64).reshape(rows.shape))


def in_order(joined: Sequence[Candidates], fusion: Fusion, k: int) -> tuple[Matrix, Rows]:
    """Cosines and rows (q, k or fewer) of each query's candidates, in the order of a fusion."""
    best = [each.order(fusion.scores(each))[:k] for each in joined]
    each = [
        (candidates.cosines[None, first], candidates.rows[None, first])
        for candidates, first in zip(joined, best, strict=True)
    ]
    return stacked(each, max(map(len, best), default=0))


def best_of_documents(documents: Rows) -> NDArray[np.bool_]:
    """Mark the first of each document among answers (q, n), best first; -1 is padding.

    >>> best_of_documents(np.array([[4, 7, 4, -1]])).tolist()
    [[True, True, False, False]]
    """
    first = np.zeros(documents.shape, dtype=bool)
    for is_first, each in zip(first, documents, strict=True):
        _, places = np.unique(each, return_index=True)
        is_first[places] = True
    return first & (documents >= 0)


def nearest_documents(snapshot: Snapshot, request: SearchRequest) -> tuple[Matrix, Rows]:
    """Scores and documents (q, k), by their first rows, which `compact` renumbers."""
    scores, rows, _ = nearest(searches_of(snapshot, request), request)
    return scores, snapshot.document_rows.documents(rows)


def searches_of(snapshot: Snapshot, request: SearchRequest) -> Searches:
    """The searches of a snapshot that a request asks for, with its filter and fusion.

    Raises `InputError` if `where` is invalid, or there is no lexical index to fuse with.
    """
    index, rescored = snapshot.index, request.candidates
    if rescored is None:
        rescored = index.candidates_for(request.limit)
    fusion = _fusion(snapshot, request)
    words = None if fusion is None else snapshot.words
    allowed = _allowed(snapshot, request.where)
    hidden, hybrid = snapshot.hidden, None
    least = rescored if allowed is None else 0
    if fusion is not None:
        assert words is not None
        hybrid = IndexSearch(index, words, hidden, rescored, allowed), fusion
    dense = partial(index.search, rows=allowed, exclude=hidden, candidates=rescored)
    return Searches(dense, snapshot.document_rows, snapshot.state.rows, least, hybrid)


def _fusion(snapshot: Snapshot, request: SearchRequest) -> Fusion | None:
    fusion = request.fusion(snapshot.state.fusion)
    if fusion is None or snapshot.state.words is not None:
        return fusion
    if request.hybrid == AUTO:
        return None
    path = snapshot.path
    raise InputError(
        f"hybrid={request.hybrid!r}: {path} has no lexical index; expected one "
        f"(`slimdex lexical {path}` builds it)"
    )


def _allowed(snapshot: Snapshot, where: str | None) -> Rows | None:
    """All rows of the documents that match a condition; None without one."""
    if where is None:
        return None
    snapshot.opened()  # a filter may wait, while others remove files
    with stage("filter"):
        return snapshot.document_rows.all_rows(snapshot.documents_where(where))


@dataclass(frozen=True)
class IndexSearch:
    """Dense and lexical search of an index's rows, by default all but the hidden ones, sorted.

    So many are rescored for each query.
    """

    index: ReducedIndex
    words: WordIndex
    hidden: Rows
    rescored: int
    allowed: Rows | None = None

    @property
    def _usual(self) -> int:
        """Rows to rescore in the whole collection: as many as the index's settings say."""
        return self.index.candidates if self.rescored else 0

    def whole(self, texts: Sequence[str], queries: Matrix) -> list[Whole]:
        """Best rows of the whole collection for queries as texts and as vectors (q, d)."""
        search = partial(self.words.search, k=WORDED, hidden=self.hidden)
        is_long = len(texts) * len(self.words) >= LONG and cores() > 1
        with _threads() if is_long else nullcontext() as pool:
            searches = pool.map(search, texts) if pool else map(search, texts)
            usual = self._usual
            near = self.index.search(queries, usual or WORDED, None, self.hidden, usual)
            with stage("words"):
                worded = list(searches)
        total = len(self.words) - len(self.hidden)
        return [Whole(*each, total) for each in zip(_found(*near), worded, strict=True)]

    def candidates(self, wholes: Sequence[Whole], queries: Matrix, k: int) -> list[Candidates]:
        """Rows that a request for k finds for queries (q, d), by either search."""
        if self.allowed is None and self.rescored == self._usual and k <= self.rescored:
            near = [whole.near for whole in wholes]
        else:  # rows without words keep the order of meaning: k of them are enough
            depth = k if self.allowed is not None else max(k, self.rescored)
            near = _found(
                *self.index.search(queries, depth, self.allowed, self.hidden, self.rescored)
            )
        worded = [self._allowed(whole.words) for whole in wholes]
        missing = [
            without(np.union1d(words.rows, self._allowed(whole.near).rows), np.sort(hits.rows))
            for words, whole, hits in zip(worded, wholes, near, strict=True)
        ]
        with stage("rescore"):
            others = map(Found, self._cosines(queries, missing), missing)
            each = zip(near, others, worded, wholes, strict=True)
            return [Candidates.joined(*parts) for parts in each]

    def _cosines(self, queries: Matrix, rows: Sequence[Rows]) -> list[NDArray[np.float32]]:
        metric = None if self.rescored == 0 else self.index.metric
        if metric is None:
            return [
                self._of_codes(queries[i : i + 1], query_rows) for i, query_rows in enumerate(rows)
            ]
        probes = metric.probes(queries).each()
        return [metric.scores(*each)[0] for each in zip(probes, rows, strict=True)]

    def _of_codes(self, query: Matrix, rows: Rows) -> NDArray[np.float32]:
        (scores,), (hits,) = self.index.search(query, len(rows), rows, candidates=0)
        cosines = np.full(len(rows), LEAST, dtype=np.float32)
        cosines[np.searchsorted(rows, hits[hits >= 0])] = scores[hits >= 0]
        return cosines

    def _allowed(self, hits: Found) -> Found:
        """The rows that the filter allows."""
        if self.allowed is None:
            return hits
        kept = contains(self.allowed, hits.rows)
        named = hits.named[contains(self.allowed, hits.named)]
        return Found(hits.scores[kept], hits.rows[kept], named, hits.ideal)


def _found(scores: Matrix, rows: Rows) -> list[Found]:
    return [Found(s[r >= 0], r[r >= 0]) for s, r in zip(scores, rows, strict=True)]


def _threads() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(cores())
