"""Answers while documents move to a new encoder: from the old vectors, or from both.

A random share of the documents has new vectors. Each document is compared with the query of its
own vector's encoder, exactly, by cosine; a rule merges the scores of both parts. Staying on the old
vectors until all are new needs no rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from slimdex.indexes.arrays import Matrix, Rows, normalize_rows
from slimdex.indexes.execution.progress import progress

from ..data.paired_measures import interval
from ..experiments.retrieval_study import Task
from ..rows import ResultsFile, Row, key_of
from .migration_study import MEASURE, ndcg_of, scores_of

MOVED = (0.0, 0.25, 0.5, 0.75, 1.0)


def as_they_are(scores: Matrix) -> Matrix:
    """Return scores (q, n)."""
    return scores


def z_scores(scores: Matrix) -> Matrix:
    """Shift and scale each query's cosines (q, n) to mean 0 and standard deviation 1."""
    spread = scores.std(axis=1, keepdims=True)
    found: Matrix = (scores - scores.mean(axis=1, keepdims=True)) / np.maximum(spread, 1e-9)
    return found


def percentiles(scores: Matrix) -> Matrix:
    """Rank each query's cosines (q, n) from below, as a share of their number.

    >>> percentiles(np.float32([[0.1, 0.5, 0.4, 0.2]])).tolist()
    [[0.25, 1.0, 0.75, 0.5]]
    """
    ranks = rankdata(scores, method="ordinal", axis=1)
    shares: Matrix = (ranks / scores.shape[1]).astype(np.float32)
    return shares


COSINES, STAYING = "cosines", "old until the end"
RULES = {
    COSINES: as_they_are,
    "spreads": as_they_are,
    "z-scores": z_scores,
    "percentiles": percentiles,
}
"""Rule -> what it does to each part's scores: cosines, or for all others those in spreads."""
PAIRED = 256
"""Documents whose cosines with each other have an encoder's mean and spread."""


def measure_moving(tasks: Sequence[Task], results: ResultsFile, about: Row) -> None:
    """Append the rows that are missing: the first encoder's documents move to each other one."""
    old, *others = tasks
    for done, new in enumerate(others):
        progress(f"{old.dataset.name}, moving", done, len(others))
        for row in _rows(old, new, results):
            results.append(row | about)
    progress(f"{old.dataset.name}, moving", len(others), len(others))


def _rows(old: Task, new: Task, results: ResultsFile) -> Iterator[Row]:
    known: Row = {
        "set": old.dataset.name,
        "old": old.model,
        "new": new.model,
        "documents": len(old.vectors),
        "queries": len(old.queries),
    }
    vectors = [old.vectors.path.stem, new.vectors.path.stem]
    cells = [(way, share) for way in (STAYING, *RULES) for share in MOVED]
    rows = {cell: known | dict(zip(("way", "share"), cell, strict=True)) for cell in cells}
    keys = {cell: key_of(row | {"vectors": vectors}) for cell, row in rows.items()}
    if results.rows.keys() >= set(keys.values()):
        return
    points = _points(old, new)
    alone = points[STAYING, 0.0]
    for cell in cells:
        low, high = interval((points[cell] - alone)[None])
        yield {
            "key": keys[cell],
            **rows[cell],
            MEASURE: float(points[cell].mean()),
            f"{MEASURE}_delta": float((points[cell] - alone).mean()),
            f"{MEASURE}_low": float(low[0]),
            f"{MEASURE}_high": float(high[0]),
        }


def _points(old: Task, new: Task) -> dict[tuple[str, float], NDArray[np.float64]]:
    """nDCG@10 (q,) of each rule and share."""
    data, tasks = old.dataset, (old, new)
    cosines = [scores_of(task) for task in tasks]
    spreads = [in_spreads(task, scores) for task, scores in zip(tasks, cosines, strict=True)]
    before, after = (ndcg_of(data, scores) for scores in cosines)
    order = np.random.default_rng(0).permutation(len(old.vectors))
    found = {(STAYING, share): after if share == 1 else before for share in MOVED}
    for share in MOVED:
        moved = order[: round(share * len(order))]
        for way in RULES:
            parts = cosines if way == COSINES else spreads
            found[way, share] = ndcg_of(data, merged(parts[0], parts[1], moved, way))
    return found


def in_spreads(task: Task, cosines: Matrix) -> Matrix:
    """Shift and scale all cosines of an encoder: those of pairs of documents to 0 and 1."""
    count = len(task.vectors)
    rows = np.sort(np.random.default_rng(0).permutation(count)[:PAIRED])
    unit = normalize_rows(task.vectors.take(rows))
    pairs = (unit @ unit.T)[np.triu_indices(len(rows), 1)]
    found: Matrix = (cosines - pairs.mean()) / max(pairs.std(), 1e-9)
    return found


def merged(old: Matrix, new: Matrix, moved: Rows, way: str) -> Matrix:
    """Merge scores (q, n): the new encoder's of the documents `moved`, the old one's of others."""
    out, stays = old.copy(), np.setdiff1d(np.arange(old.shape[1]), moved)
    for rows, scores in ((moved, new), (stays, old)):
        if len(rows):
            out[:, rows] = RULES[way](scores[:, rows])
    return out
