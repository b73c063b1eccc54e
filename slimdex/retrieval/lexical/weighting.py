"""Weight of words beside meaning, chosen for each query without labels.

A row found by words gains a bonus on its cosine::

    bonus(row) = (1 - c) * m(best) * m(row) * p(row)
    m(row) = max(bm25(row) - floor, 0) / bm25(best)
    p(row) = min(bm25(row) / ideal + max(cosine(row), 0) / nearest, 1)**3

nearest and c are the best and the second best cosine of the query, and floor its 100th best BM25
score, or that of the middle row among fewer than 200 rows, since every word is rare in a small
collection. ideal is the score of a row of mean length that has each searched word of the query
once: the sum of their inverse document frequencies. All are of the whole collection, whatever rows
a filter allows. The four factors limit what words can do where they are likely to mislead:

- ``1 - c``: if semantic search is sure, words change little. It is also a unit: where all cosines
  are high, as with some encoders, differences between them are small. The second best is used,
  since the best is 1 if the query is a copy of a document.
- ``m(best)``: if a hundred rows match almost as well as the best, as when all of them repeat the
  subject of the query, words do not tell them apart.
- ``m(row)``: rows that match no better than a hundred others gain nothing.
- ``p(row)``: a row that has one word of many matches by chance, unless its cosine is near the
  best. The sum says how much of the query the row answers by either; at 1 the whole bonus counts.

But for the exponent, the formula has no fitted number. docs/research/fusion.md compares it with
constant weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FLOOR_RANK = 100
"""Highest rank of the BM25 score above which scores count."""
LEAST_COSINE = 1e-9
"""Smallest cosine of the nearest row: where none is similar to the query, only words count."""


def word_bonuses(
    bm25: NDArray[np.float32],
    cosines: NDArray[np.float32],
    near: NDArray[np.float32],
    words: NDArray[np.float32],
    ideal: float,
    total: int,
) -> NDArray[np.float64]:
    """Bonuses (n,), from 0 to 2, on the cosines of rows found for a query.

    Parameters
    ----------
    bm25 : (n,), of the rows; 0 for rows whose words do not count.
    cosines : (n,), of the rows.
    near, words : the best cosines and the best BM25 scores in the whole collection, best first.
    ideal : BM25 of a row of mean length with each word searched once; 0 if it is unknown.
    total : rows of the whole collection.

    >>> cosines, bm25 = np.array([[0.8, 0.6, 0.3], [0, 2, 8]], np.float32)
    >>> word_bonuses(bm25, cosines, cosines, bm25[:0:-1], 16, 3).round(3).tolist()
    [0.0, 0.0, 0.151]
    """
    if not len(words):
        return np.zeros(len(bm25))
    best, sure = float(words[0]), float(near[:2].min(initial=1.0))
    floor_rank = min(FLOOR_RANK, max(2, total // 2))
    floor = float(words[floor_rank - 1]) if len(words) >= floor_rank else 0.0
    matches = np.maximum(bm25.astype(np.float64) - floor, 0) / best
    out: NDArray[np.float64] = max(1 - sure, 0) * (1 - floor / best) * matches
    if not ideal:
        return out
    nearest = max(float(near.max(initial=0.0)), LEAST_COSINE)
    answered = np.minimum(bm25 / ideal + np.maximum(cosines.astype(np.float64), 0) / nearest, 1)
    return out * answered * answered * answered  # the same bits everywhere, unlike a power
