"""ServedIndex: one index, with batched queries and sequential changes."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, pairwise
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from slimdex.errors import InputError, InUseError, SlimdexError
from slimdex.indexes.arrays import Matrix, batches
from slimdex.system.atomic_files import size
from slimdex.system.progress import spent

from ..documents import Document
from ..encoders.base import encode_queries
from ..index import Index
from ..ingest.addition_report import AdditionReport
from ..ingest.encode import encode_waiting
from ..quality.refitting import add_documents_then_refit
from ..search.answer import uses_table
from ..search.request import Hits, SearchRequest, answer, first_stage, join_requests, rerank
from ..store.snapshot import Snapshot
from ..store.where.validation import within
from .batching import Batcher
from .limits import LimitError, Limits
from .metrics import Metrics

T = TypeVar("T")
LOG = logging.getLogger("slimdex.server")
ENCODING_SECONDS = 5.0
"""Longest time until the server looks whether it has to end while it encodes what waits."""
READERS = 4
"""Threads for everything but searches and changes: documents, facts, commands that read."""


@dataclass(frozen=True)
class SearchAnswer:
    """Hits of each query, and times.

    `seconds` are those of the whole batch by stage: wait, encode, filter, scan, rescore, fetch,
    and rerank.
    """

    hits: Hits
    seconds: Mapping[str, float]


class ServedIndex:
    """An index, searched and changed by any number of concurrent callers.

    Texts are encoded in batches and vectors searched in batches, each in a thread of its own, so
    that a batch is encoded while the one before is searched. Searches with a condition may take
    long: they run in the threads `conditions`, which all indexes share, with a time limit.
    """

    def __init__(
        self,
        name: str,
        index: Index,
        limits: Limits,
        metrics: Metrics,
        conditions: ThreadPoolExecutor,
    ) -> None:
        self.name = name
        self.index = index
        self.limits = limits
        self._conditions = conditions
        self._filtered = 0  # queries with a condition, waiting or running
        # A label makes the counter, at 0; gauges are evaluated when they are read.
        self._changes = metrics.changes.labels(name)
        metrics.documents.labels(name).set_function(lambda: len(index.snapshot))
        metrics.waiting.labels(name).set_function(lambda: self.waiting)
        metrics.bytes.labels(name).set_function(lambda: size(index.path))
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-writer")
        self._reader = ThreadPoolExecutor(READERS, thread_name_prefix=f"{name}-reader")
        self._encoder = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-encoder")
        self._is_closing = False

        def batcher(run: Callable[[Sequence[Any]], Sequence[Any]], step: str) -> Batcher[Any, Any]:
            return Batcher(run, limits, metrics.batches.labels(name, step).observe)

        self._queries = batcher(self._encode_queries, "encode")
        self._texts = batcher(self._encode_texts, "embed")
        self._searches = batcher(self._search, "search")
        self._puts = batcher(self._put, "put")
        # One at a time: a model that reranks takes seconds, and gains nothing from a batch.
        self._reranker = ThreadPoolExecutor(1)

    @property
    def waiting(self) -> int:
        """Queries waiting or running."""
        return self._queries.size + self._searches.size + self._filtered

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """Search the documents closest to each query.

        Raises `InputError` as `Collection.search` does, and `LimitError` if a limit is exceeded.
        """
        self._check(request.queries, self.limits.queries)
        async with self._in_time():
            first = await self._search_first_stage(first_stage(request))
            if request.rerank is None:
                return first
            start = perf_counter()
            loop = asyncio.get_running_loop()
            hits = await loop.run_in_executor(self._reranker, rerank, request, first.hits)
            return SearchAnswer(hits, {**first.seconds, "rerank": perf_counter() - start})

    @asynccontextmanager
    async def _in_time(self) -> AsyncGenerator[None]:
        """Limit the time of a search; raises a 504 if it takes longer."""
        try:
            async with asyncio.timeout(self.limits.seconds):
                yield
        except TimeoutError:
            raise LimitError(
                504, f"no answer after {self.limits.seconds:g} s; expected one by then"
            ) from None

    async def _search_first_stage(self, request: SearchRequest) -> SearchAnswer:
        """Encode the queries, then search: in a batch, or alone with a condition."""
        start = perf_counter()
        encode_s = 0.0
        count = len(request)
        if request.texts is not None and not uses_table(self.index.state, request):
            vectors, epoch, encode_s = await self._queries.ask(request.texts, count)
            request = replace(request, vectors=vectors, epoch=epoch)
        if request.condition is None:
            reply = await self._searches.ask(request, count)
        else:
            (reply,) = await self._with_condition(partial(self._search, [request]), count)

        # The rest of the time was spent waiting.
        seconds = {"encode": encode_s, **reply.seconds}
        wait_s = perf_counter() - start - sum(seconds.values())
        return SearchAnswer(reply.hits, {"wait": max(wait_s, 0.0)} | seconds)

    async def _with_condition(self, work: Callable[[], T], count: int = 1) -> T:
        """Run work in the threads for conditions; interrupt it if it takes too long.

        `count` is its number of queries. Raises `LimitError` (503) if too many would be waiting;
        if none are, any number is accepted.
        """
        if self._filtered and self._filtered + count > self.limits.waiting:
            raise LimitError(503, f"{self._filtered:,} searches wait; try again later")

        def in_time() -> T:
            with within(self.limits.seconds):
                return work()

        self._filtered += count
        try:
            return await asyncio.get_running_loop().run_in_executor(self._conditions, in_time)
        finally:
            self._filtered -= count

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Encode texts, like documents, to vectors (n, dim).

        Raises `InputError` if the index has no encoder, and `LimitError` if a limit is exceeded.
        """
        self._check(texts, self.limits.texts)
        vectors = list[Matrix]()
        for batch in batches(len(texts), self.limits.batch):
            part = texts[batch]
            vectors.append(await self._texts.ask(part, len(part)))
        return np.concatenate(vectors)

    async def most_tokens(self) -> int | None:
        """Most tokens that the encoder reads of a text; None without a limit, or an encoder."""
        with suppress(SlimdexError, OSError):
            return await self.read(lambda index: getattr(index.encoder, "max_length", None))
        return None

    async def load(self) -> None:
        """Load the encoder and the codes, before the first query needs them."""
        if not self.index.state.rows:
            return
        if self.index.can_encode:  # without a time limit: a large model may take longer
            await self._search_first_stage(SearchRequest(texts=["slimdex"], limit=1))
        else:
            await self.read(lambda index: index.read(Snapshot.load))
        self.encode_later()

    async def read(self, function: Callable[[Index], T], where: str | None = None) -> T:
        """Run a function that reads the index, with a time limit if it has a condition."""
        call = partial(function, self.index)
        if where is None:
            return await asyncio.get_running_loop().run_in_executor(self._reader, call)
        async with self._in_time():
            return await self._with_condition(call)

    async def change(self, function: Callable[[Index], T]) -> T:
        """Run a function that changes the index, after earlier changes.

        It is completed even if the caller disconnects.
        """
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._writer, partial(function, self.index))
        result = await asyncio.shield(running)
        self._changes.inc()
        return result

    def encode_later(self) -> None:
        """Let another thread encode the documents that wait for their vectors."""
        self._encoder.submit(self._encode_waiting)

    async def put(self, document: Document) -> AdditionReport:
        """Add or replace a document; concurrent calls share a commit.

        Each call returns the result for all documents of its commit.
        """
        added: AdditionReport = await self._puts.ask(document)
        self._changes.inc()
        return added

    async def close(self) -> None:
        """Finish running work, and close the index; documents that wait are left as they are."""
        self._is_closing = True
        for batcher in (self._queries, self._texts, self._searches, self._puts):
            await batcher.close()
        for thread in (self._reranker, self._writer, self._reader, self._encoder):
            await asyncio.to_thread(thread.shutdown)
        await asyncio.to_thread(self.index.close)

    def _check(self, queries: Sequence[str] | Matrix, most: int) -> None:
        """Raise an error unless there are 1 to `most` texts or vectors, and no text is too long."""
        limits = self.limits
        if not len(queries):
            raise InputError("no texts; expected one or more")
        if len(queries) > most:
            raise LimitError(413, f"{len(queries):,} texts; expected {most:,} or fewer")
        if isinstance(queries, np.ndarray):
            return
        if any(not text.strip() for text in queries):
            raise InputError("a blank text; expected words")
        longest = max(map(len, queries))
        if longest > limits.text:
            raise LimitError(
                413, f"a text of {longest:,} characters; expected {limits.text:,} or fewer"
            )

    def _encode_queries(self, queries: Sequence[Sequence[str]]) -> list[tuple[Matrix, int, float]]:
        """Encode the queries of several requests together.

        Returns for each request its vectors, the epoch of the index's state, and the seconds that
        all of them took.
        """
        start = perf_counter()
        state = self.index.state
        encoder = self.index.encoder_of(state)
        vectors = encode_queries(encoder, [*chain.from_iterable(queries)])
        seconds = perf_counter() - start
        return [(rows, state.epoch, seconds) for rows in _parts_of(vectors, queries)]

    def _encode_texts(self, texts: Sequence[Sequence[str]]) -> list[Matrix]:
        return _parts_of(self.index.encoder.encode([*chain.from_iterable(texts)]), texts)

    def _encode_waiting(self) -> None:
        """Encode all that waits, until the index is closed; log an error, and end."""
        try:
            while self.index.state.waits and not self._is_closing:
                with suppress(InUseError):  # others encode
                    encode_waiting(self.index, ENCODING_SECONDS)
        except Exception as error:
            trace = not isinstance(error, SlimdexError)  # whose message says it all
            LOG.error("index %s can't encode what waits: %s", self.name, error, exc_info=trace)

    def _put(self, documents: Sequence[Document]) -> list[AdditionReport]:
        """Add documents in one commit; its report is the answer for each of them."""
        last = {document.id: document for document in documents}  # as if added one after another
        report = add_documents_then_refit(self.index, [*last.values()])
        return [report] * len(documents)

    def _search(self, requests: Sequence[SearchRequest]) -> list[SearchAnswer]:
        """Answer requests in their order; join those that differ only in their queries."""
        alike = defaultdict[object, list[SearchRequest]](list)
        answers = dict[int, SearchAnswer]()  # by `id` of the request
        for request in requests:
            alike[request.manner].append(request)
        for group in alike.values():
            with spent() as seconds:
                hits = answer(join_requests(group), self.index.find)
            for request, part in zip(group, _parts_of(hits, group), strict=True):
                answers[id(request)] = SearchAnswer(part, seconds)
        return [answers[id(request)] for request in requests]


def _parts_of(rows: Any, parts: Sequence[Any]) -> list[Any]:
    """Split rows, or another sequence, into pieces as long as the parts.

    >>> _parts_of("abcde", ["..", "..."])
    ['ab', 'cde']
    """
    ends = [*accumulate(map(len, parts), initial=0)]
    return [rows[start:end] for start, end in pairwise(ends)]
