"""ServedIndex: one collection, with batched queries and sequential changes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, pairwise
from time import monotonic, perf_counter
from typing import Any, TypeVar

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError, SlimdexError
from slimdex.indexes.execution.progress import spent

from ..collection import Collection
from ..documents import Document, Hit
from ..encoders.base import CountingEncoder, encode_queries
from ..ingest.writer import Added
from ..quality.refitting import add_settled
from ..search.request import Hits, SearchRequest, first_stage, joined, reranked
from ..store.manifest import Manifest
from ..store.snapshot import Snapshot
from ..store.where.checks import within
from .batching import Batcher
from .limits import LimitError, Limits
from .metrics import Metrics

T = TypeVar("T")
GRACE_S = 0.1
"""Seconds between telling the caller that the time is over and interrupting the work."""
READERS = 4
"""Threads for everything but searches and changes: documents, facts, commands that read."""


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
    conditions : threads for searches with a condition, of all indexes of a service.

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
        conditions: ThreadPoolExecutor,
    ) -> None:
        self.name, self.collection, self.limits = name, collection, limits
        self._conditions, self._filtered = conditions, 0
        self.senders = 0
        self._users, self._is_closing = 0, False
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-writer")
        self._reader = ThreadPoolExecutor(READERS, thread_name_prefix=f"{name}-reader")
        self._chance: float | None = None
        self._chance_state: Manifest | None = None
        self._chance_task: asyncio.Task[float | None] | None = None
        self._queries = self._batcher(self._encode_queries, "encode", metrics)
        self._texts = self._batcher(self._encode_texts, "embed", metrics)
        self._searches = self._batcher(self._search, "search", metrics)
        self._puts = self._batcher(self._put, "put", metrics)
        # One at a time: a model that reranks takes seconds, and gains nothing from a batch.
        self._rerankings = self._batcher(_reranked, "rerank", metrics, limit=1)

    def _batcher(
        self,
        run: Callable[[Sequence[Any]], Sequence[Any]],
        step: str,
        metrics: Metrics,
        limit: int | None = None,
    ) -> Batcher[Any, Any]:
        limits, seen = self.limits, metrics.batches.labels(self.name, step).observe
        return Batcher(
            run,
            limit=limit or limits.batch,
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
                found = await self._found(first_stage(request))
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
            found = await self._searches.ask(request, count)
        else:
            (found,) = await self._with_condition(partial(self._search, [request]), count)
        seconds = {"encode": encode_s, **found.seconds}
        wait_s = perf_counter() - start - sum(seconds.values())
        return Found(found.hits, {"wait": max(wait_s, 0.0)} | seconds)

    async def _with_condition(self, work: Callable[[], T], count: int = 1) -> T:
        if self._filtered and self._filtered + count > self.limits.waiting:
            raise LimitError(503, f"{self._filtered:,} searches wait; try again later")
        end = monotonic() + self.limits.seconds + GRACE_S

        def in_time() -> T:
            with within(max(end - monotonic(), GRACE_S)):
                return work()

        self._filtered += count
        try:
            return await asyncio.get_running_loop().run_in_executor(self._conditions, in_time)
        finally:
            self._filtered -= count

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
            vectors: Matrix = await self._texts.ask(texts, len(texts))
            return vectors

    async def chance_score(self, request: SearchRequest) -> float | None:
        """Return `Collection.chance_score`, computed once per state; just after a change, that of
        an earlier state.

        None for other kinds of scores, and with a condition, since it would take as long as the
        search.
        """
        if request.where is not None or not request.has_chance_score:
            return None
        state, task = self.collection.index.snapshot.manifest, self._chance_task
        if task is None or self._chance_state is not state or (task.done() and task.exception()):
            self._chance_state = state
            self._chance_task = task = asyncio.create_task(self._compute_chance())
        if self._chance is not None and not task.done():
            return self._chance
        return await asyncio.shield(task)

    async def _compute_chance(self) -> float | None:
        self._chance = await self.read(Collection.chance_score)
        return self._chance

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
        if collection.index.is_empty:
            return
        if not collection.index.can_encode:
            await self.read(lambda collection: collection.index.read(Snapshot.loaded))
        else:
            request = SearchRequest(texts=["slimdex"], limit=1)
            await self._found(request)  # without a time limit: a large model may take longer

    async def can(self, function: Callable[[Collection], object]) -> bool:
        """True if a function can read the collection."""
        with suppress(SlimdexError, OSError):
            await self.read(function)
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

    def _encode_queries(self, queries: Sequence[Sequence[str]]) -> list[tuple[Matrix, int, float]]:
        start, state = perf_counter(), self.collection.index.state
        encoder = self.collection.index.encoder_of(state)
        vectors = encode_queries(encoder, [*chain.from_iterable(queries)])
        seconds = perf_counter() - start
        return [(rows, state.epoch, seconds) for rows in _parted(vectors, queries)]

    def _encode_texts(self, texts: Sequence[Sequence[str]]) -> list[Matrix]:
        return _parted(self.collection.encoder.encode([*chain.from_iterable(texts)]), texts)

    def _put(self, documents: Sequence[Document]) -> list[Added]:
        last = {document.id: document for document in documents}  # as if added one after another
        return [add_settled(self.collection.index, [*last.values()])] * len(documents)

    def _search(self, requests: Sequence[SearchRequest]) -> list[Found]:
        """Search, combining requests that differ only in their queries."""
        alike, answers = defaultdict[object, list[SearchRequest]](list), dict[int, Found]()
        for request in requests:
            alike[request.manner].append(request)
        for group in alike.values():
            with spent() as seconds:
                hits = self.collection.answer(joined(group))
            for request, part in zip(group, _parted(hits, group), strict=True):
                answers[id(request)] = Found(part, seconds)
        return [answers[id(request)] for request in requests]


def _reranked(requests: Sequence[tuple[SearchRequest, Hits]]) -> list[Hits]:
    return [reranked(*each) for each in requests]


def _parted(rows: Any, parts: Sequence[Any]) -> list[Any]:
    """Split rows by the sizes of parts.

    >>> _parted("abcde", ["..", "..."])
    ['ab', 'cde']
    """
    ends = [*accumulate(map(len, parts), initial=0)]
    return [rows[start:end] for start, end in pairwise(ends)]
