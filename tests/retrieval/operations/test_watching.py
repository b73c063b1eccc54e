"""Watching: `sync --watch` follows real files, calmly, and lets others read in between."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from time import monotonic, sleep
from typing import IO, Any

import pytest

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.operations import watching
from slimdex.retrieval.operations.repair import verify
from tests import ctrl_c
from tests.conftest import Report

WHOLE = bool(os.environ.get("SLIMDEX_SWEEP"))
FILES, CHANGES, SECONDS = (10_000, 500, 60) if WHOLE else (120, 30, 4)
WORDS = [f"word{i}" for i in range(200)]
EXACT = ("--beta", "0", "--gamma", "0", "--reducer", "identity", "--kind", "flat", "--k", "16")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Word vectors of 200 words, and a folder of files that are made of them."""
    monkeypatch.chdir(tmp_path)
    r = random.Random(7)
    lines = [f"{word} {' '.join(f'{r.gauss(0, 1):.4f}' for _ in range(16))}" for word in WORDS]
    Path("words.vec").write_text(f"{len(lines)} 16\n" + "\n".join(lines) + "\n")


def slimdex(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "slimdex", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def text(r: random.Random) -> str:
    return f"# {r.choice(WORDS)} {r.random()}\n\n" + " ".join(r.choices(WORDS, k=12))


def write(path: Path, r: random.Random) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(r))


class Watcher:
    """A process that watches, and the lines that it has written."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            ctrl_c.slimdex("sync", *arguments, "--watch", "--json"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: Queue[str] = Queue()
        self._said = list[str]()
        self._readers = [
            Thread(target=self._read, args=(self.process.stdout, self._lines.put), daemon=True),
            Thread(target=self._read, args=(self.process.stderr, self._said.append), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(lines: IO[str], take: Callable[[str], object]) -> None:
        with lines:
            for line in lines:
                take(line)

    def next(self, timeout: float) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._lines.get(timeout=timeout))
        except Empty:
            assert self.process.poll() is None, self._said
            return None
        return found

    def stop(self, by: int = signal.SIGINT) -> str:
        self.process.send_signal(by)
        assert self.process.wait(timeout=60) == 0
        for reader in self._readers:
            reader.join()
        return "".join(self._said)


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
    with Collection.open(index, wait=30) as collection:
        return {d.id: (d.title, d.text, dict(d.metadata)) for d in collection}


def answers(index: str, queries: list[str]) -> list[set[tuple[str, float]]]:
    with Collection.open(index, wait=30) as collection:
        found = collection.search_many(queries, limit=10, hybrid="off")
    return [{(hit.id, round(hit.score, 4)) for hit in hits} for hits in found]


@pytest.mark.slow
@pytest.mark.sweep
def test_files_that_change_at_random_end_as_a_fresh_build(report: Report) -> None:
    r = random.Random(3)
    files = [Path(f"notes/{i % 97}/{i}.md") for i in range(FILES)]
    for path in files:
        write(path, r)
    slimdex("build", "notes", "--model", "words.vec", *EXACT, "--out", "x")
    watcher = Watcher("x", "notes")
    assert watcher.next(120) is not None
    began, lines = monotonic(), 0
    for number in range(CHANGES):
        change(r, files)
        if number % (CHANGES // 5) == 0:
            slimdex("search", "x", "word1 word2")  # others read meanwhile
        sleep(max(0.0, began + number * SECONDS / CHANGES - monotonic()))
    while watcher.next(8) is not None:  # until it is calm
        lines += 1
    said = watcher.stop()
    assert "watching; Ctrl-C ends it" in said
    assert "no longer watching" in said
    assert 1 <= lines <= CHANGES / 3  # many come together
    slimdex("build", "notes", "--model", "words.vec", *EXACT, "--out", "fresh")
    assert verify(Path("x")) == []
    old, new = contents("x"), contents("fresh")
    assert old == new
    assert len(old) == len(files)
    queries = [" ".join(r.choices(WORDS, k=5)) for _ in range(100)]
    assert answers("x", queries) == answers("fresh", queries)
    report(f"{FILES} files, {CHANGES} changes, {lines} rounds", documents=FILES, changes=CHANGES)


@pytest.mark.slow
def test_errors_while_watching_are_reported_and_retried() -> None:
    r = random.Random(4)
    for i in range(3):
        write(Path(f"notes/{i}.md"), r)
    slimdex("build", "notes", "--model", "words.vec", *EXACT, "--out", "x")
    watcher = Watcher("x", "notes")
    assert watcher.next(60) is not None
    os.rename("notes", "elsewhere")
    Path("notes").mkdir()
    sleep(3)
    os.rmdir("notes")
    sleep(2)
    assert len(contents("x")) == 3
    os.rename("elsewhere", "notes")
    write(Path("notes/new.md"), r)
    found = watcher.next(60)
    assert found is not None
    assert (found["added"], found["documents"]) == (1, 4)
    said = watcher.stop(signal.SIGTERM)
    assert "error: notes: no" in said


@pytest.mark.slow
def test_a_restored_index_is_synced_again() -> None:
    r = random.Random(5)
    write(Path("notes/0.md"), r)
    slimdex("build", "notes", "--model", "words.vec", *EXACT, "--out", "x")
    slimdex("copy", "x", "--out", "copy")
    write(Path("notes/1.md"), r)
    watcher = Watcher("x", "notes")
    assert watcher.next(60) is not None
    assert len(contents("x")) == 2
    os.rename("x", "old")
    os.rename("copy", "x")
    found = watcher.next(60)
    assert found is not None
    assert (found["added"], found["documents"]) == (1, 2)
    watcher.stop()


def test_a_file_by_itself_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "TICK_MS", 10)
    Path("a.csv").write_text("id,text\n1,a\n")
    ticks = watching.ticks([Path("a.csv")], Path("x"))
    assert [next(ticks) for _ in range(3)] == [True, False, False]
    Path("b.csv").write_text("id,text\n1,b b\n")
    os.replace("b.csv", "a.csv")  # as editors save
    assert next(ticks) is True
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0)
    assert next(ticks) is True
