"""Rows in Milvus as candidates: found by reduced vectors and by BM25, and rescored.

They are rescored by the full vectors of the index's folder or of Milvus.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.ranking import stacked, top_k
from slimdex.indexes.search.reduced_index import reduced
from slimdex.indexes.search.rescoring import Metric

from ..lexical.fusion import WORDED, Candidates, Whole
from ..lexical.word_index import Found
from .milvus_fields import BM25, FULL, HIT, ID, KEY, VECTOR
from .milvus_rows import FullVectors, LiveRows
from .milvus_server import MOST_HITS, Server
from .milvus_settings import Fitted, Pushed
from .milvus_words import query_texts

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
        return self._nearest(queries, min(count, MOST_HITS), self.filter, output)

    def among(self, query: Matrix, keys: Sequence[int], output: Sequence[str] = ()) -> Entities:
        """The rows of these keys, by reduced vectors, for a query (1, d)."""
        return self._nearest(query, len(keys), self.filter_with(keys), output)[0]

    def filter_with(self, keys: Sequence[int]) -> str:
        """Filter for the rows that have one of these keys."""
        listed = f"{KEY} in [{', '.join(map(str, keys))}]"
        return f"({self.filter}) and {listed}" if self.filter else listed

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
        texts = [query_texts(query) for query in queries]
        joined = [text for each in texts for text in each]
        if not joined:
            return [found_of([])] * len(queries)
        answers = iter(
            self.server.nearest(
                self.target, BM25, joined, WORDED, filter=self.filter, params={}, metric="BM25"
            )
        )
        return [_worded([next(answers) for _ in each]) for each in texts]


def _worded(answers: Sequence[Entities]) -> Found:
    """Rows found by the words of a query, if it has any, and those found by its names."""
    if not answers:
        return found_of([])
    scores, keys = found_of(answers[0])[:2]
    is_named = np.isin(keys, [hit["key"] for hits in answers[1:] for hit in hits])
    return Found(np.abs(scores), keys, keys[is_named])  # the embedded server's are negative


def found_of(hits: Entities) -> Found:
    """Keys of rows and their scores."""
    scores = np.array([hit["distance"] for hit in hits], dtype=np.float32)
    return Found(scores, np.array([hit["key"] for hit in hits], dtype=np.int64))


@dataclass(frozen=True)
class Rescored(ABC):
    """Search whose candidates are rescored by full vectors; with none, by the reduced ones alone.

    Attributes
    ----------
    total : number of rows that a search can find.
    rescored : candidates to rescore.
    usual : candidates by default for ten results, which set the scales of a fusion.
    """

    pushed: PushedRows
    total: int
    rescored: int
    usual: int

    @abstractmethod
    def near(self, queries: Matrix, k: int) -> list[Found]:
        """The k nearest rows to each query (q, d)."""

    @abstractmethod
    def among(self, query: Matrix, rows: Rows) -> Found:
        """Those of rows (n,) that exist and that the filter allows, for a query (1, d)."""

    def live(self, found: Found) -> Found:
        """The rows of keys."""
        return found

    def dense(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k or fewer) of the nearest to queries (q, d)."""
        each = [(near.scores[None], near.rows[None]) for near in self.near(queries, k)]
        return stacked(each, max(rows.shape[1] for _, rows in each))

    def whole(self, texts: Sequence[str], queries: Matrix) -> list[Whole]:
        """Best rows of the whole collection for queries as texts and as vectors (q, d)."""
        usual = self.usual if self.rescored else 0
        every = replace(self, pushed=replace(self.pushed, filter=""), rescored=usual)
        near = every.near(queries, usual or WORDED)
        words = map(self.live, every.pushed.worded(texts))
        return [Whole(*each, self.total) for each in zip(near, words, strict=True)]

    def candidates(self, wholes: Sequence[Whole], queries: Matrix, k: int) -> list[Candidates]:
        """Rows that a request for k finds for queries (q, d), by either search."""
        if not self.pushed.filter and self.rescored == self.usual and k <= self.rescored:
            near = [whole.near for whole in wholes]
        else:
            near = self.near(queries, max(k, self.rescored))
        return [
            self._joined(queries[i : i + 1], *each)
            for i, each in enumerate(zip(near, wholes, strict=True))
        ]

    def _joined(self, query: Matrix, near: Found, whole: Whole) -> Candidates:
        words = whole.words
        missing = np.setdiff1d(np.append(words.rows, whole.near.rows), near.rows)
        others = self.among(query, missing) if len(missing) else found_of([])
        is_allowed = np.isin(words.rows, np.append(near.rows, others.rows))
        named = words.named[np.isin(words.named, words.rows[is_allowed])]
        allowed = Found(words.scores[is_allowed], words.rows[is_allowed], named)
        return Candidates.joined(near, others, allowed, whole)


