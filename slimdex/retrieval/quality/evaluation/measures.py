"""Evaluation: quality against labels, agreement with exact search, time and memory.

The two kinds of quality answer different questions and are never mixed: nDCG, MRR and recall
say whether the relevant documents are found; agreement says how many of the nearest ten by
uncompressed exact search are among the ten found. Whitening changes the encoder's order on
purpose, so agreement is stated twice: with exact search in the index's own metric, where only
compression differs, and with the encoder's order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.bounds import betting_bound
from slimdex.indexes.errors import InputError
from slimdex.indexes.ranking import agreement, compacted, stacked

from ...index import Index
from ...lexical.fusion import AUTO, OFF
from ...search.answer import answer, best_of_documents, nearest_documents
from ...search.request import SearchRequest
from ...store.passages import DocumentRows
from ...store.state import SENTENCE
from ..info import memory, word_bytes
from ..query_pools import document_pool, encoded
from ..recall_trials import ERROR
from .exact_search import ExactSearch, OwnMetricSearch
from .labels import Qrels, per_query

SEARCHED = 200
"""Maximum number of queries that measure times up to the documents."""
COLUMNS = ("default", "index", "exact")
"""Searches that are compared."""
LABELS = {
    "agreement@10": "agreement@10 with exact search",
    "encoder_agreement@10": "agreement@10 with the encoder's order",
    "ram_bytes_per_vector": "bytes a vector in RAM",
    "ram_bytes_fixed": "fixed bytes in RAM",
    "disk_bytes_per_vector": "bytes a vector on disk",
}
FUSED = "Column default: as `slimdex search` answers; column index: by meaning alone."
LABELS |= {f"p{p}_ms": f"index alone, p{p} ms" for p in (50, 95, 99)}
LABELS |= {f"vector_to_documents_p{p}_ms": f"vector to documents, p{p} ms" for p in (50, 95, 99)}
LABELS |= {f"text_to_documents_p{p}_ms": f"text to documents, p{p} ms" for p in (50, 95, 99)}
"""Labels of the measures."""


Ranking = Callable[[int], tuple[Matrix, Rows]]
"""Number of results -> scores and rows (1, k) for one query, best first, padded with -inf, -1."""
NEAREST, DEPTH = LIMITS = (10, 100)
"""Numbers of results that are measured: for agreement and most measures, and for recall@100."""
STEP = 1e-6
"""Difference of score between the last result of a search and the first that a deeper one adds."""


@dataclass(frozen=True)
class Results:
    """Answers to all queries, and the time of each."""

    scores: Matrix
    rows: Rows
    seconds: Sequence[float]


def evaluate(
    index: Index,
    queries: Sequence[tuple[str, str]],
    qrels: Qrels,
    *,
    drop_self: bool = False,
) -> dict[str, Any]:
    """Measure an index and the uncompressed exact search over the same vectors.

    Parameters
    ----------
    queries : (id, text); those without labels are left out.
    qrels : relevance of documents to queries.
    drop_self : drop a document with the query's own id from its answers.

    Returns
    -------
    ``{"default": measures, "index": measures, "exact": measures, "queries": n, "documents": n,
    "own_metric": words}``; of a search with default options, which fuses lexical with semantic
    search (left out for an index without words); of the index by meaning alone; and of exact
    search. Measures are fractions, bytes, and milliseconds for one query: from an encoded query to
    rows (``p50_ms``) and to documents (``vector_to_documents_p50_ms``), and from a text to
    documents (``text_to_documents_p50_ms``). Missing measures are None.
    """
    _check_not_empty(index)
    judged, ids = labelled(index, queries, qrels)
    known = {id: row for row, id in enumerate(ids)}
    names = [id for id, _ in judged]
    own = np.array([known.get(id, -1) if drop_self else -1 for id in names])
    own = index.snapshot.document_rows.documents(own)
    texts = [text for _, text in judged]
    vectors = encoded(index.encoder, texts)
    report, answers, _ = _side_by_side(index, texts, vectors, own[:, None], DEPTH)
    if index.state.words is not None:
        searches = [
            partial(ranked, index, text, vector[None])
            for text, vector in zip(texts, vectors, strict=True)
        ]
        fused = _without_own(_deep_results(searches, DEPTH, int((own >= 0).any())), own[:, None])
        answers = {"default": fused} | answers
        report = {"default": _fused_report(index, fused, texts, report["index"])} | report
    for side, results in answers.items():
        labels = per_query(results.scores, results.rows, names, ids, qrels)
        report[side] = {name: float(v.mean()) for name, v in labels.items()} | report[side]
    return report


def labelled(
    index: Index, queries: Sequence[tuple[str, str]], qrels: Qrels
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the queries (id, text) that have labels, and the documents' ids by row.

    Raises `InputError` if no query has labels, or they are not for documents of the index.
    """
    judged = [(id, text) for id, text in queries if id in qrels]
    if not judged:
        raise InputError(f"none of {len(queries)} queries has a label among {len(qrels)}")
    ids = index.store.ids_by_row(index.state.rows)
    known = set(ids)
    if not any(document in known for labels in qrels.values() for document in labels):
        raise InputError("none of the labelled documents is in the index; expected the same ids")
    return judged, ids


