"""Find the hits of a search request, by meaning, by words, or by both.

The nearest rows may all belong to one document. So the search is repeated for more rows until it
has found enough documents or no rows are left (`BestRows`). At least as many rows are rescored as
requested.

With lexical search, each query is searched twice: in the whole collection at a fixed depth, which
sets the scales of the fusion (`FusionScales`), and as requested, which finds further rows. So the
order of two rows depends on neither filter, limit, batch nor candidates. Rows found only by lexical
search are scored by their vectors too, so that each has both scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import Matrix, Rows, contains, normalize_rows, union, without
from slimdex.indexes.ranking import first_allowed, stack_results
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.system.progress import stage
from slimdex.system.spare_threads import in_parallel

from ..documents import Document, Hit, line_at
from ..encoders.base import Encoder, encode_queries
from ..lexical.fusion import AUTO, FINDERS, MEANING, Candidates, Fusion, FusionScales, fusion_of
from ..lexical.word_bonuses import WORDED
from ..lexical.word_index import ScoredRows
from ..passages import headings_of, part_at
from ..store.snapshot import Snapshot
from ..store.state import State
from ..store.unfinished import was_stopped
from .code_ranking import CodeRanking
from .options import PASSAGE
from .request import Hits, SearchRequest

FIRST = 4
MORE = 4
"""Rows requested per document at first, and the factor of each repetition."""
LONG = 500_000
"""Rows, times queries, at which lexical search is worth threads; tantivy releases Python's lock."""
LEAST = np.float32(-1)
"""Cosine of rows that codes leave out."""


def find(
    snapshot: Snapshot, request: SearchRequest, encoder_of: Callable[[State], Encoder]
) -> Hits:
    """Return the nearest hits of each query, best first, before any are cut or reranked.

    `encoder_of` loads the encoder of a state, if texts have to be encoded.

    Raises `InputError` for an unfinished build, if `where` is invalid, or if there is no lexical
    index to fuse with.
    """
    state = snapshot.state
    texts = request.texts or ()
    rows = rows_for(snapshot, request)
    vectors = vectors_of(request, lambda: encoder_of(state), state.epoch)
    scales = rows.fusion_scales(texts, vectors) if rows.fusion else []
    scores, best, finders = nearest(rows, request, vectors, scales)
    return hits(snapshot, scores, best, finders, rows.definitions(texts, best))


def rows_for(snapshot: Snapshot, request: SearchRequest) -> IndexRows:
    """Return the rows that a request may find.

    Raises the errors of `find` that need no vectors, so a caller can report them before it loads a
    model. The matches of a filter are remembered, so `find` does not evaluate it again.
    """
    if was_stopped(snapshot.path, snapshot.state):
        raise InputError(f"{snapshot.path} holds no documents yet; {snapshot.unfinished}")
    return IndexRows.of(snapshot, request)


def related(snapshot: Snapshot, id: str, limit: int = 10, where: str | None = None) -> list[Hit]:
    """Find the documents nearest to a document, best first, without itself.

    The query is the mean of the stored vectors of its passages, each of length 1, so nothing is
    encoded. `limit` and `where` are those of `Collection.search`.

    Raises `InputError` if the id is unknown, the document has no text, or as a search does.
    """
    # The query is the mean vector of the document's passages with text.
    SearchRequest(texts=id, limit=limit)  # checks the limit
    passage_rows = snapshot.document_rows.all_rows(np.array([snapshot.row_of(id)]))
    passage_rows = passage_rows[~np.isin(passage_rows, snapshot.hidden)]
    if not len(passage_rows):
        raise InputError(f"document {id!r} has no text; expected one with text")
    mean = normalize_rows(snapshot.index.vectors.take(passage_rows)).mean(axis=0, keepdims=True)

    # Request one more hit, since the document itself is among them.
    request = SearchRequest(vectors=mean, limit=limit + 1, where=where)
    rows = IndexRows.of(snapshot, request)
    (nearest_hits,) = hits(snapshot, *nearest(rows, request, mean))
    others = [hit for hit in nearest_hits if hit.id != id]
    return others[:limit]


def nearest_documents(snapshot: Snapshot, request: SearchRequest) -> tuple[Matrix, Rows]:
    """Return scores and documents (q, k) for an encoded request.

    A document is identified by its first row, which is valid until `compact` renumbers the rows.
    """
    rows = IndexRows.of(snapshot, request)
    vectors = request.query_vectors
    scales = rows.fusion_scales(request.texts or (), vectors) if rows.fusion else []
    scores, passage_rows, _ = nearest(rows, request, vectors, scales)
    return scores, snapshot.document_rows.documents(passage_rows)


