"""`slimdex bench migrate`: queries of a new encoder over documents that an old one encoded.

A map is fitted on a sample of the documents, encoded by both; every query is encoded by the new
encoder, mapped, and compared with all documents of the old one, exactly, by cosine. Beside it:
the old encoder alone, the new one alone with all documents encoded again, and aecp's ridge map.

Coverage: the bound of `slimdex migrate`, from queries drawn of the set's own, with replacement,
beside the mean over all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slimdex.bench.data.local_encoder import open_local
from slimdex.indexes.arrays import Matrix, Rows, normalize_rows
from slimdex.indexes.bounds import betting_bound
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.maps.fitting import FEWEST, fit_map
from slimdex.indexes.ranking import top_k
from slimdex.retrieval.encoders.opening import is_static
from slimdex.retrieval.quality.certified_recall import ERROR
from slimdex.retrieval.quality.evaluation.labels import per_query

from ..data.datasets import Dataset
from ..data.paired_measures import interval
from ..experiments.retrieval_study import Task
from ..options import SetOptions
from ..rows import ResultsFile, Row, key_of

if TYPE_CHECKING:
    from slimdex.bench.data.local_encoder import LocalEncoder

PEER = "aecp"
SHARES = (0.01, 0.05, 0.2, 1.0)
PEER_SHARE = 0.2
"""Share of the documents that the peer is given, too."""
TRIALS, DRAWN = 1000, 200
"""Trials of the bound for each map, and queries of each."""
MEASURE = "ndcg@10"


def tasks_of(dataset: Dataset, options: SetOptions) -> list[Task]:
    """Encode a set by every model."""
    return [
        Task.encoded(dataset, _opened(model, options), options.cache)
        for model in options.models.split(",")
    ]


def _opened(model: str, options: SetOptions) -> LocalEncoder:
    if is_static(model):
        return open_local(model, pooling=options.pooling)
    precision = options.precision or "fp32"
    return open_local(
        model, pooling=options.pooling, max_length=options.max_length, precision=precision
    )


def measure_pairs(tasks: Sequence[Task], results: ResultsFile, about: Row) -> None:
    """Append the rows that are missing, of every ordered pair of encoders and every sample."""
    alone = {task.model: ndcg_of(task.dataset, scores_of(task)) for task in tasks}
    pairs = [*permutations(tasks, 2)]
    for done, (old, new) in enumerate(pairs):
        progress(old.dataset.name, done, len(pairs))
        for row in _rows(old, new, alone, results):
            results.append(row | about)
    progress(tasks[0].dataset.name, len(pairs), len(pairs))


def _rows(
    old: Task, new: Task, alone: dict[str, NDArray[np.float64]], results: ResultsFile
) -> Iterator[Row]:
    count = len(old.vectors)
    order = np.random.default_rng(0).permutation(count)
    queries = new.queries.take(np.arange(len(new.queries)))
    for share in SHARES:
        rows = np.sort(order[: round(share * count)])
        known: Row = {
            "set": old.dataset.name,
            "old": old.model,
            "new": new.model,
            "documents": count,
            "queries": len(queries),
            "sample": len(rows),
            "share": share,
        }
        key = key_of(known | {"vectors": [old.vectors.path.stem, new.vectors.path.stem]})
        if key in results.rows or len(rows) < FEWEST:
            continue
        source, target = new.vectors.take(rows), old.vectors.take(rows)
        made = fit_map(source, target)
        points = ndcg_of(old.dataset, scores_of(old, made(queries)))
        low, high = interval((points - alone[old.model])[None])
        row: Row = {
            "key": key,
            **known,
            "way": made.name,
            MEASURE: float(points.mean()),
            f"{MEASURE}_delta": float((points - alone[old.model]).mean()),
            f"{MEASURE}_low": float(low[0]),
            f"{MEASURE}_high": float(high[0]),
            f"old {MEASURE}": float(alone[old.model].mean()),
            f"new {MEASURE}": float(alone[new.model].mean()),
            "trials": TRIALS,
            "too_high": _too_high(points / 100),
        }
        if share == PEER_SHARE and find_spec(PEER):
            theirs = scores_of(old, _by_peer(source, target, queries))
            row[f"{PEER} {MEASURE}"] = float(ndcg_of(old.dataset, theirs).mean())
        yield row


def scores_of(task: Task, queries: Matrix | None = None) -> Matrix:
    """Cosines (q, n) of queries, by default the task's own, with all documents."""
    queries = task.queries.take(np.arange(len(task.queries))) if queries is None else queries
    unit = normalize_rows(task.vectors.take(np.arange(len(task.vectors))))
    scores: Matrix = normalize_rows(queries) @ unit.T
    return scores


def ndcg_of(data: Dataset, scores: Matrix) -> NDArray[np.float64]:
    """nDCG@10 (q,) in points of each query's scores (q, n) of all documents."""
    own, scores = data.own_rows, scores.copy()
    scores[np.flatnonzero(own >= 0), own[own >= 0]] = -np.inf
    rows: Rows
    best, rows = top_k(scores, np.arange(scores.shape[1]), 10)
    return 100 * per_query(best, rows, data.query_ids, data.ids, data.qrels)[MEASURE]


def _too_high(values: NDArray[np.float64]) -> int:
    """Trials whose bound exceeds the mean over all queries."""
    rng, mean = np.random.default_rng(0), float(values.mean())
    bounds = (betting_bound(rng.choice(values, DRAWN), ERROR) for _ in range(TRIALS))
    return int(np.sum([bound > mean for bound in bounds]))


def _by_peer(source: Matrix, target: Matrix, queries: Matrix) -> Matrix:
    """Map queries as aecp's service does: by the inverse of its default map from old to new."""
    from aecp.mapping.linear import RidgeMapping
    from aecp.serve import QueryAdapter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it wants ten texts for each dimension
        adapter = QueryAdapter(RidgeMapping().fit(target, source))
    return np.asarray(adapter.map_queries(queries), dtype=np.float32)
