"""Fused search: one ranking from dense and lexical search.

Rows found only by lexical search are scored by their vectors too, so that each has both scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, without
from slimdex.indexes.execution.timing import stage

from ..lexical.fusion import Fusion
from ..lexical.word_index import Found, WordIndex
from .dense import DenseSearch
from .document_search import Search

WORDED = 200
"""Smallest number of rows to find by lexical search."""


@dataclass(frozen=True)
class FusedSearch:
    """Dense and lexical search of the same rows."""

    dense: DenseSearch
    words: WordIndex

    def of(self, text: str, fusion: Fusion) -> Search:
        """The search for one query (1, d), which is the encoded text."""

        def search(query: Matrix, k: int) -> tuple[Matrix, Rows]:
            near, found = self.both(query, text, k)
            if fusion.weight is not None:
                near = self.with_scores_of(found.rows, near, query)
            fused = fusion.fused(near, found)
            return fused.scores[None, :k], fused.rows[None, :k]

        return search

    def both(self, query: Matrix, text: str, k: int) -> tuple[Found, Found]:
        """Rows found by dense and by lexical search for an encoded query (1, d)."""
        scores, rows = self.dense(query, max(k, self.dense.candidates))
        there = rows[0] >= 0
        with stage("words"):
            found = self.words.search(text, max(k, WORDED), self.dense.allowed, self.dense.hidden)
        return Found(scores[0][there], rows[0][there]), found

    def with_scores_of(self, rows: Rows, near: Found, query: Matrix) -> Found:
        """Results of dense search, extended by the scores of more rows (n,)."""
        missing = without(np.sort(rows), np.sort(near.rows))
        if not len(missing):
            return near
        (scores,), (others,) = self.dense.among(missing, query)
        scores, others = np.append(near.scores, scores), np.append(near.rows, others)
        order = np.lexsort((others, -scores))
        return Found(scores[order], others[order])
