"""SearchRequest: one search, validated once and passed down as one object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from slimdex.indexes.arrays import Matrix, as_matrix
from slimdex.indexes.errors import InputError, shortened_repr
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.unicode_text import check_unicode

from ..documents import Hit
from ..encoders.base import Encoder, encode_queries
from ..lexical.fusion import AUTO, OFF, Fusion, fusion_of

if TYPE_CHECKING:
    from .reranking import CrossEncoder

DOCUMENT, PASSAGE = GROUPS = ("document", "passage")
"""Units of hits."""
Hits = list[list[Hit]]
"""Hits of each query, best first."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchRequest:
    """A search for one or several queries.

    Parameters
    ----------
    texts : the queries.
    vectors : (q, dim), in place of texts or beside them, so that they need no encoding.
    limit : documents to find for each query.
    where : a DuckDB expression on the documents' columns.
    candidates : rows to rescore, at least `limit`; 0: none. By default the index's own number,
        which depends on `limit`.
    group_by : one of `GROUPS`.
    hybrid : how lexical search counts beside semantic search: its weight, 0 to 1, "off" or "rrf".
        "auto" is the index's own choice; for vectors, and without a lexical index, it is "off".
    min_score : leave out hits below this cosine, -1 to 1.
    rerank : reorders the first hits of each query; a name is that of its model.
    rerank_depth : hits to rerank; more if `limit` is more.
    epoch : `State.epoch` of the index whose encoder the vectors of the texts are from.

    Raises `InputError` if a value is not one of these.

    >>> SearchRequest(texts="a pet", limit=0)
    Traceback (most recent call last):
    ...
    slimdex.indexes.errors.InputError: limit=0; expected 1 or more
    """

    texts: Sequence[str] | None = None
    vectors: Matrix | None = None
    limit: int = 10
    where: str | None = None
    candidates: int | None = None
    group_by: str = DOCUMENT
    hybrid: str | float = AUTO
    min_score: float | None = None
    rerank: CrossEncoder | str | None = None
    rerank_depth: int = 50
    epoch: int | None = None

    def __post_init__(self) -> None:
        self._check_queries()
        if not _is_whole(self.limit, least=1):
            raise InputError(f"limit={self.limit}; expected 1 or more")
        if self.candidates is not None and not _is_whole(self.candidates, least=0):
            raise InputError(
                f"candidates={self.candidates}; expected 0 (rank by codes alone) or more"
            )
        if self.group_by not in GROUPS:
            raise InputError(f"group_by={self.group_by!r}; expected {' or '.join(GROUPS)}")
        counts_words = self.hybrid not in (OFF, AUTO) and fusion_of(self.hybrid) is not None
        if counts_words and self.texts is None:
            raise InputError(f"hybrid={self.hybrid!r} with vectors; expected texts")
        if self.where is not None and not isinstance(self.where, str):
            expected = "expected a condition as text, such as 'year > 2000'"
            raise InputError(f"where={shortened_repr(self.where)}; {expected}")
        if self.min_score is not None and not _is_cosine(self.min_score):
            raise InputError(
                f"min_score={shortened_repr(self.min_score)}; expected a cosine, -1 to 1"
            )
        if not _is_whole(self.rerank_depth, least=1):
            raise InputError(f"rerank_depth={self.rerank_depth}; expected 1 or more")
        if self.rerank is not None and self.texts is None:
            raise InputError("rerank with vectors; expected texts")
        if self.rerank is not None and not hasattr(self.rerank, "reranked"):
            object.__setattr__(self, "rerank", _loaded(self.rerank))

    def _check_queries(self) -> None:
        texts, vectors = self.texts, self.vectors
        if isinstance(texts, str):
            texts = [texts]
            object.__setattr__(self, "texts", texts)
        if vectors is not None and not isinstance(vectors, np.ndarray):
            vectors = as_matrix(vectors)
            object.__setattr__(self, "vectors", vectors)
        if texts is None:
            if vectors is None:
                raise InputError("neither texts nor vectors; expected one of them")
            return
        if not isinstance(texts, Sequence) or isinstance(texts, bytes):
            raise InputError(f"queries {shortened_repr(texts)}; expected texts or vectors (q, dim)")
        if wrong := [text for text in texts if not isinstance(text, str)]:
            raise InputError(
                f"query {shortened_repr(wrong[0])}; expected texts or vectors (q, dim)"
            )
        check_unicode([*texts], "query")
        if vectors is not None and len(texts) != len(vectors):
            raise InputError(f"{len(texts)} texts of {len(vectors)} queries; expected one of each")

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.queries)

    @property
    def queries(self) -> Sequence[str] | Matrix:
        """The texts, or the vectors if there are none."""
        return self.query_vectors if self.texts is None else self.texts

    @property
    def query_vectors(self) -> Matrix:
        """The vectors of an encoded request."""
        assert self.vectors is not None
        return self.vectors

    @property
    def names(self) -> Sequence[str]:
        """Names of the queries in answers: their texts, or the vectors' numbers."""
        if self.texts is not None:
            return self.texts
        return [f"vector {i + 1}" for i in range(len(self))]

    @property
    def first_stage(self) -> Self:
        """The search whose hits are reranked; without reranking, the same request."""
        if self.rerank is None:
            return self
        return replace(self, limit=max(self.limit, self.rerank_depth), rerank=None)

    @property
    def manner(self) -> tuple[object, ...]:
        """Everything but the queries: requests with the same manner can be joined."""
        options = [getattr(self, field.name) for field in fields(self)]
        return (self.texts is None, *options[2:])

    def encoded(self, encoder: Callable[[], Encoder], epoch: int | None = None) -> Self:
        """Return the request with vectors.

        The encoder is called only if they are missing, or of another epoch.
        """
        is_encoded = self.vectors is not None and self.epoch in (None, epoch)
        if is_encoded or self.texts is None:
            return self
        return replace(self, vectors=encode_queries(encoder(), self.texts), epoch=epoch)

    def fusion(self, auto: str) -> Fusion | None:
        """The fusion with lexical search; None without it.

        `auto` is the index's fusion for `hybrid="auto"`.
        """
        if self.hybrid != AUTO:
            return fusion_of(self.hybrid)
        return None if self.texts is None else fusion_of(auto)

    @property
    def has_chance_score(self) -> bool:
        """True if scores are cosines at full dimension, comparable with random documents'."""
        return self.candidates != 0 and self.rerank is None

    def finished(self, hits: Hits) -> Hits:
        """Answer with the hits of the first stage: filter them by score, and rerank them."""
        return self.reranked(self.kept(hits))

    def kept(self, all_hits: Hits) -> Hits:
        """Remove hits below `min_score`."""
        least = self.min_score
        if least is None:
            return all_hits
        return [[hit for hit in hits if hit.score >= least] for hits in all_hits]

    def reranked(self, all_hits: Hits) -> Hits:
        """Rerank the hits of the first stage."""
        reranker = self.rerank
        if reranker is None:
            return all_hits
        assert not isinstance(reranker, str)  # loaded by now
        ordered = Hits()
        for text, hits in zip(self.texts or (), all_hits, strict=True):
            ordered.append(reranker.reranked(text, hits, self.limit))
            progress("reranking", len(ordered), len(all_hits))
        return ordered


def joined(requests: Sequence[SearchRequest]) -> SearchRequest:
    """Join requests with vectors and the same `manner` into one."""
    texts = [text for one in requests for text in one.texts or ()]
    vectors = np.concatenate([one.query_vectors for one in requests])
    return replace(requests[0], texts=texts or None, vectors=vectors)


def _is_whole(value: Any, *, least: int) -> bool:
    return isinstance(value, int | np.integer) and int(value) >= least


def _is_cosine(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and bool(-1 <= value <= 1)  # NaN is not


def _loaded(name: Any) -> CrossEncoder:
    if not isinstance(name, str):
        raise InputError(f"rerank={shortened_repr(name)}; expected a CrossEncoder or its name")
    from .reranking import cross_encoder

    return cross_encoder(name)
