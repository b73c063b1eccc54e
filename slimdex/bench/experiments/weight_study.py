"""`slimdex bench weight`: constant weights of BM25, each judged on a set left out of its choice.

The search is exact: cosines of the encoder's vectors, and the 200 best rows by BM25. A constant is
chosen for each encoder on all sets but one, and judged on that set. The same vectors, compared with
other values of gamma, show what whitening gains for each encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.ranking import best_of
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.lexical.fusion import AUTO, Candidates, Fusion
from slimdex.retrieval.lexical.weighting import WEIGHT, word_bonuses
from slimdex.retrieval.quality.hybrid_choice import DEPTH
from slimdex.retrieval.quality.labels import ndcg
from slimdex.retrieval.search.answer import IndexRows, candidates
from slimdex.retrieval.store.snapshot import Snapshot
from slimdex.system.progress import progress

from ..paired_measures import interval
from ..rows import Row, key_of
from .hybrid_study import ExactIndex
from .retrieval_study import Task

GAMMAS = (0.125, 0.25, 0.5)
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
"""Constants to choose from."""


@dataclass(frozen=True)
class Measured:
    """nDCG@10 of a set's queries, times 100.

    Attributes
    ----------
    task : the set and its encoder.
    semantic, rule : (q,), by cosines alone and by default.
    by_weight : (q, weights), by each of `WEIGHTS`.
    by_gamma : gamma -> (q,), by cosines in that metric.
    """

    task: Row
    semantic: NDArray[np.float64]
    rule: NDArray[np.float64]
    by_weight: NDArray[np.float64]
    by_gamma: Mapping[float, NDArray[np.float64]]


def measured(task: Task) -> Measured:
    """Search for each query of a set by every weight, exactly."""
    rows = normalize_rows(task.vectors.take(np.arange(len(task.vectors))))
    with TemporaryDirectory(prefix="slimdex-bench-") as folder:
        encoder = GivenEncoder(task.vectors.dim)
        with Collection.create(Path(folder) / "x.index", encoder) as collection:
            pairs = zip(task.dataset.ids, task.dataset.texts, strict=True)
            documents = [Document(id, text) for id, text in pairs]
            collection.add(documents, vectors=rows)
            return _measured(task, collection.index.snapshot, rows)


def _measured(task: Task, snapshot: Snapshot, rows: NDArray[np.float32]) -> Measured:
    data = task.dataset
    exact = ExactIndex(snapshot.index, rows)
    of_index = IndexRows(snapshot, exact, exact.candidates_for(DEPTH))
    vectors = task.queries.take(np.arange(len(data.query_texts)))
    place = {id: row for row, id in enumerate(data.ids)}
    moments = Moments.of_rows(rows)
    metrics = {gamma: Rescorer.fit(moments, 0.0, gamma) for gamma in GAMMAS}
    norms = {gamma: metric.norms(rows) for gamma, metric in metrics.items()}
    count = len(vectors)
    found = np.empty((count, 2 + len(GAMMAS) + len(WEIGHTS)))

    # For each query, an order by meaning, by the rule, by each weight and by each gamma.
    for i, (id, text) in enumerate(zip(data.query_ids, data.query_texts, strict=True)):
        query = vectors[i : i + 1]
        (each,) = candidates(of_index, of_index.whole([text], query), query, DEPTH)
        labels = {place[d]: label for d, label in data.qrels[id].items() if d in place}
        ranked = [each.rows[each.order(each.cosines)]]
        for scores in (Fusion(AUTO).scores(each), *_by_weights(each)):
            ranked.append(each.rows[each.order(scores)])
        for gamma, metric in metrics.items():
            cosines = metric.probes(query).scores(rows, norms[gamma])
            ranked.append(best_of([(cosines, np.arange(len(rows)))], 1, DEPTH + 1)[1][0])
        own = int(data.own_rows[i])
        found[i] = [ndcg([r for r in order.tolist() if r != own], labels) for order in ranked]
        progress("judging", i + 1, count)

    # Take the columns apart again.
    semantic, rule, *others = 100 * found.T
    by_weight = others[: len(WEIGHTS)]
    gammas = others[len(WEIGHTS) :]
    by_gamma = dict(zip(GAMMAS, gammas, strict=True))
    return Measured(task.facts(), semantic, rule, np.stack(by_weight, axis=1), by_gamma)


def _by_weights(found: Candidates) -> Iterator[NDArray[np.float64]]:
    """Fused scores (n,) by each of `WEIGHTS`; rare words and names count as by default."""
    default = Fusion(AUTO).scores(found)
    bonuses = word_bonuses(found.bm25, found.cosines, *found.whole)
    for weight in WEIGHTS:
        yield default + (weight / WEIGHT - 1) * bonuses


def chosen(each: Sequence[Measured]) -> int:
    """Place in `WEIGHTS` of the best mean nDCG of sets; the first of equals."""
    return int(np.argmax(np.mean([one.by_weight.mean(axis=0) for one in each], axis=0)))


def weight_rows(each: Sequence[Measured]) -> Iterator[list[Row]]:
    """Yield the rows of each set and encoder: by every way, and by a constant chosen without it.

    The constant is the best for the same encoder on the other sets, if there are any.
    """
    for one in each:
        same = [other for other in each if other.task["model"] == one.task["model"]]
        others = [other for other in same if other.task["set"] != one.task["set"]]
        left_out = one.by_weight[:, chosen(others or [one])]
        ways = {"float32": one.semantic, "rule": one.rule, "left out": left_out}
        ways |= {f"weight {w:g}": one.by_weight[:, i] for i, w in enumerate(WEIGHTS)}
        ways |= {f"gamma {gamma}": values for gamma, values in one.by_gamma.items()}
        yield [_row(one, way, values) for way, values in ways.items()]


def _row(one: Measured, way: str, values: NDArray[np.float64]) -> Row:
    known: Row = one.task | {"what": "queries", "way": way}
    difference = values - one.semantic
    low, high = interval(difference[None])
    return known | {
        "key": key_of(known),
        "queries": len(values),
        "ndcg@10": float(values.mean()),
        "ndcg@10_delta": float(difference.mean()),
        "ndcg@10_low": float(low[0]),
        "ndcg@10_high": float(high[0]),
    }
