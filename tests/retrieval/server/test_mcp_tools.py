"""The tools of the Model Context Protocol, asked by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from queue import Queue
from threading import Event
from typing import Any, TypeVar

import pytest
from llama_index.core.utils import get_tokenizer
from mcp import Client, StdioServerParameters

from slimdex.command_line import app
from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.commands import SearchResult
from slimdex.retrieval.documents import Hit
from slimdex.retrieval.index import Index
from slimdex.retrieval.server.agents_server import AgentsServer
from slimdex.retrieval.server.mcp_tools import agents_server
from tests.encoders import WordEncoder

from .asking import asking
from .running import built, word_vectors

T = TypeVar("T")
DOCS = Path(__file__).parents[3] / "docs"
QUESTIONS = ["delete documents", "memory of an index", "how long does an addition take", "filters"]
TEXTS = ["the cat sat on the mat", "stocks fell sharply on monday", "a dog slept on a rug " * 200]


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
    servers, over = Queue[AgentsServer](), Event()

    def serve(server: AgentsServer, *_: object) -> None:
        servers.put(server)
        over.wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AgentsServer, "serve", serve)
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


async def tools_work(client: Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"search", "related", "get", "fetch", "info"}
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
    assert 1000 < len(first["text"]) <= 1200  # short enough to be quoted
    named = await called(client, "search", query="T1", limit=1)  # of which there is no vector
    assert named["passages"][0]["id"] == "1"
    some = await called(client, "search", query="a dog on a rug", where="n < 2")
    assert sorted(one["id"] for one in some["passages"]) == ["0", "1"]
    whole = await called(client, "fetch", id="2")
    assert (whole["characters"], whole["text"]) == (len(TEXTS[2]), TEXTS[2][:8000])
    part = await called(client, "fetch", id="2", start=4190)
    assert part["text"] == TEXTS[2][4190:]
    near = await called(client, "related", id="2", limit=2)
    assert sorted(one["id"] for one in near["passages"]) == ["0", "1"]
    assert near["passages"][0]["text"] == TEXTS[int(near["passages"][0]["id"])]
    (only,) = (await called(client, "related", id=2, where="n = 1"))["passages"]
    assert only["id"] == "1"
    about = await called(client, "info")
    assert (about["name"], about["documents"], about["encoder"]) == ("notes", 3, "words.txt")
    assert about["columns"][0]["name"] == "n"

    for tool, arguments in (
        ("fetch", {"id": "none"}),
        ("related", {"id": "none"}),
        ("get", {"documents": [{"id": "0"}, {"id": "none"}]}),
        ("get", {"documents": []}),
        ("search", {"query": "x", "where": "yer > 1"}),
    ):
        await refused(client, tool, **arguments)
    assert "limit=0; expected" in await refused(client, "search", query="x", limit=0)
    assert "at most 100000" in await refused(client, "search", query="x" * 200_000)
    assert "regex '(?=tea)': " in await refused(client, "search", query="x", regex="(?=tea)")
    for tool, wrong, given in (
        ("search", "k", {"query": "x", "k": 3}),
        ("serch", "serch", {"query": "x"}),
        ("info", "note", {"index": "note"}),
    ):
        assert wrong in await refused(client, tool, **given)
    half = json.dumps([{"id": "\ud83d"}])  # some clients send JSON as a text
    assert "not Unicode" in await refused(client, "get", documents=half)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    line: str = answer.content[0].text  # type: ignore[union-attr]
    assert "\n" not in line
    return line


async def test_tools_over_stdin_and_stdout(notes: Path) -> None:
    words, cache = ["-m", "slimdex", "mcp", str(notes)], os.environ["SLIMDEX_CACHE"]
    server = StdioServerParameters(command=sys.executable, args=words, env={"SLIMDEX_CACHE": cache})
    async with Client(server) as client:
        await tools_work(client)
        # The index is open no longer than a call takes: others may write to it.
        with Collection.open(notes) as collection:
            collection.delete("0")
        assert (await called(client, "info"))["documents"] == 2


async def test_lines_of_notes_are_those_of_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    word_vectors(tmp_path)
    Path("notes").mkdir()
    wrapped = "the cat sat\non the mat\n\n" * 90 + "a dog slept\non the rug\n\n" * 90
    note = f"---\ntitle: Pets\ntags: [cat]\n---\n\n# Pets\n\n{wrapped}"
    Path("notes/pets.md").write_text(note)
    Path("notes/page.html").write_text("\n\n\n<title>x</title>\n\n<p>stocks\nfell")
    slimdex("build", "notes", "--model", "words.txt", "--out", "i")
    lines = note.split("\n")
    async with agent(tmp_path / "i") as client:
        found = await called(client, "search", query="a dog slept on the rug", limit=2)
        (pets,) = (one for one in found["passages"] if one["id"] == "pets.md")
        assert len(pets["text"]) < len(note) / 2
        quoted = " ".join(lines[pets["line"] - 1 : pets["last_line"]]).split()
        assert pets["text"].strip("…").split() == quoted
        asked = [{key: pets[key] for key in ("id", "line", "last_line")}]
        (read,) = (await called(client, "get", documents=asked))["documents"]
        assert read["text"].split() == quoted
        assert (read["line"], read["last_line"]) == (pets["line"], pets["last_line"])
        (page,) = (one for one in found["passages"] if one["id"] == "page.html")
        assert not page.keys() & {"line", "last_line"}


async def test_passages_have_files_lines_and_links(
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
        assert f"{found['folder']}/{own['id']}" == str(file)
        last = own["line"] - 1 + len(own["text"].split("\n"))
        assert own["text"] == "\n".join(lines[own["line"] - 1 : last])
        assert by_id["p"]["metadata"] == {"url": "https://example.org/p"}
        assert "metadata" not in own
        assert json.dumps(found).count("a b.py") == 1

        asked = [{"id": "a b.py", "line": 4, "last_line": 5}, {"id": "notes/long.txt", "line": 7}]
        read = await called(client, "get", documents=asked)
        assert read["folder"] == str(tmp_path / "notes")
        code_lines, more = read["documents"]
        assert code_lines["text"] == "def rain():\n    return 'snow'"
        assert (code_lines["line"], code_lines["last_line"], code_lines["lines"]) == (4, 5, 9)
        assert code_lines["metadata"]["kind"] == "code"
        assert (more["id"], more["line"], more["lines"]) == ("long.txt", 7, 1000)
        assert more["text"] == "\n".join(long.split("\n")[6 : more["last_line"]])
        assert 7900 < len(more["text"]) <= 8000
        assert long[more["start"] :].startswith(more["text"])
        asked = [{"id": "long.txt", "line": more["last_line"] + 1, "last_line": 2000}]
        (rest,) = (await called(client, "get", documents=asked))["documents"]
        assert rest["text"].startswith(long.split("\n")[more["last_line"]])
        patterns: list[dict[str, Any]] = [{"glob": ["*.txt", "*.md"]}, {"regex": r"mat 7$"}]
        for narrowing in patterns:
            some = await called(client, "search", query="cat rug", **narrowing)
            assert [one["id"] for one in some["passages"]] == ["long.txt"]
        file.unlink()
        gone = await called(client, "search", query="cat rug", where="kind = 'code'")
        assert gone["folder"] == "notes"  # as in the index


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

    async with agent(index, "--sync", folder) as client:
        assert (await fresh(client, "info"))["documents"] == 2
        (folder / "cat.txt").write_text("a dog slept on a rug")
        (folder / "snow.txt").write_text("snow on monday")
        (folder / "rain.txt").unlink()
        found = await fresh(client, "search", query="snow on monday")
        assert [one["id"] for one in found["passages"]] == ["snow.txt", "cat.txt"]
        for file in folder.iterdir():
            file.unlink()
        found = await fresh(client, "related", id="cat.txt")
        assert [one["id"] for one in found["passages"]] == ["snow.txt"]
        assert "could not be brought up to date" in found["note"]
        assert "no files to read" in found["note"]


async def test_agents_add_and_delete_documents(notes: Path) -> None:
    async with agent(notes, "--write") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        changes = {"add", "delete", "sync"}
        assert set(tools) == {"search", "related", "get", "fetch", "info"} | changes
        for name in changes:
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
            ("add", {"documents": [snow | {"metadata": {"n": "soon"}}]}),
            ("delete", {"ids": ["0", "none"]}),
            ("delete", {"where": "yer > 1"}),
            ("delete", {}),
            ("delete", {"ids": ["0"], "index": "other"}),
            ("sync", {}),  # it was never synced
        ):
            await refused(client, tool, **arguments)
        assert await called(client, "delete", ids=[own, "0"]) == {"deleted": 2, "documents": 2}
        assert await called(client, "delete", where="kind = 'weather'") == {
            "deleted": 1,
            "documents": 1,
        }


async def test_blank_arguments_are_as_if_left_out(notes: Path) -> None:
    """Models fill in optional arguments, as OpenAI's strict mode requires."""
    async with agent(notes, "--write") as client:
        asked = {"query": "a dog on a rug", "limit": 2}
        expected = await called(client, "search", **asked)
        for blank in (None, "", " ", [""], []):
            for name in ("index", "where", "glob", "regex"):
                assert await called(client, "search", **asked, **{name: blank}) == expected
            near = await called(client, "related", id="2", limit=blank, where=blank)
            assert near == await called(client, "related", id="2")
            lines = [{"id": "0", "line": blank, "last_line": blank}]
            (read,) = (await called(client, "get", documents=lines, index=blank))["documents"]
            assert read["text"] == TEXTS[0]
            assert (await called(client, "fetch", id="0", start=blank))["text"] == TEXTS[0]
            new = {"id": "3", "text": "snow", "title": blank, "metadata": blank}
            await called(client, "add", documents=[new])
            again = {"id": blank, "text": "rain", "title": blank}
            assert (await called(client, "add", documents=[again]))["documents"] == 5
            assert (await called(client, "fetch", id="3"))["metadata"] == {}
            await refused(client, "delete", ids=blank, where=blank)  # and not everything
            assert (await called(client, "info"))["documents"] == 5
            assert "query" in await refused(client, "search", query=blank)


