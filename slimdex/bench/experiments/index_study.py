"""`slimdex bench index`: agreement and times of an index of yours.

For each number of candidates; for each condition; and with a cold disk. Unless queries are given,
they are documents without two words in five, like half-remembered texts. The reference is exact
search in the index's own metric. The encoder runs before each search, as for a user: its effect on
the processor's caches is part of the time.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import psutil

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows, without
from slimdex.indexes.ranking import agreement
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.base import Encoder, encode_queries
from slimdex.retrieval.quality.evaluation import latency
from slimdex.retrieval.quality.query_pools import FROM_USER, encode_with_progress
from slimdex.retrieval.quality.recall_trials import NEAREST, Pool, exact_nearest_of
from slimdex.system.progress import progress

from ..machine import limit_threads
from ..paired_measures import AGREEMENT
from ..rows import ResultsFile, Row, key_of

QUERIES = 500
REMEMBERED = 0.6
"""Share of a document's words that a query has."""
WARM_UP = 20
FEWER = 100
"""Queries under a condition, whose exact answers take long, and with a cold disk: more of them
would find pages that earlier ones have read."""
ALL = "all documents"
COLD = "cold disk"
CONDITION = "condition"
"""Ways of asking."""
HITS = "hits"
TEXT = "text"
TEXT_ALL = "text_all"
"""Vector to documents, text to documents; the last on all threads, as a user gets it."""
Calls = Mapping[str, tuple[Callable[[Any], object], Sequence[Any] | Matrix]]
"""Part -> a call, and a query for each time."""


def measure_index(
    path: Path,
    results: ResultsFile,
    about: Row,
    *,
    candidates: Sequence[int | None],
    conditions: Sequence[str],
    texts: Sequence[str] | None,
) -> None:
    """Write a row for each number of candidates, one for each condition, one with a cold disk.

    They replace those of the index's last measurement, since it may have changed.

    Parameters
    ----------
    candidates : numbers of rows to rescore; None is the index's own.
    conditions : on the documents' columns.
    texts : queries; None makes `QUERIES` of the documents.

    Raises
    ------
    InputError
        If the index does not rescore or has too few documents, or a condition is invalid or allows
        no document.
    """
    total = len(candidates) + len(conditions)
    if hasattr(os, "posix_fadvise"):
        total += 1  # the row with a cold disk
    rows = list[Row]()
    for row in _rows(path, candidates, conditions, texts):
        rows.append(row | about)
        results.replace(rows)
        progress("measuring", len(rows), total)


def _rows(
    path: Path,
    candidates: Sequence[int | None],
    conditions: Sequence[str],
    texts: Sequence[str] | None,
) -> Iterator[Row]:
    """Yield the rows of an index; see `measure_index`."""
    with Collection.open(path) as collection:
        # Check all input before measuring.
        index = collection.index.snapshot.index
        info = collection.info()
        if index.metric is None:
            raise InputError("candidates=0: the codes' order is final; expected one that rescores")
        allowed = {text: allowed_rows(collection, text) for text in conditions}
        if texts is None:
            texts = half_remembered(collection, QUERIES, np.random.default_rng(0))

        # Measure the open index.
        facts: Row = {
            "set": path.absolute().name,
            "model": Path(str(collection.index.state.encoder.get("model"))).name,
            "documents": info["documents"],
            "rows": len(index.index),
            "dim": collection.index.state.dim,
            "kind": info["settings"]["kind"],
            "k": info["settings"]["k"],
            "ram_row_bytes": info["memory"]["ram_bytes_per_vector"],
        }
        for row in by_candidates(collection, candidates, texts):
            yield _row(facts, {"way": ALL, "candidates": row["candidates"]}, row)
        for condition, rows in allowed.items():
            row = under_condition(collection, condition, rows, texts[:FEWER])
            yield _row(facts, {"way": CONDITION, "condition": condition}, row)
        encoder = collection.encoder
        usual = index.candidates
    if hasattr(os, "posix_fadvise"):
        del collection, index  # with their maps, whose pages can't be dropped
        gc.collect()
        cold = cold_disk(path, encoder, texts[:FEWER])
        yield _row(facts, {"way": COLD, "candidates": usual}, cold)


def _row(facts: Row, way: Row, measured: Row) -> Row:
    """Join the columns of a row; `facts` and `way` identify it."""
    return {"key": key_of(facts | way)} | facts | way | measured


