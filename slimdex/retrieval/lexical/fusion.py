"""Fusion of semantic (cosine) and lexical (BM25) rankings.

Weighted fusion is ``(1 - w) * cosine' + w * bm25'``, with each score divided by the best of the
query: the cosine above the query's mean cosine with all rows, and BM25. Bruch, Gai and Ingber
(2023, "An Analysis of Fusion Functions for Hybrid Retrieval") found a weighted sum the best and
most robust of the functions they compared, whatever constants scale it. The rule adds bonuses to
cosines, as large as the query suggests (`word_bonuses`), and more for rare codes and names
(`rare_words`). Reciprocal rank fusion (RRF: Cormack, Clarke
and Büttcher 2009) sums ``1 / (60 + rank)``, without scaling or weight. A row whose name equals the
query comes first.

Maxima, ranks and BM25 scores are those of the query in the whole collection (`FusionScales`), so
a row's fused score is the same in every search: BM25 counts for the `WORDED` best rows there, and
is 0 for others. Rows without a rank are ordered by their cosines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import Rows, contains

from .word_index import ScoredRows

OFF = "off"
RRF = "rrf"
AUTO: Final = "auto"
RRF_K = 60
"""Constant of reciprocal rank fusion, by Cormack et al."""
FINDERS = ("meaning", "words", "both", "name")
"""Searches that can find a row: the values of `Hit.found_by`."""
MEANING = 0
WORDS = 1
NAME = 3
NEAREST = 10
"""Rows of the whole collection that meaning finds, whatever the limit of a search is."""
FUSIONS = "off, auto, rrf, or a weight from 0 to 1"
FLOOR_RANK = 100
"""Highest rank of the BM25 score above which scores count in a bonus."""
WORDED = 200
"""Rows of the whole collection, with the best BM25 scores, for which words count."""
LEAST_COSINE = 1e-9
"""Lower bound of differences of cosines: if all are equal, only lexical scores count."""
NAMED = 100.0
"""Added to a row whose name equals the query; exceeds any other score."""
UNCHANGED = 0.9
"""Scores above are mapped to less than 1."""
WEIGHT = 0.5
"""Weight of the best BM25 score in a bonus; docs/research/fusion.md compares others."""


class FusionScales(NamedTuple):
    """Best rows of the whole collection for a query, found at a fixed depth.

    Attributes
    ----------
    near : the nearest rows, as many as an index rescores, and their cosines.
    words : the `WORDED` rows with the best BM25.
    mean : the mean cosine of the query with all rows.
    total : number of rows that a search can find.
    """

    near: ScoredRows
    words: ScoredRows
    mean: float
    total: int


class Candidates(NamedTuple):
    """Rows found for a query by either search, with both scores.

    Attributes
    ----------
    rows : (n,), sorted.
    cosines : (n,), of every row.
    bm25 : (n,), above 0; 0 for rows that lexical search did not find.
    rare : (n,), bonuses of the row's rare codes and names, if the nearest row's cosine is 0.
    is_near : (n,), whether semantic search found the row.
    is_named : (n,), whether the row's name equals the query.
    scales : best rows of the whole collection for the query.
    """

    rows: Rows
    cosines: NDArray[np.float32]
    bm25: NDArray[np.float32]
    rare: NDArray[np.float64]
    is_near: NDArray[np.bool_]
    is_named: NDArray[np.bool_]
    scales: FusionScales

    @classmethod
    def join(cls, near: ScoredRows, others: ScoredRows, scales: FusionScales) -> Candidates:
        """Join the rows found by both searches.

        Parameters
        ----------
        near : rows found by semantic search, and their cosines.
        others : the other rows of `scales` that may be found, and their cosines.
        """
        rows = np.concatenate([near.rows, others.rows])
        order = np.argsort(rows)
        rows = rows[order]

        # BM25 of the rows that lexical search returns, except those that a filter leaves out.
        words = scales.words
        is_candidate = contains(rows, words.rows)
        positions = np.searchsorted(rows, words.rows[is_candidate])
        bm25 = np.zeros(len(rows), dtype=np.float32)
        bm25[positions] = words.scores[is_candidate]
        rare = np.zeros(len(rows))
        if len(words.rare):
            rare[positions] = words.rare[is_candidate]

        return cls(
            rows=rows,
            cosines=np.concatenate([near.scores, others.scores])[order],
            bm25=bm25,
            rare=rare,
            is_near=order < len(near.rows),  # the rows of `near` came first before sorting
            is_named=contains(np.sort(words.named), rows),
            scales=scales,
        )

    def finders(self, positions: Rows) -> NDArray[np.int64]:
        """Return which search found each of the rows at k positions, as those (k,) in `FINDERS`.

        Semantic search is named if a row's cosine is above 0 and among the best `NEAREST` of the
        whole collection, so that a limit or filter changes nothing.
        """
        best = np.sort(self.scales.near.scores)[-NEAREST:]
        least = best[0] if len(best) else -np.inf
        cosines = self.cosines[positions]
        is_near = (cosines >= least) & (cosines > 0)

        # In `FINDERS`, "both" follows "words"; a row without matching words was found by meaning.
        by_words = np.where(is_near, WORDS + 1, WORDS)
        finders = np.where(self.bm25[positions] > 0, by_words, MEANING)
        return np.where(self.is_named[positions], NAME, finders)

    def order(self, fused: NDArray[np.floating], k: int | None = None) -> Rows:
        """Positions by fused scores (n,), best first, all or k; ties by cosine, then by row."""
        best = np.arange(len(fused))
        if k is not None and k < len(fused):  # keep all ties of the k-th before sorting
            best = np.flatnonzero(fused >= np.partition(fused, -k)[-k])
        return best[np.lexsort((-self.cosines[best], -fused[best]))[:k]]


@dataclass(frozen=True)
class Fusion:
    """Function that fuses two rankings.

    Parameters
    ----------
    weight : of the lexical scores, 0 to 1; `AUTO` for the rule; None for reciprocal rank fusion.

    >>> near = ScoredRows(np.array([0.9, 0.4], np.float32), np.array([3, 7]))
    >>> no_others = ScoredRows(np.empty(0, np.float32), np.empty(0, np.int64))
    >>> words = ScoredRows(np.array([5.0], np.float32), np.array([7]))
    >>> found = Candidates.join(near, no_others, FusionScales(near, words, 0.2, 2))
    >>> [found.rows[found.order(Fusion(w).scores(found))].tolist() for w in (0.1, 0.5)]
    [[3, 7], [7, 3]]
    >>> Fusion(None).scores(found).round(4).tolist()
    [0.0164, 0.0325]
    """

    weight: float | Literal["auto"] | None

    def __str__(self) -> str:
        """Return the value of `--hybrid`."""
        if isinstance(self.weight, str):
            return self.weight
        return RRF if self.weight is None else f"{self.weight:g}"

    def scores(self, candidates: Candidates) -> NDArray[np.float64]:
        """Fused scores (n,) of the rows found for a query."""
        # Fuse by ranks, by the rule, or by a weight.
        near, words, mean, _ = candidates.scales
        if self.weight is None:
            scores = _reciprocal_ranks(candidates.rows, near.rows)
            scores += _reciprocal_ranks(candidates.rows, words.rows)
        elif isinstance(self.weight, str):
            scores = word_bonuses(candidates.bm25, candidates.cosines, *candidates.scales)
            scores += candidates.cosines
            nearest = float(near.scores.max(initial=mean))
            scores += (1 - nearest) * candidates.rare
        else:
            scores = (1 - self.weight) * _spread(candidates.cosines, mean, near.scores)
            scores += self.weight * _spread(candidates.bm25, 0.0, words.scores)

        # Rows whose name is the query come first in any case.
        scores[candidates.is_named] += NAMED
        return scores


def bounded(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map scores to less than 1, in the same order; those up to `UNCHANGED` stay.

    >>> bounded(np.array([-0.2, 0.5, 0.9, 1.0, 100.0])).round(4).tolist()
    [-0.2, 0.5, 0.9, 0.95, 0.9999]
    """
    rest = 1 - UNCHANGED
    above = np.maximum(scores - UNCHANGED, 0)
    return np.minimum(scores, UNCHANGED) + rest * above / (above + rest)


