"""`slimdex bench milvus`: a pushed index beside the local one, and Milvus' own index kinds.

The index is built with a byte a dimension (kind sq8), as IVF_SQ8 has it in Milvus, so that both
hold candidates in the same bytes; both rescore as many of them by the same vectors. Milvus' own
kinds index the encoder's vectors, unreduced, and their agreement is by the cosines of those, and
under a condition with brute force among the documents that it holds for, as in `filter_study`. A
query is timed from its vector to hits; of Milvus' own kinds, to keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psutil

from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows
from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.settings import Settings
from slimdex.retrieval.cluster.milvus_push import PushOptions, push
from slimdex.retrieval.cluster.milvus_schema import GRAPH, GRAPHS, IndexKind, described_fields
from slimdex.retrieval.cluster.milvus_search import MilvusCollection
from slimdex.retrieval.cluster.milvus_server import Server
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.documents import Hit
from slimdex.retrieval.evaluation import latency

from ..data.datasets import Dataset
from ..machine import limit_threads
from ..rows import ResultsFile, Row, key_of
from .filter_study import built, conditions_on, metric_cosines, recall
from .paired_measures import Judge, depth_for
from .retrieval_study import ANSWERS, TIMED_QUERIES, Task, exact_answers

SHARES = (0.01, 0.1, 0.5)
"""Of the documents that a condition allows, about."""
LOCAL, PUSHED, OWN = "slimdex", "slimdex in Milvus", "Milvus"
QUERIES = 1000
"""The embedded server takes 50 ms for one."""
OWN_KINDS = ("HNSW", "IVF_PQ")
NAME = "slimdex_bench"
ASKED_AT_ONCE = 100
SENT_AT_ONCE = 2000
HELD_BYTES = 8
"""Of a row's key, which Milvus holds beside each vector."""
Search = Callable[[Matrix, int], tuple[Matrix, Rows]]
"""Queries (q, d) and how many answers -> scores and rows (q, k)."""


def measure_milvus(
    task: Task,
    results: ResultsFile,
    about: Row,
    uri: str,
    settings: Settings | None = None,
    progress: Progress = silent,
) -> None:
    """Append the rows of one server, as they are measured, in place of those of an earlier run.

    Rows of servers of other versions stay.
    """
    lengths = np.array([len(text) for text in task.dataset.texts])
    with Server(uri) as server, TemporaryDirectory() as folder:
        version = server.can.version
        about = about | {"versions": about["versions"] | {"milvus": version}}
        made = built(task, lengths, settings or Settings(kind="sq8"), Path(folder), progress)
        made.close()  # a second reader of it could not open what is open for changes
        old = results.rows.values()
        results.replace([row for row in old if row["versions"].get("milvus") != version])
        with Collection.open(made.path, read_only=True) as collection:
            for row in _Study(task, collection, server, lengths).rows(progress):
                results.append(row | about)


