"""SearchRequest: one search, validated once and passed down; a `Searchable` makes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from slimdex.indexes.arrays import Matrix, array_of, as_matrix
from slimdex.indexes.errors import InputError, shortened_repr
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.suggestions import with_suggestions
from slimdex.indexes.unicode_text import check_unicode

from ..documents import Hit
from ..duckdb_library import connected, duckdb, literal
from ..lexical.fusion import AUTO, OFF, fusion_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .reranking import CrossEncoder

DOCUMENT, PASSAGE = GROUPS = ("document", "passage")
"""Units of hits."""
Hits = list[list[Hit]]
"""Hits of each query, best first."""
ANYWHERE = "**/"


@with_suggestions
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
    def manner(self) -> tuple[object, ...]:
        """Everything but the queries: requests with the same manner can be joined."""
        options = [getattr(self, field.name) for field in fields(self)]
        return (self.texts is None, *options[2:])

    @property
    def has_chance_score(self) -> bool:
        """True if scores are cosines at full dimension, comparable with random documents'."""
        return self.candidates != 0 and self.rerank is None


def first_stage(request: SearchRequest) -> SearchRequest:
    """The search whose hits are reranked; without reranking, the same request."""
    if request.rerank is None:
        return request
    return replace(request, limit=max(request.limit, request.rerank_depth), rerank=None)


def reranked(request: SearchRequest, found: Hits) -> Hits:
    """Rerank the hits of the first stage; without reranking, the same hits."""
    reranker = request.rerank
    if reranker is None:
        return found
    assert not isinstance(reranker, str)  # loaded by now
    ordered: Hits = []
    for text, hits in zip(request.texts or (), found, strict=True):
        ordered.append(reranker.reranked(text, hits, request.limit))
        progress("reranking", len(ordered), len(found))
    return ordered


def joined(requests: Sequence[SearchRequest]) -> SearchRequest:
    """Join requests with vectors and the same `manner` into one."""
    texts = [text for one in requests for text in one.texts or ()]
    vectors = np.concatenate([one.query_vectors for one in requests])
    return replace(requests[0], texts=texts or None, vectors=vectors)


def narrowed(where: str | None, globs: Sequence[str] = (), regex: str | None = None) -> str | None:
    r"""Join a condition, patterns of paths and a regular expression to one condition for `where`.

    Parameters
    ----------
    globs : patterns with ``*``, ``?`` and ``[a-z]``; one of them has to match the column `path`, or
        its end after a slash, or a folder in it. ``*`` matches slashes too.
    regex : an expression of RE2 that has to match in the text; ``^`` and ``$`` match at lines.

    Raises `InputError` if a pattern is empty, or no expression of RE2.

    >>> print(narrowed("year > 2000", regex=r"^def \w+"))
    (year > 2000
    ) AND regexp_matches("text", '(?m)^def \w+')
    >>> print(narrowed(None, ["docs/"]))
    ("path" GLOB 'docs' OR "path" GLOB '*/docs' OR "path" GLOB 'docs/*' OR "path" GLOB '*/docs/*')
    """
    for name, pattern in (*(("glob", glob) for glob in globs), ("regex", regex)):
        if pattern == "":
            raise InputError(f"{name} ''; expected a pattern")
    globs = [glob.removeprefix(ANYWHERE).rstrip("/") for glob in globs]
    paths = [
        f'"path" GLOB {literal(path)}'
        for glob in globs
        for path in (glob, f"*/{glob}", f"{glob}/*", f"*/{glob}/*")
    ]
    parts = [f"({' OR '.join(paths)})"] * bool(paths)
    if regex is not None:
        _check_regex(regex)
        parts.append(f'regexp_matches("text", {literal(f"(?m){regex}")})')
    if where is not None and parts:
        parts.insert(0, f"({where}\n)")
    return " AND ".join(parts) or where


@lru_cache
def _check_regex(regex: str) -> None:
    """Raise `InputError` unless DuckDB takes a regular expression."""
    check_unicode(regex, "regex")
    try:
        with connected() as connection:
            connection.execute("SELECT regexp_matches('', ?)", [regex])
    except duckdb.Error as error:
        reason = str(error).removeprefix("Invalid Input Error: ")
        raise InputError(
            f"regex {shortened_repr(regex)}: {reason}; expected RE2's syntax, without lookarounds "
            "and backreferences"
        ) from error


