"""SearchRequest: one search, validated once and passed down, and the template of its answer."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from slimdex.errors import InputError, short_repr
from slimdex.indexes.arrays import Matrix, array_of, as_matrix
from slimdex.system.duckdb_library import connect, duckdb, literal
from slimdex.system.progress import progress
from slimdex.system.unicode_text import check_unicode

from ..documents import Hit
from ..lexical.fusion import AUTO, OFF, fusion_of
from .options import Reranker, SearchKeywords, SearchOptions, options_of, takes_options

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Hits = list[list[Hit]]
"""Hits of each query, best first."""
NO_GLOB = re.compile(r"(\./)*\.?$|[!/]|[A-Za-z]:|.*(\\|\.\./|\{[^}]*\{)|.{1000}", re.DOTALL)
"""Patterns that match no path, are too long, or would need rules of their own."""
GLOB_SIGNS = {
    r"\\\*\\\*/": "(.*/)?",
    r"\\\*": ".*",
    r"\\\?": ".",
    r"\\-": "-",  # of a range
    r"\\\[!": r"\\[^",
    r"\\\[([^]/]+)\\\]": r"(\\[\1\\]|[\1])",  # a set, or a name such as [id].ts
    r",(?=[^{}]*\})": "|",
    r"\\\{([^{}]*\|[^{}]*)\\\}": r"(\1)",
}
"""Sign of an escaped pattern -> its meaning, in the order of translation."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchRequest(SearchOptions):
    """A search for one or several queries: these, and the options of `Collection.search`.

    Raises `InputError` if a value is not one of these.

    Parameters
    ----------
    texts
        the queries.
    vectors
        (q, dim), in place of texts or beside them, so that they need no encoding.
    epoch
        `State.epoch` of the index whose encoder the vectors of the texts are from.

    Examples
    --------
    >>> SearchRequest(texts="a pet", limit=0)
    Traceback (most recent call last):
    ...
    slimdex.errors.InputError: limit=0; expected 1 or more
    """

    texts: Sequence[str] | None = None
    vectors: Matrix | None = None
    epoch: int | None = None

    def __post_init__(self) -> None:
        self._check_queries()
        for name, option in options_of(type(self)).items():
            option.check(name, getattr(self, name))
        object.__setattr__(self, "glob", tuple(self.glob))
        _ = self.condition  # raises an error if a pattern is wrong
        counts_words = self.hybrid not in (OFF, AUTO) and fusion_of(self.hybrid) is not None
        if counts_words and self.texts is None:
            raise InputError(f"hybrid={self.hybrid!r} with vectors; expected texts")
        if self.rerank is not None and self.texts is None:
            raise InputError("rerank with vectors; expected texts")
        if self.rerank is not None and not hasattr(self.rerank, "reranked"):
            object.__setattr__(self, "rerank", _load_reranker(self.rerank))

    def _check_queries(self) -> None:
        """Convert one text to a list, and lists to a matrix; raise `InputError` for other types."""
        texts = self.texts
        vectors = self.vectors
        if isinstance(texts, str):
            texts = [texts]
            object.__setattr__(self, "texts", texts)
        if vectors is not None and not isinstance(vectors, np.ndarray):
            vectors = as_matrix(vectors)
            object.__setattr__(self, "vectors", vectors)

        # Expect texts or vectors, or both for the same queries.
        if texts is None:
            if vectors is None:
                raise InputError("neither texts nor vectors; expected one of them")
            return
        if not isinstance(texts, Sequence) or isinstance(texts, bytes):
            raise InputError(f"queries {short_repr(texts)}; expected texts or vectors (q, dim)")
        for text in texts:
            if not isinstance(text, str):
                raise InputError(f"query {short_repr(text)}; expected texts or vectors (q, dim)")
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
    def condition(self) -> str | None:
        r"""The condition that `where`, `glob` and `regex` are together.

        Of the patterns with ``*``, ``?``, ``[a-z]`` and ``{a,b}`` in `glob`, one has to match the
        column `path`, or its end after a slash, or a folder in it, in any case; ``*`` matches
        slashes too, and brackets also themselves. `regex` has to match in the text; ``^`` and ``$``
        match at lines.

        Raises `InputError` if a pattern is empty or not supported, or no expression of RE2.

        >>> print(SearchRequest(texts="a pet", where="year > 2000", regex=r"^def \w+").condition)
        (year > 2000
        ) AND regexp_matches("text", '(?m)^def \w+')
        >>> print(SearchRequest(texts="a pet", glob=["a/"]).condition)
        regexp_full_match("path", '(?is)(.*/)?(a)(/.*)?')
        """
        if self.regex == "":
            raise InputError("regex ''; expected a pattern")

        # All parts of the condition must hold.
        parts = []
        if self.glob:
            # A pattern matches a whole path or its end, and everything in such a folder.
            paths = f"(?is)(.*/)?({'|'.join(map(_glob_regex, self.glob))})(/.*)?"
            parts.append(f'regexp_full_match("path", {literal(paths)})')
        if self.regex is not None:
            _check_regex(self.regex)
            parts.append(f'regexp_matches("text", {literal(f"(?m){self.regex}")})')
        if self.where is not None and parts:
            parts.insert(0, f"({self.where}\n)")
        return " AND ".join(parts) or self.where

    @property
    def manner(self) -> tuple[object, ...]:
        """Everything but the queries: requests with the same manner can be joined."""
        queries = ("texts", "vectors")
        options = [getattr(self, each.name) for each in fields(self) if each.name not in queries]
        return (self.texts is None, *options)


def one_query(query: Any, limit: int, where: str | None, options: SearchKeywords) -> SearchRequest:
    """Make the request of `Collection.search`."""
    queries: Any = {"texts": [query]} if isinstance(query, str) else {"vectors": _one_vector(query)}
    return SearchRequest(**queries, limit=limit, where=where, **options)


