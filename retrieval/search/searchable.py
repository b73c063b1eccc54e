"""Searchable: methods of everything that can be searched; each creates one `SearchRequest`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError

from ..documents import Hit
from ..lexical.fusion import AUTO
from .request import DOCUMENT, Hits, SearchRequest, shown


class Searchable(ABC):
    """Documents that can be searched semantically."""

    @abstractmethod
    def _found(self, request: SearchRequest) -> Hits:
        """The hits of each query, regardless of `min_score`."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def search(
        self,
        query: str | Matrix,
        limit: int = 10,
        where: str | None = None,
        *,
        candidates: int | None = None,
        per: str = DOCUMENT,
        hybrid: str | float = AUTO,
    ) -> list[Hit]:
        """Search the documents closest in meaning to a query, best first.

        Each document occurs once, with its closest passage.

        Parameters
        ----------
        query : a text, or a vector (dim,) encoded elsewhere.
        limit : number of documents, 1 or more.
        where : a DuckDB expression on the documents' columns; only those that match are searched.
            Up to `EXACT_ROWS` passages of theirs are all compared; among more, codes choose. Their
            order is that of a search without a condition.
        candidates : rows to rescore, at least `limit`; 0 ranks by codes alone. By default the
            index's setting, which is for ten results, and proportionally more beyond ten.
        per : "document", or "passage": `limit` passages, of which several may be of one document.
        hybrid : how lexical search counts beside semantic search: "auto", as `tune` chose, else by
            rule; "off"; its weight, 0 to 1; or "rrf", fusion by ranks. Scores remain cosines.

        Raises
        ------
        InputError
            If the query has another type, there are no documents yet, or `where` is invalid.
        """
        if not isinstance(query, str) and getattr(query, "ndim", 0) != 1:
            raise InputError(f"query {shown(query)}; expected a text or a vector (dim,)")
        one = [query] if isinstance(query, str) else query[None]
        return self.search_many(one, limit, where, candidates=candidates, per=per, hybrid=hybrid)[0]

    def search_many(
        self,
        queries: str | Sequence[str] | Matrix,
        limit: int = 10,
        where: str | None = None,
        *,
        candidates: int | None = None,
        per: str = DOCUMENT,
        hybrid: str | float = AUTO,
    ) -> Hits:
        """Search with many queries, which are encoded and searched together.

        Parameters
        ----------
        queries : texts, or vectors (q, dim) encoded elsewhere; a str is one text.
        limit, where, candidates, per, hybrid : as for `search`.
        """
        texts = None if isinstance(queries, np.ndarray) else queries
        vectors = queries if isinstance(queries, np.ndarray) else None
        return self.answer(SearchRequest(texts, vectors, limit, where, candidates, per, hybrid))

    def answer(self, request: SearchRequest) -> Hits:
        """The hits of each query of a request."""
        return request.reranked(request.kept(self._found(request.first_stage)))
