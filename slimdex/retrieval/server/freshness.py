"""Freshness: an index follows its sources, and an answer waits for that, but not for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from slimdex.indexes.errors import SlimdexError

PATIENCE = 1.0
"""Seconds that an answer waits for the index to follow its sources."""
BEHIND = "The index is still reading changed files; this answer may lack recent changes."


class Freshness:
    """Calls a function that brings an index up to date, in a thread, one call at a time.

    Parameters
    ----------
    catch_up : raises `SlimdexError` or `OSError` if it can't.
    """

    def __init__(self, catch_up: Callable[[], None], patience: float = PATIENCE) -> None:
        self._catch_up, self._patience = catch_up, patience
        self._running: asyncio.Task[str] | None = None

    async def remark(self) -> str:
        """Bring the index up to date, in at most the time of `patience`.

        Returns a remark if this takes longer, and then continues, or if it fails; otherwise "".
        """
        try:
            async with asyncio.timeout(self._patience):
                if self._running is not None:  # began before the latest change, perhaps
                    await asyncio.shield(self._running)
                if self._running is None:
                    self._running = asyncio.create_task(self._run())
                return await asyncio.shield(self._running)
        except TimeoutError:
            return BEHIND

    async def _run(self) -> str:
        try:
            await asyncio.to_thread(self._catch_up)
        except (SlimdexError, OSError) as error:
            line = " ".join(str(error).split())
            return f"The index could not be brought up to date ({line})."
        finally:
            self._running = None
        return ""
