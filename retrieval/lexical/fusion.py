"""Fusion of semantic (cosine) and lexical (BM25) rankings.

Weighted fusion is ``(1 - w) * cosine' + w * bm25'``, with each score scaled to 0 to 1 between its
theoretical minimum and the maximum of the query; rows without a query word get the minimum. Bruch,
Gai and Ingber (2023, "An Analysis of Fusion Functions for Hybrid Retrieval") found it the best and
most robust of the functions they compared. Reciprocal rank fusion (RRF: Cormack, Clarke and
Büttcher 2009) sums ``1 / (60 + rank)``, without scaling or weight. A row whose name equals the
query gets 1 more, which ranks it first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InputError

from .word_index import Found

OFF, AUTO, RRF = "off", "auto", "rrf"
RRF_K = 60
"""Constant of reciprocal rank fusion, by Cormack et al."""
LEAST_COSINE = -1.0
FOUND_BY = ("meaning", "words", "both", "name")
"""Ways to find a row, in the results of a search by their places."""
MEANING, WORDS, NAME = 0, 1, 3
EXPECTED = "off, auto, rrf, or a weight from 0 to 1"


class Candidates(NamedTuple):
    """Rows found for a query by either search, with both scores.

    Attributes
    ----------
    rows : (n,), sorted.
    cosines : (n,), of every row.
    bm25 : (n,), above 0; 0 for rows that lexical search did not find.
    is_near : (n,), whether semantic search found the row.
    is_named : (n,), whether the row's name equals the query.
    """

    rows: Rows
    cosines: NDArray[np.float32]
    bm25: NDArray[np.float32]
    is_near: NDArray[np.bool_]
    is_named: NDArray[np.bool_]

    @classmethod
    def joined(cls, near: Found, others: Found, words: Found) -> Candidates:
        """Join the rows found by both searches.

        Parameters
        ----------
        near : rows found by semantic search, and their cosines.
        others : the other rows of `words`, and their cosines.
        words : rows found by lexical search, and their BM25 scores.
        """
        order = np.argsort(rows := np.concatenate([near.rows, others.rows]))
        rows, bm25 = rows[order], np.zeros(len(rows), dtype=np.float32)
        bm25[np.searchsorted(rows, words.rows)] = words.scores
        is_named = np.zeros(len(rows), dtype=bool)
        is_named[np.searchsorted(rows, words.named)] = True
        cosines = np.concatenate([near.scores, others.scores])[order]
        return cls(rows, cosines, bm25, order < len(near.rows), is_named)

    def found_by(self, rows: Rows) -> NDArray[np.int64]:
        """Places in `FOUND_BY` of some of the rows, padded with -1."""
        place = np.searchsorted(self.rows, rows[rows >= 0])
        by = np.where(self.bm25[place] > 0, WORDS + self.is_near[place], MEANING)
        out = np.full(len(rows), MEANING)
        out[rows >= 0] = np.where(self.is_named[place], NAME, by)
        return out

    def order(self, fused: NDArray[np.floating]) -> Rows:
        """Positions by fused scores (n,), best first; ties by cosine, then by row number."""
        return np.lexsort((-self.cosines, -fused))


@dataclass(frozen=True)
class Fusion:
    """Function that fuses two rankings.

    Parameters
    ----------
    weight : of the lexical scores, 0 to 1; None for reciprocal rank fusion.

    >>> near = Found(np.array([0.9, 0.4], np.float32), np.array([3, 7]))
    >>> no_others = Found(np.empty(0, np.float32), np.empty(0, np.int64))
    >>> words = Found(np.array([5.0], np.float32), np.array([7]))
    >>> found = Candidates.joined(near, no_others, words)
    >>> [found.rows[found.order(Fusion(w).scores(found))].tolist() for w in (0.1, 0.5)]
    [[3, 7], [7, 3]]
    >>> Fusion(None).scores(found).round(4).tolist()
    [0.0164, 0.0325]
    """

    weight: float | None

    def __str__(self) -> str:
        """Return the value of `--hybrid`."""
        return RRF if self.weight is None else f"{self.weight:g}"

    def scores(self, found: Candidates) -> NDArray[np.float64]:
        """Fused scores (n,) of the rows found for a query."""
        if self.weight is None:
            scores = _reciprocal_ranks(found.cosines, found.is_near)
            scores += _reciprocal_ranks(found.bm25, found.bm25 > 0)
        else:
            scores = (1 - self.weight) * _spread(found.cosines, LEAST_COSINE)
            scores += self.weight * _spread(found.bm25, 0.0)
        scores[found.is_named] += 1  # an exact name match ranks first
        return scores


def fusion_of(asked: str | float) -> Fusion | None:
    """Parse `--hybrid`: "rrf" or a weight; None for "off" and for weight 0.

    Raises `InputError` for anything else, including "auto", which only an index can resolve.

    >>> fusion_of("rrf"), fusion_of("0.3"), fusion_of("off")
    (Fusion(weight=None), Fusion(weight=0.3), None)
    """
    if asked == OFF:
        return None
    if asked == RRF:
        return Fusion(None)
    try:
        weight = float(asked)
    except (TypeError, ValueError):
        weight = -1.0
    if isinstance(asked, bool) or not 0 <= weight <= 1:  # also refuses NaN
        raise InputError(f"hybrid={asked!r}; expected {EXPECTED}")
    return Fusion(weight) if weight else None


def _spread(scores: NDArray[np.float32], least: float) -> NDArray[np.float64]:
    """Scale scores (n,) from 0, the least possible, to 1, the best found."""
    width = float(scores.max(initial=least)) - least
    return (scores.astype(np.float64) - least) / (width or 1.0)


def _reciprocal_ranks(
    scores: NDArray[np.float32], is_found: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Reciprocal ranks (n,) of the rows found, by score and then by row number; 0 for others."""
    out, found = np.zeros(len(scores)), np.flatnonzero(is_found)
    best_first = found[np.argsort(-scores[found], kind="stable")]
    out[best_first] = 1 / (RRF_K + 1 + np.arange(len(found)))
    return out