def word_bonuses(
    bm25: NDArray[np.float32],
    cosines: NDArray[np.float32],
    near: ScoredRows,
    words: ScoredRows,
    mean: float,
    total: int,
) -> NDArray[np.float64]:
    """Bonuses (n,), from 0 to 2 * `WEIGHT`, on the cosines of rows found for a query.

    They are the same for every encoder::

        bonus(row) = min((1 - mean) * WEIGHT, 1 - level) * m(row) * p(row)
        m(row) = max(bm25(row) - floor, 0) / bm25(best)
        p(row) = min(bm25(row) / ideal + max(r(row), 0) / r(nearest), 1)
        r(row) = cosine(row) - mean

    mean is the mean cosine of the query with all rows, so the order of the rows does not depend on
    where an encoder's cosines lie: some encoders have all of them between 0.7 and 0.9. level is the
    mean cosine of the two nearest rows, since one may be the query's own text. floor is the
    100th best BM25 score of the query, or that of the middle row among fewer than 200 rows, since
    every word is rare in a small collection. ideal is the score of a row of mean length that has
    each searched word of the query once: the sum of their inverse document frequencies. All are of
    the whole collection, whatever rows a filter allows. The factors limit lexical scores where they
    are likely to mislead:

    - ``1 - level``: where rows are near in meaning, the words that others share with the query
      rarely tell a better answer.
    - ``m(row)``: rows that match no better than a hundred others gain nothing.
    - ``p(row)``: a row that has one word of many matches by chance, unless its cosine is near the
      best. The sum says how much of the query the row answers by either; at 1 the whole bonus
      counts.

    `slimdex bench weight` compares constants on data sets that were left out of their choice.

    Parameters
    ----------
    bm25 : (n,), of the rows; 0 for rows whose words do not count.
    cosines : (n,), of the rows.
    near, words : the nearest rows and those with the best BM25 in the whole collection.
    mean : mean cosine of the query with all rows.
    total : rows of the whole collection.

    >>> cosines, bm25 = np.array([[0.8, 0.6, 0.3], [0, 2, 8]], np.float32)
    >>> near = ScoredRows(cosines, np.arange(3))
    >>> words = ScoredRows(bm25[:0:-1], np.array([2, 1]), ideal=16)
    >>> word_bonuses(bm25, cosines, near, words, 0.2, 3).round(3).tolist()
    [0.0, 0.0, 0.15]
    """
    if not len(words.rows):
        return np.zeros(len(bm25))

    # m(row): how much better it matches than the row whose score is the floor.
    best = float(words.scores[0])
    floor_rank = min(FLOOR_RANK, max(2, total // 2))
    floor = words.scores[floor_rank - 1] if len(words.rows) >= floor_rank else 0.0
    matched = (bm25.astype(np.float64) - floor).clip(0) / best

    # p(row): how much of the query it answers, by words or by meaning.
    *_, second, nearest = sorted([mean, mean, *near.scores.tolist()])
    close = (cosines.astype(np.float64) - mean).clip(0) / max(nearest - mean, LEAST_COSINE)
    answered = (bm25 / words.ideal + close).clip(max=1)

    most = max(min(WEIGHT * (1 - mean), 1 - (second + nearest) / 2), LEAST_COSINE)
    out: NDArray[np.float64] = most * matched * answered
    return out


def fusion_of(requested: str | float) -> Fusion | None:
    """Parse `--hybrid`: "auto", "rrf" or a weight; None for "off" and for weight 0.

    "auto" is the rule, unless an index has its own choice. Raises `InputError` for anything else.

    >>> fusion_of("rrf"), fusion_of("0.3"), fusion_of("off")
    (Fusion(weight=None), Fusion(weight=0.3), None)
    """
    if requested == OFF:
        return None
    if requested == AUTO:
        return Fusion(AUTO)
    if requested == RRF:
        return Fusion(None)
    try:
        weight = float(requested)
    except (TypeError, ValueError):
        weight = -1.0  # refused below
    if isinstance(requested, bool) or not 0 <= weight <= 1:  # also refuses NaN
        raise InputError(f"hybrid={requested!r}; expected {FUSIONS}")
    return Fusion(weight) if weight else None


def _spread(
    scores: NDArray[np.float32], least: float, of_whole: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Scale scores (n,) so that `least` is 0 and the best of the whole collection is 1."""
    width = float(of_whole.max(initial=least)) - least
    return (scores.astype(np.float64) - least) / (width or 1.0)  # 0 if none is above `least`


def _reciprocal_ranks(rows: Rows, best: Rows) -> NDArray[np.float64]:
    """Return the reciprocal ranks (n,) of sorted rows in the ranking `best`; 0 for other rows."""
    reciprocals = 1 / (RRF_K + 1 + np.arange(len(best)))
    is_present = contains(rows, best)
    out = np.zeros(len(rows))
    out[np.searchsorted(rows, best[is_present])] = reciprocals[is_present]
    return out
