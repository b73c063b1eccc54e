"""Hybrid search: the nearest rows of a query by its meaning and by its words, in one order.

The rows that have the words and are not among the nearest are scored by meaning, too, from their
vectors on disk, so that each has both scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, without
from slimdex.indexes.errors import InputError
from slimdex.indexes.timing import stage

from ..lexical.fusion import AUTO, Fusion, fusion_of
from ..lexical.word_index import Found
from .snapshot import Snapshot

WORDED = 200
"""Rows that are looked at because they have a query's words, if no more are asked for."""


@dataclass(frozen=True)
class Worded:
    """What was asked, in words (q,), and how they count."""

    texts: Sequence[str]
    fusion: Fusion


def worded(snapshot: Snapshot, texts: object, hybrid: str | float) -> Worded | None:
    """What of the queries is searched by words; None where only meaning counts.

    Parameters
    ----------
    texts : of the queries; vectors have no words.
    hybrid : "off", "rrf", a weight of words, or "auto": what `tune` has found to help, if anything.

    Raises
    ------
    InputError
        If words are to count and there are none, of the queries or of the documents.
    """
    state, is_auto = snapshot.state, hybrid == AUTO
    fusion = fusion_of((state.hybrid or 0.0) if is_auto else hybrid)
    texts = [texts] if isinstance(texts, str) else texts
    if fusion is None or (is_auto and isinstance(texts, np.ndarray)):
        return None
    if not isinstance(texts, Sequence):
        raise InputError(f"hybrid={hybrid!r} with vectors; expected texts, which have words")
    if state.words is None:
        raise InputError(
            f"hybrid={hybrid!r}: {snapshot.path} has no words' index; expected one "
            f"(`slimdex words {snapshot.path}` makes it)"
        )
    return Worded(texts, fusion)


def hybrid_search(
    snapshot: Snapshot,
    text: str,
    fusion: Fusion,
    allowed: Rows | None = None,
    candidates: int | None = None,
) -> Callable[[Matrix, int], tuple[Matrix, Rows]]:
    """Scores and rows (1, k or fewer) of an encoded query (1, d), whose words are `text`'s."""

    def search(query: Matrix, k: int) -> tuple[Matrix, Rows]:
        meaning, words = both(snapshot, query, text, k, allowed, candidates)
        if fusion.weight is not None:
            meaning = with_scores_of(words.rows, meaning, snapshot, query, candidates)
        fused = fusion.fused(meaning, words)
        return fused.scores[None, :k], fused.rows[None, :k]

    return search


def both(
    snapshot: Snapshot,
    query: Matrix,
    text: str,
    k: int,
    allowed: Rows | None = None,
    candidates: int | None = None,
) -> tuple[Found, Found]:
    """The nearest rows of an encoded query (1, d) by meaning, and those that have its words."""
    index, words = snapshot.index, snapshot.words
    assert words is not None
    near = max(k, index.candidates if candidates is None else candidates)
    scores, rows = index.search(query, near, allowed, snapshot.hidden, candidates)
    there = rows[0] >= 0
    with stage("words"):
        found = words.search(text, max(k, WORDED), allowed, snapshot.hidden)
    return Found(scores[0][there], rows[0][there]), found


def with_scores_of(
    rows: Rows, meaning: Found, snapshot: Snapshot, query: Matrix, candidates: int | None = None
) -> Found:
    """What is near in meaning, with the scores of some more rows (n,)."""
    missing = without(np.sort(rows), np.sort(meaning.rows))
    if not len(missing):
        return meaning
    own = snapshot.index.search(query, len(missing), missing, candidates=candidates)
    return _joined(meaning, Found(own[0][0], own[1][0]))


def _joined(one: Found, other: Found) -> Found:
    scores = np.concatenate([one.scores, other.scores])
    rows = np.concatenate([one.rows, other.rows])
    order = np.lexsort((rows, -scores))
    return Found(scores[order], rows[order])