async def test_schemas_have_no_unions_and_no_references(notes: Path) -> None:
    async with agent(notes, "--write") as client:
        for tool in (await client.list_tools()).tools:
            schema = json.dumps(tool.input_schema)
            assert not {"$ref", "$defs", "anyOf", "null"} & set(schema.split('"'))
            assert tool.output_schema is None


async def test_tools_and_answers_cost_few_tokens(tmp_path: Path) -> None:
    """A search costs at most 1.3 times its quotes, and each is at its line of its file."""
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
        assert count(json.dumps(sent)) <= 1000
        cost = quoted = 0
        for query in QUESTIONS:
            answer = await client.call_tool("search", {"query": query})
            line: str = answer.content[0].text  # type: ignore[union-attr]
            found = json.loads(line)
            assert len(found["passages"]) == 5
            cost += count(line)
            quoted += sum(count(each["text"]) for each in found["passages"])
            for each in found["passages"]:
                file = Path(found["folder"]) / each["id"]
                lines = file.read_text(encoding="utf-8").split("\n")
                first = each["text"].strip("\u2026 \n").split("\n")[0].split()[0]
                assert first.strip("*_`[](),.:") in lines[each["line"] - 1]
    assert cost <= 1.3 * quoted


@pytest.mark.parametrize(
    ("id", "title", "headings", "text", "shown"),
    [
        ("client_guide.md", "Client Guide", ["Client Guide", "Cookies"], "Use one.", "Cookies"),
        ("client_guide.md", "Client Guide", ["Cookies"], "## Cookies\nUse one.", ""),
        ("b.md", "Boiler", ["Faults", "E4031"], "Open the tap.", "Boiler > Faults > E4031"),
        ("a/Reader.java", "Reader", ["Reader", "Reader.peek"], "// next", "Reader.peek"),
        ("a/Reader.java", "Reader", ["Reader.peek"], "int peek() {\n}", ""),
        ("io.py", "io.py", ["Reader", "Reader.peek"], "return 1", "Reader.peek"),
        ("a.txt", "", [], "Open the tap.", ""),
    ],
)
async def test_titles_state_what_ids_and_quotes_do_not(
    id: str, title: str, headings: list[str], text: str, shown: str
) -> None:
    hit = Hit(id, 0.5, text, title, {"path": id}, headings=headings)

    async def read(name: str, command: object, where: str | None) -> Any:
        return SearchResult([[hit]], None, "")

    async with Client(agents_server(["i"], read)) as client:
        (passage,) = (await called(client, "search", query="tap"))["passages"]
    assert passage.get("title") == (shown or None)


