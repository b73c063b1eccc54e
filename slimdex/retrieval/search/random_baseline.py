"""Random baseline: the best score that unrelated documents have by chance.

An unrelated text scores about 0 with the documents, with some spread, which is estimated by the
standard deviation of the scores of random pairs of documents. The chance score is the level that
one in n normal values exceeds. A best hit below it is meaningless; one above may still be by
chance, since documents form clusters.

The method was chosen by real queries (docs/passages.md). Standardising a query's scores by a
sample of the documents hardly separated real queries from unrelated ones: what a query has in
common with all documents is a large part of its relevance. Quantiles of the scores of random pairs
exceeded those of real answers if documents are long.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from slimdex.indexes.arrays import Rows, contains, without

from ..store.snapshot import Snapshot

SAMPLE = 256
"""Rows from which pairs are made: other samples gave deviations within 8% of each other."""
FEWEST = 100
"""Fewest rows: with fewer, there are too few pairs to estimate their deviation."""
WIDEST = 0.13
"""Deviation above which there is no chance score: documents then differ in few directions, which
queries share less. So it is in few dimensions, and with beta 1 and gamma 0: of SQuAD's own queries
42% were below, with static vectors and a deviation of 0.147."""


def chance_score(snapshot: Snapshot, where: str | None = None) -> float | None:
    """Estimate the best score, a cosine in the index's metric, of random documents.

    `where` restricts the documents to those that meet it. Returns None if the index does not
    rescore or has fewer than `FEWEST` rows, or if the scores vary too much: see `WIDEST`.
    """
    index = snapshot.index
    hidden = snapshot.hidden
    count = snapshot.searchable_count
    if where is not None:
        allowed = snapshot.document_rows.all_rows(snapshot.rows_where(where))
        count = min(len(allowed), count)
    if index.metric is None or count < FEWEST:
        return None

    # Measure how much the cosines of random pairs of documents vary.
    rows = _sample_rows(snapshot.state.rows, hidden)
    probes = index.metric.rescorer.probes(index.vectors.take(rows))
    scores = index.metric.scores(probes, rows)
    pairs = scores[np.triu_indices(len(scores), 1)]
    deviation = float(pairs.std(dtype=np.float64))
    return one_in(count, deviation) if deviation <= WIDEST else None


def one_in(count: int, deviation: float) -> float:
    """The level exceeded by one in `count` normal values of mean 0.

    >>> round(one_in(1000, 0.1), 4)
    0.309
    """
    return deviation * NormalDist().inv_cdf(1 - 1 / count)


def _sample_rows(total: int, hidden: Rows) -> Rows:
    """A sample of live rows, in order; the same each time."""
    rng = np.random.default_rng(0)
    rows: Rows = rng.choice(total, min(2 * SAMPLE, total), replace=False)  # some may be deleted
    rows = rows[~contains(hidden, rows)]
    if len(rows) < SAMPLE:  # few rows, or most are deleted
        live = without(np.arange(total), hidden)
        rows = rng.choice(live, min(SAMPLE, len(live)), replace=False)
    return np.sort(rows[:SAMPLE])
