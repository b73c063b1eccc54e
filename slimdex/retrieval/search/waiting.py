"""Waiting rows: documents without vectors yet, of which a search encodes the best by their words.

So each hit has a cosine, and one order holds. Ranked by their words alone, the others would be
ordered by another measure than the rows beside them; so they are not found yet.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows, contains, from_row, union, without
from slimdex.indexes.reducers.reducer import reduce_rows
from slimdex.system.threads import product

from ..encoders.base import Encoder
from ..encoders.encoding import encode_all
from ..lexical.fusion import WORDED
from ..lexical.word_index import ScoredRows
from ..store.snapshot import Snapshot

MOST = 20
"""Documents of which a search encodes the best row, for each query."""


@dataclass(frozen=True)
class WaitingRows:
    """The rows of a snapshot that wait for their vectors.

    `encoder` loads the index's encoder, `rescores` says whether the search uses the metric, and
    `vectors` are those of rows that this search has encoded.
    """

    snapshot: Snapshot
    encoder: Callable[[], Encoder]
    rescores: bool
    vectors: dict[int, NDArray[np.float32]] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """The first of them; all rows from there on wait."""
        return self.snapshot.state.encoded

    def known(self, words: ScoredRows) -> ScoredRows:
        """The rows that lexical search has found; of those that wait, only the best."""
        is_kept = words.rows < self.first
        late = np.flatnonzero(~is_kept)
        is_kept[late[self._best(words.rows[late])]] = True
        rare = words.rare[is_kept] if len(words.rare) else words.rare
        rows = words.rows[is_kept]
        named = words.named[np.isin(words.named, rows)]
        return words._replace(scores=words.scores[is_kept], rows=rows, named=named, rare=rare)

    def near(self, query: Matrix, near: ScoredRows, words: ScoredRows) -> ScoredRows:
        """The nearest rows, with those that lexical search has found and that wait, best first."""
        late = np.sort(words.rows[words.rows >= self.first])
        return merged(near, ScoredRows(self._cosines(query, late), late))

    def found(self, text: str, query: Matrix, near: ScoredRows, allowed: Rows | None) -> ScoredRows:
        """Those of the nearest rows that wait; or the best by words that a filter allows."""
        is_late = near.rows >= self.first
        late = ScoredRows(near.scores[is_late], near.rows[is_late])
        words = self.snapshot.words
        if allowed is None or words is None:
            return late

        # A filter may leave other rows than the best of all.
        is_allowed = contains(allowed, late.rows)
        late = ScoredRows(late.scores[is_allowed], late.rows[is_allowed])
        hidden = without(np.arange(self.snapshot.state.rows), from_row(allowed, self.first))
        found = words.search(text, WORDED, union(hidden, self.snapshot.hidden)).rows
        best = np.sort(found[self._best(found)])
        others = without(best, np.sort(late.rows))
        return merged(late, ScoredRows(self._cosines(query, others), others))

    def _best(self, rows: Rows) -> Rows:
        """Positions of the first rows of `MOST` documents among rows (n,), best first."""
        _, positions = np.unique(self.snapshot.document_rows.documents(rows), return_index=True)
        return np.sort(positions)[:MOST]

    def _cosines(self, query: Matrix, rows: Rows) -> NDArray[np.float32]:
        """Cosines (n,) of a query (1, d) with some of these rows, in the index's metric."""
        if not len(rows):
            return np.empty(0, dtype=np.float32)
        X = self._vectors_of(rows)
        index = self.snapshot.index
        if self.rescores and index.metric is not None:
            rescorer = index.metric.rescorer
            scores = rescorer.probes(query).steady_scores(X, rescorer.norms(X))
        else:
            scores = product(reduce_rows(index.reducer, query), reduce_rows(index.reducer, X).T)
        cosines: NDArray[np.float32] = scores[0]
        return cosines

    def _vectors_of(self, rows: Rows) -> Matrix:
        """Vectors (n, d) of rows; zeros if they can't be encoded, so that words alone count."""
        dim = self.snapshot.state.dim
        unknown = np.array([row for row in rows.tolist() if row not in self.vectors], np.int64)
        X: Matrix = np.zeros((len(unknown), dim), dtype=np.float32)
        if len(unknown):
            with suppress(InputError):
                X, _ = encode_all(self.encoder(), self.snapshot.store.contents(unknown), dim)
        self.vectors.update(zip(unknown.tolist(), X, strict=True))
        return np.stack([self.vectors[row] for row in rows.tolist()])


def merged(some: ScoredRows, others: ScoredRows) -> ScoredRows:
    """All rows of both, best first."""
    scores = np.concatenate([some.scores, others.scores])
    rows = np.concatenate([some.rows, others.rows])
    order = np.argsort(-scores, kind="stable")
    return ScoredRows(scores[order], rows[order])
