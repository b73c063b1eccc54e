"""Batching: concurrent requests are processed together, in a thread of their own.

Requests are never delayed to wait for others: those that arrive while the thread is busy form the
next batch, so batches grow with the load and a single caller is answered at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from .limits import LimitError, Limits

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass
class _Waiting(Generic[Request, Answer]):
    """A queued request, its share of a batch, and the future that receives its answer."""

    request: Request
    size: int
    answer: asyncio.Future[Answer]


class Batcher(Generic[Request, Answer]):
    """Runs requests in batches, one batch at a time.

    `run` takes requests and returns answers in the same order. If it raises, each request is run
    alone, so that only the faulty ones fail. A batch has a size of at most `limits.batch`, or one
    request; `ask` refuses requests beyond a queue of `limits.waiting`. `seen` receives the size of
    each batch.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Request]], Sequence[Answer]],
        limits: Limits,
        seen: Callable[[int], object] = lambda size: None,
    ) -> None:
        self._run = run
        self._limits = limits
        self._seen = seen
        self._waiting = deque[_Waiting[Request, Answer]]()
        self._thread = ThreadPoolExecutor(1)
        self._worker: asyncio.Task[None] | None = None
        self.size = 0

    async def ask(self, request: Request, size: int = 1) -> Answer:
        """Return the answer once its batch has run; a cancelled request is skipped.

        `size` is its share of a batch. Raises `LimitError` (503) if the queue is full.
        """
        # A single request may exceed the limit.
        if self.size and self.size + size > self._limits.waiting:
            raise LimitError(503, f"{self.size:,} queries are waiting; try again later")
        waiting = _Waiting(request, size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self.size += size
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        try:
            answer: Answer = await waiting.answer
            return answer
        finally:
            self.size -= size

    async def close(self) -> None:
        """Finish all requests, including waiting ones."""
        while self._worker is not None:
            with suppress(asyncio.CancelledError):
                await self._worker
        self._thread.shutdown()

    async def _work(self) -> None:
        """Run batches until the queue is empty."""
        loop = asyncio.get_running_loop()
        try:
            while batch := self._next():
                requests = [waiting.request for waiting in batch]
                answers: Sequence[Answer | Exception]
                try:
                    self._seen(sum(waiting.size for waiting in batch))
                    answers = await loop.run_in_executor(self._thread, self._answers, requests)
                except Exception as error:  # e.g. if no thread can be started: fail all
                    answers = [error] * len(batch)

                # Pass them to the callers that still wait.
                for waiting, answer in zip(batch, answers, strict=True):
                    if waiting.answer.done():
                        continue  # the caller has gone
                    if isinstance(answer, Exception):
                        waiting.answer.set_exception(answer)
                    else:
                        waiting.answer.set_result(answer)
        finally:
            self._worker = None

    def _next(self) -> list[_Waiting[Request, Answer]]:
        """Take the next batch from the queue, without cancelled requests; [] if none is waiting."""
        batch = list[_Waiting[Request, Answer]]()
        size = 0
        while self._waiting:
            first = self._waiting[0]
            if batch and size + first.size > self._limits.batch:
                break
            self._waiting.popleft()
            if not first.answer.done():
                batch.append(first)
                size += first.size
        return batch

    def _answers(self, requests: Sequence[Request]) -> Sequence[Answer | Exception]:
        """Run requests together, or one by one if that fails; return their answers or errors."""
        try:
            return self._run(requests)
        except Exception as error:
            if len(requests) == 1:
                return [error]
        return [self._answers([request])[0] for request in requests]
