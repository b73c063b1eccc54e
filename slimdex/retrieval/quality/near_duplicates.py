"""Near-duplicates: documents whose vectors are nearly equal, found without missing a pair.

The score of two texts is the cosine of the encoder's own vectors, which are on disk. Unlike the
score of a search, it does not change when the index is fitted again.

Two documents are near-duplicates if every passage of each has a passage of the other with at least
this score; the lowest of these best scores is the documents' score. Groups are stars, not chains:
in the order of addition, a document joins the first kept document that it is a near-duplicate of,
and is kept if there is none. So documents that differ are not joined by others between them.

All pairs are compared by short rows: coordinates on a few axes, and the length of the rest. By
Cauchy and Schwarz the product of two such rows is no less than the cosine. Only pairs whose product
reaches the least score are compared by their vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.progress import note, progress
from slimdex.system.threads import eigh, product

from ..index import Index
from ..ingest.writer import commit_deletion
from ..store.snapshot import Snapshot

AXES = 128
"""Coordinates of a short row."""
SAMPLED_ROWS = 4096
"""Rows that the axes are chosen by."""
ROWS_TOGETHER = 512
ROWS_AGAINST = 8192
"""Rows compared at once with later ones, and the number of these."""
ROUNDING = 1e-5
"""Error of products of unit rows in float32, with much to spare."""
EQUAL = 1e-6
"""Shortfall of a score that is rounding, as of equal vectors with a least score of 1."""


class NearDuplicate(NamedTuple):
    """A document, and its score with the kept document of its group."""

    id: str
    score: float


@dataclass(frozen=True)
class DuplicateGroup:
    """Near-duplicates of a document."""

    kept: str  # id of the document that was added first
    others: list[NearDuplicate]  # in the order of addition
    texts: dict[str, str] = field(default_factory=dict, repr=False)  # id -> how its text begins


class Pairs(NamedTuple):
    """Near-duplicates: numbers of documents (n,) and their scores (n,)."""

    first: Rows
    second: Rows
    scores: NDArray[np.float32]


def near_duplicates(snapshot: Snapshot, min_score: float = 0.95) -> list[DuplicateGroup]:
    """Find the groups of near-duplicates; see the module. Documents without text are left out.

    Takes time in proportion to the square of the number of rows, and 516 bytes of memory a row.

    Raises `InputError` unless ``0 < min_score <= 1``.
    """
    rows, owners, scores = _join_all(snapshot, min_score)
    joined = np.flatnonzero(owners >= 0)
    if not len(joined):
        return []

    # Read the ids and beginnings of all at once.
    named = np.union1d(joined, owners[joined])
    beginnings = dict(zip(named.tolist(), snapshot.store.beginnings(rows[named]), strict=True))
    groups: dict[int, DuplicateGroup] = {}
    for other, owner in zip(joined.tolist(), owners[joined].tolist(), strict=True):
        id, text = beginnings[owner]
        group = groups.setdefault(owner, DuplicateGroup(id, [], {id: text}))
        id, text = beginnings[other]
        group.others.append(NearDuplicate(id, min(float(scores[other]), 1.0)))
        group.texts[id] = text
    return [groups[owner] for owner in sorted(groups)]


def delete_near_duplicates(index: Index, min_score: float = 0.95) -> list[DuplicateGroup]:
    """Delete all documents of each group but the kept one, in one commit; returns the groups.

    Groups are found without the writer lock, and again if others commit meanwhile. Raises
    `InputError` as `near_duplicates` does, or if the index can't be changed.
    """
    index.check_writable()
    while True:
        manifest, groups = index.read(
            lambda snapshot: (snapshot.manifest, near_duplicates(snapshot, min_score))
        )
        if not groups:
            return groups
        others = chain.from_iterable(group.others for group in groups)
        ids = [other.id for other in others]
        with index.change() as change:
            if change.base.manifest == manifest:
                note(f"deleting {len(ids):,} of {len(change.base):,} documents")
                commit_deletion(change, change.base.store.live_rows(ids))
                return groups


def _join_all(snapshot: Snapshot, min_score: float) -> tuple[Rows, Rows, NDArray[np.float32]]:
    """Assign documents to earlier ones that they nearly duplicate.

    Returns for each document its first row (m,), the number of the document that it joins or -1,
    and their score.
    """
    if not 0 < min_score <= 1:
        raise InputError(f"min_score={min_score:g}; expected more than 0, and 1 at most")
    compared = Comparison(snapshot, min_score)
    count = len(compared.firsts)
    owners: Rows = np.full(count, -1, dtype=np.int64)
    scores = np.zeros(count, dtype=np.float32)
    for low, high in compared.parts(0, ROWS_TOGETHER):
        # Compare the documents of a part, except those that have joined an earlier one.
        not_joined = low + np.flatnonzero(owners[low:high] < 0)
        _join(compared.pairs(not_joined, not_joined), owners, scores)

        # Compare those that still have not joined any, and are kept, with all later documents.
        still_not_joined = not_joined[owners[not_joined] < 0]
        for start, stop in compared.parts(high, ROWS_AGAINST):
            later = start + np.flatnonzero(owners[start:stop] < 0)
            _join(compared.pairs(still_not_joined, later), owners, scores)
        progress("comparing documents", high, count)
    return compared.firsts, owners, scores


def _join(pairs: Pairs, owners: Rows, scores: NDArray[np.float32]) -> None:
    """Let the second document of each pair join the first, if neither has joined another.

    Changes `owners` and `scores` in place. Pairs are taken in order of addition, so that a document
    joins the first one possible.
    """
    for i in np.lexsort((pairs.second, pairs.first)).tolist():
        owner = pairs.first[i]
        other = pairs.second[i]
        if owners[owner] < 0 and owners[other] < 0:
            owners[other] = owner
            scores[other] = pairs.scores[i]


class Comparison:
    """Compares the documents of a snapshot that have text, numbered from 0 by their first rows."""

    def __init__(self, snapshot: Snapshot, least: float) -> None:
        self._vectors = snapshot.index.vectors
        self._least = least
        self._rows = snapshot.searchable_rows()
        documents = snapshot.document_rows.documents(self._rows)
        # For each document: its first row, where its rows begin and end in `_rows`, and how many it
        # has. For each of `_rows`: the number of its document.
        self.firsts, starts, self._document, self._counts = np.unique(
            documents, return_index=True, return_inverse=True, return_counts=True
        )
        self._stops = starts + self._counts
        self._short = short_rows(self._vectors, self._rows)

    def parts(self, low: int, most: int) -> Iterator[tuple[int, int]]:
        """Yield the documents from `low` on in parts (first, stop); stop is not included.

        A part has at most `most` rows, or one document.
        """
        while low < len(self.firsts):
            start = self._stops[low] - self._counts[low]
            high = int(np.searchsorted(self._stops, start + most, side="right"))
            high = max(high, low + 1)
            yield low, high
            low = high

    def pairs(self, some: Rows, others: Rows) -> Pairs:
        """Near-duplicates among some documents and others, the earlier of each pair first."""
        # Pairs of rows of different documents that may be near, each pair only once.
        left, right = self._possible(self._places(some), self._places(others))
        is_ordered = self._document[left] < self._document[right]
        left = left[is_ordered]
        right = right[is_ordered]

        # Keep those that are near.
        scores = self._cosines(left, right)
        is_near = scores >= self._least - EQUAL
        left = left[is_near]
        right = right[is_near]
        scores = scores[is_near]
        if len(self._rows) == len(self.firsts):
            return Pairs(left, right, scores)
        return self._of_documents(left, right, scores)

    def _places(self, documents: Rows) -> Rows:
        """Return the positions in `_rows` of all rows of some documents."""
        counts = self._counts[documents]
        ends = np.cumsum(counts)
        # Each document's rows are consecutive: its start, start + 1 and so on.
        places: Rows = np.repeat(self._stops[documents] - ends, counts) + np.arange(counts.sum())
        return places

    def _possible(self, some: Rows, others: Rows) -> tuple[Rows, Rows]:
        """Return pairs of positions in `_rows` whose cosine may reach the least score.

        The product of short rows is an upper bound of the cosine.
        """
        left = [np.empty(0, np.int64)]
        right = [np.empty(0, np.int64)]
        for part in batches(len(some), ROWS_TOGETHER):
            short = self._short[some[part]]
            for against in batches(len(others), ROWS_AGAINST):
                bounds = product(short, self._short[others[against]].T)
                possible = np.flatnonzero(bounds >= self._least - ROUNDING)
                i, j = np.divmod(possible, bounds.shape[1])  # rows and columns of the bounds
                left.append(some[part][i])
                right.append(others[against][j])
        return np.concatenate(left), np.concatenate(right)

    def _cosines(self, left: Rows, right: Rows) -> NDArray[np.float32]:
        """Compute the cosine of each pair of positions by the vectors on disk."""
        scores = np.empty(len(left), dtype=np.float32)
        for part in batches(len(left), ROWS_AGAINST):
            X = self._vectors.take(self._rows[left[part]])
            Y = self._vectors.take(self._rows[right[part]])
            scores[part] = np.vecdot(normalize_rows(X), normalize_rows(Y))
        return scores

    def _of_documents(self, left: Rows, right: Rows, scores: NDArray[np.float32]) -> Pairs:
        """Return the pairs of documents that are near-duplicates, from all near pairs of rows.

        Every row of either document must have a near row in the other. The score of a pair is the
        lowest of its rows' best scores.
        """
        total = len(self.firsts)
        # Encode each pair of documents as one number.
        pairs = self._document[left] * total + self._document[right]
        of_left, left_scores = self._covering_pairs(left, pairs, scores, pairs // total)
        of_right, right_scores = self._covering_pairs(right, pairs, scores, pairs % total)

        # Pairs in which all rows of both documents have a match.
        both, i, j = np.intersect1d(of_left, of_right, assume_unique=True, return_indices=True)
        lowest = np.minimum(left_scores[i], right_scores[j])
        return Pairs(both // total, both % total, lowest)

    def _covering_pairs(
        self, places: Rows, pairs: Rows, scores: NDArray[np.float32], owners: Rows
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Return the pairs in which all rows of one document have a near row of the other.

        Also returns the lowest of these rows' best scores. For each near pair of rows, `places` has
        that document's row, `owners` the document, and `pairs` the number of the documents' pair.
        """
        # The best score of each row in each pair: the first, if sorted by pair, row and score.
        order = np.lexsort((-scores, places, pairs))
        is_best = np.ones(len(order), dtype=bool)
        sorted_pairs = pairs[order]
        sorted_places = places[order]
        is_best[1:] = np.diff(sorted_pairs) != 0
        is_best[1:] |= np.diff(sorted_places) != 0
        best = order[is_best]

        # Keep pairs in which all rows of the document have a match, with their lowest score.
        distinct, first, counts = np.unique(pairs[best], return_index=True, return_counts=True)
        is_covered = counts == self._counts[owners[best][first]]
        lowest = np.minimum.reduceat(scores[best], first) if len(best) else scores[best]
        return distinct[is_covered], lowest[is_covered]


def short_rows(vectors: VectorFile, rows: Rows) -> Matrix:
    """Shorten rows (n, d) to (n, m + 1), so that their products are upper bounds of the cosines.

    A short row has a unit row's coordinates on the strongest axes of a sample, and the length of
    the rest.
    """
    sample = normalize_rows(vectors.take(rows[:: max(len(rows) // SAMPLED_ROWS, 1)]))
    _, axes = eigh(product(sample.T, sample))
    axes = axes[:, : -AXES - 1 : -1]  # the last are the strongest
    short = np.empty((len(rows), axes.shape[1] + 1), dtype=np.float32)
    for part in batches(len(rows)):
        X = normalize_rows(vectors.take(rows[part]))
        short[part, :-1] = product(X, axes)
        rest = np.vecdot(X, X) - np.vecdot(short[part, :-1], short[part, :-1])
        short[part, -1] = np.sqrt(np.maximum(rest, 0))
    return short
