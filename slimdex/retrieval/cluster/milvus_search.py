"""MilvusCollection: a pushed index, searched like a `Collection`.

Milvus finds the nearest rows by their vectors and by BM25, and fuses both rankings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from slimdex.errors import InputError
from slimdex.indexes.arrays import LARGEST, Matrix, as_matrix
from slimdex.indexes.options import TABLE

from ..documents import Hit, hit_from_json
from ..encoders.adapters import as_encoder
from ..encoders.base import Encoder
from ..encoders.opening import encoder_from_spec
from ..lexical.fusion import Fusion
from ..lexical.tokens import stems_of
from ..search.answer import FIRST, MORE, fusion_for, vectors_of
from ..search.options import PASSAGE
from ..search.request import Hits, Searchable, SearchRequest
from .milvus_push import read_description, word_forms
from .milvus_server import BM25, HIT, ID, KEY, LISTS, PROBED, VECTOR, Server, alias_of, is_ours

MOST_ROWS = 16_384
"""Largest number of rows that Milvus returns per query."""
CANDIDATES = 200
"""Rows, at least, that are compared by more than their codes, and that are fused."""
WEIGHT = 0.3
"""Of BM25, unless the index or the request has another one."""


class MilvusCollection(Searchable):
    """Documents searched by meaning and words in Milvus.

    `where` is in Milvus' own language (https://milvus.io/docs/boolean.md), and `candidates` are the
    rows, at least, that are compared by more than their codes, and that are fused.

    Raises `InputError` if the server does not answer or lacks the index.

    Parameters
    ----------
    uri
        http://HOST:19530 of a server, or a file NAME.db of the embedded one.
    name
        the name it was pushed under.
    encoder
        the one that the index was built with; by default it is loaded from its origin.
    token
        for servers that require authentication.
    insecure
        allow sending the token to another machine without TLS.
    model
        see `Collection.open`.
    trust_remote_code
        see `Collection.open`.
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
        self._server = Server(uri, token, insecure=insecure)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Read the description of the alias's current collection."""
        self._target = self._server.collection_of(self._alias) or ""
        if not is_ours(self._target, self._alias):
            raise InputError(
                f"milvus {self._server.uri}: no index {self._alias!r}; expected one that "
                "`slimdex push` has made"
            )
        self._facts, self._rescorer = read_description(self._server, self._target)
        self._server.load(self._target)

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    @property
    def encoder(self) -> Encoder:
        """The encoder that the index was built with."""
        if self._encoder is None:
            self._encoder = encoder_from_spec(
                self._facts["encoder"], model=self._model, trust_remote_code=self._trusted
            )
        return self._encoder

    def count(self, where: str | None = None) -> int:
        """Number of passages in Milvus, or of those that match a condition."""
        (row,) = self._server.ask(
            "query", self._target, filter=where or "", output_fields=["count(*)"]
        )
        return int(row["count(*)"])

    def find(self, request: SearchRequest) -> Hits:
        """Search, without reranking, as a `Collection` does.

        Raises `InputError` as `Collection.search_many`; if words are to count and were not pushed;
        or if the server does not answer or refuses the condition.
        """
        if request.condition != request.where:
            raise InputError("glob and regex in Milvus; expected a condition of Milvus, in where")
        if request.query_encoder == TABLE:
            raise InputError("query_encoder='table' in Milvus; expected 'model'")
        try:
            return self._find(request)
        except InputError:
            # Search again if another push has replaced and dropped the collection meanwhile.
            if self._server.collection_of(self._alias) == self._target:
                raise
            self._open()
            return self._find(request)

    def _find(self, request: SearchRequest) -> Hits:
        lacking = "" if self._facts["words"] else f"{self._alias!r} was pushed without words"
        fusion = fusion_for(request, self._facts["hybrid"], lacking)
        dim = len(self._rescorer.shift)
        vectors = vectors_of(request, lambda: self.encoder)
        vectors = as_matrix(vectors, dim=dim, name="queries", largest=LARGEST)
        probes = self._rescorer.probes(vectors).vectors
        texts = request.texts or [""] * len(probes)
        return [self._hits(request, fusion, *pair) for pair in zip(texts, probes, strict=True)]

    def _hits(
        self, request: SearchRequest, fusion: Fusion | None, text: str, probe: Matrix
    ) -> list[Hit]:
        """Hits of one query, by its text and by its vector (d,) in the metric, best first."""
        limit = request.limit
        field = KEY if request.group_by == PASSAGE else ID
        count = limit if field == KEY else FIRST * limit
        words = word_forms(dict.fromkeys(stems_of(text))) if fusion is not None else ""
        while True:
            # The first row of each document is its best; ask for more rows if there are too few.
            count = max(limit, min(count, MOST_ROWS))
            rows = self._rows(request, fusion, probe, words, count)
            best = dict[str, Any]()
            for row in rows:
                best.setdefault(row["entity"][field], row)
            if len(best) >= limit or len(rows) < count or count >= MOST_ROWS:
                break
            count *= MORE

        # Read the hits alone: rows are many, and their texts long.
        scores = {row["entity"][KEY]: row["distance"] for row in [*best.values()][:limit]}
        keys = [*scores]
        stored = self._server.ask("get", self._target, ids=keys, output_fields=[KEY, HIT, VECTOR])
        entities = {entity[KEY]: entity for entity in stored}
        hits = []
        for key in keys:
            if key in entities:  # others were deleted meanwhile
                hit = hit_from_json(entities[key][HIT])
                cosine = min(float(probe @ entities[key][VECTOR]), 1.0)
                score = float(scores[key]) if words else cosine
                found_by = "both" if words else "meaning"
                hits.append(replace(hit, score=score, similarity=cosine, found_by=found_by))
        return sorted(hits, key=lambda hit: -hit.score)

    def _rows(
        self, request: SearchRequest, fusion: Fusion | None, probe: Matrix, words: str, count: int
    ) -> Any:
        """Search for the rows nearest to a vector (d,), and for those with some words, if any."""
        from pymilvus import AnnSearchRequest, RRFRanker, WeightedRanker  # loaded by the server

        options = {
            "limit": count,
            "output_fields": [KEY, ID],
            "consistency_level": "Bounded",  # rows of the last five seconds may be missing
        }
        where = request.where or ""
        depth = max(count, request.candidates or CANDIDATES)
        # With a filter, read all lists, so that no matching rows are missed.
        params = {"nprobe": LISTS if where else PROBED, "refine_k": depth / count}
        if fusion is None or not words:
            options |= {"anns_field": VECTOR, "filter": where, "search_params": {"params": params}}
            return self._server.ask("search", self._target, [probe], **options)[0]

        searches = [
            AnnSearchRequest([probe], VECTOR, {"params": params}, depth, where),
            AnnSearchRequest([words], BM25, {}, depth, where),
        ]
        weight = WEIGHT if fusion.weight == "auto" else fusion.weight
        ranker = RRFRanker() if weight is None else WeightedRanker(1 - weight, weight)
        return self._server.ask("hybrid_search", self._target, searches, ranker, **options)[0]