def evaluate_self(index: Index, *, sample: int = 500) -> dict[str, Any]:
    """Measure without labels how well an index agrees with uncompressed search.

    The queries are made of documents, which are left out of their answers: see `query_pools`. The
    result is that of `evaluate` without the measures that require labels, and with an estimate and
    a lower bound of the index's agreement in its own metric for all such queries:
    ``"proved": {"estimate": e, "bound": b, "error": 0.05, "pool": words}``.
    """
    _check_not_empty(index)
    pool = document_pool(index.opened(), index.query_encoder, sample, np.random.default_rng(0))
    texts = list(pool.texts)[: len(pool)] or None
    own = _own_documents(index.snapshot.document_rows, pool.own)
    report, agreed = _side_by_side(index, texts, pool.vectors, own, NEAREST)[::2]
    report["proved"] = {
        "estimate": float(agreed.mean()),
        "bound": betting_bound(agreed, ERROR),
        "error": ERROR,
        "pool": pool.name,
    }
    return report


def explained(report: Mapping[str, Any]) -> list[str]:
    """Explain each measure of a report in one line."""
    labels = (
        "nDCG, MRR, recall: by labels; recall is the share of relevant documents that is found."
    )
    proved = report.get("proved")
    return [
        *([labels] if "recall@10" in report["index"] else []),
        "Agreement with exact search: the share of its ten nearest that the index finds, too. It "
        f"searches {report['own_metric']}; what is missing from 1 is lost to compression.",
        "Agreement with the encoder's order: the same, over the encoder's vectors as they are. "
        "Whitening changes that order on purpose; only labels show whether for the better.",
        *([FUSED] if "default" in report else []),
        "Column exact: exact search over the encoder's vectors, uncompressed.",
        *(
            [
                f"Proved: agreement with exact search {proved['estimate']:.4f}, at least "
                f"{proved['bound']:.4f} with {100 * (1 - proved['error']):.4g}% confidence, by "
                f"{report['queries']:,} queries: {proved['pool']}; {SENTENCE}."
            ]
            if proved
            else []
        ),
    ]


def drop_rows(scores: Matrix, rows: Rows, own: Rows) -> tuple[Matrix, Rows]:
    """Answers (q, depth) without each query's `own` row (-1: none), all cut to depth - 1.

    >>> scores, rows = np.array([[3.0, 2, 1], [3, 2, 1]]), np.array([[5, 6, 7], [5, 6, 7]])
    >>> drop_rows(scores, rows, np.array([6, -1]))[1].tolist()
    [[5, 7], [5, 6]]
    """
    is_own = (rows == own[:, None]) & (own >= 0)[:, None]
    order = np.argsort(is_own, axis=1, kind="stable")[:, :-1]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)


def deep(searches: Sequence[tuple[Ranking, int]]) -> tuple[list[float], list[int]]:
    """Scores and rows for a query by searches for few rows and then for more, best first.

    A search rescores more rows for more results, so a search for a hundred may find other first ten
    than a search for ten. Measures at ten count what a search for ten finds, and measures at a
    hundred what a search for a hundred finds; one list serves both.

    Each search has its number of results, in rising order. The rows that it adds to those before
    have lower scores.
    """
    values, rows = list[float](), list[int]()
    for search, count in searches:
        scores, found = search(count)
        is_new = (found[0] >= 0) & ~np.isin(found[0], rows)
        more = scores[0][is_new].astype(np.float64)
        if values and len(more):
            more += min(0.0, values[-1] - STEP - float(more[0]))
        values, rows = values + more.tolist(), rows + found[0][is_new].tolist()
    depth = searches[-1][1]
    return values[:depth], rows[:depth]


def measured(search: Ranking, depth: int, more: int = 0) -> list[tuple[Ranking, int]]:
    """Searches for each of `LIMITS` below `depth`, and for `depth`.

    `more` results are added to each limit, for those that are dropped afterwards.
    """
    limits = [limit + more for limit in LIMITS if limit + more < depth]
    return [(search, limit) for limit in [*limits, depth]]


def latency(seconds: Sequence[float]) -> dict[str, float]:
    """Median, 95th and 99th percentiles in milliseconds."""
    return {f"p{p}_ms": float(np.percentile(seconds, p) * 1e3) for p in (50, 95, 99)}


def _fused_report(
    index: Index, results: Results, texts: Sequence[str], by_meaning: Mapping[str, Any]
) -> dict[str, Any]:
    """Measures of the default search without labels, by the names of the index's."""
    words = index.read(word_bytes) or 0.0
    return {
        **dict.fromkeys(by_meaning),
        **latency(results.seconds),
        **times_to_documents(index, texts),
        **{name: value for name, value in by_meaning.items() if name.startswith("ram_")},
        "disk_bytes_per_vector": by_meaning["disk_bytes_per_vector"] + words,
    }


