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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import Matrix, Rows, Scores, contains, normalize_rows, union, without
from slimdex.indexes.options import MODEL, TABLE
from slimdex.indexes.ranking import first_allowed, stack_results
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.system.progress import stage
from slimdex.system.spare_threads import in_parallel

from ..documents import Document, Hit, line_at
from ..encoders.base import Encoder, encode_queries
from ..lexical.fusion import (
    AUTO,
    FINDERS,
    MEANING,
    WORDED,
    Candidates,
    Fusion,
    FusionScales,
    bounded,
    fusion_of,
)
from ..lexical.word_index import ScoredRows
from ..passages import headings_of, part_at
from ..store.snapshot import Snapshot
from ..store.state import State
from .code_ranking import CodeRanking
from .options import PASSAGE
from .request import Hits, SearchRequest
from .waiting import WaitingRows, merged

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
    rows = rows_for(snapshot, request)
    state = snapshot.state
    encoder = partial(encoder_of, state)
    if state.waits:
        rows = replace(rows, waiting=WaitingRows(snapshot, encoder, rows.rescored > 0))
    of_queries = partial(encoder_for, snapshot, request, encoder_of)
    vectors = vectors_of(request, of_queries, state.epoch)
    best = nearest(rows, request, vectors)
    definitions = rows.definitions(request.texts or (), best.rows) if rows.code else []
    return hits(snapshot, best, definitions)


def rows_for(snapshot: Snapshot, request: SearchRequest) -> IndexRows:
    """Return the rows of a snapshot that a request may find, with its fusion.

    Raises the errors of `find` that need no vectors, so a caller can report them before it loads a
    model. The matches of a filter are remembered, so `find` does not evaluate it again.
    """
    path = snapshot.path

    # Fusion with lexical search, if the index has one.
    state = snapshot.state
    builds = f"expected one (`slimdex reduce {path} --lexical on` builds it)"
    lacking = "" if state.words else f"{path} has no lexical index; {builds}"
    fusion = fusion_for(request, state.hybrid or AUTO, lacking)
    words = None if fusion is None else snapshot.words  # raises an error if damaged
    is_mostly_code = words is not None and 0 < len(words) <= 2 * words.code_count

    # Rows that the filter allows. All files are open before, since others may remove them while the
    # filter waits.
    index = snapshot.index
    where = request.condition
    allowed = None
    if where is not None:
        snapshot.open()
        with stage("filter"):
            documents = snapshot.documents_where(where)
            allowed = snapshot.document_rows.all_rows(documents)

    rescored = request.candidates
    return IndexRows(
        snapshot=snapshot,
        index=index,
        rescored=index.candidates_for(request.limit) if rescored is None else rescored,
        allowed=allowed,
        fusion=fusion,
        code=CodeRanking(snapshot) if is_mostly_code else None,
    )


def related(snapshot: Snapshot, id: str, limit: int = 10, where: str | None = None) -> list[Hit]:
    """Find the documents nearest to a document, best first, without itself.

    The query is the mean of the stored vectors of its passages, each of length 1, so nothing is
    encoded. `limit` and `where` are those of `Collection.search`.

    Raises `InputError` if the id is unknown, the document has no text, or as a search does.
    """
    # The query is the mean vector of the document's passages with text.
    SearchRequest(texts=id, limit=limit)  # checks the limit
    passage_rows = snapshot.document_rows.all_rows(snapshot.store.rows_of([id]))
    passage_rows = passage_rows[~np.isin(passage_rows, snapshot.hidden)]
    if not len(passage_rows):
        raise InputError(f"document {id!r} has no text; expected one with text")
    if passage_rows[-1] >= snapshot.state.encoded:
        snapshot.check_encoded()
    mean = normalize_rows(snapshot.index.vectors.take(passage_rows)).mean(axis=0, keepdims=True)

    # Request one more hit, since the document itself is among them.
    request = SearchRequest(vectors=mean, limit=limit + 1, where=where)
    rows = rows_for(snapshot, request)
    (nearest_hits,) = hits(snapshot, nearest(rows, request, mean))
    others = [hit for hit in nearest_hits if hit.id != id]
    return others[:limit]