class _Study:
    """One set by one server."""

    def __init__(self, task: Task, collection: Collection, server: Server, lengths: Rows) -> None:
        self._task, self._collection, self._server = task, collection, server
        self._lengths, self._growth = lengths, dict[str, float | None]()
        self._row_of = {id: row for row, id in enumerate(task.dataset.ids)}
        self._queries = task.queries.take(np.arange(len(task.queries)))
        self._judge = Judge(task.dataset, *exact_answers(task))
        self._cosines = metric_cosines(collection, self._queries[:TIMED_QUERIES])

    def rows(self, progress: Progress) -> Iterator[Row]:
        """A row for each way, and each of its conditions."""
        with self._alone():
            yield from self._of_collection(LOCAL, "sq8", self._collection)
            with self._pushed("IVF_SQ8", progress) as pushed:
                yield from self._of_collection(PUSHED, "IVF_SQ8", pushed)
            for kind in OWN_KINDS:
                if kind in self._server.can.kinds:
                    yield self._of_own(kind, progress)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        limit_threads(1)
        try:
            yield
        finally:
            limit_threads(None)

    @contextmanager
    def _pushed(self, kind: str, progress: Progress) -> Iterator[MilvusCollection]:
        before = server_memory(self._server.uri)
        start = perf_counter()
        push(self._collection, self._server, NAME, PushOptions(kind), progress)
        self._build_s = perf_counter() - start
        self._growth[PUSHED] = self._grown(before)
        with MilvusCollection(self._server.uri, NAME, self._collection.path) as pushed:
            yield pushed

    def _of_collection(
        self, method: str, kind: str, searched: Collection | MilvusCollection
    ) -> Iterator[Row]:
        def search(queries: Matrix, count: int, where: str | None = None) -> tuple[Matrix, Rows]:
            return self._arrays(searched.search_many(queries, count, where), count)

        k = self._collection._index.reducer.n_components
        held = k if method == LOCAL else k + HELD_BYTES
        known = {"candidates": self._collection._index.candidates}
        row = self._row(method, kind, search, held, self._cosines) | known
        if method == PUSHED:
            row["build_s"] = self._build_s
        yield row
        conditions = {c: s for s, c in conditions_on(self._lengths) if s in SHARES}
        for condition, share in conditions.items():
            yield self._filtered(method, kind, condition, share, search) | known

    def _row(self, method: str, kind: str, search: Search, held: float, cosines: Matrix) -> Row:
        """Quality, agreement by the cosines (q, rows) of its metric, time and bytes."""
        depth = depth_for(self._task.dataset)
        parts = [
            search(self._queries[p], depth) for p in batches(len(self._queries), ASKED_AT_ONCE)
        ]
        scores, found = (np.concatenate(own) for own in zip(*parts, strict=True))
        row = self._facts(method, kind) | self._judge.columns(scores, found)
        every = np.arange(len(self._task.vectors))
        row["recall@10_total"] = recall(found[: len(cosines), :ANSWERS], cosines, every)
        row |= self._times(search)
        return row | {"ram_row_bytes": held, "process_row_bytes": self._growth.get(method)}

    def _filtered(self, method: str, kind: str, condition: str, share: float, search: Any) -> Row:
        allowed = self._collection._store.documents.rows_where(
            condition, self._collection._state.rows
        )
        row = self._facts(method, kind, share=share, condition=condition)
        found = search(self._queries[: len(self._cosines)], ANSWERS, condition)[1]
        row["recall@10_total"] = recall(found, self._cosines, allowed)
        row |= {"allowed": len(allowed), "selectivity": len(allowed) / len(self._row_of)}
        return row | self._times(lambda queries, count: search(queries, count, condition))

    def _of_own(self, kind: str, progress: Progress) -> Row:
        """Milvus' own index of the encoder's vectors."""
        server, vectors, name = self._server, self._task.vectors, f"{NAME}_own"
        if server.collection_of(name) is not None:
            server.drop(name)
        index = IndexKind(kind, vectors.dim, len(vectors))
        before, start = server_memory(server.uri), perf_counter()
        server.create(
            name, described_fields(server.can, [], vectors.dim), {"vector": index.build()}
        )
        server.load(name)
        for part in batches(len(vectors), SENT_AT_ONCE):
            rows = np.arange(len(vectors))[part]
            sent = normalize_rows(vectors.take(rows))
            entities = zip(rows.tolist(), sent, strict=True)
            server.put(
                name, [{"pk": i, "digest": i, "id": str(i), "vector": v} for i, v in entities]
            )
            progress(f"Milvus' own {kind}", part.stop, len(vectors))
        server.settle(name, ["vector"])
        server.reload(name)
        build_s = perf_counter() - start
        method = f"{OWN} {kind}"
        self._growth[method] = self._grown(before)

        def search(queries: Matrix, count: int) -> tuple[Matrix, Rows]:
            params = index.search(count, filtered=False)
            asked = list(normalize_rows(queries))
            found = server.nearest(name, "vector", asked, count, filter="", params=params)
            return _padded(
                [[(hit["distance"], hit["key"]) for hit in hits] for hits in found], count
            )

        row = self._row(method, kind, search, held_bytes(index), self._plain_cosines())
        row["build_s"] = build_s
        server.drop(name)
        return row

    def _plain_cosines(self) -> Matrix:
        """Cosines (q, rows) of the encoder's vectors, by which Milvus' own kinds search."""
        queries = normalize_rows(self._queries[: len(self._cosines)])
        chunks = [queries @ normalize_rows(chunk).T for chunk in self._task.vectors.scan()]
        return np.concatenate(chunks, axis=1)

    def _arrays(self, found: Sequence[Sequence[Hit]], count: int) -> tuple[Matrix, Rows]:
        return _padded(
            [[(hit.score, self._row_of[hit.id]) for hit in hits] for hits in found], count
        )

    def _facts(self, method: str, kind: str, **condition: Any) -> Row:
        facts = self._task.facts() | {"method": method, "kind": kind} | condition
        version = self._server.can.version
        return {"key": key_of(facts | {"server": version})} | facts

    def _times(self, search: Search) -> Row:
        seconds = []
        for i in range(len(self._cosines)):
            start = perf_counter()
            search(self._queries[i : i + 1], ANSWERS)
            seconds.append(perf_counter() - start)
        return dict(latency(seconds))

    def _grown(self, before: int | None) -> float | None:
        after = server_memory(self._server.uri)
        if before is None or after is None:
            return None
        return (after - before) / len(self._row_of)


def held_bytes(index: IndexKind) -> float:
    """What a kind holds of a row in memory: its code, its neighbours, its key.

    >>> held_bytes(IndexKind("HNSW", 384, 1000)), held_bytes(IndexKind("IVF_PQ", 384, 1000))
    (1672, 56)
    """
    if index.name in GRAPHS:
        return 4 * index.dim + 2 * GRAPH["M"] * 4 + HELD_BYTES
    params = index.build()["params"]["params"]
    return int(params.get("m", index.dim)) + HELD_BYTES


def server_memory(uri: str) -> int | None:
    """Bytes that the process of a server holds, where it runs on this machine; else None."""
    address = urlsplit(uri)
    if address.port is None:
        return None
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == address.port:
            return psutil.Process(connection.pid).memory_info().rss if connection.pid else None
    return None


def _padded(found: Sequence[Sequence[tuple[float, int]]], count: int) -> tuple[Matrix, Rows]:
    scores = np.full((len(found), count), -np.inf, dtype=np.float32)
    rows = np.full((len(found), count), -1, dtype=np.int64)
    for i, own in enumerate(found):
        for j, (score, row) in enumerate(own[:count]):
            scores[i, j], rows[i, j] = score, row
    return scores, rows


def milvus_lines(rows: Sequence[Row], dataset: Dataset) -> list[str]:
    """What the rows come to, a line for each way, and the worst agreement under a condition."""
    lines = []
    for row in (row for row in rows if "condition" not in row and row["set"] == dataset.name):
        under = [
            other["recall@10_total"]
            for other in rows
            if other["method"] == row["method"]
            and other["versions"] == row["versions"]
            and "condition" in other
        ]
        filtered = f", {min(under):.3f} at least under conditions" if under else ""
        lines.append(
            f"{row['versions']['milvus']}, {row['method']} ({row['kind']}): nDCG@10 "
            f"{row['ndcg@10']:.2f}, agreement@10 {row['recall@10_total']:.3f}{filtered}, "
            f"{row['ram_row_bytes']:.0f} B a row, p50 {row['p50_ms']:.2f} ms"
        )
    return lines
