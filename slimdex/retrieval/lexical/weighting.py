"""Weight of the lexical scores in a fusion, chosen for each query without labels.

A row found by lexical search gains a bonus on its cosine::

    bonus(row) = (1 - mean) * weight(query) * m(row) * p(row)
    m(row) = max(bm25(row) - floor, 0) / bm25(best)
    p(row) = min(bm25(row) / ideal + max(r(row), 0) / r(nearest), 1)**3
    r(row) = (cosine(row) - mean) / (1 - mean)

mean is the mean cosine of the query with all rows, so the order of the rows does not depend on
where an encoder's cosines lie: some encoders have all of them between 0.7 and 0.9. floor is the
100th best BM25 score of the query, or that of the middle row among fewer than 200 rows, since every
word is rare in a small collection. ideal is the score of a row of mean length that has each
searched word of the query once: the sum of their inverse document frequencies. All are of the whole
collection, whatever rows a filter allows. The factors limit lexical scores where they are likely to
mislead:

- ``m(row)``: rows that match no better than a hundred others gain nothing.
- ``p(row)``: a row that has one word of many matches by chance, unless its cosine is near the
  best. The sum says how much of the query the row answers by either; at 1 the whole bonus counts.
- ``weight``: a gate between 0 and `MOST_WEIGHT`, from two numbers that every query has: n, its
  distinct words, and rank, how many rows have a better BM25 score than the nearest row::

    weight = MOST_WEIGHT * (1 + z / (1 + |z|)) / 2
    z = BIAS + OF_WORDS * n / (n + 4) + OF_RANK * rank / (rank + 10)

  A match of one word says less than one of ten, and a nearest row that shares few words with the
  query says that the query is in other words than its answers.

`slimdex bench gate` fits the three numbers and judges them on data sets that were left out. The
gate is the logistic function's rational relative: the same bits on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import contains

from .word_index import ScoredRows

FLOOR_RANK = 100
"""Highest rank of the BM25 score above which scores count."""
WORDED = 200
"""Rows of the whole collection, with the best BM25 scores, for which words count."""
LEAST_COSINE = 1e-9
"""Smallest relative cosine of the nearest row: where none is similar, only words count."""
MOST_WEIGHT = 1.5
BIAS, OF_WORDS, OF_RANK = -3.5, 4.9, -1.7
"""Fitted by `slimdex bench gate`; docs/research/fusion.md judges them on sets left out."""


def word_bonuses(
    bm25: NDArray[np.float32],
    cosines: NDArray[np.float32],
    near: ScoredRows,
    words: ScoredRows,
    mean: float,
    total: int,
) -> NDArray[np.float64]:
    """Bonuses (n,), from 0 to twice `MOST_WEIGHT`, on the cosines of rows found for a query.

    Parameters
    ----------
    bm25 : (n,), of the rows; 0 for rows whose words do not count.
    cosines : (n,), of the rows.
    near, words : the nearest rows and those with the best BM25 in the whole collection.
    mean : mean cosine of the query with all rows.
    total : rows of the whole collection.

    >>> cosines, bm25 = np.array([[0.8, 0.6, 0.3], [0, 2, 8]], np.float32)
    >>> near = ScoredRows(cosines, np.arange(3))
    >>> words = ScoredRows(bm25[:0:-1], np.array([2, 1]), ideal=16, terms=4)
    >>> word_bonuses(bm25, cosines, near, words, 0.2, 3).round(3).tolist()
    [0.0, 0.0, 0.036]
    """
    bonuses = full_bonuses(bm25, cosines, near, words, mean, total)
    return weight_of(words.terms, rank_of(near, words)) * bonuses


def full_bonuses(
    bm25: NDArray[np.float32],
    cosines: NDArray[np.float32],
    near: ScoredRows,
    words: ScoredRows,
    mean: float,
    total: int,
) -> NDArray[np.float64]:
    """Bonuses (n,) of `word_bonuses` for a weight of 1."""
    if not len(words.rows):
        return np.zeros(len(bm25))
    best, unit = float(words.scores[0]), max(1 - mean, LEAST_COSINE)
    floor_rank = min(FLOOR_RANK, max(2, total // 2))
    floor = float(words.scores[floor_rank - 1]) if len(words.rows) >= floor_rank else 0.0
    out: NDArray[np.float64] = unit * np.maximum(bm25.astype(np.float64) - floor, 0) / best
    if not words.ideal:
        return out
    nearest = max(float(near.scores.max(initial=0.0)) - mean, LEAST_COSINE)
    close = np.maximum(cosines.astype(np.float64) - mean, 0) / nearest
    answered = np.minimum(bm25 / words.ideal + close, 1)
    return out * answered * answered * answered  # the same bits everywhere, unlike a power


def weight_of(terms: int, rank: int) -> float:
    """Weight of a query's best BM25 score: see the module docstring.

    >>> [round(weight_of(terms, rank), 2) for terms, rank in ((1, 0), (10, 0), (10, WORDED))]
    [0.21, 0.75, 0.29]
    """
    z = BIAS + OF_WORDS * terms / (terms + 4) + OF_RANK * rank / (rank + 10)
    return MOST_WEIGHT * (1 + z / (1 + abs(z))) / 2


def rank_of(near: ScoredRows, words: ScoredRows) -> int:
    """Number of rows with a better BM25 than the nearest; `WORDED` if its words do not count."""
    found = words.scores[contains(near.rows[:1], words.rows)]
    return int((words.scores > found[0]).sum()) if len(found) else WORDED
