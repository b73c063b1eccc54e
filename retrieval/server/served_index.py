"""ServedIndex: one collection, with batched queries and sequential changes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Generic, TypeVar

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError, SlimdexError
from slimdex.indexes.execution.timing import spent

from ..adding import add_given
from ..collection import Collection
from ..documents import Document, Hit
from ..encoders.base import CountingEncoder, encode_queries
from ..ingest.writer import Added
from ..operations.commands import Command, Search
from ..search.request import SearchRequest, joined
from .batching import Batcher
from .conditional import Conditional
from .limits import LimitError, Limits
from .metrics import Metrics

T = TypeVar("T")
READERS = 4
"""Threads for everything but searches and changes: documents, facts, commands that read."""
_Hits = tuple[Sequence[Sequence[Hit]], Mapping[str, float]]
"""Hits of each query, and the seconds of their batch by stage."""


@dataclass(frozen=True)
class Found:
    """Hits of each query, and times.

    `seconds` are those of the whole batch by stage: wait, encode, filter, scan, rescore, fetch.
    """

    hits: Sequence[Sequence[Hit]]
    seconds: Mapping[str, float]


class ServedIndex:
    """A collection open for changes, searched by any number of concurrent callers.

    Texts are encoded in batches and vectors searched in batches, each in a thread of its own, so
    that a batch is encoded while the one before is searched. Searches with a condition may take
    long: they run in other threads, with a time limit.

    Parameters
    ----------
    conditional : runs searches with conditions, for all indexes of a service.

    Attributes
    ----------
    senders : number of running bulk uploads.
    """

    def __init__(
        self,
        name: str,
        collection: Collection,
        limits: Limits,
        metrics: Metrics,
        conditional: Conditional,
    ) -> None:
        self.name, self.collection, self.limits = name, collection, limits
        self._conditional, self._filtered = conditional, 0
        self.senders = 0
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-writer")
        self._reader = ThreadPoolExecutor(READERS, thread_name_prefix=f"{name}-reader")
        self._columns = _Fact(self, lambda collection: collection.core.store.columns.facts())
        self._chance = _Fact(self, Collection.chance_score)
        self._queries = self._batcher(self._encode_queries, "encode", metrics)
        self._texts = self._batcher(self._encode_texts, "embed", metrics)
        self._searches = self._batcher(self._search, "search", metrics)
        self._puts = self._batcher(self._put, "put", metrics)

    def _batcher(
        self, run: Callable[[Sequence[Any]], Sequence[Any]], step: str, metrics: Metrics
    ) -> Batcher[Any, Any]:
        limits, seen = self.limits, metrics.batches.labels(self.name, step).observe
        return Batcher(
            run, most=limits.batch, waiting=limits.waiting, name=f"{self.name}-{step}", seen=seen
        )

    @property
    def waiting(self) -> int:
        """Queries waiting or running."""
        return self._queries.size + self._searches.size + self._filtered

    async def search(self, request: SearchRequest) -> Found:
        """Search the documents closest to each query.

        Raises `InputError` as `Collection.search` does, and `LimitError` if a limit is exceeded.
        """
        limits = self.limits
        if request.limit > limits.hits:
            raise LimitError(413, f"limit={request.limit:,}; expected {limits.hits:,} or less")
        self._check(request.queries)
        async with self._in_time():
            return await self._found(request)

    @asynccontextmanager
    async def _in_time(self) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(self.limits.seconds):
                yield
        except TimeoutError:
            raise LimitError(
                504, f"no answer after {self.limits.seconds:g} s; expected one by then"
            ) from None

    async def _found(self, request: SearchRequest) -> Found:
        start, encode_s, count = perf_counter(), 0.0, len(request)
        if request.texts is not None:
            vectors, encode_s = await self._queries.ask(request.texts, count)
            request = replace(request, vectors=vectors)
        if request.where is None:
            hits, seconds = await self._searches.ask(request, count)
        else:
            search = partial(self._search, [request])
            ((hits, seconds),) = await self._with_condition(search, count)
        seconds = {"encode": encode_s} | seconds
        wait_s = perf_counter() - start - sum(seconds.values())
        return Found(hits, {"wait": max(wait_s, 0.0)} | seconds)

    async def _with_condition(self, work: Callable[[], T], count: int = 1) -> T:
        if self._filtered and self._filtered + count > self.limits.waiting:
            raise LimitError(503, f"{self._filtered:,} searches wait; try again later")
        self._filtered += count
        try:
            return await self._conditional.run(work, self.limits.seconds)
        finally:
            self._filtered -= count

    async def do(self, command: Command) -> dict[str, Any]:
        """Run a command that only reads; one with a condition has a time limit."""
        if not isinstance(command, Search) or command.request.where is None:
            return await self.read(command.run)
        async with self._in_time():
            return await self._with_condition(partial(command.run, self.collection))

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Encode texts, like documents, to vectors (n, dim).

        Raises `InputError` if the index has no encoder, and `LimitError` if a limit is exceeded.
        """
        self._check(texts)
        found: Matrix = await self._texts.ask(texts, len(texts))
        return found

    async def chance_score(self, request: SearchRequest) -> float | None:
        """Return `Collection.chance_score`, which may be outdated just after a change.

        None for other kinds of scores, and with a condition, since it would take as long as the
        search.
        """
        has_some = request.where is None and request.has_chance_score
        return await self._chance.about_now() if has_some else None

    async def tokens(self, texts: Sequence[str]) -> int:
        """Number of tokens of texts; 0 if the encoder can't count them."""

        def count(collection: Collection) -> int:
            encoder = collection.encoder
            return sum(encoder.token_counts(texts)) if isinstance(encoder, CountingEncoder) else 0

        return await self.read(count)

    async def load(self) -> None:
        """Load the encoder and the codes, before the first query needs them."""
        collection = self.collection
        if collection.core.is_empty:
            return
        if collection.core.has_encoder:
            request = SearchRequest(["slimdex"], limit=1)
            await self._found(request)  # without a time limit: a large model may take longer
        else:
            await self.read(lambda collection: collection.core.reduced_index)

    async def can_read(self) -> bool:
        """True if the catalog can be read; reopens it after a failure if possible."""
        store = self.collection.core.store
        if not store.database.is_usable:
            with suppress(SlimdexError, OSError):
                await self.read(lambda _: store.database.ensure_open())
        return store.database.is_usable

    async def read(self, function: Callable[[Collection], T]) -> T:
        """Run a function that reads the collection."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reader, partial(function, self.collection))

    async def change(self, function: Callable[[Collection], T]) -> T:
        """Run a function that changes the collection, after earlier changes.

        It is completed even if the caller disconnects.
        """
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._writer, partial(function, self.collection))
        return await asyncio.shield(running)

    async def columns(self) -> list[dict[str, Any]]:
        """Columns of the documents, with values."""
        return await self._columns.now()

    async def put(self, document: Document) -> Added:
        """Add or replace a document; concurrent calls share a commit.

        Each call returns the result for all documents of its commit.
        """
        added: Added = await self._puts.ask(document)
        return added

    async def close(self) -> None:
        """Finish running work and close the collection."""
        for batcher in (self._queries, self._texts, self._searches, self._puts):
            await batcher.close()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._writer.shutdown)
        await loop.run_in_executor(None, self._reader.shutdown)
        await loop.run_in_executor(None, self.collection.close)

    def _check(self, queries: Sequence[str] | Matrix) -> None:
        limits = self.limits
        if not len(queries):
            raise InputError("no queries; expected one or more")
        if len(queries) > limits.queries:
            raise LimitError(413, f"{len(queries):,} texts; expected {limits.queries:,} or fewer")
        if isinstance(queries, np.ndarray):
            return
        if any(not text.strip() for text in queries):
            raise InputError("a blank text; expected words")
        if (longest := max(map(len, queries))) > limits.text:
            raise LimitError(
                413, f"a text of {longest:,} characters; expected {limits.text:,} or fewer"
            )

    def _encode_queries(self, asked: Sequence[Sequence[str]]) -> list[tuple[Matrix, float]]:
        start = perf_counter()
        texts = [text for own in asked for text in own]
        vectors = encode_queries(self.collection.encoder, texts)
        seconds = perf_counter() - start
        return [(own, seconds) for own in _parted(vectors, asked)]

    def _encode_texts(self, asked: Sequence[Sequence[str]]) -> list[Matrix]:
        texts = [text for own in asked for text in own]
        return _parted(self.collection.encoder.encode(texts), asked)

    def _put(self, documents: Sequence[Document]) -> list[Added]:
        last = {document.id: document for document in documents}  # as if added one after another
        return [add_given(self.collection.core, [*last.values()])] * len(documents)

    def _search(self, asked: Sequence[SearchRequest]) -> list[_Hits]:
        """Search, combining requests that differ only in their queries."""
        alike, answers = defaultdict[object, list[SearchRequest]](list), dict[int, _Hits]()
        for request in asked:
            alike[request.manner].append(request)
        for requests in alike.values():
            with spent() as seconds:
                found = self.collection.answer(joined(requests))
            for request, own in zip(requests, _parted(found, requests), strict=True):
                answers[id(request)] = own, seconds
        return [answers[id(request)] for request in asked]


class _Fact(Generic[T]):
    """A fact about an index, computed once per state and shared by all callers."""

    def __init__(self, index: ServedIndex, work: Callable[[Collection], T]) -> None:
        self._index, self._work = index, work
        self._state: tuple[int, int] | None = None
        self._task: asyncio.Task[T] | None = None
        self._known = list[T]()

    async def now(self) -> T:
        """Return the fact for the current state."""
        return await asyncio.shield(self._begun())

    async def about_now(self) -> T:
        """Return the fact for the current state; until it is computed, an earlier one if known."""
        task = self._begun()
        if self._known and not task.done():
            return self._known[0]
        return await asyncio.shield(task)

    def _begun(self) -> asyncio.Task[T]:
        state = self._index.collection.core.snapshot.state
        present, task = (state.generation, state.rows), self._task
        if task is None or self._state != present or (task.done() and task.exception()):
            self._state, self._task = present, (task := asyncio.create_task(self._worked_out()))
        return task

    async def _worked_out(self) -> T:
        self._known = [await self._index.read(self._work)]
        return self._known[0]


def _parted(rows: Any, parts: Sequence[Any]) -> list[Any]:
    """Split rows by the sizes of parts.

    >>> _parted("abcde", ["..", "..."])
    ['ab', 'cde']
    """
    found, start = [], 0
    for part in parts:
        found.append(rows[start : start + len(part)])
        start += len(part)
    return found
