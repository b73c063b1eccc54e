"""Evaluation: quality against labels, agreement with exact search, time and memory.

The two kinds of quality answer different questions and are never mixed: nDCG, MRR and recall
say whether the relevant documents are found; agreement says how many of the nearest ten by
uncompressed exact search are among the ten found. Whitening changes the encoder's order on
purpose, so agreement is stated twice: with exact search in the index's own metric, where only
compression differs, and with the encoder's order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import FLAT
from slimdex.indexes.confidence_bound import betting_bound
from slimdex.indexes.ranking import agreement, first_allowed, stack_results
from slimdex.system.threads import one_thread

from ..index import Index
from ..lexical.fusion import AUTO, OFF
from ..search.answer import BestRows, best_of_documents, find, nearest_documents
from ..search.request import SearchRequest
from ..store.passages import DocumentRows
from .info import memory, word_bytes
from .labels import Qrels, per_query, with_labels
from .query_pools import document_pool, encode_with_progress
from .recall_trials import ERROR, exact_search, is_held_out, without_held_out

SEARCHED = 200
"""Maximum number of queries that measure times up to the documents."""
COLUMNS = ("default", "index", "exact")
"""Searches that are compared."""
PERCENTILES = (50, 95, 99)
LABELS = {
    "agreement@10": "agreement@10 with exact search",
    "encoder_agreement@10": "agreement@10 with the encoder's order",
    "ram_bytes_per_vector": "bytes a vector in RAM",
    "ram_bytes_fixed": "fixed bytes in RAM",
    "disk_bytes_per_vector": "bytes a vector on disk",
    **{f"p{p}_ms": f"index alone, p{p} ms" for p in PERCENTILES},
    **{f"text_to_documents_p{p}_ms": f"text to documents, p{p} ms" for p in PERCENTILES},
}
"""Labels of the measures."""
Ranking = Callable[[int], tuple[Matrix, Rows]]
"""Number of results -> scores and rows (1, k) for one query, best first, padded with -inf, -1."""
NEAREST = 10
"""Results that count for agreement and most measures."""
DEPTH = 100
"""Results that count for recall@100."""
LIMITS = (NEAREST, DEPTH)
STEP = 1e-6
"""Difference of score between the last result of a search and the first that a deeper one adds."""


class Results(NamedTuple):
    """Answers to all queries, and the time of each."""

    scores: Matrix
    rows: Rows
    seconds: Sequence[float]


def evaluate(
    index: Index, queries: Sequence[tuple[str, str]], qrels: Qrels, *, drop_self: bool = False
) -> dict[str, Any]:
    """Measure an index and the uncompressed exact search over the same vectors.

    Parameters
    ----------
    queries : (id, text); those without labels are left out.
    qrels : relevance of documents to queries.
    drop_self : drop a document with the query's own id from its answers.

    Returns
    -------
    ``{"default": measures, "index": measures, "exact": measures, "queries": n, "documents": n}``;
    of a search with default options, which fuses lexical with semantic search (left out for an
    index without words); of the index by meaning alone; and of exact search. Measures are
    fractions, bytes, and milliseconds for one query: from an encoded query to rows (``p50_ms``),
    and from a text to documents (``text_to_documents_p50_ms``). Missing measures are None.
    """
    index.snapshot.check_encoded()
    judged, ids = queries_with_labels(index, queries, qrels)
    names = [id for id, _ in judged]
    texts = [text for _, text in judged]

    # Each query's own document, which may be dropped from its answers; -1 for none.
    self_rows: Rows = np.full(len(judged), -1, dtype=np.int64)
    if drop_self:
        known = {id: row for row, id in enumerate(ids)}
        self_rows = np.array([known.get(id, -1) for id in names])
    held_out = index.snapshot.document_rows.documents(self_rows)[:, None]

    # Semantic search, exact and with the index; then the default search.
    vectors = encode_with_progress(index.encoder, texts)
    report, answers, _ = _side_by_side(index, texts, vectors, held_out, DEPTH)
    if index.state.words is not None:
        searches = []
        for text, vector in zip(texts, vectors, strict=True):
            searches.append(partial(rank_documents, index, text, vector[None]))
        more = int((held_out >= 0).any())  # further results, to replace those dropped
        fused = _without_rows(_deep_results(searches, DEPTH, more), held_out)
        answers = {"default": fused} | answers
        report = {"default": _hybrid_report(index, fused, texts, report["index"])} | report

    # Measure all answers by the labels.
    for side, results in answers.items():
        measures = per_query(results.scores, results.rows, names, ids, qrels)
        report[side] = {name: float(v.mean()) for name, v in measures.items()} | report[side]
    return report


def queries_with_labels(
    index: Index, queries: Sequence[tuple[str, str]], qrels: Qrels
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the queries (id, text) that have labels, and the documents' ids by row.

    Raises `InputError` if no query has labels, or they are not for documents of the index.
    """
    ids = index.read(lambda snapshot: snapshot.store.ids_by_row())
    return with_labels(queries, qrels, set(ids)), ids


