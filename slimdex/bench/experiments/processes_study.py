"""`slimdex bench running --only processes`: some add documents to a store, another searches it.

Then a process that has not had the store open looks for what was acknowledged.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, sleep
from typing import Any, Self

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.quality.evaluation import latency
from slimdex.system.progress import progress

from ..engines.engine import CHANGES, Batch, Place, Query
from ..engines.processes import Subprocess
from ..engines.registry import database
from ..rows import ResultsFile, Row, key_of

WRITERS = (1, 2, 4)
SIZES = (1, 100)
"""Processes that write, and documents of a commit."""
CHECKED = 100
"""Acknowledged documents that are searched for at the end, the last of each process."""
DIM = 384
LIMIT = 10
PAUSE_S = 0.01
"""Time between two searches."""
VOCABULARY = ("rain", "ship", "cake", "stone", "river", "night", "glass", "road", "wool", "salt")
QUERIES = 10**9
"""Number of the first query's vector, above those of all documents."""


def measure_processes(
    names: Sequence[str], stored: int, seconds: float, results: ResultsFile, about: Row
) -> None:
    """Write a row for each size of commits, number of writers and store, the stores in turns.

    A store has `stored` documents before others are added, for some seconds. A refused addition is
    counted, and not tried again.
    """
    cases = [*product(SIZES, WRITERS, names)]
    with TemporaryDirectory(prefix="slimdex-bench-") as path, ExitStack() as stack:
        folder = Path(path)
        groups = dict[str, list[Participant]]()
        # For each store: a process that searches, one that checks the end, and the writers.
        for name in names:
            groups[name] = []
            for _ in range(2 + max(WRITERS)):
                process = stack.enter_context(Subprocess(Participant, name))
                groups[name].append(process.remote)
        for name in names:
            groups[name][0].fill(folder / name, stored)

        for done, (size, writers, name) in enumerate(cases, start=1):
            # Chroma remembers paths, so each case has one of its own.
            copy = Path(shutil.copytree(folder / name, folder / f"{name} {done}"))
            facts: Row = {"what": "processes", "method": name, "rows": stored, "dim": DIM}
            facts |= {"processes": writers, "changed": size}
            columns = _write_and_search(copy, groups[name][: 2 + writers], facts, seconds)
            results.append({"key": key_of(facts)} | facts | columns | about)
            shutil.rmtree(copy)
            progress("measuring", done, len(cases))


