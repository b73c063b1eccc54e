"""Programs that write and read an index all the time, and what each of them has to do with others.

A writer replaces its group of documents by one commit at a time, all with the commit's number. It
notes in a file what it begins and what was acknowledged, so that others know which numbers they
may find, whenever it is killed.
"""

from __future__ import annotations

import os
import random
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Hit
from tests.retrieval.server.running import WORDS

GROUP = 8
"""Documents of a writer that are only ever replaced together."""
PATIENCE = 600.0
"""Seconds to wait for a turn: no measure of a slow machine's work."""
TAIL = 400
"""Bytes at the end of a ledger that hold its last lines."""


@dataclass(frozen=True)
class Ledger:
    """Calls that a process began and ended, a line each; the file survives the process's kill."""

    path: Path

    def note(self, *words: object) -> None:
        with self.path.open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def lines(self, tail: int = 0) -> list[list[str]]:
        """All lines, or those of the last bytes."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(max(0, self.path.stat().st_size - tail) if tail else 0)
            text = file.read().decode()
        return [line.split() for line in text[: text.rfind("\n") + 1].splitlines()[bool(tail) :]]

    def last(self, word: str) -> int:
        """Number of the last "begun" or "done", 0 if there is none."""
        for tail in (TAIL, 0):
            for found, *values in reversed(self.lines(tail)):
                if found == word:
                    return int(values[0])
        return 0

    def times(self, words: Sequence[str]) -> list[float]:
        """Seconds that each call took, without the first of a process, which loads libraries."""
        lines, found, known = self.lines(), list[float](), set[str]()
        for word, _, *told in lines:
            if word in words:
                seconds, process = told
                if process in known:
                    found.append(float(seconds))
                known.add(process)
        return found


@dataclass
class Shared:
    """An index that many processes use, and the folder of their ledgers."""

    index: Path
    writers: Sequence[str]

    def ledger(self, name: str) -> Ledger:
        return Ledger(self.index.parent / f"{name}.ledger")

    def least(self) -> dict[str, int]:
        """Last acknowledged number of each writer."""
        return {name: self.ledger(name).last("done") for name in self.writers}

    def check(self, found: Sequence[tuple[str, int]], least: dict[str, int]) -> None:
        """Check groups that were found, as (writer, number): whole, and neither too old nor new."""
        for name in {name for name, _ in found}:
            numbers = [number for writer, number in found if writer == name]
            most = self.ledger(name).last("begun")
            assert len(numbers) == GROUP, f"{len(numbers)} documents of {name}: {numbers}"
            assert len(set(numbers)) == 1, f"torn {name}: {numbers}"
            assert least[name] <= numbers[0] <= most, f"{name}: {least[name]} {numbers[0]} {most}"
        missing = {name for name in self.writers if least[name]} - {name for name, _ in found}
        assert not missing, f"no documents of {missing}"

    def search(self, collection: Collection, chosen: random.Random) -> None:
        """Search for all groups, or for one by a filter, and check what was found."""
        least = self.least()
        query = " ".join(chosen.choices(WORDS, k=3))
        if chosen.random() < 0.5:
            name = chosen.choice(self.writers)
            hits = collection.search(query, limit=50, where=f"writer = '{name}' AND number > 0")
            least = {each: least[each] if each == name else 0 for each in least}
        else:
            hits = collection.search(query, limit=10_000, hybrid="off")
        self.check(groups_of(hits), least)


def groups_of(hits: Sequence[Hit]) -> list[tuple[str, int]]:
    """(writer, number) of documents of groups."""
    for hit in hits:
        assert hit.text.endswith(f"commit {hit.metadata['number']}"), f"torn {hit}"
    found = [(hit.metadata["writer"], hit.metadata["number"]) for hit in hits]
    assert len({hit.id for hit in hits}) == len(hits), "an id twice"
    return [(writer, number) for writer, number in found if number]


def group(name: str, number: int) -> list[Document]:
    """The documents of a writer's commit."""
    chosen = random.Random(f"{name} {number}")
    texts = [" ".join(chosen.choices(WORDS, k=6)) for _ in range(GROUP)]
    metadata = {"writer": name, "number": number}
    return [
        Document(f"{name} {i}", f"{text} commit {number}", metadata=metadata)
        for i, text in enumerate(texts)
    ]


def plain(name: str, number: int) -> Document:
    """A document that is in no group."""
    text = f"{random.Random(f'{name} {number}').choice(WORDS)} commit 0"
    return Document(f"{name} note {number}", text, metadata={"writer": name, "number": 0})


def write(shared: Shared, name: str, pause: float = 0.0) -> None:
    """Change the index until killed; with a pause, search too."""
    ledger = shared.ledger(name)
    with noted(ledger), Collection.open(shared.index, wait=PATIENCE) as collection:
        chosen = random.Random(f"{name} {os.getpid()}")
        while True:
            number = ledger.last("begun") + 1
            change(collection, chosen.random(), name, number, ledger)
            if pause:
                with timed(ledger, "found"):
                    shared.search(collection, chosen)
                time.sleep(pause)


def change(collection: Collection, chance: float, name: str, number: int, ledger: Ledger) -> None:
    """Replace the group; now and then also add a note, delete all, compact, or index words."""
    ledger.note("begun", number)
    with timed(ledger, "done", number):
        collection.add(group(name, number))
    if chance < 0.2:
        ledger.note("adding", number)
        with timed(ledger, "added", number):
            collection.add(plain(name, number))
    elif chance < 0.25:
        ledger.note("deleting", number)
        with timed(ledger, "deleted", number):
            collection.delete(where=f"writer = '{name}' AND number = 0")
    elif chance < 0.27:
        with timed(ledger, "compacted"):
            collection.compact()
    elif chance < 0.28:
        with timed(ledger, "indexed"):
            collection.index_lexical()


def read(shared: Shared, name: str) -> None:
    """Search until killed."""
    ledger = shared.ledger(name)
    with noted(ledger), Collection.open(shared.index) as collection:
        chosen = random.Random(f"{name} {os.getpid()}")
        while True:
            with timed(ledger, "found"):
                shared.search(collection, chosen)


@contextmanager
def timed(ledger: Ledger, word: str, number: int = 0) -> Iterator[None]:
    """Note that something was done, and how long it took."""
    start = time.perf_counter()
    yield
    ledger.note(word, number, f"{time.perf_counter() - start:.4f}", os.getpid())


@contextmanager
def noted(ledger: Ledger) -> Iterator[None]:
    """Note an error, which ends the process."""
    try:
        yield
    except BaseException:
        ledger.note("fault", repr(traceback.format_exc()))
        raise


def notes_kept(ledger: Ledger) -> tuple[set[int], set[int]]:
    """Numbers of the notes that must be there, and of those that may be."""
    must, may = set[int](), set[int]()
    for word, number, *_ in ledger.lines():
        if word == "adding":
            may.add(int(number))
        elif word == "added":
            must.add(int(number))
        elif word == "deleting":
            must.clear()
        elif word == "deleted":
            may.clear()
    return must, may
