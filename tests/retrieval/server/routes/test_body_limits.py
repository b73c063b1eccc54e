"""Bodies: no route holds more of one than the limit, whatever its type is said to be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from slimdex.retrieval.server.app import application
from slimdex.retrieval.server.limits import Limits
from slimdex.retrieval.server.service import Service

from ..asking import asking, made

LIMIT, PART, PARTS = 2000, 1000, 20
TYPES = ("application/json; charset=utf-8", "multipart/form-data; boundary=x", "")
IGNORING = {("POST", "/nowhere"), ("POST", "/indexes/{name}/compact")}


def every_route() -> set[tuple[str, str]]:
    """Method and path of each route that takes a body, and of some that are unknown."""
    api = application(Service()).openapi()["paths"]
    routes = {(method.upper(), path) for path, methods in api.items() for method in methods}
    taking = {(method, path) for method, path in routes if method in ("POST", "PUT")}
    return taking | {("POST", "/mcp"), ("POST", "/nowhere"), ("POST", "/indexes/none/search")}


@pytest.mark.parametrize("says_length", [False, True])
async def test_no_route_reads_more_than_the_limit(says_length: bool, tmp_path: Path) -> None:
    path = made(tmp_path / "notes.index")
    length = {"Content-Length": str(PART * PARTS)} if says_length else {}
    read = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(PARTS):
            await asyncio.sleep(0)
            read += PART
            yield b" " * PART

    async with asking({"notes": path}, limits=Limits(body=LIMIT, file=LIMIT)) as (client, _):
        for method, route in sorted(every_route()):
            url = route.format(name="notes", id="1", file="f.md")
            for type_ in TYPES:
                read = 0
                headers = length | ({"Content-Type": type_} if type_ else {})
                answer = await client.request(method, url, content=parts(), headers=headers)
                assert read <= LIMIT + PART, route
                assert (method, route) in IGNORING or answer.status_code == 413, route
