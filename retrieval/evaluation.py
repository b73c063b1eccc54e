"""Evaluation: quality against labels, agreement with exact search, time and memory.

The two kinds of quality answer different questions and are never mixed: nDCG, MRR and recall
say whether the relevant documents are found; fidelity says how many of the nearest ten by
uncompressed exact search are among the ten found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from indexes.arrays import Matrix, Rows, normalize_rows
from indexes.errors import InputError
from indexes.kinds import FLAT
from indexes.progress import Progress, silent
from indexes.vector_index import FaissIndex

from .collection import Collection
from .encoder import encode_queries
from .facts import memory

Qrels = Mapping[str, Mapping[str, int]]
"""Query id -> document id -> relevance."""

DEPTH = 100
"""Documents retrieved for each query: recall@100 looks no further."""


class Searcher(Protocol):
    """Encoded queries in; scores and rows out."""

    def __call__(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]: ...


@dataclass(frozen=True)
class Results:
    """The answers to all queries, and how long each took."""

    scores: Matrix
    rows: Rows
    seconds: Sequence[float]


def evaluate(
    collection: Collection,
    queries: Sequence[tuple[str, str]],
    qrels: Qrels,
    *,
    drop_self: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Measure an index and the uncompressed exact search over the same vectors.

    Parameters
    ----------
    queries : (id, text); those without labels are left out.
    qrels : relevance of documents to queries.
    drop_self : drop a document with the query's own id from its answers.

    Returns
    -------
    ``{"index": measures, "exact": measures, "queries": n, "documents": n}``; measures are
    fractions, times milliseconds for one query that is encoded already.
    """
    _check_not_empty(collection)
    judged = [(id, text) for id, text in queries if id in qrels]
    if not judged:
        raise InputError(f"none of {len(queries)} queries has a label among {len(qrels)}")
    ids = collection.store.ids(collection.state.rows)
    known = {id: row for row, id in enumerate(ids)}
    if not any(document in known for labels in qrels.values() for document in labels):
        raise InputError("none of the labelled documents is in the index; expected the same ids")
    names = [id for id, _ in judged]
    own = np.array([known.get(id, -1) if drop_self else -1 for id in names])
    vectors = encode(collection, [text for _, text in judged], progress)
    report, answers = _side_by_side(collection, vectors, own, DEPTH)
    for side, results in answers.items():
        labels = per_query(results.scores, results.rows, names, ids, qrels)
        report[side] = {name: float(v.mean()) for name, v in labels.items()} | report[side]
    return report


def evaluate_self(
    collection: Collection, *, sample: int = 500, seed: int = 0, progress: Progress = silent
) -> dict[str, Any]:
    """Measure an index without labels: does it find what the uncompressed search finds?

    A sentence of each of `sample` random documents is the query, and that document is held out
    of the answers. What comes back is as for `evaluate`, without the measures that take labels.
    """
    _check_not_empty(collection)
    live = np.setdiff1d(np.arange(collection.state.rows), collection.hidden)
    if len(live) < 2:
        raise InputError(f"{collection.path} holds 1 document; expected others to find by it")
    if sample < 1:
        raise InputError(f"sample={sample}; expected 1 or more documents")
    rng = np.random.default_rng(seed)
    own = np.sort(rng.choice(live, min(sample, len(live)), replace=False))
    documents = collection.store.documents(own.tolist())
    texts = [random_sentence(documents[row].content, rng) for row in own.tolist()]
    report, _ = _side_by_side(collection, encode(collection, texts, progress), own, depth=10)
    return report


