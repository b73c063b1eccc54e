"""Conditional: threads for searches with a condition, which may take any time.

A condition first gets a short time in one of a few threads. If that is not enough, it is looked
for again in one of the threads for slow ones, so that quick ones wait only for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TypeVar

from ..catalog.where.condition import SlowConditionError, within

T = TypeVar("T")
QUICK, SLOW = 4, 2
"""Threads, of all indexes of a service together."""
QUICK_S = 1.0
"""Seconds after which a condition is slow."""
GRACE_S = 0.1
"""Seconds after its caller was told that it took too long, until it is interrupted."""


class Conditional:
    """Runs what has a condition, in threads."""

    def __init__(self) -> None:
        self._quick = ThreadPoolExecutor(QUICK, thread_name_prefix="conditions")
        self._slow = ThreadPoolExecutor(SLOW, thread_name_prefix="slow-conditions")

    async def run(self, work: Callable[[], T], seconds: float) -> T:
        """Return what the work gives, which may run twice; interrupt it after some seconds.

        Raises
        ------
        SlowConditionError
            If it was interrupted.
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
