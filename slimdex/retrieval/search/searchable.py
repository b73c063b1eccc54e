"""Searchable: methods of everything that can be searched; each creates one `SearchRequest`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from slimdex.indexes.arrays import array_of
from slimdex.indexes.errors import InputError, shortened_repr

from ..documents import Hit
from ..lexical.fusion import AUTO
from .request import DOCUMENT, Hits, SearchRequest

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .reranking import CrossEncoder


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
        limit, where, min_score, rerank, candidates, group_by, hybrid : as for `search`.
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
