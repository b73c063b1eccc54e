"""Processes write and read one index all the time and are killed, beside one that stays open.

A writer replaces its group of documents by one commit at a time, all with the commit's number. It
notes in a file what it begins and what was acknowledged, so that others know which numbers they
may find, whenever it is killed.
"""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Hit
from slimdex.retrieval.ingest.repairing import verify
from tests import forked
from tests.chance import CHANCE, sweep
from tests.retrieval.server.running import WORDS, built

FIRST = CHANCE.count(1500, 300)
"""Documents at first: so many that additions need no new fit."""
SECONDS, FEWEST_KILLS = CHANCE.count(600, 4), 3
"""Duration of the traffic, and the smallest number of kills, on slow machines too."""
EACH = CHANCE.count(8, 2)
WRITERS = [f"writer{i}" for i in range(EACH)]
READERS = [f"reader{i}" for i in range(EACH)]
NOTEBOOK = "notebook"
"""Writes and reads, and is never killed."""
PAUSE = 0.5
"""Seconds between two cells of the notebook."""
GROUP = 8
"""Documents of a writer that are only ever replaced together."""
PATIENCE = 600.0
"""Seconds to wait for a turn: no measure of a slow machine's work."""


@dataclass(frozen=True)
class Ledger:
    """Calls that a process began and ended, a line each; the file survives the process's kill."""

    path: Path

    def note(self, *words: object) -> None:
        with self.path.open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def lines(self) -> list[list[str]]:
        text = self.path.read_text() if self.path.exists() else ""
        return [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]

    def last(self, word: str) -> int:
        """Number of the last "begun" or "done", 0 if there is none."""
        return next((int(line[1]) for line in reversed(self.lines()) if line[0] == word), 0)

    def seconds(self, *words: str) -> list[float]:
        """Durations of the calls, in seconds."""
        return [float(line[2]) for line in self.lines() if line[0] in words]

    @contextmanager
    def timed(self, word: str, number: int = 0) -> Iterator[None]:
        """Note that something was done, and how long it took."""
        start = time.perf_counter()
        yield
        self.note(word, number, f"{time.perf_counter() - start:.4f}")


@dataclass
class Shared:
    """An index that many processes use, beside their ledgers."""

    index: Path

    def ledger(self, name: str) -> Ledger:
        return Ledger(self.index.parent / f"{name}.ledger")

    def least(self) -> dict[str, int]:
        """Last acknowledged number of each writer."""
        return {name: self.ledger(name).last("done") for name in (*WRITERS, NOTEBOOK)}

    def check(self, hits: list[Hit], least: dict[str, int]) -> None:
        """Raise `AssertionError` unless groups are whole, and neither too old nor too new."""
        assert len({hit.id for hit in hits}) == len(hits), "an id twice"
        for hit in hits:
            assert hit.text.endswith(f"commit {hit.metadata['number']}"), f"torn {hit}"
        for name in least:
            numbers = [hit.metadata["number"] for hit in hits if hit.metadata["writer"] == name]
            most = self.ledger(name).last("begun")
            if numbers or least[name]:
                assert len(numbers) == GROUP, f"{len(numbers)} documents of {name}: {numbers}"
                assert len(set(numbers)) == 1, f"torn {name}: {numbers}"
                assert least[name] <= numbers[0] <= most, f"{name}: {least[name]} {numbers[0]}"

    def search(self, collection: Collection, chosen: random.Random) -> None:
        """Search for all groups, or for one by a filter, and check what was found."""
        least, query = self.least(), " ".join(chosen.choices(WORDS, k=3))
        if chosen.random() < 0.5:
            name = chosen.choice([*least])
            hits = collection.search(query, limit=50, where=f"writer = '{name}'")
            least = {name: least[name]}
        else:
            hits = collection.search(query, limit=10_000, hybrid="off")
        self.check(hits, least)


