"""Store process: one document store in a process of its own, built, asked and measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from slimdex.indexes.vector_file import VectorFile
from slimdex.retrieval.encoders.base import Encoder, encode_queries

from ..machine import Resident, limit_threads
from .document_stores import Answer, Documents
from .remote_object import LONGEST_STEP, Subprocess
from .stores import STORES

WARM_UP = 5
"""Queries asked before any is timed."""
SAME = 0.9
"""Share of an answer's documents that one among many callers has to get, too: rounding may differ
with the number of threads."""
Times = dict[str, list[float]]
"""What was done -> seconds of each query."""


@dataclass(frozen=True)
class Crowd:
    """What several callers at a time got.

    Attributes
    ----------
    times : seconds of each query.
    seconds : of all of them together.
    faults : answers that were not what a caller alone gets.
    """

    times: list[float]
    seconds: float
    faults: int


class StoreProcess(Subprocess):
    """A store in its process; use it in a `with`.

    Parameters
    ----------
    name : in `STORES`.
    open_encoder : makes the encoder, in the process.
    folder : where the store is, or will be built.
    queries : texts.
    """

    def __init__(
        self,
        name: str,
        open_encoder: Callable[[], Encoder],
        folder: Path,
        queries: Sequence[str],
        longest: float = LONGEST_STEP,
    ) -> None:
        super().__init__(_Bench, name, open_encoder, folder, list(queries), longest=longest)

    def build(self, ids: Sequence[str], texts: Sequence[str], vectors: VectorFile) -> float:
        """Seconds to write all documents to the folder, their vectors at hand."""
        place = (vectors.path, vectors.dim, len(vectors), vectors.dtype)
        return self.ask("build", list(ids), list(texts), place)  # type: ignore[no-any-return]

    def use(self, effort: int) -> None:
        """How hard the store, which is opened if need be, looks from now on; its own unit."""
        self.ask("use", effort)

    def answers(self, k: int, queries: int) -> list[Answer]:
        """Of the first so many queries, asked one after the other, on all threads."""
        return self.ask("answers", k, queries)  # type: ignore[no-any-return]

    def times(self, k: int, start: int, stop: int, threads: int | None) -> Times:
        """Of the queries start .. stop one at a time: total, encode, search, documents."""
        return self.ask("times", k, start, stop, threads)  # type: ignore[no-any-return]

    def crowd(self, k: int, places: Sequence[int], threads: int | None, callers: int) -> Crowd:
        """Queries asked by so many threads; `answers` has to give those of a caller alone before.

        Parameters
        ----------
        places : which queries, in their order.
        """
        return self.ask("crowd", k, places, threads, callers)  # type: ignore[no-any-return]

    def memory(self) -> tuple[Resident, Resident]:
        """Of the process, and what it grew by since before the store's library was imported."""
        return self.ask("memory")  # type: ignore[no-any-return]


class _Bench:
    """What runs in the process."""

    def __init__(
        self, name: str, open_encoder: Callable[[], Encoder], folder: Path, queries: list[str]
    ) -> None:
        self._encoder, self._folder, self._queries = open_encoder(), folder, queries
        encode_queries(self._encoder, queries[:WARM_UP])
        self._before = Resident.now()
        self._store = STORES[name].make(self._encoder)
        self._is_open, self._effort = False, 0
        self._alone = dict[int, list[Answer]]()
        self._threads: int | None = None

    def build(self, ids: list[str], texts: list[str], place: tuple[Path, int, int, str]) -> float:
        documents = Documents(ids, texts, VectorFile(*place))
        start = perf_counter()
        self._store.build(documents, self._folder)
        return perf_counter() - start

    def use(self, effort: int) -> None:
        if not self._is_open:
            self._store.open(self._folder)
            self._is_open = True
        if effort != self._effort:
            self._store.set_effort(effort)
            self._effort = effort

    def answers(self, k: int, queries: int) -> list[Answer]:
        self._limit(None)
        vectors = encode_queries(self._encoder, self._queries[:queries])
        found = [self._store.fetch(vector, k) for vector in vectors]
        self._alone[self._effort] = found
        return found

    def times(self, k: int, start: int, stop: int, threads: int | None) -> Times:
        """Each part in a pass of its own: right after one part another would find all at hand."""
        self._limit(threads)
        texts, store = self._queries[start:stop], self._store
        vectors = list(encode_queries(self._encoder, texts))
        for text in texts[:WARM_UP]:
            store.ask(text, k)
        seconds = {
            "total": _each(lambda text: store.ask(text, k), texts),
            "encode": _each(lambda text: encode_queries(self._encoder, [text]), texts),
            "search": _each(lambda vector: store.nearest(vector, k), vectors),
        }
        whole = _each(lambda vector: store.fetch(vector, k), vectors)
        both = zip(whole, seconds["search"], strict=True)
        return seconds | {"documents": [fetch - search for fetch, search in both]}

    def crowd(self, k: int, places: Sequence[int], threads: int | None, callers: int) -> Crowd:
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
        now = Resident.now()
        return now, now.since(self._before)

    def _limit(self, threads: int | None) -> None:
        if threads != self._threads:
            limit_threads(threads)
            self._threads = threads


def _each(step: Callable[[Any], object], queries: Sequence[Any]) -> list[float]:
    """Seconds that a step takes for each query."""
    seconds = []
    for query in queries:
        start = perf_counter()
        step(query)
        seconds.append(perf_counter() - start)
    return seconds


def _is_same(answer: Answer, alone: Answer) -> bool:
    return len(set(answer) & set(alone)) >= SAME * len(set(alone))
