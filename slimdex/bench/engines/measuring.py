"""Engines of vectors and of documents in processes of their own, built, searched and timed.

Each process imports this file, which imports as little as possible: scipy alone takes 80 MB.
"""

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

from ..machine import Resident, join, limit_threads
from .engine import DOCUMENTS, Answer, Documents, Footprint, Place, Query, Seconds
from .processes import LONGEST_STEP, Subprocess
from .registry import Method, database

ENGINE_WARM_UP = 10
WARM_UP = 5
"""Queries to warm up an engine, or a store."""
SAME = 0.9
"""Share of an answer's documents that one of many callers must also get: rounding may differ with
the number of threads."""
Times = dict[str, list[float]]
"""Part of a search -> seconds of each query."""


def engine_process(
    method: Method, vectors: VectorFile, queries: VectorFile, group: Path | None = None
) -> Subprocess[MeasuredEngine]:
    """Start the process of a method's engine, on files of float32 rows.

    `group` is the folder of a `MemoryGroup` to join, which counts what the library and its index
    take, not what Python does.
    """
    return Subprocess(MeasuredEngine, method, vectors.reopen(), queries.reopen(), group)


def store_process(
    name: str,
    open_encoder: Callable[[], Encoder],
    folder: Path,
    queries: Sequence[str],
    longest: float = LONGEST_STEP,
) -> Subprocess[MeasuredStore]:
    """Start the process of a store in `LIBRARIES`, existing or to be built in the folder."""
    return Subprocess(MeasuredStore, name, open_encoder, folder, list(queries), longest=longest)


class MeasuredEngine:
    """A method's engine, in its process."""

    def __init__(
        self,
        method: Method,
        vectors: VectorFile,
        queries: VectorFile,
        group: Path | None = None,
    ) -> None:
        if group is not None:
            join(group)
        self._engine = method.make()
        self._vectors = vectors
        self._queries = queries.take(np.arange(len(queries)))
        self._folder = TemporaryDirectory(prefix="slimdex-bench-")  # removed with the process
        self._before = Resident.now(vectors.path)

    def build(self) -> Seconds:
        """Index all vectors; returns seconds by stage."""
        return self._engine.build(self._vectors, Path(self._folder.name))

    def set_effort(self, effort: int) -> None:
        """Set the effort, in the engine's own unit."""
        self._engine.set_effort(effort)

    def answer(self, k: int) -> tuple[Matrix, Rows]:
        """Answer all queries in one call, on all threads: (queries, k)."""
        limit_threads(None)
        return self._engine.search(self._queries, k)

    def throughput(self, k: int, queries: int) -> float:
        """Queries per second, searched in one call, on all threads."""
        limit_threads(None)
        chosen = self._queries[:queries]
        self._engine.search(chosen[:ENGINE_WARM_UP], k)
        start = perf_counter()
        self._engine.search(chosen, k)
        return len(chosen) / (perf_counter() - start)

    def latencies(self, k: int, start: int, stop: int) -> list[float]:
        """Seconds of each of the queries start .. stop, one at a time on one thread."""
        limit_threads(1)
        for query in self._queries[:ENGINE_WARM_UP]:
            self._engine.search(query[None], k)
        queries = self._queries[start:stop]
        return seconds_each(lambda query: self._engine.search(query[None], k), queries)

    def memory(self) -> tuple[Footprint, Resident]:
        """Sizes as the structures report them, and the growth of the process by the build."""
        now = Resident.now(self._vectors.path)
        return self._engine.footprint(), now.since(self._before)


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


class MeasuredStore:
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
        self._encoder = open_encoder()
        self._queries = queries
        self._place = Place(folder, self._encoder.dim, DOCUMENTS, self._encoder)

        # The encoder's memory is not counted as the store's; that of the store's library is.
        encode_queries(self._encoder, queries[:WARM_UP])
        self._before = Resident.now()
        self._store = database(name)
        self._is_open = False
        self._effort = 0
        self._alone = dict[int, list[Answer]]()  # effort -> answers to a single caller

    def build(self, documents: Documents) -> float:
        """Write all documents with their vectors to the folder; returns the seconds."""
        start = perf_counter()
        self._store.write(documents, self._place)
        return perf_counter() - start

    def use(self, effort: int) -> None:
        """Open the store if necessary, and set the effort, in its own unit."""
        if not self._is_open:
            self._store.open(self._place)
            self._is_open = True
        if effort != self._effort:
            self._store.set_effort(effort)
            self._effort = effort

    def answers(self, k: int, queries: int) -> list[Answer]:
        """Answer the first queries one after the other, on all threads."""
        limit_threads(None)
        texts = self._queries[:queries]
        encoded = map(Query, encode_queries(self._encoder, texts), texts)
        hits = [self._store.fetch(query, k) for query in encoded]
        self._alone[self._effort] = hits
        return hits

    def times(self, k: int, start: int, stop: int, threads: int | None) -> Times:
        """Time the queries start .. stop one at a time: total, and encode, a part of it.

        The two take turns, so that what disturbs one disturbs the other, and have different
        queries at each turn: the second would find data in the processor's caches.
        """
        limit_threads(threads)
        texts = self._queries[start:stop]
        for text in texts[:WARM_UP]:
            self._store.ask(text, k)
        # Shift the texts to encode by half, so that each turn has two different texts.
        half = len(texts) // 2
        to_encode = [*texts[half:], *texts[:half]]
        times: Times = {"total": [], "encode": []}
        for asked_text, encoded_text in zip(texts, to_encode, strict=True):
            times["total"] += seconds_each(lambda text: self._store.ask(text, k), [asked_text])
            times["encode"] += seconds_each(
                lambda text: encode_queries(self._encoder, [text]), [encoded_text]
            )
        return times

    def crowd(self, k: int, places: Sequence[int], callers: int) -> Crowd:
        """Search some queries, by their numbers, for several callers; requires `answers` first.

        All share one processor.
        """

        def ask(number: int) -> tuple[float, bool]:
            """Return the seconds of a query, and whether a single caller got the same answer."""
            begin = perf_counter()
            answer = self._store.ask(self._queries[number], k)
            elapsed = perf_counter() - begin
            return elapsed, _is_same(answer, self._alone[self._effort][number])

        limit_threads(1)
        with ThreadPoolExecutor(callers, initializer=limit_threads, initargs=(1,)) as pool:
            list(pool.map(ask, [places[0]] * callers))  # starts the threads; not timed
            begin = perf_counter()
            answers = list(pool.map(ask, places))
            seconds = perf_counter() - begin
        times = [elapsed for elapsed, _ in answers]
        faults = sum(not is_same for _, is_same in answers)
        return Crowd(times, seconds, faults)

    def codes(self) -> dict[str, int]:
        """Number of vectors and bytes of their codes in memory, if the store says so."""
        return self._store.codes()

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
    """Return whether an answer has nearly all documents of a single caller's answer."""
    return len(set(answer) & set(alone)) >= SAME * len(set(alone))
