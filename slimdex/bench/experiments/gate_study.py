"""`slimdex bench gate`: fit the gate of lexical scores, and judge it on sets left out of the fit.

The search is exact: cosines of the encoder's vectors, and the 200 best rows by BM25. The gate's
numbers are fitted on all sets and encoders but one set, and judged on that set. The same vectors,
compared with other values of gamma, show what whitening gains for each encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.ranking import best_of
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.lexical.fusion import AUTO, Candidates, Fusion
from slimdex.retrieval.lexical.weighting import MOST_WEIGHT, full_bonuses, rank_of
from slimdex.retrieval.quality.hybrid_choice import DEPTH
from slimdex.retrieval.quality.labels import ndcg
from slimdex.retrieval.search.answer import IndexRows, candidates
from slimdex.retrieval.store.snapshot import Snapshot

from ..paired_measures import interval
from ..rows import Row, key_of
from .hybrid_study import ExactIndex
from .retrieval_study import Task

GAMMAS = (0.125, 0.25, 0.5)
WEIGHTS = np.linspace(0, MOST_WEIGHT, 11)
"""Weights at which nDCG is measured; it is interpolated between them."""
STEPS = (2.0, 1.0, 0.5, 0.25, 0.1)
"""Changes of the gate's numbers that a fit tries, until none is better."""
MOVES = [move for move in product((-1, 0, 1), repeat=3) if any(move)]
FARTHEST = 10.0
"""Largest of the gate's numbers that a fit tries: larger ones make it all or nothing."""
HARM = 3.0
"""Extra weight in a fit of each point of nDCG below semantic search."""

Gate = tuple[float, float, float]
"""BIAS, OF_WORDS and OF_RANK of `weighting`."""


@dataclass(frozen=True)
class Measured:
    """nDCG@10 of a set's queries, times 100, and the numbers that the gate has of each.

    Attributes
    ----------
    task : the set and its encoder.
    semantic, rule : (q,), by cosines alone and by default.
    by_gamma : gamma -> (q,), by cosines in that metric.
    curves : (q, weights), by each of `WEIGHTS`.
    terms, ranks : (q,), numbers of words and of rows, as of `weighting`.
    """

    task: Row
    semantic: NDArray[np.float64]
    rule: NDArray[np.float64]
    by_gamma: Mapping[float, NDArray[np.float64]]
    curves: NDArray[np.float64]
    terms: NDArray[np.float64]
    ranks: NDArray[np.float64]


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
    data, exact = task.dataset, ExactIndex(snapshot.index, rows)
    of_index = IndexRows(snapshot, exact, exact.candidates_for(DEPTH))
    vectors = task.queries.take(np.arange(len(data.query_texts)))
    place, moments = {id: row for row, id in enumerate(data.ids)}, Moments.of_rows(rows)
    metrics = {gamma: Rescorer.fit(moments, 0.0, gamma) for gamma in GAMMAS}
    norms = {gamma: metric.norms(rows) for gamma, metric in metrics.items()}
    count = len(vectors)
    found = np.empty((count, 2 + len(GAMMAS) + len(WEIGHTS)))
    known = np.empty((count, 2))
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
        near, words = each.whole.near, each.whole.words
        known[i] = words.terms, rank_of(near, words)
        progress("judging", i + 1, count)
    semantic, rule, *others = 100 * found.T
    curves, gammas = others[: len(WEIGHTS)], others[len(WEIGHTS) :]
    by_gamma = dict(zip(GAMMAS, gammas, strict=True))
    return Measured(task.facts(), semantic, rule, by_gamma, np.stack(curves, axis=1), *known.T)


def _by_weights(found: Candidates) -> Iterator[NDArray[np.float64]]:
    """Fused scores (n,) by each of `WEIGHTS`; a name comes first by all."""
    bonuses = full_bonuses(found.bm25, found.cosines, *found.whole)
    for weight in WEIGHTS:
        scores = found.cosines + weight * bonuses
        scores[found.is_named] = np.inf
        yield scores


def judged(gate: Gate, one: Measured) -> NDArray[np.float64]:
    """NDCG@10 (q,) of queries by a gate."""
    bias, of_words, of_rank = gate
    z = bias + of_words * one.terms / (one.terms + 4) + of_rank * one.ranks / (one.ranks + 10)
    at = (1 + z / (1 + np.abs(z))) / 2 * (len(WEIGHTS) - 1)
    low = np.minimum(at.astype(np.int64), len(WEIGHTS) - 2)
    rows, share = np.arange(len(at)), at - low
    before, after = one.curves[rows, low], one.curves[rows, low + 1]
    out: NDArray[np.float64] = before * (1 - share) + after * share
    return out


def fitted(each: Sequence[Measured]) -> Gate:
    """Numbers of the gate with the best mean nDCG over sets, less the harm to any of them."""

    def worth(gate: Gate) -> float:
        gains = np.array([(judged(gate, one) - one.semantic).mean() for one in each])
        return float((gains + HARM * np.minimum(gains, 0)).mean())

    best: Gate = (0.0, 0.0, 0.0)
    most = worth(best)
    for step in STEPS:
        while True:
            bias, of_words, of_rank = best
            near = [
                (
                    round(bias + step * first, 2),
                    round(of_words + step * second, 2),
                    round(of_rank + step * third, 2),
                )
                for first, second, third in MOVES
            ]
            near = [gate for gate in near if max(map(abs, gate)) <= FARTHEST]
            values = [worth(gate) for gate in near]
            if max(values) <= most:
                break
            most, best = max(values), near[int(np.argmax(values))]
    return best


def gate_rows(each: Sequence[Measured]) -> Iterator[list[Row]]:
    """Yield the rows of each set and encoder: by every way, and by a gate fitted without the set.

    A single set is judged by the gate that is fitted on itself.
    """
    for one in each:
        others = [other for other in each if other.task["set"] != one.task["set"]]
        left_out = judged(fitted(others or [one]), one)
        ways = {
            "float32": one.semantic,
            "rule": one.rule,
            "left out": left_out,
            "best weights": one.curves.max(axis=1),
        } | {f"gamma {gamma}": values for gamma, values in one.by_gamma.items()}
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
