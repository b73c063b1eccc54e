"""Fusion: one order out of two, of meaning (cosines) and of words (BM25).

Weighted, each score is first brought to 0 to 1 by the least that it could be and the most that it
is, and a row that has none of the words has the least: ``(1 - w) * cosine' + w * bm25'``, which
Bruch, Gai and Ingber (2023, "An Analysis of Fusion Functions for Hybrid Retrieval") found best of
what they tried, and robust. By ranks it is ``1 / (60 + rank)`` summed (reciprocal rank fusion, RRF:
Cormack, Clarke and Büttcher 2009), which needs no scale and knows no weight. A row whose name is
all of the query has one more, and so comes first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InputError

from .word_index import Found

OFF, AUTO, RRF = "off", "auto", "rrf"
RRF_K = 60
"""As Cormack et al. have it."""
LEAST_COSINE = -1.0
EXPECTED = "off, auto, rrf, or a weight from 0 to 1"


@dataclass(frozen=True)
class Fusion:
    """How two orders become one.

    Parameters
    ----------
    weight : of the words, 0 to 1; None for ranks.

    >>> meaning = Found(np.array([0.9, 0.4], np.float32), np.array([3, 7]))
    >>> words = Found(np.array([5.0], np.float32), np.array([7]))
    >>> [fusion.fused(meaning, words).rows.tolist() for fusion in (Fusion(0.1), Fusion(0.5))]
    [[3, 7], [7, 3]]
    >>> [f"{score:.4f}" for score in Fusion(None).fused(meaning, words).scores]
    ['0.0325', '0.0164']
    """

    weight: float | None

    def __str__(self) -> str:
        """As it is asked for."""
        return RRF if self.weight is None else f"{self.weight:g}"

    def fused(self, meaning: Found, words: Found) -> Found:
        """All rows of both, best first; equal scores by the first order, then by their numbers.

        Parameters
        ----------
        meaning : cosines; it has every row that `words` has, unless ranks are fused.
        words : BM25's scores, above 0.
        """
        rows = np.union1d(meaning.rows, words.rows)
        if self.weight is None:
            scores = _reciprocal_ranks(rows, meaning) + _reciprocal_ranks(rows, words)
        else:
            near, least = _spread(rows, meaning, LEAST_COSINE), 0.0
            scores = (1 - self.weight) * near + self.weight * _spread(rows, words, least)
        scores[np.searchsorted(rows, words.named)] += 1  # whoever types a whole name wants that
        ranks = np.full(len(rows), len(rows))
        ranks[np.searchsorted(rows, meaning.rows)] = np.arange(len(meaning.rows))
        order = np.lexsort((rows, ranks, -scores))
        return Found(scores[order].astype(np.float32), rows[order])


def fusion_of(asked: str | float) -> Fusion | None:
    """What `--hybrid` asks for: "rrf" or a weight; None for "off" and for a weight of 0.

    Raises
    ------
    InputError
        For anything else, "auto" included, of which only an index knows what it is.

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


def _spread(rows: Rows, found: Found, least: float) -> NDArray[np.float64]:
    """Scores of rows (n,), sorted, from 0 for the least possible to 1 for the best found."""
    out = np.zeros(len(rows))
    if len(found.rows) and (width := float(found.scores.max()) - least) > 0:
        out[np.searchsorted(rows, found.rows)] = (found.scores - least) / width
    return out


def _reciprocal_ranks(rows: Rows, found: Found) -> NDArray[np.float64]:
    out = np.zeros(len(rows))
    out[np.searchsorted(rows, found.rows)] = 1 / (RRF_K + 1 + np.arange(len(found.rows)))
    return out
