"""Fused search: one ranking from dense and lexical search.

Each query is searched twice: in the whole collection at a fixed depth, which sets the scales of the
fusion (`Whole`), and as requested, which finds further rows. So the order of two rows depends on
neither filter, limit, batch nor candidates. Rows found only by lexical search are scored by their
vectors too, so that each has both scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, contains, without
from slimdex.indexes.execution.timing import stage
from slimdex.indexes.ranking import stacked

from ..encoders.runtimes.processor import cores
from ..lexical.fusion import WORDED, Candidates, Fusion, Whole
from ..lexical.word_index import Found, WordIndex
from .dense import DenseSearch

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

LONG = 500_000
"""Rows, times queries, at which lexical search is worth threads; tantivy releases Python's lock."""


class Searches(Protocol):
    """Dense and lexical search of the same rows."""

    def whole(self, texts: Sequence[str], queries: Matrix) -> list[Whole]:
        """What the whole collection has for queries as texts and as vectors (q, d)."""

    def candidates(self, wholes: Sequence[Whole], queries: Matrix, k: int) -> list[Candidates]:
        """Rows that a request for k finds for queries (q, d), by either search."""


@dataclass(frozen=True)
class FusedSearch:
    """Dense and lexical search of the same rows, for queries as texts and as vectors (q, d)."""

    searches: Searches
    fusion: Fusion
    texts: Sequence[str]
    queries: Matrix
    _found: dict[int, Candidates] = field(default_factory=dict)

    @cached_property
    def _wholes(self) -> list[Whole]:
        return self.searches.whole(self.texts, self.queries)

    def __call__(self, numbers: Rows, k: int) -> tuple[Matrix, Rows]:
        """Cosines and rows (n, k or fewer) of some of the queries, in the order of the fusion."""
        wholes = [self._wholes[number] for number in numbers.tolist()]
        found = self.searches.candidates(wholes, self.queries[numbers], k)
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


@dataclass(frozen=True)
class OwnSearches:
    """Searches of an index's own codes and words."""

    dense: DenseSearch
    words: WordIndex

    def whole(self, texts: Sequence[str], queries: Matrix) -> list[Whole]:
        """What the whole collection has for queries as texts and as vectors (q, d)."""
        search = partial(self.words.search, k=WORDED, hidden=self.dense.hidden)
        is_long = len(texts) > 1 and len(texts) * len(self.words) >= LONG and cores() > 1
        with _threads() if is_long else nullcontext() as pool:
            searches = pool.map(search, texts) if pool else map(search, texts)
            near = _near(self._usual, queries, self._usual.candidates or WORDED)
            with stage("words"):
                worded = list(searches)
        total = len(self.words) - len(self.dense.hidden)
        return [Whole(*each, total) for each in zip(near, worded, strict=True)]

    def candidates(self, wholes: Sequence[Whole], queries: Matrix, k: int) -> list[Candidates]:
        """Rows that a request for k finds for queries (q, d), by either search."""
        is_usual = self.dense.allowed is None and self.dense.candidates == self._usual.candidates
        if is_usual and k <= self.dense.candidates:
            near = [whole.near for whole in wholes]
        else:  # rows without words keep the order of meaning: k of them are enough
            is_filtered = self.dense.allowed is not None
            near = _near(self.dense, queries, k if is_filtered else max(k, self.dense.candidates))
        worded = [self._allowed(whole.words) for whole in wholes]
        missing = [
            without(np.union1d(words.rows, self._allowed(whole.near).rows), np.sort(found.rows))
            for words, whole, found in zip(worded, wholes, near, strict=True)
        ]
        with stage("rescore"):
            others = map(Found, self.dense.cosines(queries, missing), missing)
            each = zip(near, others, worded, wholes, strict=True)
            return [Candidates.joined(*own) for own in each]

    @cached_property
    def _usual(self) -> DenseSearch:
        """The same search without a filter, as deep as the index's settings say."""
        index = self.dense.index
        candidates = index.candidates if self.dense.candidates else 0
        return replace(self.dense, allowed=None, candidates=candidates)

    def _allowed(self, found: Found) -> Found:
        """The rows that the filter allows."""
        if self.dense.allowed is None:
            return found
        kept = contains(self.dense.allowed, found.rows)
        named = found.named[contains(self.dense.allowed, found.named)]
        return Found(found.scores[kept], found.rows[kept], named, found.ideal)


def _near(dense: DenseSearch, queries: Matrix, k: int) -> list[Found]:
    scores, rows = dense(queries, k)
    return [Found(s[r >= 0], r[r >= 0]) for s, r in zip(scores, rows, strict=True)]


def _threads() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(cores())