def many_queries(
    queries: Any, limit: int, where: str | None, options: SearchKeywords
) -> SearchRequest:
    """Make the request of `Collection.search_many`."""
    name = "vectors" if _are_vectors(queries) else "texts"
    content: Any = {name: queries}
    return SearchRequest(**content, limit=limit, where=where, **options)


def answer(request: SearchRequest, find: Callable[[SearchRequest], Hits]) -> Hits:
    """The hits of each query of a request.

    `find` returns the nearest hits of a request, which are then reranked and cut by their score.
    """
    first = first_stage(request)
    return rerank(request, cut(find(first), first.min_score))


def first_stage(request: SearchRequest) -> SearchRequest:
    """The search whose hits are reranked; without reranking, the same request."""
    if request.rerank is None:
        return request
    limit = max(request.limit, request.rerank_depth)
    return replace(request, limit=limit, min_score=None, rerank=None)


def cut(hits: Hits, min_score: float | None) -> Hits:
    """Leave out hits below a score; None keeps all."""
    if min_score is None:
        return hits
    remaining = []
    for hits_of_query in hits:
        remaining.append([hit for hit in hits_of_query if hit.score >= min_score])
    return remaining


def rerank(request: SearchRequest, hits: Hits) -> Hits:
    """Rerank the hits of the first stage and cut them; without reranking, the same hits."""
    reranker = request.rerank
    if reranker is None:
        return hits
    assert not isinstance(reranker, str)  # loaded by now
    ordered: Hits = []
    for text, of_query in zip(request.texts or (), hits, strict=True):
        ordered.append(reranker.reranked(text, of_query, request.limit))
        progress("reranking", len(ordered), len(hits))
    return cut(ordered, request.min_score)


def join_requests(requests: Sequence[SearchRequest]) -> SearchRequest:
    """Join requests with the same `manner` into one; its vectors are None if some lack theirs."""
    texts = [*chain.from_iterable(each.texts or () for each in requests)]
    vectors = [each.vectors for each in requests if each.vectors is not None]
    are_encoded = len(vectors) == len(requests)
    joined = np.concatenate(vectors) if are_encoded else None
    return replace(requests[0], texts=texts or None, vectors=joined)


def _glob_regex(glob: str) -> str:
    """Translate a pattern of paths to a regular expression; raise `InputError` if not supported.

    >>> print(_glob_regex("./src/*.{c,h}"), _glob_regex("[id].ts"))
    src/.*\\.(c|h) (\\[id\\]|[id])\\.ts
    """
    if NO_GLOB.match(glob):
        raise InputError(
            f"glob {short_repr(glob)}; expected a pattern of paths such as 'src/*.{{c,h}}', "
            "without a leading / or !, backslashes, .. or nested braces"
        )
    regex = re.escape(glob.removeprefix("./").rstrip("/"))
    for sign, meaning in GLOB_SIGNS.items():
        regex = re.sub(sign, meaning, regex)
    return regex


@lru_cache
def _check_regex(regex: str) -> None:
    """Raise `InputError` unless DuckDB takes a regular expression."""
    check_unicode(regex, "regex")
    try:
        with connect() as connection:
            connection.execute("SELECT regexp_matches('', ?)", [regex])
    except duckdb.Error as error:
        reason = str(error).removeprefix("Invalid Input Error: ")
        raise InputError(
            f"regex {short_repr(regex)}: {reason}; expected RE2's syntax, without lookarounds "
            "and backreferences"
        ) from error


def _load_reranker(name: Any) -> Reranker:
    """Load a cross-encoder by its name; raise `InputError` if the name is not text."""
    if not isinstance(name, str):
        raise InputError(f"rerank={short_repr(name)}; expected a CrossEncoder or its name")
    from .reranking import cross_encoder  # loads what downloads models

    return cross_encoder(name)


def _one_vector(query: Any) -> Any:
    """Convert a query vector (dim,) to a matrix (1, dim); raise `InputError` for anything else."""
    try:
        vector = array_of(query)
    except (TypeError, ValueError):
        vector = None
    if vector is None or vector.ndim != 1 or vector.dtype.kind not in "fiu":
        raise InputError(f"query {short_repr(query)}; expected a text or a vector (dim,)")
    return vector[None]


def _are_vectors(queries: Any) -> bool:
    """True for an array, a tensor, or a list of lists or of these; False for texts."""
    if hasattr(queries, "ndim"):
        return True
    first = queries[0] if isinstance(queries, list | tuple) and queries else None
    return isinstance(first, list | tuple) or hasattr(first, "ndim")


class Searchable(ABC):
    """Documents elsewhere that are searched like a `Collection`: of a service, or in Milvus."""

    @abstractmethod
    def find(self, request: SearchRequest) -> Hits:
        """The nearest hits of each query of a request, before any are cut or reranked."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @takes_options
    def search(
        self,
        query: str | ArrayLike,
        limit: int = SearchOptions.limit,
        where: str | None = None,
        **options: Unpack[SearchKeywords],
    ) -> list[Hit]:
        """Search the documents closest in meaning to a query: see `Collection.search`."""
        return answer(one_query(query, limit, where, options), self.find)[0]

    @takes_options
    def search_many(
        self,
        queries: str | Sequence[str] | ArrayLike,
        limit: int = SearchOptions.limit,
        where: str | None = None,
        **options: Unpack[SearchKeywords],
    ) -> Hits:
        """Search with many queries, all at once: see `Collection.search_many`."""
        return answer(many_queries(queries, limit, where, options), self.find)

    def answer(self, request: SearchRequest) -> Hits:
        """The hits of each query of a request."""
        return answer(request, self.find)