def vectors_of(
    request: SearchRequest, encoder: Callable[[], Encoder], epoch: int | None = None
) -> Matrix:
    """Return the query vectors (q, dim) of a request; encode its texts if it has none.

    `epoch` is that of the index's encoder. If the vectors are from another epoch, the texts are
    encoded again.

    Raises `InputError` if the encoder returns another number of vectors.
    """
    has_vectors = request.vectors is not None and request.epoch in (None, epoch)
    if has_vectors or request.texts is None:
        return request.query_vectors
    return replace(request, vectors=encode_queries(encoder(), request.texts)).query_vectors


def fusion_for(request: SearchRequest, auto: str, lacking: str = "") -> Fusion | None:
    """Return the fusion that a request asks for; None for semantic search alone.

    Parameters
    ----------
    auto : fusion that `hybrid="auto"` selects for the index.
    lacking : why there is no lexical search, for the error; "" if there is one.

    Raises `InputError` if the request names a fusion, and there is no lexical search.
    """
    if request.hybrid == AUTO:
        return None if lacking or request.texts is None else fusion_of(auto)
    fusion = fusion_of(request.hybrid)
    if lacking and fusion is not None:
        raise InputError(f"hybrid={request.hybrid!r}: {lacking}")
    return fusion


class SearchedRows(Protocol):
    """Rows that a request may find, of an index or of Milvus."""

    @property
    def fusion(self) -> Fusion | None:
        """Fusion of both searches; None searches by meaning alone."""

    def best(self, queries: int, k: int) -> BestRows:
        """Empty results for this number of queries, k documents each."""

    @property
    def search(self) -> Callable[[Matrix, int], tuple[Matrix, Rows]]:
        """Function from queries (q, d) and k to scores and rows (q, k or fewer), padded."""

    def fusion_scales(self, texts: Sequence[str], queries: Matrix) -> list[FusionScales]:
        """Best rows of the whole collection for queries as texts and as vectors (q, d)."""

    def near(self, scales: Sequence[FusionScales], queries: Matrix, k: int) -> Sequence[ScoredRows]:
        """At least the k nearest rows of each query; those of its `scales` if they suffice."""

    def score(self, queries: Matrix, rows: Sequence[Rows]) -> list[ScoredRows]:
        """For each query, those of its sorted rows (n,) that it may find, and their cosines."""

    def fuse(self, text: str, candidates: Candidates) -> NDArray[np.float64]:
        """Scores (n,) that order the rows found for a query by either search."""


def nearest(
    rows: SearchedRows, request: SearchRequest, vectors: Matrix, scales: Sequence[FusionScales] = ()
) -> tuple[Matrix, Rows, Rows]:
    """Cosines, rows, and places in `FINDERS` (q, k or fewer) for queries (q, dim), best first.

    Each row is the best of its document; grouped by passage, a document may have several. The
    cosines are padded with -inf, and the rows with -1. A fusion requires the `scales` of queries.
    """
    count = len(vectors)
    k = request.limit
    best = BestRows(count, k) if request.group_by == PASSAGE else rows.best(count, k)
    fusion = rows.fusion
    candidates_of_query = dict[int, Candidates]()

    # Queries whose best rows belong to too few documents are searched again, for more rows.
    while not best.is_complete:
        queries = vectors[best.left]
        if fusion is None:
            best.add(*rows.search(queries, best.ask))
            continue
        numbers = best.left.tolist()
        per_query = candidates(rows, [scales[i] for i in numbers], queries, best.ask)
        texts = request.texts or ()
        fused = []
        for i, of_query in zip(numbers, per_query, strict=True):
            candidates_of_query[i] = of_query
            fused.append(rows.fuse(texts[i], of_query))
        best.add(*in_order(per_query, fused, best.ask))

    # Record which search found each row.
    finders = np.full(best.rows.shape, MEANING)
    for i, of_query in candidates_of_query.items():
        finders[i] = of_query.finders(best.rows[i])
    return best.scores, best.rows, finders


