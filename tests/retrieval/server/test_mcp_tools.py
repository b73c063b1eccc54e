"""The tools of the Model Context Protocol, asked by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from queue import Queue
from threading import Event
from typing import Any

import pytest
from llama_index.core.utils import get_tokenizer
from mcp import Client, StdioServerParameters
from mcp.server import MCPServer

from slimdex.command_line import app
from slimdex.retrieval.collection import Collection
from slimdex.system.locks import FileLock
from tests import ctrl_c, forked

from .running import built, serving, word_vectors

DOCS = Path(__file__).parents[3] / "docs"
QUESTIONS = ["delete documents", "memory of an index", "how long does an addition take", "filters"]
TEXTS = ["the cat sat on the mat", "stocks fell sharply on monday", "a dog slept on a rug " * 200]
READING = {"search", "related", "get", "fetch", "info"}
CHANGING = {"add", "delete", "sync"}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    rows = [{"id": str(i), "title": f"T{i}", "text": t, "n": i} for i, t in enumerate(TEXTS)]
    return built(tmp_path, rows)


def slimdex(*words: object) -> None:
    """A command, in this process."""
    app.main([*map(str, words)], standalone_mode=False)


@asynccontextmanager
async def agent(*words: object) -> AsyncIterator[Client]:
    """A client of the server that `slimdex mcp` runs, in this process."""
    servers, over = Queue[MCPServer[Any]](), Event()

    def serve(server: MCPServer[Any]) -> None:
        servers.put(server)
        over.wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MCPServer, "run", serve)
        patch.setattr(signal, "signal", lambda *_: None)  # only the main thread may set a handler
        running = asyncio.create_task(asyncio.to_thread(slimdex, "mcp", *words))
        try:
            server = await asyncio.to_thread(servers.get, timeout=60)
            async with Client(server) as client:
                yield client
        finally:
            over.set()
            await running


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer
    found: dict[str, Any] | None = answer.structured_content
    assert found is not None
    assert json.loads(answer.content[0].text) == found  # type: ignore[union-attr]
    return found


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    text: str = answer.content[0].text  # type: ignore[union-attr]
    return text


async def tools_work(client: Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == READING
    for one in tools.values():
        assert one.annotations is not None
        assert one.annotations.read_only_hint
        assert one.description

    found = await called(client, "search", query="a dog on a rug", limit=2)
    first = found["passages"][0]
    assert (first["id"], first["title"], first["metadata"]) == ("2", "T2", {"n": 2})
    assert 1000 < len(first["text"]) <= 1200  # short enough to be quoted
    named = await called(client, "search", query="T1", limit=1)  # of which there is no vector
    assert named["passages"][0]["id"] == "1"
    some = await called(client, "search", query="a dog on a rug", where="n < 2")
    assert sorted(one["id"] for one in some["passages"]) == ["0", "1"]
    whole = await called(client, "fetch", id="2")
    assert (whole["characters"], whole["text"]) == (len(TEXTS[2]), TEXTS[2][:8000])
    part = await called(client, "fetch", id="2", start=4190)
    assert part["text"] == TEXTS[2][4190:]
    (only,) = (await called(client, "related", id=2, where="n = 1"))["passages"]
    assert (only["id"], only["text"]) == ("1", TEXTS[1])
    about = await called(client, "info")
    assert (about["name"], about["documents"], about["encoder"]) == ("notes", 3, "words.txt")
    assert about["columns"][0]["name"] == "n"

    for tool, arguments, reason in (
        ("fetch", {"id": "none"}, "none"),
        ("get", {"documents": [{"id": "0"}, {"id": "none"}]}, "none"),
        ("get", {"documents": [{"path": "0"}]}, "documents.0.path"),
        ("get", {"documents": []}, "documents"),
        ("search", {"query": "x", "where": "yer > 1"}, "yer"),
        ("search", {"query": "x", "regex": "(?=tea)"}, "lookarounds"),
        ("search", {"query": "x", "limit": 0}, "limit"),
        ("search", {"query": "x", "k": 3}, "k\n  Extra inputs are not permitted"),
        ("search", {"query": "x" * 200_000}, "100000"),
        ("info", {"index": "note"}, "expected one of: notes"),
        ("serch", {"query": "x"}, "serch"),
    ):
        assert reason in await refused(client, tool, **arguments)


async def test_tools_over_stdin_and_stdout(notes: Path) -> None:
    words, cache = ["-m", "slimdex", "mcp", str(notes)], os.environ["SLIMDEX_CACHE"]
    server = StdioServerParameters(command=sys.executable, args=words, env={"SLIMDEX_CACHE": cache})
    async with Client(server) as client:
        await tools_work(client)
        # The index is open no longer than a call takes: others may write to it.
        with Collection.open(notes) as collection:
            collection.delete("0")
        assert (await called(client, "info"))["documents"] == 2


async def test_an_installed_server_starts(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the command in a client's file, elsewhere than where it was installed."""
    monkeypatch.chdir(notes.parent)
    Path("snow.txt").write_text("snow on monday")
    slimdex("mcp", notes.name, "--write", "--sync", "snow.txt", "--install", "vscode")
    server = json.loads(Path(".vscode/mcp.json").read_text())["servers"]["slimdex-notes"]
    env = {"SLIMDEX_CACHE": os.environ["SLIMDEX_CACHE"]}
    async with Client(StdioServerParameters(**server, env=env, cwd="/")) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == READING | CHANGING
        assert (await called(client, "info"))["name"] == "notes"