def nearest_of(index: Index, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
    """Scores and documents (q, k) for encoded queries (q, d), by their first rows."""
    return index.read(nearest_documents, SearchRequest(vectors=queries, limit=k))


def ranked(index: Index, text: str, vector: Matrix, k: int) -> tuple[Matrix, Rows]:
    """Numbers that descend and documents (1, k) by a default search for an encoded text (1, d).

    If words are fused, the order is not that of the cosines.
    """
    request = SearchRequest(texts=[text], vectors=vector, limit=k)
    _, rows = index.read(nearest_documents, request)
    places = np.arange(rows.shape[1], dtype=np.float32)[None]
    return np.where(rows >= 0, -places, -np.inf).astype(np.float32), rows


def times_to_documents(
    index: Index, queries: Sequence[str] | Matrix | None, hybrid: str = AUTO
) -> dict[str, float | None]:
    """Times from a text, or a vector of (q, dim), to ten documents; None without queries."""
    if queries is None:
        return dict.fromkeys(f"text_to_documents_{name}" for name in latency([0.0]))
    chosen = np.unique(np.linspace(0, len(queries) - 1, SEARCHED).astype(int)).tolist()
    is_vector = isinstance(queries, np.ndarray)
    requests = [
        SearchRequest(vectors=queries[i][None]) if is_vector else SearchRequest(texts=queries[i])
        for i in chosen
    ]
    found = latency(
        seconds_of(
            [
                partial(index.read, answer, replace(r, hybrid=hybrid), index.encoder_of)
                for r in requests
            ]
        )
    )
    start = "vector" if is_vector else "text"
    return {f"{start}_to_documents_{name}": ms for name, ms in found.items()}


def seconds_of(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Seconds of each call, after three to warm up."""
    for call in calls[:3]:
        call()
    seconds = []
    for call in calls:
        start = perf_counter()
        call()
        seconds.append(perf_counter() - start)
    return seconds


def _side_by_side(
    index: Index, texts: Sequence[str] | None, vectors: Matrix, own: Rows, depth: int
) -> tuple[dict[str, Any], dict[str, Results], NDArray[np.float64]]:
    """Report the measures without labels; also return both sides' answers without own rows (q, w),
    and the agreement in the index's own metric by query."""
    own = own[:, (own >= 0).any(axis=0)]
    dropping = own.shape[1]
    exact_search, own_search = ExactSearch(index), OwnMetricSearch(index)
    searches = [partial(nearest_of, index, vector[None]) for vector in vectors]
    count = depth + dropping
    seconds = seconds_of([partial(exact_search, vector[None], count) for vector in vectors])
    answers = {
        "index": _without_own(_deep_results(searches, depth, dropping), own),
        "exact": _without_own(Results(*exact_search(vectors, count), seconds), own),
    }
    own_order = _without_own(Results(*own_search(vectors, NEAREST + dropping), []), own).rows
    whole = times_to_documents(index, vectors, OFF)
    whole |= times_to_documents(index, texts, OFF)
    costs = {"index": index.read(memory), "exact": exact_search.memory()}
    report: dict[str, Any] = {"queries": len(vectors), "documents": len(index.snapshot)}
    report["own_metric"] = str(own_search)
    found = answers["index"].rows
    agreed, encoders = agreement(found, own_order, 10), answers["exact"].rows
    both = {"agreement@10": agreed, "encoder_agreement@10": agreement(found, encoders, 10)}
    for side, results in answers.items():
        is_index = side == "index"
        report[side] = {
            **{name: float(each.mean()) if is_index else None for name, each in both.items()},
            **latency(results.seconds),
            **(whole if is_index else dict.fromkeys(whole)),  # which has no documents to read
            **costs[side],
        }
    return report, answers, agreed


def _deep_results(searches: Sequence[Ranking], depth: int, more: int) -> Results:
    """Answers (q, depth + more) of searches for each number of results; times of the first."""
    found = [deep(measured(search, depth + more, more)) for search in searches]
    each = [(np.array([s], np.float32), np.array([r], np.int64)) for s, r in found]
    width = max((rows.shape[1] for _, rows in each), default=0)
    seconds = seconds_of([partial(search, min(NEAREST, depth) + more) for search in searches])
    return Results(*stacked(each, width), seconds)


def _without_own(results: Results, own: Rows) -> Results:
    """Remove each query's own rows (q, w) from its answers."""
    scores, rows = results.scores, results.rows
    for column in own.T[(own >= 0).any(axis=0)]:
        scores, rows = drop_rows(scores, rows, column)
    return Results(scores, rows, results.seconds)


def _own_documents(rows: DocumentRows, own: Rows) -> Rows:
    """Distinct documents (q, w) of rows (q, n), padded with -1."""
    if rows.is_one_each or not own.shape[1]:
        return own
    documents = rows.documents(own)
    is_first = best_of_documents(documents)
    most = int(is_first.sum(axis=1).max(initial=0))
    return compacted(np.zeros(own.shape, np.float32), documents, is_first, most)[1]


def _check_not_empty(index: Index) -> None:
    if not len(index.snapshot):
        raise InputError(f"{index.path} holds no documents; expected some to search")