def candidates(
    rows: SearchedRows, scales: Sequence[FusionScales], queries: Matrix, k: int
) -> list[Candidates]:
    """Return the rows that either search finds for each query (q, d), if k rows are requested."""
    near = rows.near(scales, queries, k)

    # The best rows of the whole collection are candidates too, if a filter allows them.
    missing = [_others(*pair) for pair in zip(scales, near, strict=True)]
    others = rows.score(queries, missing)
    per_query = zip(near, others, scales, strict=True)
    return [Candidates.join(*parts) for parts in per_query]


def _others(scales: FusionScales, near: ScoredRows) -> Rows:
    """The best rows of the whole collection by either search that are not in `near`, sorted."""
    best = [scales.words.rows]
    if near is not scales.near:  # otherwise `near` has all of these
        best.append(scales.near.rows)
    return without(union(*best), np.sort(near.rows))


def in_order(
    per_query: Sequence[Candidates], fused: Sequence[NDArray[np.float64]], k: int
) -> tuple[Matrix, Rows]:
    """Cosines and rows (q, k or fewer) of each query's candidates, by their fused scores (n,)."""
    ranked = list[tuple[Matrix, Rows]]()
    for each, scores in zip(per_query, fused, strict=True):
        best = each.order(scores, k)
        ranked.append((each.cosines[None, best], each.rows[None, best]))
    return stack_results(ranked, max((rows.shape[1] for _, rows in ranked), default=0))


class BestRows:
    """The best row of each document, collected until each query has k documents.

    Parameters
    ----------
    queries : their number, q.
    documents : returns the documents of rows, in any shape; None if each row is one.
    total : largest number of rows to request, and an upper bound of the documents.
    least : rows to request at first, if more than `FIRST` for each document.

    Attributes
    ----------
    left, ask : numbers of the queries to search next, and the rows to request for each.
    is_complete : whether none is to be searched any more.
    scores, rows : (q, k or fewer), best first, padded with -inf and -1.
    """

    def __init__(
        self,
        queries: int,
        k: int,
        documents: Callable[[Rows], Rows] | None = None,
        total: int = 0,
        least: int = 0,
    ) -> None:
        self._documents = documents
        self._total = total
        self._k = min(k, total)
        self.left = np.arange(queries)
        self.ask = k
        self.is_complete = False
        if documents is not None:
            self.ask = max(FIRST * self._k, least)
            self.scores: Matrix = np.full((queries, self._k), -np.inf, dtype=np.float32)
            self.rows: Rows = np.full((queries, self._k), -1, dtype=np.int64)

    def add(self, scores: Matrix, rows: Rows) -> None:
        """Add the results of a search for `ask` rows of each query in `left`.

        Scores and rows are (q, n), best first, padded. Afterwards, `left` holds the queries that
        need more rows, and `ask` is the number of rows to request.
        """
        # If each row is a document, the first search is enough.
        if self._documents is None:
            self.scores = scores
            self.rows = rows
            self.is_complete = True
            return
        is_best = best_of_documents(self._documents(rows))
        best = first_allowed(scores, rows, is_best, self._k)
        self.scores[self.left], self.rows[self.left] = best
        if rows.shape[1] < self.ask or self.ask >= self._total:
            self.is_complete = True  # no rows are left
            return
        has_too_few = is_best.sum(axis=1) < self._k
        has_all_rows = rows[:, -1] < 0  # padding at the end: no more rows match
        self.left = self.left[has_too_few & ~has_all_rows]
        self.ask = self.ask * MORE
        self.is_complete = not len(self.left)


def best_of_documents(documents: Rows) -> NDArray[np.bool_]:
    """Mark the first of each document among answers (q, n), best first; -1 is padding.

    >>> best_of_documents(np.array([[4, 7, 4, -1]])).tolist()
    [[True, True, False, False]]
    """
    first = np.zeros(documents.shape, dtype=bool)
    for is_first, each in zip(first, documents, strict=True):
        _, first_positions = np.unique(each, return_index=True)
        is_first[first_positions] = True
    return first & (documents >= 0)


