"""MilvusCollection: a pushed index, searched like a `Collection`.

Milvus finds the nearest rows by their vectors and by BM25; if words were pushed, both rankings are
fused as in the index itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import LARGEST, Matrix, Rows, as_matrix, batches
from slimdex.indexes.options import candidates_for, default_candidates
from slimdex.indexes.ranking import stack_results

from ..encoders.adapters import as_encoder
from ..encoders.base import Encoder
from ..encoders.opening import encoder_from_spec
from ..lexical.fusion import FINDERS, Candidates, Fusion, FusionScales
from ..lexical.rare_words import RareWords
from ..lexical.tokens import stems_of
from ..lexical.word_bonuses import WORDED
from ..lexical.word_index import MOST_WORDS, ScoredRows, idfs_of
from ..search.answer import BestRows, fusion_for, nearest, vectors_of
from ..search.request import Hits, Searchable, SearchRequest
from .milvus_push import PushDescription, hit_from, ranking, word_form
from .milvus_server import (
    BM25,
    HIT,
    ID,
    KEY,
    LISTS,
    MOST_HITS,
    PROBED,
    READ_AT_ONCE,
    VECTOR,
    WORDS,
    RefusedError,
    Server,
    alias_of,
    is_ours,
)

NO_ROWS = ScoredRows(np.empty(0, np.float32), np.empty(0, np.int64))


class MilvusCollection(Searchable):
    """Documents searched by meaning and words in Milvus.

    `where` is in Milvus' own language (https://milvus.io/docs/boolean.md), and `candidates` are the
    rows that Milvus compares by more than their codes.

    Parameters
    ----------
    uri : http://HOST:19530 of a server, or a file NAME.db of the embedded one.
    name : the name it was pushed under.
    encoder : the one that the index was built with; by default it is loaded from its origin.
    token : for servers that require authentication.
    insecure : allow sending the token to another machine without TLS.
    model, trust_remote_code : see `Collection.open`.

    Attributes
    ----------
    server, target : the connection, and the server's collection that the name stands for.
    pushed : what was pushed.

    Raises `InputError` if the server does not answer or lacks the index, and `CorruptError` if data
    in Milvus that a search requires are damaged.
    """

    def __init__(
        self,
        uri: str,
        name: str,
        encoder: Encoder | Callable[[list[str]], Any] | None = None,
        *,
        token: str = "",
        insecure: bool = False,
        model: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        self._alias = alias_of(name, "")
        self._model = model
        self._trusted = trust_remote_code
        self._encoder = None if encoder is None else as_encoder(encoder)
        self.server = Server(uri, token, insecure=insecure)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Read the description of the alias's current collection."""
        self.target = self.server.collection_of(self._alias) or ""
        if not is_ours(self.target, self._alias):
            raise InputError(
                f"milvus {self.server.uri}: no index {self._alias!r}; expected one that "
                "`slimdex push` has made"
            )
        self.pushed, file = PushDescription.read(self.server, self.target)
        self._counts = dict[str, int]()
        self._ranking = ranking(self.pushed.ranked_by, file)
        self.server.load(self.target)

    def close(self) -> None:
        """Close the connection."""
        self.server.close()

    def __repr__(self) -> str:
        """Address and name, for notebooks."""
        return f"MilvusCollection({self.server.uri!r}, {self._alias!r})"

    @property
    def encoder(self) -> Encoder:
        """The encoder that the index was built with."""
        if self._encoder is None:
            spec = self.pushed.encoder
            self._encoder = encoder_from_spec(
                spec, model=self._model, trust_remote_code=self._trusted
            )
        return self._encoder

    def count(self, where: str | None = None) -> int:
        """Number of passages in Milvus, or of those that match a condition."""
        return self.server.count(self.target, where or "")

    def find(self, request: SearchRequest) -> Hits:
        """Search, without reranking, as a `Collection` does.

        Raises `InputError` as `Collection.search_many`; if words are to count and were not pushed;
        or if the server does not answer or refuses the condition.
        """
        if request.condition != request.where:
            raise InputError("glob and regex in Milvus; expected a condition of Milvus, in where")
        if request.limit > MOST_HITS:
            raise InputError(f"limit={request.limit}; expected 1 to {MOST_HITS:,}, Milvus' limit")
        rows = self._rows(request)  # raises errors before a model is loaded
        vectors = vectors_of(request, lambda: self.encoder)
        vectors = as_matrix(vectors, dim=self.pushed.dim, name="queries", largest=LARGEST)
        if not len(vectors):
            return []
        try:
            return rows.hits(request, self._ranking(vectors))
        except RefusedError:
            # Search again if another push has replaced and dropped the collection meanwhile.
            if self.server.collection_of(self._alias) == self.target:
                raise
            self._open()
            return self._rows(request).hits(request, self._ranking(vectors))

    def _rows(self, request: SearchRequest) -> PushedRows:
        """Return the rows that a request may find, with its candidates and fusion."""
        pushed = self.pushed
        depth = request.candidates
        usual = pushed.candidates or default_candidates(pushed.rows)  # for ten results
        if depth is None:
            depth = candidates_for(request.limit, usual)
        no_words = f"{self._alias!r} was pushed without words; expected auto or off"
        fusion = fusion_for(request, pushed.hybrid, "" if pushed.words else no_words)
        where = request.where or ""
        mean = np.array(pushed.mean, np.float32)
        return PushedRows(
            server=self.server,
            target=self.target,
            total=pushed.rows,
            mean=mean,
            usual=usual,
            depth=depth,
            where=where,
            fusion=fusion,
            counts=self._counts,
        )


