"""Chance scores: how near the best of so many documents comes to a text that none of them is about.

A text that has nothing to do with the documents scores about 0 with them, now more and now less.
How much so is taken from the documents: the standard deviation of the scores of random pairs. The
best of n such scores reaches the level that one normal value in n lies above. A best hit below that
says nothing; one above it may still be by chance, since documents lie in heaps.

It was chosen among others by real queries (docs/passages.md). A query's scores with a sample of the
documents, told as a distance from their mean, hardly told real queries from foreign ones: what a
query has in common with all documents is much of what says that it is about them. Quantiles of the
scores of random pairs were above those of real answers where documents are long.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, contains, without

from .view import View

SAMPLE = 256
"""Rows of which pairs are made: other ones gave deviations that were within 8% of each other."""
FEWEST = 100
"""Rows to find: with fewer, there are too few pairs to tell their deviation by."""
WIDEST = 0.13
"""A deviation beyond which nothing is said: documents then differ in few directions, which queries
share less. So it is in few dimensions, and with beta 1 and gamma 0: of SQuAD's own queries 42% were
below, with static vectors, and a deviation of 0.147."""


def chance_score(view: View, where: str | None = None) -> float | None:
    """Estimate the best score of random documents; None where that is not known.

    Parameters
    ----------
    where : counts only the documents that it holds for.

    Returns
    -------
    A cosine in the index's metric. None of an index that does not rescore, whose scores are those
    of its codes; of fewer than `FEWEST` rows; and where the scores spread too far, see `WIDEST`.
    """
    snapshot = view.snapshot
    index, hidden = snapshot.index, snapshot.hidden
    count = snapshot.searchable_count
    if where is not None:
        found = snapshot.document_rows.all_rows(view.rows_where(where))
        count = min(len(found), count)
    if index.metric is None or count < FEWEST:
        return None
    rows = _sampled(snapshot.state.rows, hidden)
    scores = index.metric.scores(index.metric.probes(index.vectors.take(rows)), rows)
    deviation = _deviation(scores)
    return one_in(count, deviation) if deviation <= WIDEST else None


def one_in(count: int, deviation: float) -> float:
    """What one normal value in so many lies above, of mean 0.

    >>> round(one_in(1000, 0.1), 4)
    0.309
    """
    return deviation * NormalDist().inv_cdf(1 - 1 / count)


def _sampled(total: int, hidden: Rows) -> Rows:
    """Rows that can be found, in order, the same ones each time."""
    rng = np.random.default_rng(0)
    rows: Rows = rng.choice(total, min(2 * SAMPLE, total), replace=False)
    rows = rows[~contains(hidden, rows)]
    if len(rows) < SAMPLE:  # of few rows, or most are deleted
        live = without(np.arange(total), hidden)
        rows = rng.choice(live, min(SAMPLE, len(live)), replace=False)
    return np.sort(rows[:SAMPLE])


def _deviation(scores: Matrix) -> float:
    """Standard deviation of the scores (n, n) of rows with each other, each pair once.

    >>> scores = np.array([[1, 0.1, 0.3], [0.1, 1, 0.2], [0.3, 0.2, 1]])
    >>> round(_deviation(scores), 4)  # of 0.1, 0.3 and 0.2
    0.0816
    """
    pairs = scores[np.triu_indices(len(scores), 1)]
    return float(pairs.std(dtype=np.float64))
