"""Bodies: no route holds more of one than the limit, whatever its type is said to be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from slimdex.retrieval.server import middleware
from slimdex.retrieval.server.app import application
from slimdex.retrieval.server.limits import Limits
from slimdex.retrieval.server.routes.bulk import STREAMED
from slimdex.retrieval.server.service import Service

from ..asking import asking, made

LIMIT, PART, PARTS = 2000, 1000, 20
BULK = ("POST", "/indexes/{name}/documents")
TYPES = (
    STREAMED[0],
    "APPLICATION/X-NDJSON",
    "application/json; charset=utf-8",
    "multipart/form-data; boundary=x",
    "",
)


def every_route() -> set[tuple[str, str]]:
    """Method and path of each route that takes a body, and of some that are unknown."""
    api = application(Service()).openapi()["paths"]
    routes = {(method.upper(), path) for path, methods in api.items() for method in methods}
    taking = {(method, path) for method, path in routes if method in ("POST", "PUT")}
    return taking | {("POST", "/mcp"), ("POST", "/nowhere"), ("POST", "/indexes/none/search")}


class Sent:
    """A body of `PARTS` lines, and how many of its bytes were read."""

    def __init__(self) -> None:
        self.read = 0

    async def parts(self) -> AsyncIterator[bytes]:
        """Its lines."""
        for i in range(PARTS):
            await asyncio.sleep(0)
            line = b'{"id": "%d", "text": "' % i
            self.read += PART
            yield line + b"x" * (PART - len(line) - 3) + b'"}\n'


@pytest.mark.parametrize("says_length", [False, True])
async def test_no_route_reads_more_than_the_limit(
    says_length: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for documents as lines, which are committed in batches."""
    monkeypatch.setattr(middleware, "REST_S", 0)
    path = made(tmp_path / "notes.index")
    length = {"Content-Length": str(PART * PARTS)} if says_length else {}

    async with asking(
        {"notes": path}, limits=Limits(body=LIMIT, line=PART, file=LIMIT, commit=5)
    ) as (client, _):
        found = {}
        for method, route in sorted(every_route()):
            url = route.format(name="notes", id="1", file="f.md")
            for type_ in TYPES:
                sent = Sent()
                headers = length | ({"Content-Type": type_} if type_ else {})
                answer = await client.request(method, url, content=sent.parts(), headers=headers)
                found[method, route, type_] = (answer.status_code, sent.read)
    streams = {(*BULK, type_) for type_ in TYPES if type_.lower() in STREAMED}
    whole = {asked for asked, (_, read) in found.items() if read > LIMIT + PART}
    assert whole == streams
    assert {found[one] for one in streams} == {(200, PART * PARTS)}
    ignoring = {("POST", "/nowhere"), ("POST", "/indexes/{name}/compact")}
    taking = every_route() - ignoring - {BULK}
    for method, route in taking:
        assert {found[method, route, type_][0] for type_ in TYPES} == {413}, route