async def test_a_service_has_the_same_tools(notes: Path) -> None:
    with serving([notes]) as running:
        async with Client(f"{running.url}/mcp") as client:
            await tools_work(client)
        assert running.client.get("/mcp").status_code == 405  # a stream that would never end
        assert running.client.post("/mcp", content="hello").status_code < 500


async def test_tools_over_http(notes: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with open(os.devnull, "r+") as nothing:
        command = ["mcp", str(notes), "--http", "--port", str(port)]
        process = forked.command(command, os.environ, *[nothing.fileno()] * 3)
    try:
        end = time.monotonic() + 60
        while not _listens(port):
            assert time.monotonic() < end
            assert process.is_alive()
            time.sleep(0.02)
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            await tools_work(client)
    finally:
        process.kill()


def _listens(port: int) -> bool:
    with socket.socket() as own:
        return own.connect_ex(("127.0.0.1", port)) == 0


async def test_passages_have_files_and_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word_vectors(tmp_path)
    code = "import os\n\n\ndef rain():\n    return 'snow'\n\n\ndef cat():\n    return 'rug'\n"
    long = "\n".join(f"the cat sat on the mat {i}" for i in range(1000))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a b.py").write_text(code)
    (tmp_path / "notes" / "long.txt").write_text(long)
    (tmp_path / "pages.jsonl").write_text(
        '{"id": "p", "text": "stocks fell", "url": "https://example.org/p"}\n'
    )
    monkeypatch.chdir(tmp_path)
    slimdex("build", "notes", "--model", "words.txt", "--out", "i")
    slimdex("add", "i", "pages.jsonl")
    monkeypatch.chdir("/")  # as a client that starts elsewhere
    async with agent(tmp_path / "i") as client:
        found = await called(client, "search", query="cat rug", limit=3)
        by_id = {one["id"]: one for one in found["passages"]}
        file = tmp_path / "notes" / "a b.py"
        own = by_id["a b.py"]
        lines = code.split("\n")
        assert own["file"] == str(file)
        assert own["text"] == "\n".join(lines[own["line"] - 1 : own["last_line"]])
        assert by_id["p"]["metadata"] == {"url": "https://example.org/p"}
        assert "metadata" not in own
        assert "file" not in by_id["p"]

        asked = [{"id": "a b.py", "line": 4, "last_line": 5}, {"id": "notes/long.txt", "line": 7}]
        code_lines, more = (await called(client, "get", documents=asked))["documents"]
        assert code_lines["text"] == "def rain():\n    return 'snow'"
        assert (code_lines["line"], code_lines["last_line"], code_lines["lines"]) == (4, 5, 9)
        assert code_lines["metadata"]["kind"] == "code"
        assert (more["id"], more["line"], more["lines"]) == ("long.txt", 7, 1000)
        assert more["text"] == "\n".join(long.split("\n")[6 : more["last_line"]])
        assert 7900 < len(more["text"]) <= 8000
        assert long[more["start"] :].startswith(more["text"])
        patterns: list[dict[str, Any]] = [{"glob": ["*.txt", "*.md"]}, {"regex": r"mat 7$"}]
        for narrowing in patterns:
            some = await called(client, "search", query="cat rug", **narrowing)
            assert [one["id"] for one in some["passages"]] == ["long.txt"]
        file.unlink()
        gone = await called(client, "search", query="cat rug", where="kind = 'code'")
        assert gone["passages"][0]["file"] == "notes/a b.py"  # as in the index


async def test_answers_follow_edits_of_a_folder(tmp_path: Path) -> None:
    """A folder is edited while an agent works: the next answer has the edit."""
    model, folder, index = word_vectors(tmp_path), tmp_path / "notes", tmp_path / "i"
    folder.mkdir()
    (folder / "cat.txt").write_text("the cat sat on the mat")
    (folder / "rain.txt").write_text("rain fell")
    slimdex("build", folder, "--model", model, "--out", index)

    async def fresh(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
        """Ask until the answer is no longer older than the files, as on a busy machine."""
        while True:
            found = await called(client, tool, **arguments)
            if "may lack recent changes" not in found.get("note", ""):
                return found

    async with agent(index, "--write", "--sync", folder) as client:
        assert (await fresh(client, "info"))["documents"] == 2
        (folder / "cat.txt").write_text("a dog slept on a rug")
        (folder / "snow.txt").write_text("snow on monday")
        (folder / "rain.txt").unlink()
        found = await fresh(client, "search", query="snow on monday")
        assert [one["id"] for one in found["passages"]] == ["snow.txt", "cat.txt"]
        assert (await called(client, "sync"))["unchanged"] == 2
        for file in folder.iterdir():
            file.unlink()
        found = await fresh(client, "related", id="cat.txt")
        assert [one["id"] for one in found["passages"]] == ["snow.txt"]
        assert "could not be brought up to date" in found["note"]
        assert "no files to read" in found["note"]


async def test_agents_add_and_delete_documents(notes: Path) -> None:
    async with agent(notes, "--write") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == READING | CHANGING
        for name in CHANGING:
            marks = tools[name].annotations
            assert marks is not None
            assert (marks.read_only_hint, marks.destructive_hint) == (False, True)

        rain: dict[str, Any] = {"text": "rain of monday", "title": "Rain", "metadata": {"n": 7}}
        snow = {"id": 1, "text": "snow", "metadata": {"kind": "weather"}}
        added = await called(client, "add", documents=[rain, snow])
        own, given = added["ids"]
        assert (len(own), given) == (16, "1")
        assert [added[name] for name in ("added", "replaced", "unchanged", "documents")] == [
            2, 1, 0, 4,
        ]  # fmt: skip
        again = await called(client, "add", documents=[rain])  # an agent that tries again
        assert (again["ids"], again["unchanged"], again["documents"]) == ([own], 1, 4)
        found = await called(client, "search", query="rain", where="n = 7")
        assert [(each["id"], each["title"]) for each in found["passages"]] == [(own, "Rain")]
        assert (await called(client, "fetch", id=1))["metadata"] == {"kind": "weather"}

        for tool, arguments in (
            ("add", {"documents": []}),
            ("add", {"documents": [{"id": "x"}]}),
            ("add", {"documents": [snow | {"metadata": {"row": "soon"}}]}),
            ("delete", {"ids": ["0", "none"]}),
            ("delete", {"where": "yer > 1"}),
            ("delete", {}),
            ("delete", {"ids": [], "where": ""}),  # and not everything
            ("sync", {}),  # it was never synced
        ):
            await refused(client, tool, **arguments)
        assert await called(client, "delete", ids=[own, "0"]) == {"deleted": 2, "documents": 2}
        assert await called(client, "delete", where="kind = 'weather'") == {
            "deleted": 1,
            "documents": 1,
        }


async def test_tools_and_answers_cost_few_tokens(tmp_path: Path) -> None:
    """A search costs at most 1.35 times its quotes, and each is at its line of its file."""
    word_vectors(tmp_path)
    slimdex("build", DOCS, "--model", tmp_path / "words.txt", "--out", tmp_path / "i")
    tokens_of = get_tokenizer()

    def count(text: str) -> int:
        return len(tokens_of(text))

    async with agent(tmp_path / "i", "--write") as client:
        tools = (await client.list_tools()).tools
        sent = [
            {"name": one.name, "description": one.description, "inputSchema": one.input_schema}
            for one in tools
        ]
        assert count(json.dumps(sent)) <= 1500
        cost = quoted = 0
        for query in QUESTIONS:
            answer = await client.call_tool("search", {"query": query})
            line: str = answer.content[0].text  # type: ignore[union-attr]
            found = json.loads(line)
            assert len(found["passages"]) == 5
            cost += count(line)
            quoted += sum(count(each["text"]) for each in found["passages"])
            for each in found["passages"]:
                lines = Path(each["file"]).read_text(encoding="utf-8").split("\n")
                first = each["text"].strip("\u2026 \n").split("\n")[0].split()[0]
                assert first.strip("*_`[](),.:") in lines[each["line"] - 1]
    assert cost <= 1.35 * quoted


def test_ctrl_c_ends_a_server_whose_change_waits(tmp_path: Path) -> None:
    index = built(tmp_path, [{"id": "1", "text": "the cat sat"}])
    command = ctrl_c.slimdex("mcp", str(index), "--write", "--wait", "3600")
    pipe = subprocess.PIPE
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    add = {"name": "add", "arguments": {"documents": [{"text": "a dog"}]}}
    with (
        FileLock(index, "writer").hold(),  # so the addition waits for an hour
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        for id, method, params in (
            (1, "initialize", hello),
            (2, "tools/call", add),
            (3, "ping", {}),
        ):
            message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        assert [json.loads(process.stdout.readline())["id"] for _ in range(2)] == [1, 3]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    with Collection.open(index) as collection:
        assert [document.id for document in collection] == ["1"]