@dataclass(frozen=True)
class IndexRows:
    """The rows of an index that a request may find: see `SearchedRows`.

    Attributes
    ----------
    index : of the snapshot, or one that searches the same rows exactly.
    rescored : rows to rescore for each query.
    allowed : sorted rows that the request's condition allows; None without one.
    code : ranks an index of source code; None for any other.
    """

    snapshot: Snapshot
    index: ReducedIndex
    rescored: int
    allowed: Rows | None = None
    fusion: Fusion | None = None
    code: CodeRanking | None = None

    @classmethod
    def of(cls, snapshot: Snapshot, request: SearchRequest) -> IndexRows:
        """The rows of a snapshot that a request may find, with its fusion.

        Raises `InputError` if `where` is invalid, or there is no lexical index to fuse with.
        """
        index = snapshot.index
        state = snapshot.state

        # Fusion with lexical search, if the index has one.
        path = snapshot.path
        builds = f"expected one (`slimdex reduce {path} --lexical on` builds it)"
        lacking = "" if state.words else f"{path} has no lexical index; {builds}"
        fusion = fusion_for(request, state.fusion, lacking)
        if fusion is not None:
            _ = snapshot.words  # raises an error if damaged

        # Rows that the filter allows.
        where = request.condition
        allowed = None
        if where is not None:
            snapshot.open()  # a filter may wait, while others remove files
            with stage("filter"):
                documents = snapshot.documents_where(where)
                allowed = snapshot.document_rows.all_rows(documents)

        rescored = request.candidates
        if rescored is None:
            rescored = index.candidates_for(request.limit)
        return cls(
            snapshot=snapshot,
            index=index,
            rescored=rescored,
            allowed=allowed,
            fusion=fusion,
            code=CodeRanking.of(snapshot) if fusion is not None else None,
        )

    def best(self, queries: int, k: int) -> BestRows:
        """Empty results for this number of queries, k documents each."""
        rows = self.snapshot.document_rows
        if rows.is_one_each:
            return BestRows(queries, k)
        return BestRows(queries, k, rows.documents, self.snapshot.state.rows, self._least)

    @property
    def _least(self) -> int:
        """Fewest rows to request: all that are rescored; 0 with a filter, whose search decides."""
        return self.rescored if self.allowed is None else 0

    @property
    def _usual(self) -> int:
        """Rows to rescore in the whole collection: as many as the index's settings say."""
        return self.index.candidates if self.rescored else 0

    @property
    def search(self) -> Callable[[Matrix, int], tuple[Matrix, Rows]]:
        """Function from queries (q, d) and k to scores and rows (q, k or fewer), padded."""
        search = self.index.search
        hidden = self.snapshot.hidden
        return partial(search, rows=self.allowed, exclude=hidden, candidates=self.rescored)

    def fusion_scales(self, texts: Sequence[str], queries: Matrix) -> list[FusionScales]:
        """Best rows of the whole collection for queries as texts and as vectors (q, d)."""
        words = self.snapshot.words
        hidden = self.snapshot.hidden
        usual = self._usual
        assert words is not None
        search = partial(words.search, k=WORDED, hidden=hidden)

        # Run both searches at the same time if the lexical one takes long.
        takes_long = len(texts) * len(words) >= LONG
        with in_parallel(search, texts if takes_long else ()) as results_of_threads:
            # `usual` is 0 without rescoring: then request as many rows as lexical search.
            near = self.index.search(queries, usual or WORDED, exclude=hidden, candidates=usual)
            with stage("words"):
                by_words = results_of_threads() or list(map(search, texts))

        # Collect what the fusion of each query needs.
        total = len(words) - len(hidden)
        means = self.snapshot.mean_cosines(queries).tolist()
        per_query = zip(_rankings(*near), by_words, means, strict=True)
        return [FusionScales(*parts, total) for parts in per_query]

    def near(self, scales: Sequence[FusionScales], queries: Matrix, k: int) -> list[ScoredRows]:
        """At least the k nearest rows of each query; those of its `scales` if they suffice."""
        # The request would repeat the search of the whole collection.
        if self.allowed is None and self.rescored == self._usual and k <= self.rescored:
            return [each.near for each in scales]
        # With a filter, rows without words keep the order of meaning: k of them are enough.
        return _rankings(*self.search(queries, max(k, self._least)))

    def score(self, queries: Matrix, rows: Sequence[Rows]) -> list[ScoredRows]:
        """For each query, those of its sorted rows (n,) that are allowed, and their cosines."""
        if self.allowed is not None:
            rows = [each[contains(self.allowed, each)] for each in rows]

        # Score by full vectors, or by the codes if the index does not rescore.
        metric = self.index.metric if self.rescored else None
        scored = list[ScoredRows]()
        with stage("rescore"):
            if metric is None:
                for i, of_query in enumerate(rows):
                    scores = self._of_codes(queries[i : i + 1], of_query)
                    scored.append(ScoredRows(scores, of_query))
                return scored
            for probe, of_query in zip(metric.probes(queries).each(), rows, strict=True):
                scored.append(ScoredRows(metric.scores(probe, of_query)[0], of_query))
        return scored

    def fuse(self, text: str, candidates: Candidates) -> NDArray[np.float64]:
        """Scores (n,) that order the rows found for a query, ranked as code if they are that."""
        assert self.fusion is not None
        scores = self.fusion.scores(candidates)
        if self.code is None:
            return scores
        # A row unrelated to the query scores the mean cosine by the rule, and about 0 otherwise.
        unrelated = candidates.scales.mean if self.fusion.weight == AUTO else 0.0
        return self.code.scores(text, candidates, scores, unrelated)

    def definitions(self, texts: Sequence[str], rows: Rows) -> list[dict[int, int]]:
        """For each query, row -> where a definition that it asks for begins in the text."""
        if self.code is None:
            return []
        per_query = zip(texts, rows, strict=True)
        return [
            self.code.definitions(text, of_query[of_query >= 0]) for text, of_query in per_query
        ]

    def _of_codes(self, query: Matrix, rows: Rows) -> NDArray[np.float32]:
        """Return the cosines (n,) of sorted rows (n,) with a query (1, d), from the codes alone."""
        (scores,), (nearest_rows,) = self.index.search(query, len(rows), rows, candidates=0)
        cosines = np.full(len(rows), LEAST, dtype=np.float32)
        is_row = nearest_rows >= 0  # others are padding
        cosines[np.searchsorted(rows, nearest_rows[is_row])] = scores[is_row]
        return cosines


