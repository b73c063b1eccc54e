"""Ablation: quality of each step from an encoder's vectors to an index.

With labels, each step has its nDCG@10. Without, it has its agreement@10 with the exact search
that the index approximates: whitening changes the encoder's order on purpose, so losses are counted
from whitening at full dimension, whose agreement with the encoder's order is given as well.

float32 vectors are not on disk, and encoding a text again among others gives slightly different
numbers. But rounding to float16 turns a vector by no more than a known angle, which bounds how far
the answers of float32 can be from those of float16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.ranking import agreement, compacted
from slimdex.indexes.search.ablation import (
    CODES,
    CUT,
    ENCODER,
    INDEX,
    WHITENED,
    Found,
    exact_step,
    float16_error,
    int8_error,
    search_each_step,
)
from slimdex.indexes.vectors.vector_file import VectorFile

from ...catalog.passages_table import DocumentRows
from ...open_index import OpenIndex
from ...search.nearest import best_of_documents
from ...trials.query_pools import encoded, rows_of_documents
from ...trials.recall_trials import is_own
from .exact_search import OwnMetricSearch
from .labels import Qrels, per_query
from .measures import labelled

FLOAT32, INT8 = "float32", "int8"
AT = 10
"""Number of documents in the measures."""
DEEP = 100
"""Answers in the encoder's own order that rounding may have moved."""
SAMPLE = 500
"""Number of queries made from documents, if none are given."""
SAID = {
    FLOAT32: "float32 vectors, as encoded",
    ENCODER: "float16 vectors, as on disk",
    INT8: "int8 vectors, as on disk",
    WHITENED: "whitened, full dimension",
    CUT: "whitened, cut to k",
    CODES: "codes, not rescored",
    INDEX: "the index: codes, rescored",
}
"""Descriptions of the steps."""


def losses(
    core: OpenIndex,
    queries: Sequence[tuple[str, str]] | None = None,
    qrels: Qrels | None = None,
    *,
    drop_self: bool = False,
    sample: int = SAMPLE,
) -> dict[str, Any]:
    """Measure each step, and its difference from the step before.

    Parameters
    ----------
    queries, qrels : (id, text) and the relevance of documents to them. Without these, `sample`
        queries are made from documents, which are held out of their answers.
    drop_self : remove a document with the query's own id from its answers.

    Returns
    -------
    ``{"measure", "queries", "pool", "documents", "own_metric", "steps"}``; a step has ``step``,
    ``value`` (0 to 1), ``change`` from the step before, negative for a loss, and ``margin``,
    half of its 95% interval, paired by query. The first has ``least`` and
    ``most`` instead of ``value``. Without labels, ``of`` is the step whose ten nearest are to be
    found.

    Raises
    ------
    InputError
        If there are no documents, labels without queries or queries without labels, or no label
        refers to a document of the index.
    """
    if (queries is None) != (qrels is None):
        raise InputError("losses: expected both queries and labels, or neither")
    if sample < 1:
        raise InputError(f"sample={sample}; expected 1 or more queries")
    report: dict[str, Any] = {"documents": len(core)}
    if queries is None or qrels is None:
        pool = core.pool(core.snapshot, sample)
        asked = {"queries": len(pool.vectors), "pool": pool.name}
        found = _found(core, pool.vectors, pool.own, AT)
        first = found[ENCODER]
        ranks = rank_bounds(first, _reach(first, core.commit_log.vectors()))
        steps = _unlabelled(found, exact_step(core.reduced_index), ranks)
    else:
        judged, ids = labelled(core, queries, qrels)
        known = {id: row for row, id in enumerate(ids)}
        own = np.array([[known.get(id, -1) if drop_self else -1] for id, _ in judged])
        rows = core.snapshot.document_rows
        own = rows_of_documents(rows, own)
        asked = {"queries": len(judged), "pool": "labelled"}
        vectors = encoded(core.encoder, [text for _, text in judged])
        found = _found(core, vectors, own, AT if rows.is_one_each else DEEP)
        first = found[ENCODER]
        reach = _reach(first, core.commit_log.vectors())
        if not rows.is_one_each:
            found = {step: _best_of_documents(each, rows) for step, each in found.items()}
            first, reach = found[ENCODER], reach.max(axis=1, keepdims=True)
        ranks = rank_bounds(first, reach)
        steps = _by_labels(found, ranks, [id for id, _ in judged], ids, qrels)
    report |= asked | {"own_metric": str(OwnMetricSearch(core))} | steps
    return _as_stored(report, core.state.stored)


def _found(core: OpenIndex, vectors: Matrix, own: Rows, k: int) -> dict[str, Found]:
    """The k rows that each step finds, without the queries' own; exact searches find `DEEP`."""
    index, width = core.reduced_index, own.shape[1]
    found = search_each_step(index, vectors, k + width, core.snapshot.hidden, deep=DEEP + width)
    return {step: dropped(answers, own) for step, answers in found.items()}


def _best_of_documents(found: Found, rows: DocumentRows) -> Found:
    """Keep the best row of each document."""
    is_best = best_of_documents(rows.documents(found.rows))
    return Found(*compacted(found.scores, found.rows, is_best, found.rows.shape[1]))


def _by_labels(
    found: Mapping[str, Found],
    ranks: tuple[Rows, Rows],
    names: Sequence[str],
    ids: Sequence[str],
    qrels: Qrels,
) -> dict[str, Any]:
    values = {
        step: per_query(each.scores[:, :AT], each.rows[:, :AT], names, ids, qrels)["ndcg@10"]
        for step, each in found.items()
    }
    least, most = ndcg_bounds(found[ENCODER].rows, *ranks, [qrels[id] for id in names], ids)
    rounded = {"step": FLOAT32, "value": None, "least": least, "most": most}
    return {"measure": "ndcg@10", "steps": [rounded, *_steps(values)]}


