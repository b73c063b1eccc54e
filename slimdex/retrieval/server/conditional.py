"""Threads for searches with a condition, which may take long.

A condition first gets a short time in one of a few threads. If that is not enough, it restarts in
one of the threads for slow conditions, so that fast ones wait only for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TypeVar

from ..catalog.where.checks import SlowConditionError, within

T = TypeVar("T")
QUICK, SLOW = 4, 2
"""Numbers of threads, shared by all indexes of a service."""
QUICK_S = 1.0
"""Seconds after which a condition is slow."""
GRACE_S = 0.1
"""Seconds between telling the caller that the time is over and interrupting the work."""


class Conditional:
    """Runs searches with a condition in threads."""

    def __init__(self) -> None:
        self._quick = ThreadPoolExecutor(QUICK, thread_name_prefix="conditions")
        self._slow = ThreadPoolExecutor(SLOW, thread_name_prefix="slow-conditions")

    async def run(self, work: Callable[[], T], seconds: float) -> T:
        """Return the result of the work, which may run twice; interrupt it after some seconds.

        Raises `SlowConditionError` if it was interrupted.
        """
        loop, end = asyncio.get_running_loop(), monotonic() + seconds + GRACE_S

        def until(latest: float) -> T:
            with within(max(latest - monotonic(), GRACE_S)):
                return work()

        def quickly() -> T:
            return until(min(monotonic() + QUICK_S, end))

        try:
            return await loop.run_in_executor(self._quick, quickly)
        except SlowConditionError:
            return await loop.run_in_executor(self._slow, until, end)
