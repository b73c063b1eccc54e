"""ServedIndex: one collection, with batched queries and sequential changes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
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
from ..operations.commands import Command, Related, Search
from ..search.request import Hits, SearchRequest, joined
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

    `seconds` are those of the whole batch by stage: wait, encode, filter, scan, rescore, fetch,
    and rerank.
    """

    hits: Sequence[Sequence[Hit]]
    seconds: Mapping[str, float]


class ServedIndex:
    """A collection, searched and changed by any number of concurrent callers.

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
        self._users, self._is_closing = 0, False
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-writer")
        self._reader = ThreadPoolExecutor(READERS, thread_name_prefix=f"{name}-reader")
        self._columns = _Fact(self, lambda collection: collection.store.columns.facts())
        self._chance = _Fact(self, Collection.chance_score)
        self._queries = self._batcher(self._encode_queries, "encode", metrics)
        self._texts = self._batcher(self._encode_texts, "embed", metrics)
        self._searches = self._batcher(self._search, "search", metrics)
        self._puts = self._batcher(self._put, "put", metrics)
        # One at a time: a model that reranks takes seconds, and gains nothing from a batch.
        self._rerankings = self._batcher(_reranked, "rerank", metrics, most=1)

    def _batcher(
        self,
        run: Callable[[Sequence[Any]], Sequence[Any]],
        step: str,
        metrics: Metrics,
        most: int | None = None,
    ) -> Batcher[Any, Any]:
        limits, seen = self.limits, metrics.batches.labels(self.name, step).observe
        return Batcher(
            run,
            most=most or limits.batch,
            waiting=limits.waiting,
            name=f"{self.name}-{step}",
            seen=seen,
        )

    @contextmanager
    def _used(self) -> Iterator[None]:
        """Keep the index open; raises a 404 if it is being closed, since it was dropped."""
        if self._is_closing:
            raise LimitError(404, f"index {self.name!r} was dropped; expected an existing one")
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    @property
    def waiting(self) -> int:
        """Queries waiting or running."""
        return self._queries.size + self._searches.size + self._filtered

    async def search(self, request: SearchRequest) -> Found:
        """Search the documents closest to each query.

        Raises `InputError` as `Collection.search` does, and `LimitError` if a limit is exceeded.
        """
        self._check_limit(request.limit)
        self._check(request.queries)
        with self._used():
            async with self._in_time():
                found = await self._found(request.first_stage)
                return found if request.rerank is None else await self._reranked(request, found)

    async def related(self, id: str, limit: int, where: str | None) -> list[Hit]:
        """Find the documents nearest to a document; raises errors as `search` does."""
        self._check_limit(limit)
        return await self.read_where(lambda found: found.related(id, limit, where), where)

    async def _reranked(self, request: SearchRequest, found: Found) -> Found:
        start = perf_counter()
        hits = await self._rerankings.ask((request, found.hits), len(request))
        return Found(hits, {**found.seconds, "rerank": perf_counter() - start})

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
            vectors, epoch, encode_s = await self._queries.ask(request.texts, count)
            request = replace(request, vectors=vectors, epoch=epoch)
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
        where = command.where if isinstance(command, Search | Related) else None
        return await self.read_where(command.run, where)

    async def read_where(self, function: Callable[[Collection], T], where: str | None) -> T:
        """Run a function that reads the collection, with a time limit if it has a condition."""
        if where is None:
            return await self.read(function)
        with self._used():
            async with self._in_time():
                return await self._with_condition(partial(function, self.collection))

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Encode texts, like documents, to vectors (n, dim).

        Raises `InputError` if the index has no encoder, and `LimitError` if a limit is exceeded.
        """
        self._check(texts)
        with self._used():
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

    async def most_tokens(self) -> int | None:
        """Most tokens that the encoder reads of a text; None without a limit, or an encoder."""
        with suppress(SlimdexError, OSError):
            return await self.read(
                lambda collection: getattr(collection.encoder, "max_length", None)
            )
        return None

    async def load(self) -> None:
        """Load the encoder and the codes, before the first query needs them."""
        collection = self.collection
        if collection.is_empty:
            return
        if collection.lacks_encoder:
            await self.read(lambda collection: collection.reduced_index)
        else:
            request = SearchRequest(texts=["slimdex"], limit=1)
            await self._found(request)  # without a time limit: a large model may take longer

    async def can_read(self) -> bool:
        """True if the catalog can be read."""
        with suppress(SlimdexError, OSError):
            await self.read(lambda collection: collection.store.state())
            return True
        return False

    async def is_whole(self) -> bool:
        """True if all files are there and as long as they have to be."""
        with suppress(SlimdexError, OSError):
            await self.read(lambda collection: collection.check_files())
            return True
        return False

    async def read(self, function: Callable[[Collection], T]) -> T:
        """Run a function that reads the collection."""
        loop = asyncio.get_running_loop()
        with self._used():
            return await loop.run_in_executor(self._reader, partial(function, self.collection))

    async def change(self, function: Callable[[Collection], T]) -> T:
        """Run a function that changes the collection, after earlier changes.

        It is completed even if the caller disconnects.
        """
        loop = asyncio.get_running_loop()
        with self._used():
            running = loop.run_in_executor(self._writer, partial(function, self.collection))
            return await asyncio.shield(running)

    async def columns(self) -> list[dict[str, Any]]:
        """Columns of the documents, with values."""
        return await self._columns.now()

    async def put(self, document: Document) -> Added:
        """Add or replace a document; concurrent calls share a commit.

        Each call returns the result for all documents of its commit.
        """
        with self._used():
            added: Added = await self._puts.ask(document)
            return added

    async def close(self) -> None:
        """Finish running work, refuse new work, and close the collection."""
        self._is_closing = True
        while self._users:
            await asyncio.sleep(0.01)
        batchers = (self._queries, self._texts, self._searches, self._puts, self._rerankings)
        for batcher in batchers:
            await batcher.close()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._writer.shutdown)
        await loop.run_in_executor(None, self._reader.shutdown)
        await loop.run_in_executor(None, self.collection.close)

    def _check_limit(self, limit: int) -> None:
        if limit > self.limits.hits:
            raise LimitError(413, f"limit={limit:,}; expected {self.limits.hits:,} or less")

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

    def _encode_queries(self, asked: Sequence[Sequence[str]]) -> list[tuple[Matrix, int, float]]:
        start, core = perf_counter(), self.collection
        texts = [text for own in asked for text in own]
        state = core.state
        vectors = encode_queries(core.encoder_of(state), texts)
        seconds = perf_counter() - start
        return [(own, state.epoch, seconds) for own in _parted(vectors, asked)]

    def _encode_texts(self, asked: Sequence[Sequence[str]]) -> list[Matrix]:
        texts = [text for own in asked for text in own]
        return _parted(self.collection.encoder.encode(texts), asked)

    def _put(self, documents: Sequence[Document]) -> list[Added]:
        last = {document.id: document for document in documents}  # as if added one after another
        return [add_given(self.collection, [*last.values()])] * len(documents)

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
        self._version: int | None = None
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
        present, task = self._index.collection.version, self._task
        if task is None or self._version != present or (task.done() and task.exception()):
            self._version, self._task = present, (task := asyncio.create_task(self._worked_out()))
        return task

    async def _worked_out(self) -> T:
        self._known = [await self._index.read(self._work)]
        return self._known[0]


def _reranked(asked: Sequence[tuple[SearchRequest, Hits]]) -> list[Hits]:
    return [request.reranked(hits) for request, hits in asked]


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
