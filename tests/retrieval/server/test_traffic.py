"""Many search while one writes, over HTTP and by commands; the service is killed in between."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import httpx
import psutil
import pytest

from slimdex.retrieval.collection import Collection
from tests import forked
from tests.chance import CHANCE
from tests.conftest import Report

from .running import WORDS, Running, built, serving

pytestmark = [pytest.mark.slow, pytest.mark.sweep]

SECONDS, FIRST, READERS = (600.0, 2000, 32) if CHANCE.whole else (4.0, 800, 12)
GROWTH = 1.25
"""What the service may hold at the end, by what it held after a fifth of the time."""


class Traffic:
    """What is known to be in the index, and what went wrong.

    Attributes
    ----------
    known : id -> version, of what was acknowledged.
    unsure : ids of what was under way when the service was killed.
    """

    def __init__(self, running: Running, folder: Path, index: Path) -> None:
        self.running, self.folder, self.index = running, folder, index
        self.known = {str(i): 0 for i in range(FIRST)}
        self.unsure = set[str]()
        self.wrong, self.searches, self.changes = list[str](), 0, 0
        self.over, self.down = threading.Event(), threading.Event()
        self.changing = threading.Lock()
        self.random = random.Random(CHANCE.seed)
        self.synced = dict[str, int]()

    def read(self) -> None:
        """Search until it is over; each answer is of one moment, whole."""
        own = random.Random(threading.get_ident())
        with httpx.Client(timeout=60) as client:
            while not self.over.is_set():
                body: dict[str, Any] = {"query": " ".join(own.choices(WORDS, k=3)), "limit": 10}
                if own.random() < 0.2:
                    body["where"] = f"version >= {own.randrange(3)}"
                if own.random() < 0.5:
                    body["hybrid"] = "off"
                try:
                    url = f"{self.running.url}/indexes/notes/search"
                    answer = client.post(url, json=body)
                except httpx.HTTPError as error:
                    if not self.down.is_set():
                        self.wrong.append(repr(error))
                    time.sleep(0.05)
                    continue
                self.check(answer, is_by_score="hybrid" in body)
                self.searches += 1

    def check(self, answer: httpx.Response, is_by_score: bool) -> None:
        """A torn answer has a document's text of one version and its columns of another."""
        if answer.status_code != 200:
            self.wrong.append(answer.text)
            return
        hits = answer.json()["queries"][0]["hits"]
        scores = [hit["score"] for hit in hits]
        is_sorted = scores == sorted(scores, reverse=True) or not is_by_score
        if not is_sorted or len({hit["id"] for hit in hits}) < len(hits):
            self.wrong.append(f"order {answer.text[:200]}")
        for hit in hits:
            if not hit["text"].endswith(f"version {hit['metadata']['version']}"):
                self.wrong.append(f"torn {hit}")

    def write(self) -> None:
        """Change something until it is over, in each of the ways in turn."""
        ways = [self.put, self.bulk, self.delete, self.command_add, self.command_delete]
        ways += [self.sync, self.compact]
        while not self.over.is_set():
            for way in ways:
                if not self.over.is_set() and not self.down.is_set():
                    self.change(way)
            time.sleep(0.05)

    def change(self, way: Callable[[], set[str]]) -> None:
        """One change; while the service is being killed it may fail."""
        with self.changing:
            try:
                way()
                self.changes += 1
            except (httpx.HTTPError, AssertionError) as error:
                if not self.down.is_set():
                    self.wrong.append(f"{way.__name__}: {error!r}")

    def document(self, id: str, version: int) -> dict[str, Any]:
        words = " ".join(random.Random(f"{id} {version}").choices(WORDS, k=8))
        return {"id": id, "text": f"{words} version {version}", "version": version}

    def some(self, count: int) -> list[str]:
        plain = sorted(id for id in self.known if not id.startswith("sync"))
        return self.random.sample(plain, min(count, len(plain)))

    def told(self, ids: set[str], versions: dict[str, int | None]) -> set[str]:
        """What was acknowledged; before that, it is not sure."""
        for id in ids:
            version = versions.get(id)
            if version is None:
                self.known.pop(id, None)
            else:
                self.known[id] = version
        self.unsure -= ids
        return ids

    def put(self) -> set[str]:
        (id,) = self.some(1)
        version = self.known[id] + 1
        self.unsure.add(id)
        body = self.document(id, version)
        del body["id"]
        answer = self.running.client.put(f"/indexes/notes/documents/{id}", json=body)
        assert answer.status_code == 200, answer.text
        return self.told({id}, {id: version})

    def bulk(self) -> set[str]:
        ids = self.some(100) + [f"b{self.changes}-{i}" for i in range(100)]
        versions: dict[str, int | None] = {id: self.known.get(id, -1) + 1 for id in ids}
        self.unsure |= set(ids)
        rows = [self.document(id, int(v or 0)) for id, v in versions.items()]
        answer = self.running.client.post("/indexes/notes/documents", json=rows)
        assert answer.status_code == 200, answer.text
        return self.told(set(ids), versions)

    def delete(self) -> set[str]:
        ids = set(self.some(100))
        self.unsure |= ids
        answer = self.running.client.post("/indexes/notes/delete", json={"ids": sorted(ids)})
        assert answer.status_code == 200, answer.text
        return self.told(ids, {})

    def command_add(self) -> set[str]:
        ids = [f"c{self.changes}-{i}" for i in range(20)]
        self.unsure |= set(ids)
        self.command("add", self.written("more", dict.fromkeys(ids, 1)))
        return self.told(set(ids), dict.fromkeys(ids, 1))

    def command_delete(self) -> set[str]:
        ids = set(self.some(10))
        self.unsure |= ids
        self.command("delete", *sorted(ids))
        return self.told(ids, {})

    def sync(self) -> set[str]:
        own = {f"sync{i}": self.changes for i in range(self.random.randrange(1, 40))}
        gone = set(self.synced) - set(own)
        self.unsure |= set(own) | gone
        self.command("sync", self.written("synced", own))
        self.synced = own
        return self.told(set(own) | gone, dict(own))

    def compact(self) -> set[str]:
        answer = self.running.client.post("/indexes/notes/compact")
        assert answer.status_code == 200, answer.text
        return set()

    def written(self, name: str, versions: dict[str, int]) -> str:
        """A file of documents."""
        source = self.folder / f"{name}.jsonl"
        source.write_text("\n".join(json.dumps(self.document(*item)) for item in versions.items()))
        return str(source)

    def command(self, name: str, *words: str) -> None:
        """Run a command on the index beside the service."""
        with open(os.devnull) as nothing, TemporaryFile() as said:
            streams = (nothing.fileno(), said.fileno(), said.fileno())
            child = forked.command(
                [name, str(self.index), *words, "--wait", "60"], os.environ, *streams
            )
            code = forked.exit_code(child, 120)
            said.seek(0)
            assert code == 0, said.read()

    def lost(self) -> list[str]:
        """List documents that are missing, outdated or not deleted, contrary to an answer.

        Changes without an answer, because the service was killed, may have either outcome.
        """
        there, after = dict[str, int](), dict[str, str]()
        while True:
            page = self.running.client.get("/indexes/notes/documents", params=after).json()
            there |= {each["id"]: each["metadata"]["version"] for each in page["documents"]}
            if not page["more"]:
                break
            after = {"after": page["documents"][-1]["id"]}
        for id in self.unsure:
            self.known.pop(id, None)
            if id in there:
                self.known[id] = there[id]
        self.unsure.clear()
        return [f"{id}: {version}" for id, version in there.items() ^ self.known.items()]

    def memory(self) -> int:
        """Bytes held between two changes, of which some take as much again for a moment."""
        with self.changing:
            held: int = psutil.Process(self.running.process.pid).memory_info().rss
            return held