def by_candidates(
    collection: Collection, numbers: Sequence[int | None], texts: Sequence[str]
) -> Iterator[Row]:
    """Measure a row for each number of candidates, None for the index's own.

    Rows have ``candidates``, ``agreement@10`` and, for each part, ``p50_ms_...`` to
    ``p99_ms_...``.
    """
    snapshot = collection.index.snapshot
    index = snapshot.index
    vectors = encode_with_progress(collection.encoder, texts)
    hidden = snapshot.hidden  # rows that no search finds
    exact = exact_nearest_of(index, Pool.of_queries(FROM_USER, vectors), snapshot.searchable_rows())
    for count in [index.candidates if number is None else number for number in numbers]:
        _, nearest_rows = index.search(vectors, NEAREST, None, hidden, count)

        # Time searches on one thread, and searches by text also on all.
        search = partial(collection.search, limit=NEAREST, candidates=count)
        calls: Calls = {HITS: (search, vectors), TEXT: (search, texts)}
        known = {
            "candidates": count,
            AGREEMENT: float(agreement(nearest_rows, exact, NEAREST).mean()),
        }
        on_all = _times({TEXT_ALL: calls[TEXT]}, collection.encoder, texts, threads=None)
        yield known | on_all | _times(calls, collection.encoder, texts)


def under_condition(
    collection: Collection, condition: str, allowed: Rows, texts: Sequence[str]
) -> Row:
    """Measure searches by meaning among the rows that a condition allows."""
    index = collection.index.snapshot.index
    vectors = encode_with_progress(collection.encoder, texts)
    exact = exact_nearest_of(index, Pool.of_queries(FROM_USER, vectors), allowed)
    _, nearest_rows = index.search(vectors, NEAREST, allowed)
    search = partial(collection.search, limit=NEAREST, where=condition)
    return {
        "allowed_share": len(allowed) / collection.index.snapshot.searchable_count,
        AGREEMENT: float(agreement(nearest_rows, exact, NEAREST).mean()),
    } | _times({HITS: (search, vectors)}, collection.encoder, texts)


def allowed_rows(collection: Collection, condition: str) -> Rows:
    """Rows (n,) that a search with a condition can find.

    Raises `InputError` if it is invalid, or allows none.
    """
    snapshot = collection.index.snapshot
    documents = snapshot.document_rows.all_rows(snapshot.documents_where(condition))
    rows = without(documents, snapshot.hidden)
    if not len(rows):
        raise InputError(f"--where {condition!r} allows no document; expected some")
    return rows


def cold_disk(path: Path, encoder: Encoder, texts: Sequence[str]) -> Row:
    """Measure searches by meaning that read vectors and documents from disk.

    The system drops all pages of the index's files that no process has mapped, and the index is
    opened again. Each query is asked once.
    """
    vectors = encode_with_progress(encoder, texts)
    for file in path.rglob("*"):
        if file.is_file():
            _drop_pages(file)
    with Collection.open(path, encoder) as collection:
        search = partial(collection.search, limit=NEAREST)
        before = _bytes_read()
        row = _times({HITS: (search, vectors)}, encoder, texts, warm_up=0)
        return row | {"read_query_bytes": (_bytes_read() - before) / len(texts)}


def _drop_pages(file: Path) -> None:
    """Have the system drop a file's pages from memory, but for those that a process has mapped."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # unwritten pages would stay
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _bytes_read() -> int:
    """Bytes that this process has read from disk, also through maps."""
    return int(psutil.Process().io_counters().read_bytes)


def half_remembered(collection: Collection, count: int, rng: np.random.Generator) -> list[str]:
    """Draw documents, and keep about three words in five of each, in their order."""
    snapshot = collection.index.snapshot
    live = without(snapshot.live_documents(), snapshot.hidden)
    if len(live) < NEAREST:
        raise InputError(f"{collection.path}: {len(live)} documents; expected {NEAREST} or more")
    rows = np.sort(rng.choice(live, min(count, len(live)), replace=False)).tolist()
    documents = snapshot.store.documents(rows)
    texts = []
    for row in rows:
        words = documents[row].content.split()
        remembered = [word for word in words if rng.random() < REMEMBERED]
        texts.append(" ".join(remembered or words))
    return texts


def _times(
    calls: Calls,
    encoder: Encoder,
    texts: Sequence[str],
    *,
    warm_up: int = WARM_UP,
    threads: int | None = 1,
) -> Row:
    """Measure the milliseconds of each part, one part after the other.

    The encoder runs before each call, but is not timed: see the top of this file. `threads` limits
    this process meanwhile; None is all.
    """
    row: Row = {}
    limit_threads(threads)
    try:
        for part, (call, queries) in calls.items():
            for query in queries[:warm_up]:
                call(query)
            seconds = []
            for text, query in zip(texts, queries, strict=True):
                encode_queries(encoder, [text])
                start = perf_counter()
                call(query)
                seconds.append(perf_counter() - start)
            row |= {f"{name}_{part}": ms for name, ms in latency(seconds).items()}
    finally:
        limit_threads(None)
    return row
