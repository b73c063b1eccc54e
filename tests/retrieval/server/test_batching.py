"""What is asked together is done together, and one caller's fault is no other's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from threading import Event

import pytest

from slimdex.retrieval.server.batching import Batcher
from slimdex.retrieval.server.limits import LimitError, Limits


class Doubling:
    """Doubles numbers, once it is let; remembers its batches."""

    def __init__(self) -> None:
        self.may, self.batches = Event(), list[list[int]]()

    def __call__(self, asked: Sequence[int]) -> list[int]:
        assert self.may.wait(10)
        self.batches.append([*asked])
        if -1 in asked:
            raise ValueError("minus one")
        return [2 * number for number in asked]


def batcher(run: Callable[[Sequence[int]], list[int]], waiting: int = 100) -> Batcher[int, int]:
    return Batcher(run, Limits(batch=4, waiting=waiting))


async def test_requests_that_wait_are_the_next_batch_and_closing_waits_for_them() -> None:
    run = Doubling()
    batches = batcher(run)
    tasks = [asyncio.create_task(batches.ask(0))]
    await asyncio.sleep(0.05)  # it is under way, alone
    tasks += [asyncio.create_task(batches.ask(number)) for number in range(1, 8)]
    await asyncio.sleep(0)
    run.may.set()
    await batches.close()
    assert [task.result() for task in tasks] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert run.batches == [[0], [1, 2, 3, 4], [5, 6, 7]]


async def test_a_large_request_is_a_batch_by_itself() -> None:
    run = Doubling()
    batches = batcher(run)
    tasks = [asyncio.create_task(batches.ask(n, size)) for n, size in enumerate((3, 9, 1, 3, 1))]
    run.may.set()
    assert await asyncio.gather(*tasks) == [0, 2, 4, 6, 8]
    assert batches.size == 0
    assert run.batches == [[0], [1], [2, 3], [4]]


async def test_an_error_reaches_only_the_faulty_request() -> None:
    run = Doubling()
    batches = batcher(run)
    run.may.set()
    asked = (batches.ask(n) for n in (1, -1, 3))
    one, error, three = await asyncio.gather(*asked, return_exceptions=True)
    assert (one, three, str(error)) == (2, 6, "minus one")
    assert run.batches == [[1, -1, 3], [1], [-1], [3]]


async def test_a_cancelled_request_is_not_run() -> None:
    run = Doubling()
    batches = batcher(run)
    first = asyncio.create_task(batches.ask(0))
    await asyncio.sleep(0.05)
    gone, stays = (asyncio.create_task(batches.ask(n)) for n in (1, 2))
    await asyncio.sleep(0)
    gone.cancel()
    run.may.set()
    assert (await first, await stays) == (0, 4)
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert batches.size == 0
    assert run.batches == [[0], [2]]


async def test_requests_beyond_the_queue_are_refused() -> None:
    run = Doubling()
    batches = batcher(run, waiting=3)
    tasks = [asyncio.create_task(batches.ask(n)) for n in range(3)]
    await asyncio.sleep(0.05)
    with pytest.raises(LimitError, match="3 queries are waiting") as refused:
        await batches.ask(9)
    assert refused.value.status == 503
    run.may.set()
    assert await asyncio.gather(*tasks) == [0, 2, 4]
    assert await batches.ask(9) == 18  # there is room again


async def test_a_closed_batcher_refuses_requests() -> None:
    closed = batcher(Doubling())
    await closed.close()
    async with asyncio.timeout(5):
        with pytest.raises(RuntimeError):
            await closed.ask(1)