def evaluate_self(index: Index, *, sample: int = 500) -> dict[str, Any]:
    """Measure without labels how well an index agrees with uncompressed search.

    The queries are made of documents, which are left out of their answers: see the module
    `query_pools`. The result is that of `evaluate` without the measures that require labels, and
    with an estimate and a lower bound of the index's agreement in its own metric, for all queries
    that could be drawn: ``"proved": {"estimate": e, "bound": b, "error": 0.05, "pool": name}``.
    """
    # Queries made of documents; each is searched without its own document.
    pool = document_pool(
        index.open_snapshot(), index.encoder_if_any, sample, np.random.default_rng(0)
    )
    texts = list(pool.texts)[: len(pool)] or None  # those that have vectors
    held_out = _documents_of(index.snapshot.document_rows, pool.held_out)
    report, _, agreed = _side_by_side(index, texts, pool.vectors, held_out, NEAREST)
    report["proved"] = {
        "estimate": float(agreed.mean()),
        "bound": betting_bound(agreed, ERROR),
        "error": ERROR,
        "pool": pool.name,
    }
    return report


def drop_rows(scores: Matrix, rows: Rows, held_out: Rows) -> tuple[Matrix, Rows]:
    """Remove each query's held-out rows (q, w) from its answers (q, depth).

    All answers are cut to the same length, depth - w. Columns of `held_out` that are -1 for all
    queries do not count.

    >>> scores, rows = np.array([[3.0, 2, 1], [3, 2, 1]]), np.array([[5, 6, 7], [5, 6, 7]])
    >>> drop_rows(scores, rows, np.array([[6], [-1]]))[1].tolist()
    [[5, 7], [5, 6]]
    """
    held_out = held_out[:, (held_out >= 0).any(axis=0)]
    # Move the held-out rows to the end, and keep the order of the others.
    order = np.argsort(is_held_out(rows, held_out), axis=1, kind="stable")
    order = order[:, : rows.shape[1] - held_out.shape[1]]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)


def merged_ranking(search: Ranking, depth: int, more: int = 0) -> tuple[list[float], list[int]]:
    """Scores and rows for a query by searches for few results and then for more, best first.

    A search for more results rescores more rows, so the first ten of a search for a hundred may
    differ from those of a search for ten. Measures at ten use what a search for ten finds, and
    measures at a hundred what a search for a hundred finds. One list serves both: results that a
    larger search adds get lower scores.

    `more` is added to each limit but `depth`, to make up for results that are dropped afterwards.
    """
    limits = [limit + more for limit in LIMITS if limit + more < depth]

    # Each search adds the rows that earlier ones did not find, with lower scores.
    values = list[float]()
    rows = list[int]()
    for limit in (*limits, depth):
        scores, answer = search(limit)
        is_new = (answer[0] >= 0) & ~np.isin(answer[0], rows)
        new_scores = scores[0][is_new].astype(np.float64)
        if values and len(new_scores):  # shift them below the last one
            new_scores += min(0.0, values[-1] - STEP - float(new_scores[0]))
        values = values + new_scores.tolist()
        rows = rows + answer[0][is_new].tolist()
    return values[:depth], rows[:depth]


