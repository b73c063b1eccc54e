"""`slimdex bench search DIR`: agreement and times of an existing index, by candidates.

Queries are documents without two words in five, like half-remembered texts. The reference is exact
search in the index's own metric. The encoder runs between two searches, as for a user: its effect
on the processor's caches is part of the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from slimdex.indexes.arrays import without
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import progress
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.base import encode_queries
from slimdex.retrieval.quality.evaluation.measures import latency
from slimdex.retrieval.trials.query_pools import ASKED, encoded
from slimdex.retrieval.trials.recall_trials import NEAREST, Pool, Trials, recalls

from ..machine import Resident, limit_threads
from ..rows import Row

QUERIES = 500
KEPT = 0.6
"""Share of a document's words that a query has."""
WARM_UP = 20
PARTS = ("search", "encode", "hits", "text")
"""Vector to rows, text to vector, vector to documents, text to documents."""


def measure_index(
    collection: Collection, numbers: Sequence[int | None], *, queries: int = QUERIES, seed: int = 0
) -> list[Row]:
    """Measure a row for each number of candidates, with the same queries.

    Parameters
    ----------
    collection : one that rescores and whose encoder can be opened.
    numbers : of candidates; None for the index's own.
    queries : number of queries made of the documents.

    Returns
    -------
    Rows with ``candidates``, ``agreement@10`` and, for each of `PARTS`, ``p50_ms_...`` to
    ``p99_ms_...``.

    Raises
    ------
    InputError
        If the index does not rescore, or has too few documents.
    """
    index, hidden = collection.reduced_index, collection.snapshot.hidden
    if index.metric is None:
        raise InputError("candidates=0: the codes' order is final; expected an index that rescores")
    texts = half_remembered(collection, queries, np.random.default_rng(seed))
    pool = Pool.asked(ASKED, encoded(collection.encoder, texts))
    with TemporaryDirectory(prefix="slimdex-bench-") as folder:
        trials = Trials(collection.snapshot, collection.commit_log.moments(), Path(folder))
        truth = trials.exact(pool, index.metric.rescorer)
        counts = [index.candidates if count is None else count for count in numbers]
        ranks = trials.ranks(index, pool, truth, max(counts))
    rows = []
    limit_threads(1)
    for count in counts:
        asked: dict[str, Callable[[int], object]] = {
            "search": lambda i, count=count: index.search(  # type: ignore[misc]
                pool.vectors[i][None], NEAREST, None, hidden, count
            ),
            "encode": lambda i: encode_queries(collection.encoder, [texts[i]]),
            "hits": lambda i, count=count: collection.search(  # type: ignore[misc]
                pool.vectors[i], NEAREST, candidates=count
            ),
            "text": lambda i, count=count: collection.search(  # type: ignore[misc]
                texts[i], NEAREST, candidates=count
            ),
        }
        row: Row = {"candidates": count, "agreement@10": float(recalls(ranks, count).mean())}
        for part, seconds in _in_turns(asked, len(texts)).items():
            row |= {f"{name}_{part}": ms for name, ms in latency(seconds).items()}
        rows.append(row)
        progress("timing", len(rows), len(counts))
    limit_threads(None)
    return rows


def measure_path(path: Path, candidates: Sequence[int | None], queries: int) -> Row:
    """Sizes and settings of an index, memory taken by opening it, and `measure_index`."""
    before = Resident.now()
    with Collection.open(path) as collection:
        rows = len(collection.reduced_index.index)
        opened = Resident.now().since(before)
        measured = measure_index(collection, candidates, queries=queries)
        facts = collection.info()
    return {
        "documents": facts["documents"],
        "rows": rows,
        "kind": facts["settings"]["kind"],
        "k": facts["settings"]["k"],
        "bytes_per_vector": facts["memory"]["ram_bytes_per_vector"],
        "opened_bytes": opened.own,
        "by_candidates": measured,
    }


def heads_and_lines(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Format the rows of `measure_index` as a table."""
    heads = ["candidates", "agreement@10", "vector to rows, p50 ms", "p99", "encoding", "p99"]
    heads += ["vector to documents", "p99", "text to documents", "p99"]
    table = []
    for row in rows:
        times = [f"{row[f'{p}_ms_{part}']:.2f}" for part in PARTS for p in ("p50", "p99")]
        table.append([f"{row['candidates']:,}", f"{row['agreement@10']:.4f}", *times])
    return heads, table


def half_remembered(collection: Collection, count: int, rng: np.random.Generator) -> list[str]:
    """Draw documents, and keep about three words in five of each, in their order."""
    live = without(collection.snapshot.live_documents(), collection.snapshot.hidden)
    if len(live) < NEAREST:
        raise InputError(f"{collection.path}: {len(live)} documents; expected {NEAREST} or more")
    rows = np.sort(rng.choice(live, min(count, len(live)), replace=False)).tolist()
    found = collection.store.documents.read(rows)
    texts = []
    for row in rows:
        words = found[row].content.split()
        kept = [word for word in words if rng.random() < KEPT]
        texts.append(" ".join(kept or words))
    return texts


def _in_turns(asked: dict[str, Callable[[int], object]], queries: int) -> dict[str, list[float]]:
    """Seconds of each part for each query, the parts in turns."""
    for call in asked.values():
        for i in range(min(WARM_UP, queries)):
            call(i)
    seconds: dict[str, list[float]] = defaultdict(list)
    for i in range(queries):
        for part, call in asked.items():
            start = perf_counter()
            call(i)
            seconds[part].append(perf_counter() - start)
    return seconds
