"""Sixteen processes write and read one index and are killed, beside three that stay open."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.operations.repair import verify
from tests import forked
from tests.chance import CHANCE, sweep
from tests.conftest import Report
from tests.retrieval.server.running import Running, built, serving

from .notes import Ledger, Shared, group, groups_of, notes_kept, plain, read, timed, write

FIRST = 1500
"""Documents at first: so many that additions need no new fit."""
SECONDS = CHANCE.count(600, 15)
WRITERS = [f"writer{i}" for i in range(8)]
READERS = [f"reader{i}" for i in range(8)]
NOTEBOOK, SERVICE, AGENT = "notebook", "service", "agent"
CHANGES = ("done", "added", "deleted", "compacted", "indexed")
FEWEST_KILLS = 6
"""Kills that are waited for, however slow the machine."""
PAUSE = 0.5
"""Seconds between two cells of the notebook, or calls of the agent."""


def started(shared: Shared, name: str) -> ForkServerProcess:
    """Start a process of a name."""
    if name == NOTEBOOK:
        return forked.process(write, shared, name, PAUSE)
    return forked.process(write if name in WRITERS else read, shared, name)


class Killing:
    """Processes of which any is killed at any time, and started again."""

    def __init__(self, shared: Shared) -> None:
        self.shared, self.kills = shared, 0
        self.notebook = started(shared, NOTEBOOK)
        self.running = {name: started(shared, name) for name in (*WRITERS, *READERS)}

    def kill_one(self, chosen: random.Random) -> None:
        name = chosen.choice([*self.running])
        self.end(self.running[name])
        self.running[name] = started(self.shared, name)
        self.kills += 1

    def end(self, process: ForkServerProcess) -> None:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()

    def all_alive(self) -> bool:
        return all(process.is_alive() for process in (self.notebook, *self.running.values()))

    def end_all(self) -> None:
        for process in (self.notebook, *self.running.values()):
            self.end(process)


def ask_service(shared: Shared, running: Running, over: threading.Event) -> None:
    """Write a group over HTTP, and search for all others."""
    ledger = shared.ledger(SERVICE)
    place, number = "/indexes/notes", 0
    while not over.is_set():
        number += 1
        ledger.note("begun", number)
        lines = [{"id": d.id, "text": d.text, **d.metadata} for d in group(SERVICE, number)]
        with timed(ledger, "done", number):
            answer = running.client.post(
                f"{place}/documents",
                content="\n".join(map(json.dumps, lines)),
                headers={"Content-Type": "application/x-ndjson"},
            )
        assert answer.status_code == 200, answer.text
        least = shared.least()
        body = {"query": "a cat", "limit": 500, "where": "number > 0", "hybrid": "off"}
        with timed(ledger, "found"):
            answer = running.client.post(f"{place}/search", json=body)
        assert answer.status_code == 200, answer.text
        hits = answer.json()["queries"][0]["hits"]
        shared.check([numbered(hit["metadata"]) for hit in hits], least)


async def ask_agent(shared: Shared, over: threading.Event) -> None:
    """Write a group, and now and then a note or its deletion; search for a group."""
    words = ["-m", "slimdex", "mcp", str(shared.index), "--write", "--wait", "600"]
    ledger, number = shared.ledger(AGENT), 0

    async def called(word: str, tool: str, **arguments: Any) -> Any:
        with timed(ledger, word, number):
            answer = await client.call_tool(tool, arguments)
        assert not answer.is_error, answer
        return answer.structured_content

    async with Client(StdioServerParameters(command=sys.executable, args=words)) as client:
        while not over.is_set():
            number += 1
            ledger.note("begun", number)
            await called("done", "add", documents=[*map(given, group(AGENT, number))])
            if number % 4 == 1:
                ledger.note("adding", number)
                await called("added", "add", documents=[given(plain(AGENT, number))])
            elif number % 12 == 0:
                ledger.note("deleting", number)
                await called("deleted", "delete", where=f"writer = '{AGENT}' AND number = 0")
            name = shared.writers[number % len(shared.writers)]
            least = dict.fromkeys(shared.writers, 0) | {name: shared.least()[name]}
            where = f"writer = '{name}' AND number > 0"
            found = await called("found", "search", query="a cat", limit=50, where=where)
            shared.check([numbered(each["metadata"]) for each in found["passages"]], least)
            await asyncio.sleep(PAUSE)


def given(document: Document) -> dict[str, Any]:
    """A document as an agent gives it."""
    return {"id": document.id, "text": document.text, "metadata": dict(document.metadata)}


def numbered(metadata: dict[str, Any]) -> tuple[str, int]:
    return metadata["writer"], metadata["number"]


def guarded(task: Callable[[], object], ledger: Ledger, over: threading.Event) -> threading.Thread:
    """A thread that notes its error and ends everything."""

    def run() -> None:
        try:
            task()
        except BaseException as error:
            ledger.note("fault", repr(f"{error!r} {getattr(error, 'exceptions', '')}"))
            over.set()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def faults(shared: Shared, names: Sequence[str]) -> list[str]:
    lines = [(name, line) for name in names for line in shared.ledger(name).lines()]
    return [f"{name}: {' '.join(line)}" for name, line in lines if line[0] == "fault"]


def check_end(shared: Shared) -> None:
    """Nothing acknowledged is missing, and nothing is there that nobody has written."""
    assert verify(shared.index) == []
    with Collection.open(shared.index) as collection:
        found = groups_of(collection.search("cat", 10_000, hybrid="off"))
        shared.check(found, shared.least())
        documents = {document.id: document for document in collection}
        assert len(collection) == len(documents)
    expected = FIRST + len(found)
    for name in shared.writers:
        must, may = notes_kept(shared.ledger(name))
        notes = {int(id.split()[-1]) for id in documents if id.startswith(f"{name} note ")}
        assert must <= notes <= may, (name, must - notes, notes - may)
        expected += len(notes)
    assert len(documents) == expected


@sweep
def test_sixteen_processes_killed_at_any_time_lose_nothing(tmp_path: Path, report: Report) -> None:
    index = built(tmp_path, [plain("first", i) for i in range(FIRST)])
    shared = Shared(index, [*WRITERS, NOTEBOOK, SERVICE, AGENT])
    chosen, over = CHANCE.random("processes"), threading.Event()
    killing = Killing(shared)
    with serving([index], "--wait", 600) as running:
        threads = [
            guarded(lambda: ask_service(shared, running, over), shared.ledger(SERVICE), over),
            guarded(lambda: asyncio.run(ask_agent(shared, over)), shared.ledger(AGENT), over),
        ]
        end = time.monotonic() + SECONDS
        while not over.wait(2 * chosen.random()) and killing.all_alive():
            if time.monotonic() >= end and killing.kills >= FEWEST_KILLS:
                break
            killing.kill_one(chosen)
        over.set()
        for thread in threads:
            thread.join()
        is_whole = killing.all_alive()
        killing.end_all()
    names = [*READERS, *shared.writers]
    assert faults(shared, names) == []
    assert is_whole
    check_end(shared)
    searches, changes = (
        [seconds for name in names for seconds in shared.ledger(name).times(words)]
        for words in (("found",), CHANGES)
    )
    report(
        f"{SECONDS} s, {killing.kills} kills: {len(searches)} searches, the longest "
        f"{max(searches):.1f} s; {len(changes)} commits, the longest {max(changes):.1f} s",
        kills=killing.kills,
        searches=len(searches),
        changes=len(changes),
        longest_search_s=max(searches),
        longest_change_s=max(changes),
    )
