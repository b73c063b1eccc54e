"""Pushed rows: searched in Milvus by reduced vectors and by BM25."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.search.reduced_index import reduced

from ...lexical.fusion import WORDED, Candidates, Whole
from ...lexical.word_index import Found
from ..milvus_columns import BM25, KEY, VECTOR
from ..milvus_server import Server
from ..milvus_settings import Fitted, Pushed
from ..milvus_words import query_texts

Entities = list[dict[str, Any]]
"""Rows of Milvus, best first: "key", "distance" and "entity"."""


@dataclass(frozen=True)
class PushedRows:
    """Rows that a search may find.

    Attributes
    ----------
    server, target : the connection, and the collection of rows.
    pushed, fitted : description of what was pushed, and its reducer.
    filter : of Milvus; "" without one.
    """

    server: Server
    target: str
    pushed: Pushed
    fitted: Fitted
    filter: str

    @property
    def unfiltered(self) -> PushedRows:
        """All rows."""
        return replace(self, filter="")

    def near(self, queries: Matrix, count: int, output: Sequence[str] = ()) -> list[Entities]:
        """The nearest rows to each query (q, d) by reduced vectors."""
        return self._nearest(queries, count, self.filter, output)

    def among(self, query: Matrix, keys: Sequence[int], output: Sequence[str] = ()) -> Entities:
        """The rows of these keys, by reduced vectors, for a query (1, d)."""
        filter = self.filter_with(keys)
        return self._nearest(query, len(keys), filter, output)[0] if len(keys) else []

    def filter_with(self, keys: Sequence[int]) -> str:
        """Filter for the rows that have one of these keys."""
        return f"({self.filter}) and {with_keys(keys)}" if self.filter else with_keys(keys)

    def _nearest(
        self, queries: Matrix, count: int, filter: str, output: Sequence[str]
    ) -> list[Entities]:
        vectors = reduced(self.fitted.reducer, queries)
        return self.server.nearest(
            self.target,
            VECTOR,
            list(vectors.astype(self.server.can.dtype)),
            count,
            filter=filter,
            params=self.pushed.index_kind.search(count, filtered=bool(filter)),
            output=output,
        )

    def worded(self, queries: Sequence[str]) -> list[Found]:
        """Keys and BM25 scores of the `WORDED` best rows for each text."""
        asked = [query_texts(query) for query in queries]
        texts = [text for own in asked for text in own]
        if not texts:
            return [_worded(())] * len(queries)
        found = iter(
            self.server.nearest(
                self.target, BM25, texts, WORDED, filter=self.filter, params={}, metric="BM25"
            )
        )
        return [_worded([next(found) for _ in own]) for own in asked]


def _worded(found: Sequence[Entities]) -> Found:
    """Rows found by the words of a query, if it has any, and those found by its names."""
    if not found:
        return found_of([])
    scores, keys = found_of(found[0])[:2]
    is_named = np.isin(keys, [hit["key"] for hits in found[1:] for hit in hits])
    return Found(np.abs(scores), keys, keys[is_named])  # the embedded server's are negative


def joined(near: Found, whole: Whole, among: Callable[[Rows], Found]) -> Candidates:
    """Join the rows found by both searches; they may be keys instead.

    `among` returns those of some rows (n,) that exist and are allowed, with their cosines.
    """
    words = whole.words
    missing = np.setdiff1d(np.append(words.rows, whole.near.rows), near.rows)
    others = among(missing) if len(missing) else found_of([])
    there = np.isin(words.rows, np.append(near.rows, others.rows))
    named = words.named[np.isin(words.named, words.rows[there])]
    allowed = Found(words.scores[there], words.rows[there], named)
    return Candidates.joined(near, others, allowed, whole)


def found_of(hits: Entities) -> Found:
    """Keys of rows and their scores."""
    scores = np.array([hit["distance"] for hit in hits], dtype=np.float32)
    return Found(scores, np.array([hit["key"] for hit in hits], dtype=np.int64))


def with_keys(keys: Sequence[int]) -> str:
    """Filter for rows with these keys."""
    return f"{KEY} in [{', '.join(map(str, keys))}]"