@dataclass(frozen=True)
class RescoredHere(Rescored):
    """Rescored by the vectors of the folder, whose row numbers it finds.

    Attributes
    ----------
    rows : the folder's. Those that were deleted since the push are omitted.
    metric : of the folder's index.
    """

    rows: LiveRows
    metric: Metric | None

    def __post_init__(self) -> None:
        if self.rescored and self.metric is None:
            raise InputError(
                f"candidates={self.rescored}: this index was built with candidates=0 and can't "
                "rescore"
            )

    def near(self, queries: Matrix, k: int) -> list[Found]:
        """The k nearest rows to each query (q, d)."""
        candidates = self.pushed.near(queries, max(k, self.rescored))
        each = zip(queries, candidates, strict=True)
        return [self._best(query[None], found_of(hits), k) for query, hits in each]

    def among(self, query: Matrix, rows: Rows) -> Found:
        """Those of rows (n,) that the filter allows, for a query (1, d)."""
        keys = self.rows.keys_of(rows)
        found = Found(np.zeros(len(keys), np.float32), keys)
        if self.pushed.filter or not self.rescored:
            found = found_of(self.pushed.among(query, keys.tolist()))
        return self._best(query, found, len(keys))

    def live(self, found: Found) -> Found:
        """The rows of keys, without those deleted since the push."""
        rows, named = self.rows.rows_of(found.rows), self.rows.rows_of(found.named)
        return Found(found.scores[rows >= 0], rows[rows >= 0], named[named >= 0])

    def _best(self, query: Matrix, found: Found, k: int) -> Found:
        """The best k of the rows of keys."""
        scores, rows = self.live(found)[:2]
        if not self.rescored or self.metric is None or not len(rows):
            return Found(scores[:k], rows[:k])
        rows = np.sort(rows)  # in disk order
        scores, best = top_k(self.metric.scores(self.metric.probes(query), rows), rows, k)
        return Found(scores[0], best[0])


@dataclass(frozen=True)
class RescoredThere(Rescored):
    """Rescored by the full vectors in Milvus; it finds keys.

    Attributes
    ----------
    full : compares full vectors, if they were pushed.
    entities : key -> fields of the rows found so far.
    """

    full: FullVectors | None
    entities: dict[int, dict[str, Any]] = field(default_factory=dict)
    is_one_each = False
    """Documents may have several rows."""

    def near(self, queries: Matrix, k: int) -> list[Found]:
        """The k nearest rows to each query (q, d)."""
        if not self.rescored:
            return [self._recorded(hits) for hits in self.pushed.near(queries, k, [ID, HIT])]
        candidates = self.pushed.near(queries, max(k, self.rescored))
        return [
            self._rescored(queries[i : i + 1], [hit["key"] for hit in hits], k)
            for i, hits in enumerate(candidates)
        ]

    def among(self, query: Matrix, rows: Rows) -> Found:
        """Those of keys (n,) that the filter allows, for a query (1, d)."""
        if not self.rescored:
            return self._recorded(self.pushed.among(query, rows.tolist(), [ID, HIT]))
        return self._rescored(query, rows.tolist(), len(rows))

    def _rescored(self, query: Matrix, keys: Sequence[int], k: int) -> Found:
        """The best k rows of these keys."""
        if not keys:
            return found_of([])
        assert self.full is not None
        server = self.pushed.server
        (hits,) = server.nearest(
            self.pushed.target,
            FULL,
            [self.full.rows(query)[0].astype(server.can.dtype)],
            min(k, len(keys)),
            filter=self.pushed.filter_with(keys),
            params={},
            output=[ID, HIT],
        )
        return self._recorded(hits)

    def _recorded(self, hits: Entities) -> Found:
        self.entities.update((hit["key"], hit["entity"]) for hit in hits)
        return found_of(hits)

    def documents(self, keys: Rows) -> Rows:
        """Numbers of the documents of keys found before, in any shape; -1 for -1."""
        numbers = {id: i for i, id in enumerate({e[ID]: None for e in self.entities.values()})}
        of_keys = [
            numbers[self.entities[key][ID]] if key >= 0 else -1 for key in keys.ravel().tolist()
        ]
        return np.array(of_keys, dtype=np.int64).reshape(keys.shape)