async def test_a_change_reports_its_progress(notes: Path) -> None:
    reports = list[tuple[float, str]]()

    async def report(progress: float, total: float | None, message: str | None) -> None:
        assert message is not None
        reports.append((progress, message))

    documents = [{"id": f"new {i}", "text": f"rain fell {i}"} for i in range(200)]
    async with agent(notes, "--write") as client:
        await client.call_tool("add", {"documents": documents}, progress_callback=report)
        assert (await called(client, "info"))["documents"] == 203
    numbers = [number for number, _ in reports]
    assert numbers == sorted({*numbers})
    assert any(message == "encoding: 200 of 200" for _, message in reports)


async def test_a_change_ends_when_its_agent_cancels_it(tmp_path: Path) -> None:
    begun, released = Event(), Event()

    class SlowEncoder(WordEncoder):
        def encode(self, texts: Sequence[str]) -> Matrix:
            if "slow" in texts:
                begun.set()
                assert released.wait(60)
            return super().encode(texts)

    with Collection.create(tmp_path / "i", SlowEncoder()) as collection:

        async def change(name: str, command: Callable[[Index], T], where: str | None) -> T:
            return await server.changes.run(partial(command, collection.index))

        server = agents_server(["i"], change, change)
        async with Client(server) as client:
            call = client.call_tool("add", {"documents": [{"id": "1", "text": "slow"}]})
            adding = asyncio.create_task(call)
            assert await asyncio.to_thread(begun.wait, 60)
            adding.cancel()
            await asyncio.wait([adding])
            await client.list_tools()  # after it, the server has read that the call is cancelled
            released.set()
            assert await server.changes.stop()
            assert len(collection) == 0
            await called(client, "add", documents=[{"id": "2", "text": "slow"}])
            assert len(collection) == 1


async def test_agents_sync_with_the_files_that_are_followed(notes: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("rain of tuesday")
    async with agent(notes, "--write", "--sync", folder) as client:
        assert (await called(client, "sync"))["added"] == 1
        (folder / "a.txt").write_text("rain of wednesday")
        (folder / "new.txt").write_text("fog")
        synced = await called(client, "sync")
        assert (synced["added"], synced["changed"], synced["unchanged"]) == (1, 1, 3)


async def test_a_service_has_the_same_tools(notes: Path) -> None:
    async with (
        asking({"notes": notes}, encoder=None) as (_, service),
        Client(agents_server(service.indexes.keys(), service.read)) as client,
    ):
        await tools_work(client)


async def test_tools_over_http(notes: Path) -> None:
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
                found = await called(client, "search", query="a dog on a rug", limit=1)
                assert found["passages"][0]["id"] == "2"
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as own:
        return own.connect_ex(("127.0.0.1", port)) == 0
