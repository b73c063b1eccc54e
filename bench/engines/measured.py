"""Engines and document stores in processes of their own, built, searched and timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.encoders.base import Encoder, encode_queries

from ..machine import Resident, limit_threads
from .document_stores import Answer, Documents
from .engine import Footprint, Seconds
from .engine_specs import Method
from .remote_object import LONGEST_STEP, Subprocess
from .stores import STORES

ENGINE_WARM_UP, WARM_UP = 10, 5
"""Queries to warm up an engine, or a store."""
SAME = 0.9
"""Share of an answer's documents that one of many callers must also get: rounding may differ with
the number of threads."""
Times = dict[str, list[float]]
"""Part of a search -> seconds of each query."""


def engine_process(
    method: Method, vectors: VectorFile, queries: VectorFile
) -> Subprocess[MeasuredEngine]:
    """Start the process of a method's engine, on files of float32 rows."""
    return Subprocess(MeasuredEngine, method, vectors.reopened(), queries.reopened())


def store_process(
    name: str,
    open_encoder: Callable[[], Encoder],
    folder: Path,
    queries: Sequence[str],
    longest: float = LONGEST_STEP,
) -> Subprocess[MeasuredStore]:
    """Start the process of a store in `STORES`, existing or to be built in the folder."""
    return Subprocess(MeasuredStore, name, open_encoder, folder, list(queries), longest=longest)


class _Measured:
    """Base class that limits the process's threads."""

    _threads: int | None = None

    def _limit(self, threads: int | None) -> None:
        if threads != self._threads:
            limit_threads(threads)
            self._threads = threads


class MeasuredEngine(_Measured):
    """A method's engine, in its process."""

    def __init__(self, method: Method, vectors: VectorFile, queries: VectorFile) -> None:
        self._engine = method.make()
        self._vectors, self._queries = vectors, queries.take(np.arange(len(queries)))
        self._folder = TemporaryDirectory(prefix="slimdex-bench-")  # removed with the process
        self._before = Resident.now()

    def build(self) -> Seconds:
        """Index all vectors; returns seconds by stage."""
        return self._engine.build(self._vectors, Path(self._folder.name))

    def set_effort(self, effort: int) -> None:
        """Set the effort, in the engine's own unit."""
        self._engine.set_effort(effort)

    def answer(self, k: int) -> tuple[Matrix, Rows]:
        """Answer all queries in one call, on all threads: (queries, k)."""
        self._limit(None)
        return self._engine.search(self._queries, k)

    def throughput(self, k: int, queries: int) -> float:
        """Queries per second, searched in one call, on all threads."""
        self._limit(None)
        chosen = self._queries[:queries]
        self._engine.search(chosen[:ENGINE_WARM_UP], k)
        start = perf_counter()
        self._engine.search(chosen, k)
        return len(chosen) / (perf_counter() - start)

    def latencies(self, k: int, start: int, stop: int, threads: int | None) -> list[float]:
        """Seconds of each of the queries start .. stop, one at a time."""
        self._limit(threads)
        for query in self._queries[:ENGINE_WARM_UP]:
            self._engine.search(query[None], k)
        queries = self._queries[start:stop]
        return seconds_each(lambda query: self._engine.search(query[None], k), queries)

    def memory(self) -> tuple[Footprint, Resident]:
        """Sizes as the structures report them, and the growth of the process by the build."""
        return self._engine.footprint(), Resident.now().since(self._before)


@dataclass(frozen=True)
class Crowd:
    """Answers to several callers at a time.

    Attributes
    ----------
    times : seconds of each query.
    seconds : of all of them together.
    faults : answers that differ from those to a single caller.
    """

    times: list[float]
    seconds: float
    faults: int


class MeasuredStore(_Measured):
    """A store, in its process.

    Parameters
    ----------
    open_encoder : makes the encoder.
    folder : of the store, existing or to be built.
    queries : texts.
    """

    def __init__(
        self, name: str, open_encoder: Callable[[], Encoder], folder: Path, queries: list[str]
    ) -> None:
        self._encoder, self._folder, self._queries = open_encoder(), folder, queries
        encode_queries(self._encoder, queries[:WARM_UP])
        self._before = Resident.now()
        self._store = STORES[name].make(self._encoder)
        self._is_open, self._effort = False, 0
        self._alone = dict[int, list[Answer]]()

    def build(self, documents: Documents) -> float:
        """Write all documents with their vectors to the folder; returns the seconds."""
        start = perf_counter()
        self._store.build(documents, self._folder)
        return perf_counter() - start

    def use(self, effort: int) -> None:
        """Open the store if necessary, and set the effort, in its own unit."""
        if not self._is_open:
            self._store.open(self._folder)
            self._is_open = True
        if effort != self._effort:
            self._store.set_effort(effort)
            self._effort = effort

    def answers(self, k: int, queries: int) -> list[Answer]:
        """Answer the first queries one after the other, on all threads."""
        self._limit(None)
        vectors = encode_queries(self._encoder, self._queries[:queries])
        found = [self._store.fetch(vector, k) for vector in vectors]
        self._alone[self._effort] = found
        return found

    def times(self, k: int, start: int, stop: int, threads: int | None) -> Times:
        """Time the queries start .. stop one at a time: total, encode, search, documents.

        Each part is timed in a separate pass, since a part before it would fill the caches.
        """
        self._limit(threads)
        texts, store = self._queries[start:stop], self._store
        vectors = list(encode_queries(self._encoder, texts))
        for text in texts[:WARM_UP]:
            store.ask(text, k)
        seconds = {
            "total": seconds_each(lambda text: store.ask(text, k), texts),
            "encode": seconds_each(lambda text: encode_queries(self._encoder, [text]), texts),
            "search": seconds_each(lambda vector: store.nearest(vector, k), vectors),
        }
        whole = seconds_each(lambda vector: store.fetch(vector, k), vectors)
        both = zip(whole, seconds["search"], strict=True)
        return seconds | {"documents": [fetch - search for fetch, search in both]}

    def crowd(self, k: int, places: Sequence[int], threads: int | None, callers: int) -> Crowd:
        """Search some queries, by their numbers, from several threads; requires `answers` first."""

        def ask(place: int) -> tuple[float, bool]:
            begin = perf_counter()
            answer = self._store.ask(self._queries[place], k)
            return perf_counter() - begin, _is_same(answer, self._alone[self._effort][place])

        self._limit(threads)
        with ThreadPoolExecutor(callers, initializer=limit_threads, initargs=(threads,)) as pool:
            list(pool.map(ask, [places[0]] * callers))
            begin = perf_counter()
            asked = list(pool.map(ask, places))
            seconds = perf_counter() - begin
        return Crowd([took for took, _ in asked], seconds, sum(not same for _, same in asked))

    def memory(self) -> tuple[Resident, Resident]:
        """Memory of the process, and its growth since before the store's library was imported."""
        now = Resident.now()
        return now, now.since(self._before)


def seconds_each(step: Callable[[Any], object], queries: Iterable[Any]) -> list[float]:
    """Seconds of a step for each query."""
    seconds = []
    for query in queries:
        start = perf_counter()
        step(query)
        seconds.append(perf_counter() - start)
    return seconds


def _is_same(answer: Answer, alone: Answer) -> bool:
    return len(set(answer) & set(alone)) >= SAME * len(set(alone))
