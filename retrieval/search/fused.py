"""Fused search: one ranking from dense and lexical search.

Rows found only by lexical search are scored by their vectors too, so that each has both scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, without
from slimdex.indexes.execution.timing import stage
from slimdex.indexes.ranking import stacked

from ..encoders.runtimes.processor import cores
from ..lexical.fusion import Candidates, Fusion
from ..lexical.word_index import Found, WordIndex
from .dense import DenseSearch

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

WORDED = 200
"""Smallest number of rows to find by lexical search."""
LONG = 500_000
"""Rows, times queries, at which lexical search is worth threads; tantivy releases Python's lock."""


Find = Callable[[Sequence[str], Matrix, int], list[Candidates]]
"""Queries as texts and as vectors (q, d), and k -> the rows found for each by either search."""


@dataclass(frozen=True)
class FusedSearch:
    """Dense and lexical search of the same rows, for queries as texts and as vectors (q, d)."""

    find: Find
    fusion: Fusion
    texts: Sequence[str]
    queries: Matrix
    _found: dict[int, Candidates] = field(default_factory=dict)

    def __call__(self, numbers: Rows, k: int) -> tuple[Matrix, Rows]:
        """Cosines and rows (n, k or fewer) of some of the queries, in the order of the fusion."""
        texts = [self.texts[number] for number in numbers.tolist()]
        found = self.find(texts, self.queries[numbers], k)
        self._found.update(zip(numbers.tolist(), found, strict=True))
        best = [each.order(self.fusion.scores(each))[:k] for each in found]
        each = [
            (own.cosines[None, first], own.rows[None, first])
            for own, first in zip(found, best, strict=True)
        ]
        return stacked(each, max(map(len, best), default=0))

    def found_by(self, rows: Rows) -> NDArray[np.int64]:
        """Places in `FOUND_BY` of the ranked rows (q, k) of all queries."""
        found = [self._found[number].found_by(own) for number, own in enumerate(rows)]
        return np.array(found, dtype=np.int64).reshape(rows.shape)


def candidates(
    dense: DenseSearch, words: WordIndex, texts: Sequence[str], queries: Matrix, k: int
) -> list[Candidates]:
    """Rows found by either search for queries as texts and as vectors (q, d)."""
    search = partial(words.search, k=max(k, WORDED), rows=dense.allowed, hidden=dense.hidden)
    is_long = len(texts) > 1 and len(texts) * len(words) >= LONG and cores() > 1
    with _threads() if is_long else nullcontext() as pool:
        searches = pool.map(search, texts) if pool else map(search, texts)
        scores, rows = dense(queries, max(k, dense.candidates))
        near = [Found(s[r >= 0], r[r >= 0]) for s, r in zip(scores, rows, strict=True)]
        with stage("words"):
            worded = list(searches)
    missing = [
        without(np.sort(own.rows), np.sort(found.rows))
        for own, found in zip(worded, near, strict=True)
    ]
    with stage("rescore"):
        others = map(Found, dense.cosines(queries, missing), missing)
        return [Candidates.joined(*each) for each in zip(near, others, worded, strict=True)]


def _threads() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(cores())
