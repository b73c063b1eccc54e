"""Candidates: the rows that Milvus finds by reduced vectors and by BM25, and their fusion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.search.reduced_index import reduced

from ...lexical.fusion import Fusion
from ...lexical.word_index import Found
from ...search.fused import WORDED
from ..milvus_columns import BM25, KEY, VECTOR
from ..milvus_server import MOST_HITS, Server
from ..milvus_settings import Fitted, Pushed
from ..milvus_words import query_texts

Entities = list[dict[str, Any]]
"""Rows of Milvus, best first: "key", "distance" and "entity"."""


@dataclass(frozen=True)
class Candidates:
    """Candidates of a search.

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

    def worded(self, query: str, k: int) -> Found:
        """Keys and BM25 scores of the best k rows for a text, or of `WORDED` if that is more."""
        texts, limit = query_texts(query), min(max(k, WORDED), MOST_HITS)
        if not texts:
            return found_of([])
        found, *named = self.server.nearest(
            self.target,
            BM25,
            texts,
            limit,
            filter=self.filter,
            params={},
            metric="BM25",
        )
        scores, keys, _ = found_of(found)
        is_named = np.isin(keys, [hit["key"] for hits in named for hit in hits])
        return Found(np.abs(scores), keys, keys[is_named])  # the embedded server's are negative


def fused(
    near: Found, words: Found, among: Callable[[Rows], Found], fusion: Fusion, k: int
) -> Found:
    """Cosines and rows of the best k rows of both searches, in the order of the fusion.

    Parameters
    ----------
    near : rows, or keys, and cosines.
    words : rows, or keys, and BM25 scores.
    among : returns those of some rows (n,) that exist, with their cosines.
    """
    missing = words.rows[~np.isin(words.rows, near.rows)]
    others = among(missing) if len(missing) else found_of([])
    scores, rows = np.append(near.scores, others.scores), np.append(near.rows, others.rows)
    order = np.lexsort((rows, -scores))
    every = Found(scores[order], rows[order])
    by_words = np.lexsort((words.rows, -words.scores))  # ties by row, whatever Milvus' order is
    by_words = by_words[np.isin(words.rows[by_words], rows)]
    named = words.named[np.isin(words.named, rows)]
    words = Found(words.scores[by_words], words.rows[by_words], named)
    best = fusion.fused(near if fusion.weight is None else every, words).rows[:k]
    by_row = np.argsort(every.rows)
    return Found(every.scores[by_row][np.searchsorted(every.rows, best, sorter=by_row)], best)


def found_of(hits: Entities) -> Found:
    """Keys of rows and their scores."""
    scores = np.array([hit["distance"] for hit in hits], dtype=np.float32)
    return Found(scores, np.array([hit["key"] for hit in hits], dtype=np.int64))


def with_keys(keys: Sequence[int]) -> str:
    """Filter for rows with these keys."""
    return f"{KEY} in [{', '.join(map(str, keys))}]"
