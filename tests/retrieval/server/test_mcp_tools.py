"""The tools of the Model Context Protocol, asked by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from .running import built, serving, slimdex, word_vectors

TEXTS = ["the cat sat on the mat", "stocks fell sharply on monday", "a dog slept on a rug " * 200]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    rows = [{"id": str(i), "title": f"T{i}", "text": t, "n": i} for i, t in enumerate(TEXTS)]
    return built(tmp_path, rows)


def stdio(*indexes: object) -> StdioServerParameters:
    words = ["-m", "slimdex", "mcp", *map(str, indexes)]
    return StdioServerParameters(command=sys.executable, args=words)


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer
    found: dict[str, Any] | None = answer.structured_content
    assert found is not None
    assert json.loads(answer.content[0].text) == found  # type: ignore[union-attr]
    return found


async def tools_work(client: Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"search", "fetch", "info"}
    for one in tools.values():
        assert one.annotations is not None
        assert one.annotations.read_only_hint
        assert one.description
    properties = tools["search"].input_schema["properties"]
    assert properties["limit"]["maximum"] == 50
    assert properties["query"]["description"]

    found = await called(client, "search", query="a dog on a rug", limit=2)
    first = found["passages"][0]
    assert (first["id"], first["title"], first["metadata"]) == ("2", "T2", {"n": 2})
    assert len(first["text"]) == 1200  # short enough to be quoted
    named = await called(client, "search", query="T1", limit=1)  # of which there is no vector
    assert named["passages"][0]["id"] == "1"
    some = await called(client, "search", query="a dog on a rug", where="n < 2")
    assert sorted(one["id"] for one in some["passages"]) == ["0", "1"]
    whole = await called(client, "fetch", id="2")
    assert (whole["characters"], whole["text"]) == (len(TEXTS[2]), TEXTS[2][:8000])
    part = await called(client, "fetch", id="2", start=4190)
    assert part["text"] == TEXTS[2][4190:]
    about = await called(client, "info")
    assert (about["name"], about["documents"], about["encoder"]) == ("notes", 3, "words.txt")
    assert about["columns"][0]["name"] == "n"

    for tool, arguments, line in (
        ("fetch", {"id": "none"}, "unknown id 'none'; expected the id of a document"),
        ("search", {"query": "x", "where": "yer > 1"}, "where 'yer > 1': "),
        ("search", {"query": "x", "index": "other"}, "index 'other'; expected one of notes"),
    ):
        answer = await client.call_tool(tool, arguments)
        assert answer.is_error
        assert line in answer.content[0].text  # type: ignore[union-attr]


async def test_over_stdin_and_stdout(notes: Path) -> None:
    async with Client(stdio(notes)) as client:
        await tools_work(client)
        # The index is open no longer than a call takes: others may write to it.
        added = await asyncio.to_thread(slimdex, "delete", notes, "0")
        assert added.returncode == 0, added
        assert (await called(client, "info"))["documents"] == 2


@pytest.mark.slow
async def test_beside_a_service_that_holds_the_index(notes: Path) -> None:
    with serving([notes]) as running:
        async with Client(stdio(notes)) as client:
            await tools_work(client)
            await asyncio.to_thread(running.client.delete, "/indexes/notes/documents/0")
            assert (await called(client, "info"))["documents"] == 2
        # The service has the same tools itself.
        async with Client(f"{running.url}/mcp") as client:
            found = await called(client, "search", query="a dog on a rug")
            assert found["passages"][0]["id"] == "2"


async def test_over_http(notes: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    moved = notes.parent / "moved.txt"
    word_vectors(notes.parent).rename(moved)
    command = [sys.executable, "-m", "slimdex", "mcp", str(notes), "--model", str(moved)]
    command += ["--http", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            end = time.monotonic() + 60
            while not _listens(port):
                assert time.monotonic() < end
                assert process.poll() is None
                time.sleep(0.1)
            async with Client(f"http://127.0.0.1:{port}/mcp") as client:
                await tools_work(client)
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as own:
        return own.connect_ex(("127.0.0.1", port)) == 0
