"""Rescoring of Milvus' candidates, by the full vectors of the index's folder or of Milvus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.ranking import stacked, top_k
from slimdex.indexes.search.rescoring import Metric

from ...lexical.fusion import Fusion
from ...lexical.word_index import Found
from ...search.document_search import Search
from ..milvus_columns import FULL, HIT, ID
from ..milvus_rows import FullVectors, LiveRows
from ..milvus_server import MOST_HITS
from .candidates import Candidates, Entities, found_of, fused, with_keys


@dataclass(frozen=True)
class RescoredHere:
    """Search by the vectors of the folder; without candidates to rescore, by reduced vectors.

    Attributes
    ----------
    live : the folder's rows. Those that were deleted since the push are omitted.
    metric : of the folder's index.
    rescored : candidates to rescore.
    """

    candidates: Candidates
    live: LiveRows
    metric: Metric | None
    rescored: int

    def __post_init__(self) -> None:
        if self.rescored and self.metric is None:
            raise InputError(
                f"candidates={self.rescored}: this index was built with candidates=0 and can't "
                "rescore"
            )

    def dense(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k or fewer) of the nearest to queries (q, d)."""
        found = self.candidates.near(queries, min(max(k, self.rescored), MOST_HITS))
        each = [self._best(query, hits, k) for query, hits in zip(queries, found, strict=True)]
        return stacked(each, max(own.shape[1] for _, own in each))

    def fused(self, text: str, fusion: Fusion) -> Search:
        """The search for one query (1, d), which is the encoded text."""

        def search(query: Matrix, k: int) -> tuple[Matrix, Rows]:
            (scores,), (rows,) = self.dense(query, max(k, self.rescored))
            bm25, *keys = self.candidates.worded(text, k)
            words = Found(bm25, *map(self.live.rows_of, keys))
            best = fused(Found(scores, rows), words, partial(self._among, query), fusion, k)
            return best.scores[None], best.rows[None]

        return search

    def _among(self, query: Matrix, rows: Rows) -> Found:
        keys = self.live.keys_of(rows[rows >= 0]).tolist()
        hits: Entities = [{"key": key, "distance": 0.0} for key in keys]
        if not self.rescored:
            hits = self.candidates.among(query, keys)
        (scores,), (found,) = self._best(query[0], hits, len(hits))
        return Found(scores, found)

    def _best(self, query: Matrix, hits: Entities, k: int) -> tuple[Matrix, Rows]:
        """Scores and rows (1, k or fewer) of the best of Milvus' hits."""
        scores, keys, _ = found_of(hits)
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
    """

    candidates: Candidates
    full: FullVectors | None
    rescored: int

    def dense(self, query: Matrix, k: int) -> Entities:
        """The k rows nearest to a query (1, d)."""
        if not self.rescored:
            return self.candidates.near(query, k, [ID, HIT])[0]
        found = self.candidates.near(query, min(max(k, self.rescored), MOST_HITS))[0]
        return self._among(query, [hit["key"] for hit in found], k)

    def fused(self, query: Matrix, text: str, fusion: Fusion, k: int) -> Entities:
        """The best k rows for a query (1, d), which is the encoded text."""
        by_key = {hit["key"]: hit for hit in self.dense(query, max(k, self.rescored))}
        near = found_of([*by_key.values()])

        def among(keys: Rows) -> Found:
            hits = self._among(query, keys.tolist(), len(keys))
            by_key.update((hit["key"], hit) for hit in hits)
            return found_of(hits)

        best = fused(near, self.candidates.worded(text, k), among, fusion, k)
        return [by_key[key] for key in best.rows.tolist()]

    def _among(self, query: Matrix, keys: Sequence[int], k: int) -> Entities:
        """The best k rows of these keys."""
        if not self.rescored or not keys:
            return self.candidates.among(query, keys, [ID, HIT])[:k]
        assert self.full is not None
        server = self.candidates.server
        return server.nearest(
            self.candidates.target,
            FULL,
            [self.full.rows(query)[0].astype(server.can.dtype)],
            min(k, len(keys)),
            filter=with_keys(keys),
            params={},
            output=[ID, HIT],
        )[0]