def test_searches_and_changes_of_all_kinds(tmp_path: Path, report: Report) -> None:
    with ExitStack() as stack:
        traffic = Traffic(None, tmp_path, tmp_path / "notes.index")  # type: ignore[arg-type]
        index = built(tmp_path, [traffic.document(id, 0) for id in traffic.known])
        traffic.running = stack.enter_context(serving([index]))
        threads = [threading.Thread(target=traffic.read) for _ in range(READERS)]
        threads.append(threading.Thread(target=traffic.write))
        for thread in threads:
            thread.start()
        held = []
        for part in (0.2, 0.3):
            time.sleep(part * SECONDS)
            held.append(traffic.memory())
        traffic.down.set()
        traffic.running.process.kill()
        with traffic.changing:  # what was under way has failed, or a command has done it alone
            traffic.running = stack.enter_context(serving([index], "--wait", 60))
            lost = traffic.lost()
            traffic.down.clear()
        held_again = []
        for part in (0.2, 0.3):
            time.sleep(part * SECONDS)
            held_again.append(traffic.memory())
        traffic.over.set()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        lost += traffic.lost()
        assert traffic.running.stop() == 0
    megabytes = [round(rss / 1e6) for rss in (*held, *held_again)]
    report(
        f"{SECONDS:g} s, {READERS} readers: {traffic.searches} searches, "
        f"{traffic.changes} changes, {len(traffic.wrong)} wrong, {len(lost)} lost, {megabytes} MB",
        searches=traffic.searches,
        changes=traffic.changes,
        memory_bytes=max(*held, *held_again),
    )
    assert traffic.wrong == []
    assert lost == []
    assert traffic.searches > 100
    assert traffic.changes >= 7  # each way once
    if CHANCE.whole:
        assert held[1] < GROWTH * held[0]
        assert held_again[1] < GROWTH * held_again[0]
    with Collection.open(index) as collection:
        assert collection.verify() == []