def _is_whole(value: Any, *, least: int) -> bool:
    return isinstance(value, int | np.integer) and int(value) >= least


def _is_cosine(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and bool(-1 <= value <= 1)  # NaN is not


def _loaded(name: Any) -> CrossEncoder:
    if not isinstance(name, str):
        raise InputError(f"rerank={shortened_repr(name)}; expected a CrossEncoder or its name")
    from .reranking import cross_encoder

    return cross_encoder(name)


@with_suggestions
class Searchable(ABC):
    """Documents that can be searched semantically."""

    @abstractmethod
    def answer(self, request: SearchRequest) -> Hits:
        """The hits of each query of a request."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def search(
        self,
        query: str | ArrayLike,
        limit: int = 10,
        where: str | None = None,
        *,
        min_score: float | None = None,
        rerank: CrossEncoder | str | None = None,
        candidates: int | None = None,
        group_by: str = DOCUMENT,
        hybrid: str | float = AUTO,
    ) -> list[Hit]:
        """Search the documents closest in meaning to a query, best first.

        Each document occurs once, with its closest passage.

        Parameters
        ----------
        query : a text, or a vector (dim,) encoded elsewhere: a list, an array or a tensor of torch.
        limit : number of documents, 1 or more.
        where : a DuckDB expression on the documents' columns; only those that match are searched.
            Up to `EXACT_ROWS` passages of theirs are all compared; among more, codes choose. Their
            order is that of a search without a condition.
        min_score : leave out hits below this cosine, -1 to 1.
        rerank : a `CrossEncoder`, or the folder or hub id of one, which orders the first 50 hits
            again; their scores are then its own. Requires a text.
        candidates : rows to rescore, at least `limit`; 0 ranks by codes alone. By default the
            index's setting, which is for ten results, and proportionally more beyond ten.
        group_by : "document", or "passage": `limit` passages, several of which may be of one
            document.
        hybrid : how lexical search counts beside semantic search: "auto", as `tune` chose, else by
            rule; "off"; its weight, 0 to 1; or "rrf", fusion by ranks. Scores remain cosines.

        Raises
        ------
        InputError
            If the query has another type, or `where` is invalid.
        """
        request = SearchRequest(
            texts=[query] if isinstance(query, str) else None,
            vectors=None if isinstance(query, str) else _one_vector(query),
            limit=limit,
            where=where,
            min_score=min_score,
            rerank=rerank,
            candidates=candidates,
            group_by=group_by,
            hybrid=hybrid,
        )
        return self.answer(request)[0]

    def search_many(
        self,
        queries: str | Sequence[str] | ArrayLike,
        limit: int = 10,
        where: str | None = None,
        *,
        min_score: float | None = None,
        rerank: CrossEncoder | str | None = None,
        candidates: int | None = None,
        group_by: str = DOCUMENT,
        hybrid: str | float = AUTO,
    ) -> Hits:
        """Search with many queries, which are encoded and searched together.

        Parameters
        ----------
        queries : texts, or vectors (q, dim) encoded elsewhere; a str is one text.
        limit, where, min_score, rerank, candidates, group_by, hybrid : see `search`.
        """
        given: Any = queries
        given_queries = {"vectors": given} if _are_vectors(given) else {"texts": given}
        request = SearchRequest(
            **given_queries,
            limit=limit,
            where=where,
            min_score=min_score,
            rerank=rerank,
            candidates=candidates,
            group_by=group_by,
            hybrid=hybrid,
        )
        return self.answer(request)


def _one_vector(query: Any) -> Any:
    try:
        vector = array_of(query)
    except (TypeError, ValueError):
        vector = None
    if vector is None or vector.ndim != 1 or vector.dtype.kind not in "fiu":
        raise InputError(f"query {shortened_repr(query)}; expected a text or a vector (dim,)")
    return vector[None]


def _are_vectors(queries: Any) -> bool:
    """True for an array, a tensor, or a list of lists or of these; False for texts."""
    if hasattr(queries, "ndim"):
        return True
    first = queries[0] if isinstance(queries, list | tuple) and queries else None
    return isinstance(first, list | tuple) or hasattr(first, "ndim")