def random_sentence(text: str, rng: np.random.Generator, words: int = 4) -> str:
    """One of the text's sentences of at least so many words; the whole text if none has them.

    >>> random_sentence("Yes. It rained all day long!", np.random.default_rng(0))
    'It rained all day long!'
    """
    sentences = re.split(r"(?<=[.!?。！？])\s+|\n\s*\n", text)
    long_enough = [s.strip() for s in sentences if len(s.split()) >= words]
    return str(rng.choice(long_enough)) if long_enough else text


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Labels from a BEIR file (query, document, score; with a header) or a TREC one (four columns).

    Raises
    ------
    InputError
        If the file is missing, empty or a line has another form.
    """
    qrels: dict[str, dict[str, int]] = {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: can't be read ({error})") from error
    for number, line in enumerate(lines, start=1):
        fields = line.split("\t") if "\t" in line else line.split()
        if not fields or (number == 1 and fields[-1].isalpha()):  # a header: "score"
            continue
        if len(fields) not in (3, 4) or not _is_int(fields[-1]):
            raise InputError(
                f"{path}, line {number}: {line!r}; expected query, document and a whole number"
            )
        qrels.setdefault(fields[0], {})[fields[-2]] = int(fields[-1])
    if not qrels:
        raise InputError(f"{path}: no labels; expected query, document and score a line")
    return qrels


def per_query(
    scores: Matrix, rows: Rows, queries: Sequence[str], ids: Sequence[str], qrels: Qrels
) -> dict[str, NDArray[np.float64]]:
    """nDCG@10, MRR@10, recall@10 and recall@100 of each query against labels, by ir-measures.

    Parameters
    ----------
    scores, rows : (queries, depth) answers, padded with -inf and -1.
    queries : the queries' ids.
    ids : the documents' ids, by row.
    """
    import ir_measures
    from ir_measures import RR, R, nDCG

    chosen = {nDCG @ 10: "ndcg@10", RR @ 10: "mrr@10", R @ 10: "recall@10", R @ 100: "recall@100"}
    run = {
        query: {ids[row]: score for score, row in zip(s, r, strict=True) if row >= 0}
        for query, s, r in zip(queries, scores.tolist(), rows.tolist(), strict=True)
    }
    labels = {query: dict(qrels[query]) for query in queries}
    place = {query: i for i, query in enumerate(queries)}
    out = {name: np.zeros(len(queries)) for name in chosen.values()}  # nothing found is zero
    for metric in ir_measures.iter_calc(list(chosen), labels, run):
        out[chosen[metric.measure]][place[metric.query_id]] = metric.value
    return out


def agreement(found: Rows, exact: Rows, k: int) -> NDArray[np.float64]:
    """Each query's share of the exact search's first k rows that are among the first k found.

    >>> agreement(np.array([[1, 2, 3]]), np.array([[3, 2, 9]]), 2).tolist()
    [0.5]
    """
    wanted = exact[:, :k]
    counts = (wanted >= 0).sum(axis=1)
    hits = (wanted[:, :, None] == found[:, None, :k]) & (wanted >= 0)[:, :, None]
    return np.where(counts > 0, hits.any(axis=2).sum(axis=1) / np.maximum(counts, 1), 1.0)


def drop_rows(scores: Matrix, rows: Rows, own: Rows) -> tuple[Matrix, Rows]:
    """Answers (q, depth) without each query's `own` row (-1: none), cut to depth - 1 for all.

    >>> scores, rows = np.array([[3.0, 2, 1], [3, 2, 1]]), np.array([[5, 6, 7], [5, 6, 7]])
    >>> drop_rows(scores, rows, np.array([6, -1]))[1].tolist()
    [[5, 7], [5, 6]]
    """
    is_own = (rows == own[:, None]) & (own >= 0)[:, None]
    order = np.argsort(is_own, axis=1, kind="stable")[:, :-1]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)


def latency(seconds: Sequence[float]) -> dict[str, float]:
    """Median, 95th and 99th percentile in milliseconds."""
    return {f"p{p}_ms": float(np.percentile(seconds, p) * 1e3) for p in (50, 95, 99)}


def encode(collection: Collection, texts: Sequence[str], progress: Progress = silent) -> Matrix:
    """Vectors (n, d) of queries, with progress."""
    parts = []
    for low in range(0, len(texts), 64):
        parts.append(encode_queries(collection.encoder, texts[low : low + 64]))
        progress("encoding queries", min(low + 64, len(texts)), len(texts))
    return np.concatenate(parts)


def timed(search: Searcher, queries: Matrix, k: int) -> Results:
    """One query at a time, as a user asks them, after three to warm up."""
    for query in queries[:3]:
        search(query[None], k)
    scores, rows, seconds = [], [], []
    for query in queries:
        start = perf_counter()
        found_scores, found = search(query[None], k)
        seconds.append(perf_counter() - start)
        scores.append(found_scores)
        rows.append(found)
    return Results(np.concatenate(scores), np.concatenate(rows), seconds)


class ExactSearch:
    """Cosine over float32 vectors at full dimension: what the index is held against.

    All live vectors are brought into memory, d * 4 bytes each.
    """

    def __init__(self, collection: Collection) -> None:
        self._live = np.setdiff1d(np.arange(collection.state.rows), collection.hidden)
        vectors = collection.vectors
        self._index = FaissIndex(FLAT, vectors.dim)
        for low in range(0, len(self._live), 8192):
            self._index.add(normalize_rows(vectors.take(self._live[low : low + 8192])))

    def __call__(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        scores, found = self._index.search(normalize_rows(queries), k)
        return scores, np.where(found >= 0, self._live[found], -1)

    def memory(self) -> dict[str, float]:
        """As `memory` gives it for an index."""
        row = self._index.row_nbytes
        return {
            "ram_bytes_per_vector": row,
            "ram_bytes_fixed": round(self._index.nbytes - row * len(self._index)),
            "disk_bytes_per_vector": row,
        }


def _side_by_side(
    collection: Collection, vectors: Matrix, own: Rows, depth: int
) -> tuple[dict[str, Any], dict[str, Results]]:
    """The report of what needs no labels, and the answers of both sides without own rows."""
    dropping = bool((own >= 0).any())
    exact_search = ExactSearch(collection)
    answers = {}
    for side, search in (("index", collection.search_vectors), ("exact", exact_search)):
        results = timed(search, vectors, depth + dropping)
        if dropping:
            scores, rows = drop_rows(results.scores, results.rows, own)
            results = Results(scores, rows, results.seconds)
        answers[side] = results
    costs = {"index": memory(collection), "exact": exact_search.memory()}
    report: dict[str, Any] = {"queries": len(vectors), "documents": len(collection)}
    for side, results in answers.items():
        agreed = agreement(results.rows, answers["exact"].rows, 10)
        report[side] = {"fidelity@10": float(agreed.mean()), **latency(results.seconds)}
        report[side] |= costs[side]
    return report, answers


def _check_not_empty(collection: Collection) -> None:
    if not len(collection):
        raise InputError(f"{collection.path} holds no documents; expected some to search")


def _is_int(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]+", text.strip()) is not None
