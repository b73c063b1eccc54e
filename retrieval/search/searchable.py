"""Searchable: the calls of everything that can be searched; each makes one `SearchRequest`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError

from ..documents import Hit
from ..lexical.fusion import OFF
from .request import DOCUMENT, Hits, SearchRequest, shown


class Searchable(ABC):
    """Documents that can be searched by meaning."""

    @abstractmethod
    def _found(self, request: SearchRequest) -> Hits:
        """The hits of each query, whatever they score."""

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
        hybrid: str | float = OFF,
    ) -> list[Hit]:
        """The documents nearest in meaning to a query, best first; fewer if there are no more.

        Each comes once, with the passage of it that is nearest.

        Parameters
        ----------
        query : a text, or a vector (dim,) that was encoded elsewhere.
        limit : how many documents, 1 or more.
        where : a DuckDB expression on the documents' columns; the search is among the documents
            that it holds for, and exactly as if there were no others.
        candidates : rescored, in place of what the index was built with; 0 takes the order of the
            codes.
        per : "document", or "passage": then `limit` passages, of which several may be of one.
        hybrid : whether the query's words count beside its meaning, once there is a words' index
            (`index_words`): "off"; a weight of the words, 0 to 1; "rrf", which fuses by ranks; or
            "auto", as `tune` found by labels, if anything is better than "off". Scores are then
            no cosines.

        Raises
        ------
        InputError
            If the query is neither, there are no documents yet, or `where` is no such expression.
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
        hybrid: str | float = OFF,
    ) -> Hits:
        """The hits of each of many queries, which are encoded and searched together.

        Parameters
        ----------
        queries : texts, or vectors (q, dim) that were encoded elsewhere; a str is one text.
        limit, where, candidates, per, hybrid : as for `search`.
        """
        texts = None if isinstance(queries, np.ndarray) else queries
        vectors = queries if isinstance(queries, np.ndarray) else None
        return self.answer(SearchRequest(texts, vectors, limit, where, candidates, per, hybrid))

    def answer(self, request: SearchRequest) -> Hits:
        """The hits of each query of a request."""
        return request.reranked(request.kept(self._found(request.first_stage)))
