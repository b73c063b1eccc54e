"""Connections of callers whose requests have no end."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
import uvicorn

from slimdex.retrieval.index import Index
from slimdex.retrieval.server import middleware
from slimdex.retrieval.server.access import Hosts, Right, Tokens
from slimdex.retrieval.server.app import application
from slimdex.retrieval.server.limits import Limits
from slimdex.retrieval.server.middleware import guard
from slimdex.retrieval.server.service import Service
from tests.encoders import WordEncoder

from .asking import made

SOON = 0.2
LATE = 20.0
TOKEN = b"w" * 16
HEAD = b"%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + TOKEN + b"\r\n"
SEARCH = HEAD % b"POST /indexes/notes/search" + b"Content-Type: application/json\r\n"
UPLOAD = HEAD % b"PUT /indexes/notes/files/a.txt"
UNKNOWN = b"POST /indexes/notes/search HTTP/1.1\r\nHost: localhost\r\n"
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n"
BYTE, KIBIBYTE = b"1\r\nx\r\n", b"400\r\n" + b"x" * 1024 + b"\r\n"
LIMITS = Limits(body=2000, file=4000, idle=2 * SOON)
LARGE = 4 << 20
UNFINISHED = SEARCH + b"Content-Length: %d\r\n\r\n" % LARGE + b" " * (LARGE - 100)


@pytest.mark.parametrize(
    ("head", "chunk", "pause", "status"),
    [
        pytest.param(SEARCH, KIBIBYTE, 0, b"413", id="body without end"),
        pytest.param(SEARCH, BYTE, 0.05, b"408", id="slow body"),
        pytest.param(UPLOAD, KIBIBYTE, 0, b"413", id="file without end"),
        pytest.param(UPLOAD, BYTE, 3 * SOON, b"408", id="slow file"),
        pytest.param(UNKNOWN, KIBIBYTE, 0, b"401", id="body without end and without a token"),
        pytest.param(HEAD % b"GET /health", BYTE, 0.05, b"200", id="body that no route reads"),
    ],
)
def test_a_body_without_end_is_answered_and_its_connection_closed(
    head: bytes,
    chunk: bytes,
    pause: float,
    status: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(middleware, "REST_S", SOON)

    async def call(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        start, answer = time.monotonic(), bytearray()

        async def read_all() -> None:
            with suppress(ConnectionError):  # closed while more was on its way
                while part := await reader.read(1 << 16):
                    answer.extend(part)

        reading = asyncio.create_task(read_all())
        writer.write(head + CHUNKS)
        with suppress(ConnectionError):
            while not reading.done() and time.monotonic() - start < LATE:
                writer.write(chunk)
                await writer.drain()
                await asyncio.sleep(pause)
        assert time.monotonic() - start < LATE
        await reading
        writer.close()
        return bytes(answer)

    answer = asyncio.run(_served(made(tmp_path / "notes"), call))
    assert answer.split(b" ")[1] == status, answer


@pytest.mark.slow
def test_forty_bodies_that_never_end_take_no_more_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They get an answer soon, and there is room for others again."""
    monkeypatch.setattr(middleware, "REST_S", SOON)
    limits, own = Limits(body=LARGE, bodies=8 * LARGE, stall=2 * SOON), psutil.Process()

    async def unfinished(port: int) -> bytes:
        loop = asyncio.get_running_loop()
        with socket.socket() as connection:
            connection.setblocking(False)
            await loop.sock_connect(connection, ("127.0.0.1", port))
            with suppress(ConnectionError):  # refused before all of it was sent
                await loop.sock_sendall(connection, UNFINISHED)
            with suppress(ConnectionError):
                return (await loop.sock_recv(connection, 4096))[9:12]
        return b"closed"

    async def call(port: int) -> bytes:
        for round in range(3):  # what the first one leaves to the allocator, the others use
            before = own.memory_info().rss
            sending = asyncio.gather(*(unfinished(port) for _ in range(40)))
            while not sending.done():
                assert own.memory_info().rss - before < (16 if round else 24) * LARGE
                await asyncio.sleep(0.02)
            answers = Counter(sending.result())
            assert {b"408", b"503"} <= {*answers} <= {b"408", b"503", b"closed"}
        return await _again(port)

    assert asyncio.run(_served(made(tmp_path / "notes"), call, limits)) == b"200"


async def _again(port: int) -> bytes:
    """The status of a search whose body is as large as may be."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(UNFINISHED + b'{"query": "a cat"}'.rjust(100))
    status = (await reader.readuntil(b"\r\n")).split(b" ")[1]
    writer.close()
    return status


async def _served(
    path: Path, call: Callable[[int], Awaitable[bytes]], limits: Limits = LIMITS
) -> bytes:
    """The result of a function of the port of a service on a socket."""
    opened = partial(Index.open, encoder=WordEncoder())
    service = Service.open({"notes": path}, limits, open_one=opened)
    tokens = Tokens({TOKEN: Right.WRITE})
    public = guard(application(service), Hosts(), tokens, limits, service.metrics)
    server = uvicorn.Server(uvicorn.Config(public, log_level="critical", lifespan="on"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = asyncio.create_task(server.serve([listening]))
        try:
            return await call(listening.getsockname()[1])
        finally:
            server.should_exit = True
            await running
