"""Rescoring of Milvus' candidates, by the full vectors of the index's folder or of Milvus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.ranking import stacked, top_k
from slimdex.indexes.search.rescoring import Metric

from ...lexical.fusion import FOUND_BY, WORDED, Candidates, Fusion, Whole
from ...lexical.word_index import Found
from ..milvus_columns import FULL, HIT, ID
from ..milvus_rows import FullVectors, LiveRows
from ..milvus_server import MOST_HITS
from .pushed_rows import Entities, PushedRows, found_of, joined


@dataclass(frozen=True)
class RescoredHere:
    """Search by the vectors of the folder; without candidates to rescore, by reduced vectors.

    Attributes
    ----------
    live : the folder's rows. Those that were deleted since the push are omitted.
    metric : of the folder's index.
    rescored : candidates to rescore.
    usual : candidates by default for ten results, which set the scales of a fusion.
    """

    pushed: PushedRows
    live: LiveRows
    metric: Metric | None
    rescored: int
    usual: int

    def __post_init__(self) -> None:
        if self.rescored and self.metric is None:
            raise InputError(
                f"candidates={self.rescored}: this index was built with candidates=0 and can't "
                "rescore"
            )

    def dense(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k or fewer) of the nearest to queries (q, d)."""
        found = self.pushed.near(queries, min(max(k, self.rescored), MOST_HITS))
        each = [self._best(query, hits, k) for query, hits in zip(queries, found, strict=True)]
        return stacked(each, max(own.shape[1] for _, own in each))

    def whole(self, texts: Sequence[str], queries: Matrix) -> list[Whole]:
        """Best rows of the whole collection for queries as texts and as vectors (q, d)."""
        usual = self.usual if self.rescored else 0
        every = replace(self, pushed=self.pushed.unfiltered, rescored=usual)
        near = every.near(queries, usual or WORDED)
        words = map(self._live, every.pushed.worded(texts))
        return [Whole(*each, len(self.live.rows)) for each in zip(near, words, strict=True)]

    def candidates(self, wholes: Sequence[Whole], queries: Matrix, k: int) -> list[Candidates]:
        """Rows that a request for k finds for queries (q, d), by either search."""
        if not self.pushed.filter and self.rescored == self.usual and k <= self.rescored:
            near = [whole.near for whole in wholes]
        else:
            near = self.near(queries, max(k, self.rescored))
        return [
            joined(own, whole, partial(self._among, queries[i : i + 1]))
            for i, (own, whole) in enumerate(zip(near, wholes, strict=True))
        ]

    def near(self, queries: Matrix, k: int) -> list[Found]:
        """The k nearest rows to each query (q, d)."""
        scores, rows = self.dense(queries, k)
        return [Found(s[r >= 0], r[r >= 0]) for s, r in zip(scores, rows, strict=True)]

    def _live(self, found: Found) -> Found:
        """The rows of keys, without those deleted since the push."""
        rows, named = self.live.rows_of(found.rows), self.live.rows_of(found.named)
        return Found(found.scores[rows >= 0], rows[rows >= 0], named[named >= 0])

    def _among(self, query: Matrix, rows: Rows) -> Found:
        keys = self.live.keys_of(rows).tolist()
        hits: Entities = [{"key": key, "distance": 0.0} for key in keys]
        if self.pushed.filter or not self.rescored:
            hits = self.pushed.among(query, keys)
        (scores,), (found,) = self._best(query[0], hits, len(hits))
        return Found(scores, found)

    def _best(self, query: Matrix, hits: Entities, k: int) -> tuple[Matrix, Rows]:
        """Scores and rows (1, k or fewer) of the best of Milvus' hits."""
        scores, keys = found_of(hits)[:2]
        rows = self.live.rows_of(keys)
        scores, rows = scores[rows >= 0], rows[rows >= 0]
        if not self.rescored or self.metric is None or not len(rows):
            return scores[None, :k], rows[None, :k]
        rows = np.sort(rows)  # in disk order
        return top_k(self.metric.scores(self.metric.probes(query[None]), rows), rows, k)


@dataclass(frozen=True)
class RescoredThere:
    """Search by the full vectors in Milvus; without candidates to rescore, by the reduced ones.

    Attributes
    ----------
    full : compares full vectors, if they were pushed.
    rescored : candidates to rescore.
    usual : candidates by default for ten results, which set the scales of a fusion.
    """

    pushed: PushedRows
    full: FullVectors | None
    rescored: int
    usual: int

    def dense(self, query: Matrix, k: int) -> Entities:
        """The k rows nearest to a query (1, d)."""
        if not self.rescored:
            return self.pushed.near(query, k, [ID, HIT])[0]
        found = self.pushed.near(query, min(max(k, self.rescored), MOST_HITS))[0]
        return self._among(query, [hit["key"] for hit in found], k)

    def fused(self, query: Matrix, text: str, fusion: Fusion, k: int) -> Entities:
        """The best k rows for a query (1, d), which is the encoded text, with "found_by"."""
        usual = self.usual if self.rescored else 0
        every = replace(self, pushed=self.pushed.unfiltered, rescored=usual)
        nearest = every.dense(query, usual or WORDED)
        (worded,) = every.pushed.worded([text])
        whole = Whole(found_of(nearest), worded, self.pushed.pushed.rows)
        if self.pushed.filter or self.rescored != usual or k > len(nearest):
            nearest = self.dense(query, max(k, self.rescored))
        by_key = {hit["key"]: hit for hit in nearest}

        def among(keys: Rows) -> Found:
            hits = self._among(query, keys.tolist(), len(keys))
            by_key.update((hit["key"], hit) for hit in hits)
            return found_of(hits)

        found = joined(found_of(nearest), whole, among)
        best = found.rows[found.order(fusion.scores(found))[:k]]
        how = zip(best.tolist(), found.found_by(best).tolist(), strict=True)
        return [{**by_key[key], "found_by": FOUND_BY[by]} for key, by in how]

    def _among(self, query: Matrix, keys: Sequence[int], k: int) -> Entities:
        """The best k rows of these keys."""
        if not self.rescored or not keys:
            return self.pushed.among(query, keys, [ID, HIT])[:k]
        assert self.full is not None
        server = self.pushed.server
        return server.nearest(
            self.pushed.target,
            FULL,
            [self.full.rows(query)[0].astype(server.can.dtype)],
            min(k, len(keys)),
            filter=self.pushed.filter_with(keys),
            params={},
            output=[ID, HIT],
        )[0]
