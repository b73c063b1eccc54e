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

from .limits import LimitError

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
    alone, so that only the faulty ones fail. A batch has a size of at most `limit`, or one request;
    `ask` refuses requests beyond a queue of `waiting`. `seen` receives the size of each batch.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Request]], Sequence[Answer]],
        *,
        limit: int,
        waiting: int,
        name: str = "batches",
        seen: Callable[[int], object] = lambda size: None,
    ) -> None:
        self._run = run
        self._limit = limit
        self._waiting_limit = waiting
        self._seen = seen
        self._waiting = deque[_Waiting[Request, Answer]]()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._worker: asyncio.Task[None] | None = None
        self.size = 0

    async def ask(self, request: Request, size: int = 1) -> Answer:
        """Return the answer once its batch has run; a cancelled request is skipped.

        `size` is its share of a batch. Raises `LimitError` (503) if the queue is full.
        """
        # A single request may exceed the limit.
        if self.size and self.size + size > self._waiting_limit:
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
                # Compute the answers to a batch; a request that fails has an error instead.
                requests = [waiting.request for waiting in batch]
                answers = list[Answer | BaseException]()
                try:
                    self._seen(sum(waiting.size for waiting in batch))
                    answers += await loop.run_in_executor(self._thread, self._answers, requests)
                except Exception as error:  # e.g. if no thread can be started: fail all
                    answers += [error] * len(batch)

                # Pass them to the callers that still wait.
                for waiting, answer in zip(batch, answers, strict=True):
                    if waiting.answer.done():
                        continue  # the caller has gone
                    if isinstance(answer, BaseException):
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
            if batch and size + first.size > self._limit:
                break
            self._waiting.popleft()
            if not first.answer.done():
                batch.append(first)
                size += first.size
        return batch

    def _answers(self, requests: Sequence[Request]) -> Sequence[Answer | BaseException]:
        """Run requests together, or one by one if that fails; return their answers or errors."""
        try:
            answers = self._run(requests)
            if len(answers) != len(requests):
                raise RuntimeError(f"{len(answers)} answers to {len(requests)} requests")
        except Exception as error:
            if len(requests) == 1:
                return [error]
        else:
            return answers

        # Run them one by one, so that only requests that fail on their own get an error.
        answers_one_by_one = list[Answer | BaseException]()
        for request in requests:
            answers_one_by_one += self._answers([request])
        return answers_one_by_one