@dataclass(frozen=True)
class PushedRows:
    """Rows that a search may find, by their keys: see `SearchedRows`."""

    server: Server
    target: str  # collection of rows
    total: int  # number of rows
    mean: NDArray[np.float32]  # mean row (d,), whose products with queries are mean cosines
    usual: int  # candidates by default for ten results, which set the scales of a fusion
    depth: int  # rows to compare by more than their codes
    where: str  # of Milvus; "" without one
    fusion: Fusion | None  # None for meaning alone
    counts: dict[str, int]  # word -> number of its rows, of the words searched so far
    ids: dict[int, str] = field(default_factory=dict)  # key -> id, of rows found

    def best(self, queries: int, k: int) -> BestRows:
        """Empty results for this number of queries, k documents each."""
        return BestRows(queries, k, self._documents, MOST_HITS)

    def search(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Scores and keys (q, k or fewer) of the nearest to queries (q, d)."""
        near = self._near(queries, k, self.where)
        answers = [(of_query.scores[None], of_query.rows[None]) for of_query in near]
        return stack_results(answers, max(len(of_query.rows) for of_query in near))

    def fusion_scales(self, texts: Sequence[str], queries: Matrix) -> list[FusionScales]:
        """Scales of each query's scores: its best rows of the whole collection, and mean cosine.

        The queries are given both as texts and as vectors (q, d).
        """
        near = self._near(queries, self.usual)
        means = (queries @ self.mean).tolist()
        parts_of_queries = zip(near, self._best_by_bm25(texts), means, strict=True)
        return [FusionScales(*parts, self.total) for parts in parts_of_queries]

    def near(self, scales: Sequence[FusionScales], queries: Matrix, k: int) -> list[ScoredRows]:
        """Return k or more nearest rows for a fusion, from the scales if these have enough."""
        if not self.where and self.depth == self.usual and k <= self.usual:
            return [of_query.near for of_query in scales]
        return self._near(queries, max(k, self.depth), self.where)

    def score(self, queries: Matrix, rows: Sequence[Rows]) -> list[ScoredRows]:
        """For each query, those of its keys (n,) that match the condition, and their cosines."""
        scored = list[ScoredRows]()
        for query, keys in zip(queries, rows, strict=True):
            if len(keys):
                scored += self._near(query[None], len(keys), _among(keys.tolist(), self.where))
            else:
                scored.append(NO_ROWS)
        return scored

    def fuse(self, text: str, candidates: Candidates) -> NDArray[np.float64]:
        """Scores (n,) that order the keys found for a query."""
        assert self.fusion is not None
        return self.fusion.scores(candidates)

    def _documents(self, keys: Rows) -> Rows:
        """Number the documents of keys (in any shape) from 0; -1, which is padding, stays.

        The keys must come from earlier hits, whose ids are known.
        """
        numbers = {id: i for i, id in enumerate(dict.fromkeys(self.ids.values()))}
        of_keys = [numbers[self.ids[key]] if key >= 0 else -1 for key in keys.ravel().tolist()]
        return np.array(of_keys, dtype=np.int64).reshape(keys.shape)

    def hits(self, request: SearchRequest, queries: Matrix) -> Hits:
        """Hits of each query (q, d) of a request, best first."""
        scales = self.fusion_scales(request.texts or (), queries) if self.fusion else []
        scores, keys, finders = nearest(self, request, queries, scales)
        entities = self._entities(keys)
        hits_of_queries = []
        for i in range(len(queries)):
            hits_of_query = []
            columns = (scores[i].tolist(), keys[i].tolist(), finders[i].tolist())
            for score, key, finder in zip(*columns, strict=True):
                if key in entities:  # others are padding, or were deleted meanwhile
                    hit = hit_from(entities[key], min(score, 1.0), FINDERS[finder])
                    hits_of_query.append(hit)
            hits_of_queries.append(hits_of_query)
        return hits_of_queries

    def _entities(self, keys: Rows) -> dict[int, dict[str, Any]]:
        """Read the rows with these keys (in any shape), including their hits: key -> row."""
        distinct = np.unique(keys[keys >= 0]).tolist()
        entities = dict[int, dict[str, Any]]()
        for few in batches(len(distinct), READ_AT_ONCE):
            rows = self.server.rows(self.target, _among(distinct[few]), [KEY, HIT])
            entities.update((row[KEY], row) for row in rows)
        return entities

    def _near(self, queries: Matrix, k: int, where: str = "") -> list[ScoredRows]:
        """The k nearest rows to each query (q, d)."""
        k = min(k, MOST_HITS)
        # With a condition, read all lists, so that no matching rows are missed. `refine_k` times k
        # rows are compared by more than their codes.
        params = {"nprobe": LISTS if where else PROBED, "refine_k": max(self.depth / k, 1.0)}
        dtype = "float32" if self.server.is_lite else "float16"
        vectors = list(queries.astype(dtype))
        return self._ask_server(VECTOR, vectors, k, where, params)

    def _best_by_bm25(self, texts: Sequence[str]) -> list[ScoredRows]:
        """The `WORDED` best rows for each text by BM25, with bonuses for rare words."""
        # Search in one request for all texts that have words of the index.
        counts = [*map(self._counts, texts)]
        idfs = [idfs_of(text_counts, self.total) for text_counts in counts]
        queries = [" ".join(map(word_form, text_idfs)) for text_idfs in idfs if text_idfs]
        answers = iter(self._ask_server(BM25, queries, WORDED, "", {}) if queries else ())

        # The answers come in the order of these texts.
        out = []
        for text, text_counts, text_idfs in zip(texts, counts, idfs, strict=True):
            best = next(answers) if text_idfs else NO_ROWS
            rare = RareWords.of(text, text_counts, text_idfs, self.total)
            scores = np.abs(best.scores)  # the embedded server's are negative
            bonuses = self._rare(rare, best.rows, scores)
            ideal = sum(text_idfs.values())
            out.append(ScoredRows(scores, best.rows, ideal=ideal, rare=bonuses))
        return out

    def _counts(self, text: str) -> dict[str, int]:
        """Count the rows that have each word of a query; Milvus is asked once for each word."""
        words = list(dict.fromkeys(stems_of(text)))[:MOST_WORDS]
        for word in {*words} - {*self.counts}:
            self.counts[word] = self.server.count(self.target, self._having(word))
        return {word: self.counts[word] for word in words}

    def _having(self, word: str) -> str:
        """Condition for the rows that have a word."""
        if self.server.is_lite:  # whose text_match would split all texts again
            return f'{WORDS} like "% {word_form(word)} %"'
        return f'text_match({WORDS}, "{word_form(word)}")'

    def _rare(
        self, words: RareWords, keys: Rows, scores: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Bonuses of the rare words of rows (n,) by their keys, with these scores by BM25."""
        idf_sums = np.zeros(len(keys))
        for word, idf in words.idfs.items():
            having = self.server.rows(self.target, self._having(word), [KEY])
            idf_sums[np.isin(keys, [row[KEY] for row in having])] += idf
        return words.bonuses(idf_sums, scores) if words.idfs else idf_sums

    def _ask_server(
        self, name: str, queries: Sequence[Any], k: int, where: str, params: Mapping[str, Any]
    ) -> list[ScoredRows]:
        """Search a field; return each query's best rows, and note the ids of their documents."""
        answers = self.server.nearest(
            self.target, name, queries, limit=k, where=where, params=params, output=[ID]
        )
        scored = []
        for hits in answers:
            self.ids.update((hit.id, hit["entity"][ID]) for hit in hits)
            scores = np.array([hit.distance for hit in hits], dtype=np.float32)
            keys = np.array([hit.id for hit in hits], dtype=np.int64)
            scored.append(ScoredRows(scores, keys))
        return scored


def _among(keys: Sequence[int], where: str = "") -> str:
    """Condition for the rows with these keys that also match `where`, if any."""
    among = f"{KEY} in [{', '.join(map(str, keys))}]"
    return f"({where}) and {among}" if where else among
