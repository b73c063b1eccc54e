"""Bonuses of rows by BM25 on their cosines, the same for every encoder.

A row found by lexical search gains a bonus on its cosine::

    bonus(row) = (1 - mean) * WEIGHT * m(row) * p(row)
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

`slimdex bench weight` compares constants on data sets that were left out of their choice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .word_index import ScoredRows

FLOOR_RANK = 100
"""Highest rank of the BM25 score above which scores count."""
WORDED = 200
"""Rows of the whole collection, with the best BM25 scores, for which words count."""
LEAST_COSINE = 1e-9
"""Smallest relative cosine of the nearest row: where none is similar, only words count."""
WEIGHT = 0.5
"""Weight of the best BM25 score; docs/research/fusion.md compares others."""


def word_bonuses(
    bm25: NDArray[np.float32],
    cosines: NDArray[np.float32],
    near: ScoredRows,
    words: ScoredRows,
    mean: float,
    total: int,
) -> NDArray[np.float64]:
    """Bonuses (n,), from 0 to 2 * `WEIGHT`, on the cosines of rows found for a query.

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
    [0.0, 0.0, 0.089]
    """
    if not len(words.rows):
        return np.zeros(len(bm25))

    # m(row): how much better it matches than the row whose score is the floor.
    best = float(words.scores[0])
    unit = max(1 - mean, LEAST_COSINE)
    floor_rank = min(FLOOR_RANK, max(2, total // 2))
    floor = float(words.scores[floor_rank - 1]) if len(words.rows) >= floor_rank else 0.0
    above = np.maximum(bm25.astype(np.float64) - floor, 0)
    out: NDArray[np.float64] = WEIGHT * unit * above / best
    if not words.ideal:
        return out

    # p(row): how much of the query it answers, by words or by meaning.
    nearest = max(float(near.scores.max(initial=0.0)) - mean, LEAST_COSINE)
    close = np.maximum(cosines.astype(np.float64) - mean, 0) / nearest
    answered = np.minimum(bm25 / words.ideal + close, 1)
    return out * answered * answered * answered  # the same bits everywhere, unlike a power