def _unlabelled(found: Mapping[str, Found], own: str, ranks: tuple[Rows, Rows]) -> dict[str, Any]:
    truth, first = found[own].rows[:, :AT], found[ENCODER].rows[:, :AT]
    there = first >= 0
    sure = (ranks[1][:, :AT] < AT) & there
    least = float((sure.sum(axis=1) / np.maximum(there.sum(axis=1), 1)).mean())
    steps: list[dict[str, Any]] = [
        {"step": ENCODER, "of": FLOAT32, "value": None, "least": least, "most": 1.0}
    ]
    apart = float(agreement(truth, first, AT).mean())
    steps.append({"step": own, "of": ENCODER, "value": apart, "change": None, "margin": None})
    names = [*found]
    later = names[names.index(own) + 1 :]
    values = {own: np.ones(len(truth))}
    values |= {step: agreement(found[step].rows, truth, AT) for step in later}
    steps += [step | {"of": own} for step in _steps(values)[1:]]
    return {"measure": "agreement@10", "steps": steps}


def _steps(values: Mapping[str, NDArray[np.float64]]) -> list[dict[str, Any]]:
    """Means of each step's values (q,), and of their change from the step before."""
    steps, before = list[dict[str, Any]](), None
    for name, own in values.items():
        change = margin = None
        if before is not None:
            difference = own - before
            change = float(difference.mean())
            if len(own) > 1:
                margin = float(1.96 * difference.std(ddof=1) / np.sqrt(len(own)))
        steps.append({"step": name, "value": float(own.mean()), "change": change, "margin": margin})
        before = own
    return steps


def dropped(found: Found, own: Rows) -> Found:
    """Remove each query's own rows (q, w) from answers (q, n), cut to n - w.

    >>> found = Found(np.array([[3.0, 2, 1]]), np.array([[5, 6, 7]]))
    >>> dropped(found, np.array([[6]])).rows.tolist()
    [[5, 7]]
    >>> dropped(found, np.array([[-1]])).rows.tolist()
    [[5, 6]]
    """
    gone = is_own(found.rows, own)
    keep = found.rows.shape[1] - own.shape[1]
    order = np.argsort(gone, axis=1, kind="stable")[:, : max(keep, 0)]
    scores, rows = (np.take_along_axis(each, order, axis=1) for each in found)
    gone = np.take_along_axis(gone, order, axis=1)  # with few rows
    return Found(np.where(gone, -np.inf, scores), np.where(gone, -1, rows))


def rank_bounds(found: Found, reach: NDArray[np.float64]) -> tuple[Rows, Rows]:
    """The best and the worst rank (q, n), from 0, of each answer if scores may be off by `reach`.

    >>> found = Found(np.array([[0.9, 0.5, 0.4]]), np.array([[1, 2, 3]]))
    >>> best, worst = rank_bounds(found, np.full((1, 3), 0.1))
    >>> best.tolist(), worst.tolist()
    ([[0, 1, 1]], [[0, 2, 2]])
    """
    scores = found.scores.astype(np.float64)
    low, high = scores - reach, scores + reach
    best, worst = np.empty_like(found.rows), np.empty_like(found.rows)
    for i in range(len(scores)):  # rows beyond the last answer are assumed to stay there
        best[i] = (low[i][None, :] > high[i][:, None]).sum(axis=1)
        worst[i] = (high[i][None, :] >= low[i][:, None]).sum(axis=1) - 1
    return best, worst


def ndcg_bounds(
    rows: Rows,
    best: Rows,
    worst: Rows,
    labels: Sequence[Mapping[str, int]],
    ids: Sequence[str],
) -> tuple[float, float]:
    """The least and the largest possible nDCG@10, with each answer (q, n) between its two ranks.

    Each relevant document is given its own best, or worst, rank, independently of the others: no
    order is better, or worse.
    """
    bounds = []
    for i, relevance in enumerate(labels):
        gains = sorted((gain for gain in relevance.values() if gain > 0), reverse=True)
        ideal = sum(gain / np.log2(rank + 2) for rank, gain in enumerate(gains[:AT]))
        own = [
            (j, relevance.get(ids[row], 0)) for j, row in enumerate(rows[i].tolist()) if row >= 0
        ]
        sums = [
            sum(gain / np.log2(ranks[i, j] + 2) for j, gain in own if gain > 0 and ranks[i, j] < AT)
            for ranks in (worst, best)
        ]
        bounds.append([min(each / ideal, 1.0) if ideal else 0.0 for each in sums])
    least, most = np.mean(bounds, axis=0).tolist()
    return least, most


def _reach(found: Found, vectors: VectorFile) -> NDArray[np.float64]:
    """Largest difference of each answer's cosine (q, n) from that before the vector was stored."""
    there = found.rows >= 0
    rows, places = np.unique(found.rows[there], return_inverse=True)
    taken = vectors.take(rows)
    if vectors.dtype == np.int8:
        out = np.zeros(found.rows.shape)
        out[there] = int8_error(taken)[places]
        return out
    lengths = np.ones(found.rows.shape, dtype=np.float32)
    lengths[there] = np.sqrt(np.vecdot(taken, taken))[places]
    return float16_error(found, lengths, vectors.dim)


def _as_stored(report: dict[str, Any], stored: str) -> dict[str, Any]:
    """Rename the step of the stored vectors in a report, if they are not float16."""
    for step in report["steps"] if stored == INT8 else ():
        for key in ("step", "of"):
            if step.get(key) == ENCODER:
                step[key] = INT8
    return report