def _rankings(scores: Matrix, rows: Rows) -> list[ScoredRows]:
    """Split results (q, k) into those of each query, without padding."""
    return [ScoredRows(s[r >= 0], r[r >= 0]) for s, r in zip(scores, rows, strict=True)]


def hits(
    snapshot: Snapshot,
    scores: Matrix,
    rows: Rows,
    finders: Rows,
    definitions: Sequence[Mapping[int, int]] = (),
) -> Hits:
    """Read the documents of the rows that `nearest` returns, and make their hits.

    `definitions` are those of `IndexRows.definitions`, if there are any.
    """
    firsts = snapshot.document_rows.documents(rows)  # a document is identified by its first row
    with stage("fetch"):
        documents = snapshot.documents(np.unique(firsts[firsts >= 0]).tolist())
    scores = np.minimum(scores, 1)  # no cosine is greater, however it was rounded

    hits_of_queries = []
    for i, starts in enumerate(definitions or [{}] * len(rows)):
        hits_of_query = []
        lists = (scores[i].tolist(), rows[i].tolist(), firsts[i].tolist(), finders[i].tolist())
        for score, row, first, finder in zip(*lists, strict=True):
            if row >= 0:  # others are padding
                document = documents[first]
                start = starts.get(row)
                hit = hit_of(document, row - first, score, FINDERS[finder], start)
                hits_of_query.append(hit)
        hits_of_queries.append(hits_of_query)
    return hits_of_queries


def hit_of(
    document: Document,
    number: int,
    score: float,
    finder: str = "meaning",
    definition: int | None = None,
) -> Hit:
    """The hit of one passage of a document; passages are numbered from 0.

    `definition` is where a definition that the query asks for begins: then the hit's line, headings
    and anchor are those of the definition.

    Raises `CorruptError` if the passage does not exist.
    """
    passages = document.passages or [(0, len(document.text))]
    if number >= len(passages):
        raise CorruptError(
            f"document {document.id!r}: {len(passages)} passages; expected {number + 1} or more"
        )
    start, end = passages[number]
    begin = start if definition is None else definition  # offset of line, part and anchor
    part = part_at(document.parts, begin) if document.parts else None
    headings = headings_of(document.parts, start, end)

    # Numbers of lines, for documents that have them.
    lines = document.lines
    line = None
    last_line = None
    if document.has_lines:
        line = line_at(document.text, lines, begin)
        last_line = line_at(document.text, lines, max(start, end - 1))

    return Hit(
        id=document.id,
        score=score,
        text=document.text[start:end],
        title=document.title,
        metadata=document.metadata,
        start=start,
        end=end,
        line=line,
        last_line=last_line,
        page=part.page if part else None,
        headings=headings if definition is None or part is None else tuple(part.headings),
        anchor=part.anchor if part else "",
        found_by=finder,
        lines=[(offset - start, in_file) for offset, in_file in lines if start < offset < end],
    )