def latency(seconds: Sequence[float]) -> dict[str, float]:
    """Median, 95th and 99th percentiles in milliseconds."""
    return {f"p{p}_ms": float(np.percentile(seconds, p) * 1e3) for p in PERCENTILES}


def _hybrid_report(
    index: Index, results: Results, texts: Sequence[str], by_meaning: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the measures of the default search that require no labels.

    They have the names of the measures of semantic search alone. Those that the default search
    lacks, such as the agreement, are None.
    """
    report: dict[str, Any] = dict.fromkeys(by_meaning)
    report |= latency(results.seconds)
    report |= times_to_documents(index, texts)
    report |= {name: value for name, value in by_meaning.items() if name.startswith("ram_")}
    words = index.read(word_bytes) or 0.0
    report["disk_bytes_per_vector"] = by_meaning["disk_bytes_per_vector"] + words
    return report


def nearest_of(index: Index, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
    """Scores and documents (q, k) for encoded queries (q, d), by their first rows."""
    return index.read(nearest_documents, SearchRequest(vectors=queries, limit=k))


def rank_documents(index: Index, text: str, vector: Matrix, k: int) -> tuple[Matrix, Rows]:
    """Scores and documents (1, k) of a default search for an encoded text (1, d), best first."""
    return index.read(nearest_documents, SearchRequest(texts=[text], vectors=vector, limit=k))


def times_to_documents(
    index: Index, texts: Sequence[str] | None, hybrid: str = AUTO
) -> dict[str, float | None]:
    """Measure how long a search takes from a text to ten documents; None without texts."""
    if texts is None:
        return dict.fromkeys(f"text_to_documents_{name}" for name in latency([0.0]))

    # Time a search for each of some queries, spread evenly over all.
    chosen = np.unique(np.linspace(0, len(texts) - 1, SEARCHED).astype(int)).tolist()
    calls = []
    for i in chosen:
        request = SearchRequest(texts=texts[i], hybrid=hybrid)
        calls.append(partial(index.read, find, request, index.encoder_of))
    percentiles = latency(seconds_on_one_thread(calls))
    return {f"text_to_documents_{name}": ms for name, ms in percentiles.items()}


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


def seconds_on_one_thread(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Return the seconds of each call on one thread, after three to warm up."""
    with one_thread():
        return seconds_of(calls)


def _side_by_side(
    index: Index, texts: Sequence[str] | None, vectors: Matrix, held_out: Rows, depth: int
) -> tuple[dict[str, Any], dict[str, Results], NDArray[np.float64]]:
    """Search with the index and exactly, and measure what requires no labels.

    Returns a report; the answers of the index and of exact search, without each query's held-out
    rows (q, w); and each query's agreement in the index's own metric.
    """
    held_out = held_out[:, (held_out >= 0).any(axis=0)]
    dropping = held_out.shape[1]  # further results, to replace those dropped

    # Exact search over the encoder's vectors.
    cosine_search = ExactSearch(index)
    count = depth + dropping
    calls = [partial(cosine_search, vector[None], count) for vector in vectors]
    seconds = seconds_on_one_thread(calls)
    exact = _without_rows(Results(*cosine_search(vectors, count), seconds), held_out)

    # The index.
    searches = [partial(nearest_of, index, vector[None]) for vector in vectors]
    answers = _without_rows(_deep_results(searches, depth, dropping), held_out)

    # Agreement of the index with exact search in its own metric, and in the encoder's.
    snapshot = index.snapshot
    live = snapshot.searchable_rows()
    search = partial(exact_search, snapshot.index, live)
    _, metric_rows = best_documents(
        search, vectors, NEAREST + dropping, snapshot.document_rows, len(live)
    )
    agreed = agreement(answers.rows, without_held_out(metric_rows, held_out), NEAREST)
    measures = {
        "agreement@10": float(agreed.mean()),
        "encoder_agreement@10": float(agreement(answers.rows, exact.rows, NEAREST).mean()),
    }
    times = times_to_documents(index, texts, OFF)
    report = {
        "queries": len(vectors),
        "documents": len(snapshot),
        "index": measures | latency(answers.seconds) | times | index.read(memory),
        "exact": {
            **dict.fromkeys(measures),
            **latency(exact.seconds),
            **dict.fromkeys(times),  # it has no documents to read
            **cosine_search.memory(),
        },
    }
    return report, {"index": answers, "exact": exact}, agreed


def _deep_results(searches: Sequence[Ranking], depth: int, more: int) -> Results:
    """Return the answers (q, depth + more) and times of each query's search.

    The answers are merged by `merged_ranking`; the times are those of a search for ten.
    """
    answers = []
    width = 0
    for search in searches:
        scores, rows = merged_ranking(search, depth + more, more)
        answers.append((np.array([scores], np.float32), np.array([rows], np.int64)))
        width = max(width, len(rows))
    calls = [partial(search, min(NEAREST, depth) + more) for search in searches]
    seconds = seconds_on_one_thread(calls)
    return Results(*stack_results(answers, width), seconds)


def _without_rows(results: Results, held_out: Rows) -> Results:
    """Remove the rows held out of each query's answers (q, w)."""
    return Results(*drop_rows(results.scores, results.rows, held_out), results.seconds)


def _documents_of(rows: DocumentRows, held_out: Rows) -> Rows:
    """Return the distinct documents (q, w) of rows (q, n), by their first rows, padded with -1."""
    if rows.is_one_each or not held_out.shape[1]:
        return held_out
    documents = rows.documents(held_out)
    is_first = best_of_documents(documents)
    most = int(is_first.sum(axis=1).max(initial=0))
    no_scores = np.zeros(held_out.shape, np.float32)
    return first_allowed(no_scores, documents, is_first, most)[1]


class ExactSearch:
    """Exact search by cosine over float32 vectors at full dimension.

    All live vectors are read into memory, d * 4 bytes each.
    """

    def __init__(self, index: Index) -> None:
        snapshot = index.snapshot
        self._live = snapshot.searchable_rows()
        self._rows = snapshot.document_rows
        vectors = snapshot.vectors()
        self._index = FaissIndex(FLAT, vectors.dim)
        for part in batches(len(self._live)):
            self._index.add(normalize_rows(vectors.take(self._live[part])))

    def __call__(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Return scores and documents' first rows (q, k) for encoded queries (q, d), best first."""
        return best_documents(self._nearest, queries, k, self._rows, len(self._live))

    def _nearest(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Return scores and rows (q, k) in the index's numbering; -1 is padding."""
        scores, positions = self._index.search(normalize_rows(queries), k)
        return scores, np.where(positions >= 0, self._live[positions], -1)

    def memory(self) -> dict[str, float]:
        """Memory in bytes, in the form of `memory` for an index."""
        row = self._index.row_nbytes
        return {
            "ram_bytes_per_vector": row,
            "ram_bytes_fixed": round(self._index.nbytes - row * len(self._index)),
            "disk_bytes_per_vector": row,
        }


def best_documents(
    search: Callable[[Matrix, int], tuple[Matrix, Rows]],
    queries: Matrix,
    k: int,
    rows: DocumentRows,
    total: int,
) -> tuple[Matrix, Rows]:
    """Search documents by a function that searches rows; return scores and first rows (q, k).

    More rows are requested until each query has k documents; `total` is the number of rows.
    """
    best = BestRows(len(queries), k, None if rows.is_one_each else rows.documents, total)
    while not best.is_complete:
        best.add(*search(queries[best.left], best.ask))
    return best.scores, rows.documents(best.rows)
