"""Commands from this machine's command line, at a socket that only its user can access.

A command's progress and notes are sent as lines of JSON, followed by its result or error. If the
caller disconnects, the command stops, as after Ctrl-C.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from slimdex.indexes.errors import InUseError, SlimdexError
from slimdex.indexes.execution.progress import listening

from ..as_json import json_of
from ..collection import Collection
from ..operations.commands import command_of
from .routes.bulk import STREAMED
from .routes.failures import LOG
from .served_index import ServedIndex
from .service import Service

TOLD_EVERY = 0.1
"""Seconds between reports of progress."""
ALIVE_EVERY = 2.0
"""Seconds after which an empty line is sent, to detect that the caller has disconnected."""


def for_owner(service: Service) -> ASGIApp:
    """Create the application of the socket."""

    async def command(request: Request) -> StreamingResponse:
        said = await request.json()
        return StreamingResponse(_lines(service, said), media_type=STREAMED[0])

    return Starlette(routes=[Route("/command", command, methods=["POST"])])


async def _lines(service: Service, said: dict[str, Any]) -> AsyncGenerator[str]:
    running = _Running()
    task = asyncio.create_task(_done(service, said, running))
    try:
        while not task.done() or not running.said.empty():
            try:
                async with asyncio.timeout(ALIVE_EVERY):
                    line = await running.said.get()
            except TimeoutError:
                line = {}
            yield json_of(line) + "\n" if line else "\n"
            if "found" in line or "error" in line:
                return
    finally:
        running.stopped.set()


async def _done(service: Service, said: dict[str, Any], running: _Running) -> None:
    try:
        found: dict[str, Any] = {"found": await _run(service, said, running)}
    except (SlimdexError, OSError) as error:
        found = {"error": str(error), "kind": type(error).__name__}
    except Exception as error:
        LOG.error("%s", error, exc_info=error)
        found = {"error": f"internal error of the service ({error}); see its log"}
    running.said.put_nowait(found)


async def _run(service: Service, said: dict[str, Any], running: _Running) -> dict[str, Any]:
    command, index = command_of(said), _held(service, Path(said["index"]))

    def run(collection: Collection) -> dict[str, Any]:
        with listening(running.progress, running.note):
            return command.run(collection)

    return await (index.change(run) if command.changes else index.read(run))


def _held(service: Service, folder: Path) -> ServedIndex:
    for index in service.indexes.values():
        if index.collection.path.samefile(folder):
            return index
    raise InUseError(f"{folder}: the running service does not serve it; try again")


class _Running:
    """Messages from a command's thread, and a flag that the caller has disconnected."""

    def __init__(self) -> None:
        self.said, self.stopped = asyncio.Queue[dict[str, Any]](), Event()
        self._loop, self._next = asyncio.get_running_loop(), 0.0

    def note(self, line: str) -> None:
        """Send a note."""
        self._tell({"note": line})

    def progress(self, name: str, done: int, total: int) -> None:
        """Send progress; raises `StoppedError` if the caller has disconnected."""
        if self.stopped.is_set():
            raise StoppedError("stopped; run the same command again to continue")
        now = monotonic()
        if now >= self._next or done == total:
            self._next = now + TOLD_EVERY
            self._tell({"progress": [name, done, total]})

    def _tell(self, line: dict[str, Any]) -> None:
        self._loop.call_soon_threadsafe(self.said.put_nowait, line)


class StoppedError(SlimdexError):
    """The caller has disconnected."""
