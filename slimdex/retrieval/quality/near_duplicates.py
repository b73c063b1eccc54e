"""Near-duplicates: documents whose vectors are nearly equal, found without missing a pair.

The score of two texts is the cosine of the encoder's own vectors, which are on disk. Unlike the
score of a search, it does not change when the index is fitted again.

Two documents are near-duplicates if every passage of each has a passage of the other with at least
this score; the lowest of these best scores is the documents' score. Groups are stars, not chains:
in the order of addition, a document joins the first kept document that it is a near-duplicate of,
and is kept if there is none. So documents that differ are not joined by others between them.

All pairs of documents are compared, a block of rows with another at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows, normalize_rows
from slimdex.system.progress import note, progress
from slimdex.system.threads import product

from ..index import Index
from ..ingest.writer import commit_deletion
from ..store.snapshot import Snapshot

BLOCK_ROWS = 1024
"""Rows of a block; the cosines of two blocks take 4 MB, which fits a cache."""
BEGINNING = 300
"""Characters of the beginning of a text."""
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


def near_duplicates(snapshot: Snapshot, min_score: float = 0.95) -> list[DuplicateGroup]:
    """Find the groups of near-duplicates; see the module. Documents without text are left out.

    Takes time in proportion to the square of the number of rows.

    Raises `InputError` unless ``0 < min_score <= 1``.
    """
    snapshot.check_encoded()
    firsts, owners, scores = _join_all(snapshot, min_score)
    joined = np.flatnonzero(owners >= 0)
    if not len(joined):
        return []

    # Read the ids and beginnings of all at once.
    named = np.union1d(joined, owners[joined])
    selected = snapshot.store.select(firsts[named], f"id, left(text, {BEGINNING})")
    beginnings = dict(zip(named.tolist(), selected, strict=True))
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
                commit_deletion(change, np.unique(change.base.store.rows_of(ids)))
                return groups


def _join_all(snapshot: Snapshot, min_score: float) -> tuple[Rows, Rows, NDArray[np.float32]]:
    """Assign documents to earlier ones that they nearly duplicate.

    Returns for each document its first row (m,), the number of the document that it joins or -1,
    and their score.
    """
    if not 0 < min_score <= 1:
        raise InputError(f"min_score={min_score:g}; expected more than 0, and 1 at most")
    least = min_score - EQUAL
    blocks, firsts = _blocks(snapshot)
    owners: Rows = np.full(len(firsts), -1, dtype=np.int64)
    scores = np.zeros(len(firsts), dtype=np.float32)
    for done, block in enumerate(blocks):
        unit_rows = block.unit_rows(snapshot)
        for later in blocks[done:]:
            others_rows = unit_rows if later is block else later.unit_rows(snapshot)
            cosines = product(unit_rows, others_rows.T)
            if cosines.max() < least:  # as in most blocks
                continue
            compared = _scores(cosines, block.starts, later.starts)
            near = compared >= least

            # In order of addition, so that a document joins the first one possible.
            for i in np.flatnonzero(near.any(axis=1)).tolist():
                owner = block.first + i
                others = later.first + np.flatnonzero(near[i])
                is_free = (others > owner) & (owners[others] < 0) & (owners[owner] < 0)
                others = others[is_free]
                owners[others] = owner
                scores[others] = compared[i, others - later.first]
        progress("comparing documents", block.first + len(block.starts), len(firsts))
    return firsts, owners, scores


class Block(NamedTuple):
    """Consecutive documents, and their rows."""

    first: int  # number of the first document
    starts: Rows  # where the rows of each document begin in `rows`
    rows: Rows

    def unit_rows(self, snapshot: Snapshot) -> Matrix:
        """Read the vectors, and normalise them."""
        return normalize_rows(snapshot.index.vectors.take(self.rows))


def _blocks(snapshot: Snapshot) -> tuple[list[Block], Rows]:
    """Divide the documents that have text into blocks.

    Also returns the first row of each. A block has `BLOCK_ROWS` rows at most, or one document.
    """
    rows = snapshot.searchable_rows()
    firsts, starts = np.unique(snapshot.document_rows.documents(rows), return_index=True)
    stops = np.append(starts[1:], len(rows))
    blocks = []
    low = 0
    while low < len(firsts):
        fitting = int(np.searchsorted(stops, starts[low] + BLOCK_ROWS, side="right"))
        high = max(fitting, low + 1)
        block_rows = rows[starts[low] : stops[high - 1]]
        blocks.append(Block(low, starts[low:high] - starts[low], block_rows))
        low = high
    return blocks, firsts


def _scores(cosines: Matrix, starts: Rows, other_starts: Rows) -> Matrix:
    """Scores of documents with others, from the cosines (n, m) of their rows.

    The rows of each document begin at `starts` and `other_starts`.
    """
    if len(starts) == cosines.shape[0] and len(other_starts) == cosines.shape[1]:
        return cosines  # a row for each document

    # The best score of each row in each document of the other side, and the lowest of a document.
    best = np.maximum.reduceat(cosines, other_starts, axis=1)
    best_of_others = np.maximum.reduceat(cosines, starts, axis=0)
    lowest = np.minimum.reduceat(best, starts, axis=0)
    lowest_of_others = np.minimum.reduceat(best_of_others, other_starts, axis=1)
    return np.minimum(lowest, lowest_of_others)
