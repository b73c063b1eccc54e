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

from indexes.arrays import Matrix, Rows, normalize_rows
from indexes.errors import InputError
from indexes.kinds import FLAT
from indexes.progress import Progress, silent
from indexes.vector_index import FaissIndex

from .collection import Collection
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
    if not len(collection):
        raise InputError(f"{collection.path} holds no documents; expected some to search")
    judged = [(id, text) for id, text in queries if id in qrels]
    if not judged:
        raise InputError(f"none of {len(queries)} queries has a label among {len(qrels)}")
    ids = collection.store.ids(collection.state.rows)
    known = set(ids)
    if not any(document in known for labels in qrels.values() for document in labels):
        raise InputError("none of the labelled documents is in the index; expected the same ids")
    texts = [text for _, text in judged]
    vectors = encode(collection, texts, progress)
    depth = DEPTH + drop_self
    found = timed(collection.search_vectors, vectors, depth)
    exact_search = ExactSearch(collection)
    exact = timed(exact_search, vectors, depth)
    names = [id for id, _ in judged]
    if drop_self:
        found, exact = (_without_self(r, names, ids) for r in (found, exact))
    out: dict[str, Any] = {"queries": len(judged), "documents": len(collection)}
    for key, results in (("index", found), ("exact", exact)):
        out[key] = {
            **measures(results, names, ids, qrels),
            "fidelity@10": agreement(results.rows, exact.rows, 10),
            **latency(results.seconds),
        }
    out["index"] |= memory(collection)
    out["exact"] |= exact_search.memory()
    return out


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


def measures(
    results: Results, queries: Sequence[str], ids: Sequence[str], qrels: Qrels
) -> dict[str, float]:
    """nDCG@10, MRR@10, recall@10 and recall@100 against labels, through ir-measures."""
    import ir_measures
    from ir_measures import RR, R, nDCG

    chosen = {"ndcg@10": nDCG @ 10, "mrr@10": RR @ 10, "recall@10": R @ 10, "recall@100": R @ 100}
    run = {
        query: {ids[row]: float(score) for score, row in zip(s, r, strict=True) if row >= 0}
        for query, s, r in zip(queries, results.scores, results.rows, strict=True)
    }
    labels = {query: dict(qrels[query]) for query in queries}
    values = ir_measures.calc_aggregate(list(chosen.values()), labels, run)
    return {name: float(values[measure]) for name, measure in chosen.items()}


def agreement(found: Rows, exact: Rows, k: int) -> float:
    """Mean share of the exact search's first k rows that are among the first k found.

    >>> agreement(np.array([[1, 2, 3]]), np.array([[3, 2, 9]]), 2)
    0.5
    """
    shares = []
    for ours, theirs in zip(found[:, :k], exact[:, :k], strict=True):
        wanted = theirs[theirs >= 0]
        shares.append(np.isin(wanted, ours).mean() if len(wanted) else 1.0)
    return float(np.mean(shares))


def latency(seconds: Sequence[float]) -> dict[str, float]:
    """Median, 95th and 99th percentile in milliseconds."""
    return {f"p{p}_ms": float(np.percentile(seconds, p) * 1e3) for p in (50, 95, 99)}


def encode(collection: Collection, texts: Sequence[str], progress: Progress = silent) -> Matrix:
    """Vectors (n, d) of queries, with progress."""
    parts = []
    for low in range(0, len(texts), 64):
        parts.append(collection.encoder.encode(texts[low : low + 64]))
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
        deleted = set(collection.deleted.tolist())
        self._live = np.array([r for r in range(collection.state.rows) if r not in deleted])
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


def _without_self(results: Results, queries: Sequence[str], ids: Sequence[str]) -> Results:
    """Answers without the document that has the query's id, cut to the same depth for all."""
    scores, rows = results.scores.copy(), results.rows.copy()
    for i, query in enumerate(queries):
        own = np.array([row >= 0 and ids[row] == query for row in rows[i]])
        order = np.argsort(own, kind="stable")
        rows[i], scores[i] = rows[i][order], scores[i][order]
        if own.any():
            rows[i][-own.sum() :], scores[i][-own.sum() :] = -1, -np.inf
    return Results(scores[:, :-1], rows[:, :-1], results.seconds)


def _is_int(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]+", text.strip()) is not None