def nearest_documents(snapshot: Snapshot, request: SearchRequest) -> tuple[Scores, Rows]:
    """Return scores and documents (q, k) for an encoded request.

    A document is identified by its first row, which is valid until `compact` renumbers the rows.
    """
    rows = rows_for(snapshot, request)
    best = nearest(rows, request, request.query_vectors)
    return best.scores, snapshot.document_rows.documents(best.rows)


def encoder_for(
    snapshot: Snapshot, request: SearchRequest, encoder_of: Callable[[State], Encoder]
) -> Encoder:
    """The encoder of a request's texts: the index's own, or its token table."""
    is_table = uses_table(snapshot.state, request)
    return snapshot.table if is_table else encoder_of(snapshot.state)


def uses_table(state: State, request: SearchRequest) -> bool:
    """Whether the token table encodes the texts of a request."""
    default = MODEL if state.settings is None else state.settings.query_encoder
    return (request.query_encoder or default) == TABLE


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


class Nearest(NamedTuple):
    """The best rows of each query, (q, k or fewer) each, best first.

    Attributes
    ----------
    scores : what the rows are ordered by; padded with -inf.
    rows : padded with -1.
    similarities : cosines; the scores, if lexical search does not count.
    finders : positions in `FINDERS`.
    """

    scores: Scores
    rows: Rows
    similarities: Scores
    finders: Rows