def _write_and_search(
    folder: Path, processes: Sequence[Participant], facts: Row, seconds: float
) -> Row:
    """Have a process search and others write; then look in a process that has not been open."""
    searching, looking, *writing = processes
    for each in (searching, *writing):
        each.open(folder)
    # Number the writers' documents so far apart that no two writers add the same one.
    firsts = [facts["rows"] + i * 10**7 for i in range(1, 1 + len(writing))]

    def at_once(seconds: float, size: int, before: int) -> tuple[Calls, list[Calls]]:
        """Search and write for some seconds; writers start `before` documents ahead of `firsts`."""
        with ThreadPoolExecutor(1 + len(writing)) as pool:
            search = pool.submit(searching.search, seconds)
            writes = []
            for each, first in zip(writing, firsts, strict=True):
                writes.append(pool.submit(each.write, first - before, size, seconds))
            return search.result(), [write.result() for write in writes]

    at_once(0, 1, before=1)  # what the first calls load is not timed
    searched, written = at_once(seconds, facts["changed"], before=0)

    # What has been acknowledged must be there, and searches find it.
    ids = set[str]()
    last_ids = list[str]()
    for calls in written:
        ids.update(calls.ids)
        last_ids += calls.ids[-CHECKED // len(writing) :]
    looking.open(folder)
    ends = {
        "acknowledged": len(ids),
        "lost": len(ids - looking.ids()),
        "unseen_share": searching.unseen(last_ids),
        "unfound_share": looking.unseen(last_ids),
    }
    for each in processes:
        each.close()
    return _counts(searched, written, seconds) | ends


def _counts(searched: Calls, written: Sequence[Calls], seconds: float) -> Row:
    """Return columns about the calls of all processes together.

    If no call succeeded, its time is that of the run, `seconds`.
    """
    commits = list[float]()
    refusals = list[str]()
    for calls in written:
        commits += calls.seconds
        refusals += calls.refusals
    refusals += searched.refusals
    milliseconds = latency(commits or [seconds])
    return {
        "seconds": seconds,
        "changes": len(commits),
        "commits_per_s": sum(len(calls.seconds) / calls.elapsed for calls in written),
        **latency(searched.seconds or [seconds]),
        **{f"{name}_changes": value for name, value in milliseconds.items()},
        "searches": len(searched.seconds),
        "refused": len(refusals),
        "refusal": refusals[0] if refusals else None,
    }


@dataclass
class Calls:
    """Calls of a process: ids that it added, seconds of each and of all, and refusals."""

    ids: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    elapsed: float = 0.0
    refusals: list[str] = field(default_factory=list)

    @classmethod
    def repeat(
        cls, seconds: float, prepared: Callable[[int], Any], call: Callable[[Any], Sequence[str]]
    ) -> Self:
        """Repeat a call for some seconds, and at least once.

        `prepared` makes the argument of each call from its number, and is not timed. A call
        returns the ids that it has added.
        """
        calls = cls()
        begin = monotonic()
        for number in count():
            argument = prepared(number)
            start = perf_counter()
            try:
                calls.ids += call(argument)
            except Exception as error:  # whatever a store raises is its answer
                message = f"{type(error).__name__}: {error}"
                calls.refusals.append(" ".join(message.split())[:200])
            else:
                calls.seconds.append(perf_counter() - start)
            calls.elapsed = monotonic() - begin
            if calls.elapsed >= seconds:
                break
        return calls


def documents(first: int, size: int) -> Batch:
    """Return `size` documents with random vectors, numbered from `first`."""
    numbers = range(first, first + size)
    ids = [*map(str, numbers)]
    vectors = np.stack([*map(vector, numbers)])
    return Batch(numbers, ids, [*map(_text, numbers)], vectors)


def _text(number: int) -> str:
    """Return a word for each of the last nine digits of a number, the last digit first."""
    return " ".join(VOCABULARY[(number // 10**place) % 10] for place in range(9))


def vector(number: int) -> Matrix:
    """Return the random vector (dim,) of a document or query; `number` is the seed."""
    numbers: Matrix = np.random.default_rng(number).standard_normal(DIM, dtype=np.float32)
    return numbers


class Participant:
    """A process that opens one folder after the other with a database."""

    def __init__(self, name: str) -> None:
        self._database = database(name)

    def open(self, folder: Path) -> None:
        """Open a folder."""
        self._database.open(Place(folder, DIM, CHANGES))

    def close(self) -> None:
        """Close the folder."""
        self._database.close()

    def fill(self, folder: Path, count: int) -> None:
        """Make a store of the first documents."""
        folder.mkdir()
        self.open(folder)
        self._database.add([documents(0, count)])
        self._database.finish()
        self.close()

    def write(self, first: int, size: int, seconds: float) -> Calls:
        """Add documents from a number on, `size` in each commit."""

        def add(batch: Batch) -> Sequence[str]:
            self._database.add([batch])
            return batch.ids

        return Calls.repeat(seconds, lambda number: documents(first + number * size, size), add)

    def search(self, seconds: float) -> Calls:
        """Search for one random vector after the other."""

        def prepare(number: int) -> Query:
            sleep(PAUSE_S)
            return Query(vector(QUERIES + number))

        def find(query: Query) -> Sequence[str]:
            self._database.fetch(query, LIMIT)
            return ()

        return Calls.repeat(seconds, prepare, find)

    def unseen(self, ids: Sequence[str]) -> float:
        """Share of documents that a search for their own vectors does not find."""
        return sum(not self._finds(id) for id in ids) / max(1, len(ids))

    def _finds(self, id: str) -> bool:
        try:
            hits = self._database.fetch(Query(vector(int(id))), LIMIT)
        except Exception:
            return False
        return id in dict(hits)

    def ids(self) -> set[str]:
        """Ids of all documents."""
        return self._database.ids()
