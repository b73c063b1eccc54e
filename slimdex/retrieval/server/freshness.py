"""Freshness: an index follows its sources, and an answer waits for that, but not for long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slimdex.errors import SlimdexError

from ..commands import is_mostly_deleted
from ..index import Index
from ..ingest.compacting import compact
from ..quality.refitting import sync_then_refit

if TYPE_CHECKING:
    from ..sources.source_request import SourceRequest

PATIENCE = 1.0
"""Seconds that an answer waits for the index to follow its sources."""
BEHIND = "The index is still reading changed files; this answer may lack recent changes."


class Freshness:
    """Calls a function that brings an index up to date, one call at a time.

    The function raises `SlimdexError` or `OSError` if it can't.
    """

    def __init__(self, catch_up: Callable[[], Awaitable[None]], patience: float = PATIENCE) -> None:
        self._catch_up = catch_up
        self._patience = patience
        self._running: asyncio.Task[str] | None = None

    async def remark(self) -> str:
        """Bring the index up to date, in at most the time of `patience`.

        Returns a remark if this takes longer, and then continues, or if it fails; otherwise "".
        """
        try:
            async with asyncio.timeout(self._patience):
                # A running call may have begun before the latest change: wait for it, and then for
                # a later one, which another caller may have started meanwhile.
                if self._running is not None:
                    await asyncio.shield(self._running)
                if self._running is None:
                    self._running = asyncio.create_task(self._run())
                return await asyncio.shield(self._running)
        except TimeoutError:
            return BEHIND

    async def _run(self) -> str:
        """Call the function; return a remark if it fails, otherwise ""."""
        try:
            await self._catch_up()
        except (SlimdexError, OSError) as error:
            line = " ".join(str(error).split())
            return f"The index could not be brought up to date ({line})."
        finally:
            self._running = None
        return ""


@dataclass
class Following:
    """Sources that an index follows.

    Files are looked at each time, but the index only if a file's path, size or time has changed, or
    had changed so recently that another change could have gone unnoticed.
    """

    sources: SourceRequest
    seen: str = ""  # fingerprint of the sources; empty if one was modified just now

    def catch_up(self, index: Index) -> None:
        """Sync with the sources if they have changed; compact if most rows are deleted.

        Raises `InputError` as `Collection.sync`, and `InUseError` if others write for too long.
        """
        seen = self.sources.open().fingerprint
        if not seen or seen != self.seen:
            sync_then_refit(index, self.sources)
            if is_mostly_deleted(index):
                compact(index)
            self.seen = seen
