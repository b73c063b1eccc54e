"""Watching: `sync --watch` follows real files, calmly, and lets others read in between."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from time import monotonic, sleep
from typing import IO, Any

import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.word_vectors.static_encoder import StaticEncoder
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.sources import watching
from slimdex.retrieval.sources.source import Sources
from tests import ctrl_c
from tests.building import build
from tests.chance import CHANCE, sweep
from tests.conftest import Report

FILES, CHANGES, SECONDS = (10_000, 500, 60) if CHANCE.whole else (120, 30, 2)
WORDS = [f"word{i}" for i in range(200)]
EXACT = Settings(16, beta=0.0, gamma=0.0, reducer="identity", kind="flat")
PROGRAM = """
import sys
from slimdex.retrieval.cli import changes
from slimdex.retrieval.sources import watching
changes.RETRY_SECONDS, watching.CALM_MS, watching.TICK_MS = 0.5, 200, 200
sys.argv[0] = "slimdex"
from slimdex.__main__ import main
main()
"""
"""The command line, which waits a fifth of the usual time for calm."""


def text(r: random.Random) -> str:
    return f"# {r.choice(WORDS)} {r.random()}\n\n" + " ".join(r.choices(WORDS, k=12))


def write(path: Path, r: random.Random) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(r))


def built(index: str) -> None:
    sources = Sources.open("notes")
    build(Path(index), sources, lambda: StaticEncoder("words.vec"), EXACT)[0].close()


class Watcher:
    """A process that watches, and the lines that it has written."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            ctrl_c.program(PROGRAM, "sync", *arguments, "--watch", "--json"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: Queue[str] = Queue()
        self.said = list[str]()
        self._readers = [
            Thread(target=self._read, args=(self.process.stdout, self._lines.put), daemon=True),
            Thread(target=self._read, args=(self.process.stderr, self.said.append), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(lines: IO[str], take: Callable[[str], object]) -> None:
        with lines:
            for line in lines:
                take(line)

    def next(self) -> dict[str, Any]:
        """The counts of the next sync."""
        try:
            found: dict[str, Any] = json.loads(self._lines.get(timeout=120))
        except Empty:
            raise AssertionError(self.said) from None
        return found

    def until(self, is_so: Callable[[], bool]) -> int:
        """Wait for something; returns the number of syncs meanwhile."""
        end = monotonic() + 120
        while not is_so():
            assert monotonic() < end, self.said
            assert self.process.poll() is None, self.said
            sleep(0.1)
        return len([self._lines.get() for _ in range(self._lines.qsize())])

    def stop(self, by: int) -> None:
        self.process.send_signal(by)
        assert self.process.wait(timeout=60) == 0
        for reader in self._readers:
            reader.join()


def change(r: random.Random, files: list[Path]) -> None:
    """One file is written, moved, removed or made."""
    what, path = r.choice(["write", "write", "move", "remove", "new"]), r.choice(files)
    new = path.with_name(f"{r.randrange(10**9)}.md")
    if what == "write":
        write(path, r)
        return
    if what == "move":
        os.rename(path, new)
    elif what == "new":
        write(new, r)
    else:
        path.unlink()
    if what in ("move", "new"):
        files.append(new)
    if what in ("move", "remove"):
        files.remove(path)


def contents(index: str) -> dict[str, Any]:
    """The documents, once all have vectors."""
    with Collection.open(index, wait=30) as collection:
        if collection.info()["encoded"] < len(collection):
            return {}
        return {d.id: (d.title, d.text, dict(d.metadata)) for d in collection}


def answers(index: str, queries: list[str]) -> list[set[tuple[str, float]]]:
    with Collection.open(index, wait=30) as collection:
        found = collection.search_many(queries, limit=10, hybrid="off")
    return [{(hit.id, round(hit.score, 4)) for hit in hits} for hits in found]


@sweep
def test_files_that_change_at_random_end_as_a_fresh_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Report
) -> None:
    """Also if they are gone for a while, and if the index is restored from a copy."""
    monkeypatch.chdir(tmp_path)
    r = random.Random(7)
    lines = [f"{word} {' '.join(f'{r.gauss(0, 1):.4f}' for _ in range(16))}" for word in WORDS]
    Path("words.vec").write_text(f"{len(lines)} 16\n" + "\n".join(lines) + "\n")
    files = [Path(f"notes/{i % 97}/{i}.md") for i in range(FILES)]
    for path in files:
        write(path, r)
    built("x")
    shutil.copytree("x", "copy")
    watcher = Watcher("x", "notes")
    watcher.next()
    began = monotonic()
    for number in range(CHANGES):
        change(r, files)
        if number % (CHANGES // 5) == 0:
            answers("x", ["word1 word2"])  # others read meanwhile
        sleep(max(0.0, began + number * SECONDS / CHANGES - monotonic()))
    built("fresh")
    expected = contents("fresh")
    assert len(expected) == len(files)
    rounds = watcher.until(lambda: contents("x") == expected)
    assert rounds <= CHANGES / 3  # many come together
    assert verify(Path("x")) == []
    queries = [" ".join(r.choices(WORDS, k=5)) for _ in range(100)]
    assert answers("x", queries) == answers("fresh", queries)

    os.rename("notes", "elsewhere")
    Path("notes").mkdir()
    watcher.until(lambda: "error: notes: no files" in "".join(watcher.said))
    os.rmdir("notes")
    watcher.until(lambda: "error: notes: no such file" in "".join(watcher.said))
    assert contents("x") == expected
    os.rename("elsewhere", "notes")
    write(Path("notes/new.md"), r)
    found = watcher.next()
    assert (found["added"], found["documents"]) == (1, len(files) + 1)

    expected = contents("x")
    os.rename("x", "old")
    os.rename("copy", "x")
    watcher.until(lambda: contents("x") == expected)
    watcher.stop(signal.SIGTERM)
    said = "".join(watcher.said)
    assert "watching; Ctrl-C ends it" in said
    assert "no longer watching" in said
    report(f"{FILES} files, {CHANGES} changes, {rounds} rounds", documents=FILES, changes=CHANGES)


def test_a_file_by_itself_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(watching, "TICK_MS", 10)
    Path("a.csv").write_text("id,text\n1,a\n")
    ticks = watching.ticks([Path("a.csv")], Path("x"))
    assert [next(ticks) for _ in range(3)] == [True, False, False]
    Path("b.csv").write_text("id,text\n1,b b\n")
    os.replace("b.csv", "a.csv")  # as editors save
    assert next(ticks) is True
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0)
    assert next(ticks) is True