def nearest(
    rows: IndexRows, request: SearchRequest, vectors: Matrix, scales: Sequence[FusionScales] = ()
) -> Nearest:
    """Return the best rows for queries (q, dim).

    Each row is the best of its document; grouped by passage, a document may have several. `scales`
    are those of the queries for the fusion, if known.
    """
    count = len(vectors)
    k = request.limit
    best = BestRows(count, k) if request.group_by == PASSAGE else rows.best(count, k)
    texts = request.texts or ()
    if rows.fusion is not None and not scales:
        scales = rows.fusion_scales(texts, vectors)
    candidates = dict[int, Candidates]()

    # Queries whose best rows belong to too few documents are searched again, for more rows.
    while not best.is_complete:
        queries = vectors[best.left]
        if rows.fusion is None:
            best.add(*rows.search(queries, best.ask))
            continue
        left = best.left.tolist()
        per_query = rows.candidates(
            [scales[i] for i in left], queries, best.ask, [texts[i] for i in left]
        )
        candidates.update(zip(left, per_query, strict=True))
        best.add(*rows.fuse([texts[i] for i in left], per_query, best.ask))

    # Look up the cosine of each row, and which search found it.
    similarities = best.scores.copy()
    finders = np.full(best.rows.shape, MEANING)
    for i, of_query in candidates.items():
        is_row = best.rows[i] >= 0  # others are padding
        positions = np.searchsorted(of_query.rows, best.rows[i, is_row])
        similarities[i, is_row] = of_query.cosines[positions]
        finders[i, is_row] = of_query.finders(positions)
    return Nearest(best.scores, best.rows, similarities, finders)


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
            self.scores: Scores = np.full((queries, self._k), -np.inf)
            self.rows: Rows = np.full((queries, self._k), -1, dtype=np.int64)

    def add(self, scores: Scores, rows: Rows) -> None:
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
    """The rows of an index that a request may find.

    Attributes
    ----------
    index : of the snapshot, or one that searches the same rows exactly.
    rescored : rows to rescore for each query.
    allowed : sorted rows that the request's condition allows; None without one.
    fusion : of both searches; None searches by meaning alone.
    code : ranks an index of source code; None for any other.
    waiting : rows without vectors, of which lexical search may find some; None if there are none.
    """

    snapshot: Snapshot
    index: ReducedIndex
    rescored: int
    allowed: Rows | None = None
    fusion: Fusion | None = None
    code: CodeRanking | None = None
    waiting: WaitingRows | None = None

    def best(self, queries: int, k: int) -> BestRows:
        """Empty results for this number of queries, k documents each."""
        rows = self.snapshot.document_rows
        if rows.is_one_each:
            return BestRows(queries, k)
        least = self.rescored if self.allowed is None else 0  # a filter's search decides
        return BestRows(queries, k, rows.documents, self.snapshot.state.rows, least)

    def search(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Cosines and rows (q, k or fewer) nearest to queries (q, d), padded."""
        hidden = self.snapshot.hidden_vectors
        allowed = self.allowed
        if allowed is not None:
            allowed = allowed[: np.searchsorted(allowed, self.snapshot.state.encoded)]
        return self.index.search(queries, k, rows=allowed, exclude=hidden, candidates=self.rescored)

    def fusion_scales(self, texts: Sequence[str], queries: Matrix) -> list[FusionScales]:
        """Best rows of the whole collection for queries as texts and as vectors (q, d)."""
        words = self.snapshot.words
        hidden = self.snapshot.hidden
        assert words is not None
        search = partial(words.search, k=WORDED, hidden=hidden)

        # Run both searches at the same time if the lexical one takes long.
        takes_long = len(texts) * len(words) >= LONG
        with in_parallel(search, texts if takes_long else ()) as results_of_threads:
            # Rescore as many rows as usual. Without rescoring, find as many as lexical search.
            usual = self.index.candidates if self.rescored else 0
            near = _rankings(
                *self.index.search(
                    queries,
                    usual or WORDED,
                    exclude=self.snapshot.hidden_vectors,
                    candidates=usual,
                )
            )
            with stage("words"):
                by_words = results_of_threads() or list(map(search, texts))

        # Of the rows that wait, only the best by words are compared.
        if self.waiting is not None:
            by_words = [*map(self.waiting.known, by_words)]
            each = zip(np.split(queries, len(queries)), near, by_words, strict=True)
            near = [self.waiting.near(*parts) for parts in each]

        # Collect what the fusion of each query needs.
        total = len(words) - len(hidden)
        means = self.snapshot.mean_cosines(queries).tolist()
        per_query = zip(near, by_words, means, strict=True)
        return [FusionScales(*parts, total) for parts in per_query]

    def candidates(
        self,
        scales: Sequence[FusionScales],
        queries: Matrix,
        k: int,
        texts: Sequence[str] = (),
    ) -> list[Candidates]:
        """Rows that either search finds for each query (q, d), if k rows are requested.

        `texts` are the queries' own, which find rows that wait.
        """
        if self.allowed is None and k <= self.rescored == self.index.candidates:
            near = [each.near for each in scales]  # the search would be the same
        else:
            # With a filter, rows without words keep the order of meaning: k of them are enough.
            least = self.rescored if self.allowed is None else 0
            near = _rankings(*self.search(queries, max(k, least)))

        # The best rows of the whole collection are candidates too, if a filter allows them.
        joined = []
        for i, (each, its_near) in enumerate(zip(scales, near, strict=True)):
            best = union(each.words.rows, each.near.rows)
            if self.waiting is not None and its_near is not each.near:
                late = self.waiting.found(texts[i], queries[i : i + 1], each.near, self.allowed)
                its_near = merged(its_near, late)
            others = self._score(queries[i : i + 1], without(best, np.sort(its_near.rows)))
            joined.append(Candidates.join(its_near, others, each))
        return joined

    def _score(self, query: Matrix, rows: Rows) -> ScoredRows:
        """Those of sorted rows (n,) that are allowed, and their cosines with a query (1, d)."""
        if self.allowed is not None:
            rows = rows[contains(self.allowed, rows)]
        metric = self.index.metric if self.rescored else None
        with stage("rescore"):
            if metric is not None:
                (scores,) = metric.scores(metric.rescorer.probes(query), rows)
                return ScoredRows(scores, rows)

            # Score by the codes, if the index does not rescore.
            (scores,), (nearest_rows,) = self.index.search(query, len(rows), rows, candidates=0)
            cosines = np.full(len(rows), LEAST, dtype=np.float32)
            is_row = nearest_rows >= 0  # others are padding
            cosines[np.searchsorted(rows, nearest_rows[is_row])] = scores[is_row]
            return ScoredRows(cosines, rows)

    def fuse(
        self, texts: Sequence[str], candidates: Sequence[Candidates], k: int
    ) -> tuple[Scores, Rows]:
        """Scores and rows (q, k or fewer) of each query's candidates, best first, padded.

        Source code has a ranking of its own after the fusion.
        """
        assert self.fusion is not None
        ranked = list[tuple[Scores, Rows]]()
        width = 0
        for text, each in zip(texts, candidates, strict=True):
            scores = self.fusion.scores(each)
            if self.code is not None:
                # An unrelated row scores the mean cosine by the rule, and about 0 otherwise.
                unrelated = each.scales.mean if self.fusion.weight == AUTO else 0.0
                scores = self.code.scores(text, each, scores, unrelated)
            best = each.order(scores, k)
            ranked.append((bounded(scores[None, best]), each.rows[None, best]))
            width = max(width, len(best))
        return stack_results(ranked, width)

    def definitions(self, texts: Sequence[str], rows: Rows) -> list[dict[int, int]]:
        """For each query, row -> where a definition that it asks for begins in the text."""
        assert self.code is not None
        definitions = []
        for text, of_query in zip(texts, rows, strict=True):
            definitions.append(self.code.definitions(text, of_query[of_query >= 0]))
        return definitions


def _rankings(scores: Matrix, rows: Rows) -> list[ScoredRows]:
    """Split results (q, k) into those of each query, without padding."""
    return [ScoredRows(s[r >= 0], r[r >= 0]) for s, r in zip(scores, rows, strict=True)]


def hits(snapshot: Snapshot, best: Nearest, definitions: Sequence[Mapping[int, int]] = ()) -> Hits:
    """Read the documents of the best rows, and make their hits.

    `definitions` are those of `IndexRows.definitions`, if there are any.
    """
    rows = best.rows
    firsts = snapshot.document_rows.documents(rows)  # a document is identified by its first row
    with stage("fetch"):
        documents = snapshot.store.documents(np.unique(firsts[firsts >= 0]).tolist())
    # No cosine is greater than 1, however it was rounded.
    scores = np.minimum(best.scores, 1)
    similarities = np.minimum(best.similarities, 1)

    hits_of_queries = []
    for i, starts in enumerate(definitions or [{}] * len(rows)):
        hits_of_query = []
        for position in np.flatnonzero(rows[i] >= 0).tolist():  # others are padding
            row = int(rows[i, position])
            first = int(firsts[i, position])
            hit = hit_of(documents[first], row - first, starts.get(row))
            hits_of_query.append(
                replace(
                    hit,
                    score=float(scores[i, position]),
                    similarity=float(similarities[i, position]),
                    found_by=FINDERS[best.finders[i, position]],
                )
            )
        hits_of_queries.append(hits_of_query)
    return hits_of_queries


def hit_of(document: Document, number: int, definition: int | None = None) -> Hit:
    """The hit of one passage of a document, without its scores; passages are numbered from 0.

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
    part = part_at(document.parts, begin)
    headings = headings_of(document.parts, start, end)
    if part is not None and definition is not None:
        headings = tuple(part.headings)

    # Numbers of lines, for documents that have them.
    lines = document.lines
    line = None
    last_line = None
    if document.has_lines:
        line = line_at(document.text, lines, begin)
        last_line = line_at(document.text, lines, max(start, end - 1))

    return Hit(
        id=document.id,
        score=0.0,
        text=document.text[start:end],
        title=document.title,
        metadata=document.metadata,
        start=start,
        end=end,
        line=line,
        last_line=last_line,
        page=part.page if part else None,
        headings=headings,
        anchor=part.anchor if part else "",
        lines=[(offset - start, in_file) for offset, in_file in lines if start < offset < end],
        pages=[
            (part.start - start, part.page)
            for part in document.parts
            if part.page and start < part.start < end
        ],
    )
