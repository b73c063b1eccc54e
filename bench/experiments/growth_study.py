"""Growth, for `slimdex bench tune`: an index that was fitted on one topic gets all the others.

The first twentieth is what is nearest to a random document. The rest is added in four ways: with
the fit left as it is (never), as `slimdex add` decides (auto), fitted anew (always), and from the
start with everything (fresh).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slimdex.indexes.arrays import Rows, normalize_rows
from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.ranking import agreement
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.collection.recall_trials import NEAREST, Pool, exact_nearest

from ..rows import Row
from .paired_measures import interval
from .retrieval_study import Task
from .tuning_subject import (
    MEASURE,
    Subject,
    answers,
    documents_of,
    judged,
    real_queries,
)

FIRST = 0.05
"""Share of the documents that the index is fitted on."""
WAYS = ("never", "auto", "always", "fresh")


def measure_growth(subject: Subject, progress: Progress = silent) -> Iterator[Row]:
    """A row for each way; `auto` encodes what is added, since it asks how long an addition takes.

    ``loss`` is the agreement that a fit of today would give back, as real queries find it: by how
    much more of its order the fresh index finds than this one. ``loss_said`` is that of `health`.
    """
    task = subject.task
    order = topic_first(task, np.random.default_rng(subject.seed))
    count = max(round(FIRST * len(order)), NEAREST + 1)
    fresh = subject.built("fresh", order)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    pool = real_queries(task, subject.asked)
    pool.own[pool.own >= 0] = place[pool.own[pool.own >= 0]]
    values, rows = {}, dict[str, Row]()
    fresh_order = _own_order(fresh, pool, progress)
    fresh_found = answers(fresh._index, pool)
    for number, way in enumerate(WAYS, start=1):
        index, refitted = fresh, True
        if way != "fresh":
            index = subject.built(way, order[:count])
            index.certify(progress=progress)  # as `slimdex build` does
            vectors = None if way == "auto" else task.vectors.take(order[count:])
            rest = documents_of(task, order[count:])
            refitted = index.add(rest, vectors=vectors, refit=way, progress=progress).refitted
        found = answers(index._index, pool)
        own = fresh_order if way == "fresh" else _own_order(index, pool, progress)
        values[way] = judged(task.dataset, subject.asked, np.where(found >= 0, order[found], -1))
        told = index.health(progress=progress)
        loss = float(
            (agreement(fresh_found, fresh_order, 10) - agreement(found, fresh_order, 10)).mean()
        )
        rows[way] = {
            "way": way,
            "refitted": refitted,
            "recall@10_total": float(agreement(found, own, 10).mean()),
            "estimate": told["agreement"]["estimate"],
            "loss": loss,
            MEASURE: float(values[way].mean()),
        }
        if told["refit"] is not None:
            said = told["refit"]["estimate"] - told["refit"]["found_of_its_order"]
            rows[way]["loss_said"] = said
        progress("growth", number, len(WAYS))
    deltas = np.stack([values[way] - values["fresh"] for way in WAYS])
    low, high = interval(deltas, subject.seed)
    for i, way in enumerate(WAYS):
        ends = {f"{MEASURE}_low": float(low[i]), f"{MEASURE}_high": float(high[i])}
        yield rows[way] | {f"{MEASURE}_delta": float(deltas[i].mean())} | ends


def topic_first(task: Task, rng: np.random.Generator) -> Rows:
    """All rows, those nearest to a random one first, the rest in any order."""
    X = normalize_rows(task.vectors.take(np.arange(len(task.vectors))))
    order = np.argsort(-(X @ X[rng.integers(len(X))]), kind="stable")
    count = max(round(FIRST * len(order)), NEAREST + 1)
    return np.concatenate([rng.permutation(order[:count]), rng.permutation(order[count:])])


def _own_order(index: Collection, pool: Pool, progress: Progress) -> Rows:
    """The ten nearest by exact search in an index's own metric."""
    metric = index._index.metric
    assert metric is not None  # the default settings rescore
    rows = np.arange(len(index))
    return exact_nearest(index._vectors, metric.rescorer, pool, rows, progress)
