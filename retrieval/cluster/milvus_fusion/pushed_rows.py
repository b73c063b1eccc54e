"""Pushed rows: searched in Milvus by reduced vectors and by BM25."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.search.reduced_index import reduced

from ...lexical.fusion import Candidates
from ...lexical.word_index import Found
from ...search.fused import WORDED
from ..milvus_columns import BM25, KEY, VECTOR
from ..milvus_server import MOST_HITS, Server
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

    def near(self, queries: Matrix, count: int, output: Sequence[str] = ()) -> list[Entities]:
        """The nearest rows to each query (q, d) by reduced vectors."""
        return self._nearest(queries, count, self.filter, output)

    def among(self, query: Matrix, keys: Sequence[int], output: Sequence[str] = ()) -> Entities:
        """The rows of these keys, by reduced vectors, for a query (1, d)."""
        return self._nearest(query, len(keys), with_keys(keys), output)[0] if len(keys) else []

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

    def worded(self, queries: Sequence[str], k: int) -> list[Found]:
        """Keys and BM25 scores of the best k rows for each text, or of `WORDED` if that is more."""
        asked = [query_texts(query) for query in queries]
        texts = [text for own in asked for text in own]
        if not texts:
            return [_worded(())] * len(queries)
        limit = min(max(k, WORDED), MOST_HITS)
        found = iter(
            self.server.nearest(
                self.target, BM25, texts, limit, filter=self.filter, params={}, metric="BM25"
            )
        )
        return [_worded([next(found) for _ in own]) for own in asked]


def _worded(found: Sequence[Entities]) -> Found:
    """Rows found by the words of a query, if it has any, and those found by its names."""
    if not found:
        return found_of([])
    scores, keys, _ = found_of(found[0])
    is_named = np.isin(keys, [hit["key"] for hits in found[1:] for hit in hits])
    return Found(np.abs(scores), keys, keys[is_named])  # the embedded server's are negative


def joined(near: Found, words: Found, among: Callable[[Rows], Found]) -> Candidates:
    """Join the rows found by both searches; they may be keys instead.

    `among` returns those of some rows (n,) that exist, with their cosines.
    """
    missing = words.rows[~np.isin(words.rows, near.rows)]
    others = among(missing) if len(missing) else found_of([])
    there = np.isin(words.rows, np.append(near.rows, others.rows))
    named = words.named[np.isin(words.named, words.rows[there])]
    return Candidates.joined(near, others, Found(words.scores[there], words.rows[there], named))


def found_of(hits: Entities) -> Found:
    """Keys of rows and their scores."""
    scores = np.array([hit["distance"] for hit in hits], dtype=np.float32)
    return Found(scores, np.array([hit["key"] for hit in hits], dtype=np.int64))


def with_keys(keys: Sequence[int]) -> str:
    """Filter for rows with these keys."""
    return f"{KEY} in [{', '.join(map(str, keys))}]"
