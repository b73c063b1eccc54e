"""Connections of callers who are slow, silent or without end."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import uvicorn

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.server.access import connections
from slimdex.retrieval.server.access.connections import TimedProtocol
from slimdex.retrieval.server.access.hosts import Hosts
from slimdex.retrieval.server.access.middleware import AccessMiddleware
from slimdex.retrieval.server.app import application
from slimdex.retrieval.server.limits import Limits
from slimdex.retrieval.server.service import Service
from tests.encoders import WordEncoder

from ..asking import made

SOON = 0.3
LATE = 20.0
HEAD = b"%s HTTP/1.1\r\nHost: localhost\r\n"
SEARCH = HEAD % b"POST /indexes/notes/search" + b"Content-Type: application/json\r\n"
BULK = HEAD % b"POST /indexes/notes/documents" + b"Content-Type: application/x-ndjson\r\n"
HEALTH = HEAD % b"GET /health" + b"\r\n"
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "again", "every", "answer"),
    [
        pytest.param(b"", b"", 1, b"", id="silent"),
        pytest.param(HEAD % b"GET /health", b"X-A: 1\r\n", 0.05, b"", id="a head without an end"),
        pytest.param(HEALTH + b"GET /", b"a", 0.05, b"200", id="a second head without an end"),
        pytest.param(
            SEARCH + CHUNKS, b"400\r\n" + b"x" * 1024 + b"\r\n", 0, b"413", id="a body without end"
        ),
        pytest.param(SEARCH + CHUNKS, b"1\r\nx\r\n", 0.05, b"408", id="a body, a byte at a time"),
        pytest.param(BULK + CHUNKS, b"1\r\nx\r\n", 0.05, b"408", id="a line, a byte at a time"),
        pytest.param(SEARCH + b"Content-Length: 9\r\n\r\n{", b"", 1, b"408", id="half a body"),
    ],
)
def test_a_caller_without_an_end_is_closed(
    first: bytes,
    again: bytes,
    every: float,
    answer: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", SOON)
    monkeypatch.setattr(connections, "REST_S", SOON)
    path = made(tmp_path / "notes")

    async def called(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        start, said = time.monotonic(), bytearray()

        async def read_all() -> None:
            with suppress(ConnectionError):  # closed while more was on its way
                while part := await reader.read(1 << 16):
                    said.extend(part)

        read = asyncio.create_task(read_all())
        writer.write(first)
        with suppress(ConnectionError):
            while not read.done() and time.monotonic() - start < LATE:
                writer.write(again)
                await writer.drain()
                await asyncio.sleep(every)
        assert time.monotonic() - start < LATE
        await read
        writer.close()
        return bytes(said)

    said = asyncio.run(_served(path, called))
    assert said.split(b" ")[1:2] == ([answer] if answer else []), said


def test_a_caller_who_is_quick_keeps_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", SOON)
    path = made(tmp_path / "notes")

    async def called(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        said = b""
        for _ in range(3):
            writer.write(HEALTH)
            said += await reader.readuntil(b"}")
            await asyncio.sleep(2 * SOON)  # uvicorn keeps it for five seconds
        writer.close()
        return said

    assert asyncio.run(_served(path, called)).count(b"200 OK") == 3


async def _served(path: Path, called: object) -> bytes:
    """What a function of the port says of a service on a socket."""
    limits = Limits(body=2000, idle=2 * SOON)
    opened = partial(Collection.open, encoder=WordEncoder())
    service = Service.open({"notes": path}, limits, open_one=opened)
    guarded = AccessMiddleware(application(service), Hosts(), None, limits, service.metrics)
    config = uvicorn.Config(guarded, http=TimedProtocol, log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with service.life():
            running = asyncio.create_task(server.serve([listening]))
            try:
                while not server.started:
                    await asyncio.sleep(0.01)
                return await called(listening.getsockname()[1])  # type: ignore[operator, no-any-return]
            finally:
                server.should_exit = True
                await running