def document(name: str, i: int, number: int) -> Document:
    """One of a writer's group."""
    words = " ".join(random.Random(f"{name} {i} {number}").choices(WORDS, k=6))
    metadata = {"writer": name, "number": number}
    return Document(f"{name} {i}", f"{words} commit {number}", metadata=metadata)


def work(shared: Shared, name: str) -> None:
    """Change the index, search it, or both, until killed; note an error, which ends it."""
    ledger, chosen = shared.ledger(name), random.Random(f"{name} {os.getpid()}")
    try:
        with Collection.open(shared.index, wait=PATIENCE) as collection:
            while True:
                if name not in READERS:
                    change(collection, chosen.random(), name, ledger)
                if name not in WRITERS:
                    with ledger.timed("found"):
                        shared.search(collection, chosen)
                if name == NOTEBOOK:
                    time.sleep(PAUSE)
    except BaseException:
        ledger.note("fault", repr(traceback.format_exc()))
        raise


def change(collection: Collection, chance: float, name: str, ledger: Ledger) -> None:
    """Replace the group; now and then also compact."""
    number = ledger.last("begun") + 1
    ledger.note("begun", number)
    with ledger.timed("done", number):
        collection.add([document(name, i, number) for i in range(GROUP)])
    if chance < 0.05:
        with ledger.timed("kept"):
            collection.compact()


class Killing:
    """Processes of which any is killed at any time, and started again."""

    def __init__(self, shared: Shared) -> None:
        self.shared, self.kills = shared, 0
        self.notebook = self.started(NOTEBOOK)
        self.running = {name: self.started(name) for name in (*WRITERS, *READERS)}

    def started(self, name: str) -> ForkServerProcess:
        return forked.process(work, self.shared, name)

    def kill_one(self, chosen: random.Random) -> None:
        name = chosen.choice([*self.running])
        self.end(self.running[name])
        self.running[name] = self.started(name)
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


@sweep
def test_sixteen_processes_killed_at_any_time_lose_nothing(
    tmp_path: Path, report: Callable[..., None]
) -> None:
    shared = Shared(built(tmp_path, [document("first", i, 0) for i in range(FIRST)]))
    killing, chosen = Killing(shared), CHANCE.random("processes")
    end = time.monotonic() + SECONDS
    ledgers = [shared.ledger(name) for name in (*READERS, *WRITERS, NOTEBOOK)]

    def is_over() -> bool:
        """On a slow machine, go on until there was a search and a change."""
        has_found = any(ledger.seconds("found") for ledger in ledgers)
        has_changed = any(ledger.seconds("done", "kept") for ledger in ledgers)
        is_late = time.monotonic() > end and killing.kills >= FEWEST_KILLS
        return is_late and has_found and has_changed

    while killing.all_alive() and not is_over():
        time.sleep(2 * chosen.random())
        killing.kill_one(chosen)
    is_whole = killing.all_alive()
    killing.end_all()
    assert [line for ledger in ledgers for line in ledger.lines() if line[0] == "fault"] == []
    assert is_whole
    assert verify(shared.index) == []
    with Collection.open(shared.index) as collection:
        shared.check(collection.search("cat", 10_000, hybrid="off"), shared.least())
        begun = sum(shared.ledger(name).last("begun") > 0 for name in (*WRITERS, NOTEBOOK))
        assert len(collection) in range(FIRST, FIRST + GROUP * begun + 1, GROUP)
    searches = [seconds for ledger in ledgers for seconds in ledger.seconds("found")]
    changes = [seconds for ledger in ledgers for seconds in ledger.seconds("done", "kept")]
    report(
        f"{SECONDS} s, {killing.kills} kills: {len(searches)} searches, the longest "
        f"{max(searches):.1f} s; {len(changes)} commits, the longest {max(changes):.1f} s",
        kills=killing.kills,
        searches=len(searches),
        changes=len(changes),
        longest_search_s=max(searches),
        longest_change_s=max(changes),
    )
