"""Fusion of semantic (cosine) and lexical (BM25) rankings.

Weighted fusion is ``(1 - w) * cosine' + w * bm25'``, with each score scaled to 0 to 1 between its
theoretical minimum and the maximum of the query; rows without a query word get the minimum. Bruch,
Gai and Ingber (2023, "An Analysis of Fusion Functions for Hybrid Retrieval") found it the best and
most robust of the functions they compared. The rule adds bonuses to cosines, as large as the query
suggests (`weighting`). Reciprocal rank fusion (RRF: Cormack, Clarke and Büttcher 2009) sums
``1 / (60 + rank)``, without scaling or weight. A row whose name equals the query gets `NAMED` more,
which ranks it first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InputError

from .weighting import word_bonuses
from .word_index import Found

OFF, RRF = "off", "rrf"
AUTO: Final = "auto"
RRF_K = 60
"""Constant of reciprocal rank fusion, by Cormack et al."""
LEAST_COSINE = -1.0
NAMED = 2.0
"""Exceeds the difference between any two fused scores of rows without the name."""
EXPECTED = "off, auto, rrf, or a weight from 0 to 1"


@dataclass(frozen=True)
class Fusion:
    """Function that fuses two rankings.

    Parameters
    ----------
    weight : of the lexical scores, 0 to 1; `AUTO` for the rule; None for reciprocal rank fusion.

    >>> meaning = Found(np.array([0.9, 0.4], np.float32), np.array([3, 7]))
    >>> words = Found(np.array([5.0], np.float32), np.array([7]))
    >>> [fusion.fused(meaning, words).rows.tolist() for fusion in (Fusion(0.1), Fusion(0.5))]
    [[3, 7], [7, 3]]
    >>> [f"{score:.4f}" for score in Fusion(None).fused(meaning, words).scores]
    ['0.0325', '0.0164']
    """

    weight: float | Literal["auto"] | None

    def __str__(self) -> str:
        """Return the value of `--hybrid`."""
        if isinstance(self.weight, str):
            return self.weight
        return RRF if self.weight is None else f"{self.weight:g}"

    def fused(self, meaning: Found, words: Found) -> Found:
        """Return all rows of both, best first; ties by semantic rank, then by row number.

        Parameters
        ----------
        meaning : cosines; except for reciprocal rank fusion, must include every row of `words`.
        words : BM25 scores, above 0.
        """
        rows = np.union1d(meaning.rows, words.rows)
        if self.weight is None:
            scores = _reciprocal_ranks(rows, meaning) + _reciprocal_ranks(rows, words)
        elif isinstance(self.weight, str):
            cosines = _placed(rows, meaning)
            scores = cosines + word_bonuses(cosines, _placed(rows, words))
        else:
            near, least = _spread(rows, meaning, LEAST_COSINE), 0.0
            scores = (1 - self.weight) * near + self.weight * _spread(rows, words, least)
        scores[np.searchsorted(rows, words.named)] += NAMED
        ranks = np.full(len(rows), len(rows))
        ranks[np.searchsorted(rows, meaning.rows)] = np.arange(len(meaning.rows))
        order = np.lexsort((rows, ranks, -scores))
        return Found(scores[order].astype(np.float32), rows[order])


def fusion_of(asked: str | float) -> Fusion | None:
    """Parse `--hybrid`: "auto", "rrf" or a weight; None for "off" and for weight 0.

    "auto" is the rule, unless an index has its own choice. Raises `InputError` for anything else.

    >>> fusion_of("rrf"), fusion_of("0.3"), fusion_of("off")
    (Fusion(weight=None), Fusion(weight=0.3), None)
    """
    if asked == OFF:
        return None
    if asked == AUTO:
        return Fusion(AUTO)
    if asked == RRF:
        return Fusion(None)
    try:
        weight = float(asked)
    except (TypeError, ValueError):
        weight = -1.0
    if isinstance(asked, bool) or not 0 <= weight <= 1:  # also refuses NaN
        raise InputError(f"hybrid={asked!r}; expected {EXPECTED}")
    return Fusion(weight) if weight else None


def _placed(rows: Rows, found: Found) -> NDArray[np.float32]:
    """Scores (n,) of sorted rows; 0 for rows that were not found."""
    out = np.zeros(len(rows), np.float32)
    out[np.searchsorted(rows, found.rows)] = found.scores
    return out


def _spread(rows: Rows, found: Found, least: float) -> NDArray[np.float64]:
    """Scale scores of sorted rows (n,) from 0, the least possible, to 1, the best found."""
    out = np.zeros(len(rows))
    if len(found.rows) and (width := float(found.scores.max()) - least) > 0:
        out[np.searchsorted(rows, found.rows)] = (found.scores - least) / width
    return out


def _reciprocal_ranks(rows: Rows, found: Found) -> NDArray[np.float64]:
    out = np.zeros(len(rows))
    out[np.searchsorted(rows, found.rows)] = 1 / (RRF_K + 1 + np.arange(len(found.rows)))
    return out
