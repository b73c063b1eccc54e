"""`slimdex bench updates`: processes that add documents while another one searches.

Each commit adds documents with given vectors, random ones. A refused addition is counted and not
tried again. At the end, a process that opens the store counts which acknowledged documents are
missing; it searches for some of them, and so does the process that was searching all the time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, sleep

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.execution.progress import progress
from slimdex.retrieval.quality.evaluation import latency

from ..engines.databases import Database
from ..engines.engine import CHANGES, Batch, Place, Query
from ..engines.processes import Subprocess
from ..engines.registry import LIBRARIES
from ..rows import ResultsFile, Row, key_of

DOCUMENTS, SECONDS = 10_000, 10.0
"""Documents of each store at first, and how long the processes write and search."""
DIM = 384
LIMIT = 10
WRITERS, SIZES = (1, 2, 4), (1, 100)
"""Processes that write, and documents of a commit."""
PAUSE_S = 0.01
"""Time between two searches."""
ASKED = 100
"""Acknowledged documents that are searched for at the end, the last of each process."""
WORDS = ("rain", "ship", "cake", "stone", "river", "night", "glass", "road", "wool", "salt")


@dataclass
class Written:
    """Ids of acknowledged documents, seconds of their commits and of all, messages of refusals."""

    ids: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    elapsed: float = 0.0
    refusals: list[str] = field(default_factory=list)


def documents(first: int, count: int) -> Batch:
    """Documents by their number."""
    numbers = range(first, first + count)
    texts = [" ".join(WORDS[(n // 10**i) % 10] for i in range(9)) for n in numbers]
    return Batch(numbers, [*map(str, numbers)], texts, np.stack([*map(vector, numbers)]))


def vector(number: int) -> Matrix:
    """The vector of a document."""
    found: Matrix = np.random.default_rng(number).standard_normal(DIM, dtype=np.float32)
    return found


class Participant:
    """A process that opens one folder after the other with a database."""

    def __init__(self, name: str) -> None:
        self._database: Database = LIBRARIES[name].make()

    def open(self, folder: Path) -> None:
        """Open a folder."""
        self._database.open(Place(folder, DIM, CHANGES))

    def close(self) -> None:
        """Close the folder."""
        self._database.close()

    def fill(self, count: int) -> None:
        """Add the first documents."""
        self._database.add([documents(0, count)])
        self._database.finish()

    def write(self, first: int, size: int, seconds: float) -> Written:
        """Add documents from a number on, `size` in each commit, and at least once."""
        written, begin = Written(), monotonic()
        while not (written.ids or written.refusals) or monotonic() < begin + seconds:
            own = documents(first, size)
            first += size
            start = perf_counter()
            try:
                self._database.add([own])
            except Exception as error:  # whatever a store raises is its answer
                written.refusals.append(" ".join(f"{type(error).__name__}: {error}".split())[:200])
            else:
                written.seconds.append(perf_counter() - start)
                written.ids += own.ids
        written.elapsed = monotonic() - begin
        return written

    def search(self, seconds: float) -> Written:
        """Search one query after the other, at least one."""
        searched, end = Written(), monotonic() + seconds
        rng = np.random.default_rng(0)
        while not (searched.seconds or searched.refusals) or monotonic() < end:
            query = rng.standard_normal(DIM, dtype=np.float32)
            start = perf_counter()
            try:
                self._database.fetch(Query(query), LIMIT)
            except Exception as error:
                searched.refusals.append(f"{type(error).__name__}: {error}"[:200])
            else:
                searched.seconds.append(perf_counter() - start)
            sleep(PAUSE_S)
        return searched

    def unseen(self, ids: Sequence[str]) -> float:
        """Share of documents that a search for their own vectors does not find."""
        return sum(not self._finds(id) for id in ids) / max(1, len(ids))

    def _finds(self, id: str) -> bool:
        try:
            found = self._database.fetch(Query(vector(int(id))), LIMIT)
        except Exception:
            return False
        return id in dict(found)

    def ids(self) -> set[str]:
        """Ids of all documents."""
        return self._database.ids()


def measure_updates(
    names: Sequence[str], rows: int, seconds: float, results: ResultsFile, about: Row
) -> None:
    """Write a row for each size of commits, number of writers and store, the stores in turns."""
    total, done = len(names) * len(WRITERS) * len(SIZES), 0
    with TemporaryDirectory(prefix="slimdex-bench-") as given, ExitStack() as stack:
        folder = Path(given)
        groups = {
            name: [
                stack.enter_context(Subprocess(Participant, name)).remote
                for _ in range(2 + max(WRITERS))
            ]
            for name in names
        }
        for name in names:
            (folder / name).mkdir()
            groups[name][0].open(folder / name)
            groups[name][0].fill(rows)
            groups[name][0].close()
        for size, writers in product(SIZES, WRITERS):
            for name in names:
                copy = Path(shutil.copytree(folder / name, folder / f"{name} {size} {writers}"))
                trial = Trial(name, copy, rows, writers, size, seconds)
                results.append(trial.row(groups[name]) | about)
                shutil.rmtree(copy)
                done += 1
                progress("measuring", done, total)


@dataclass(frozen=True)
class Trial:
    """A store, the number of its documents, and the processes that write and what they add."""

    name: str
    folder: Path
    rows: int
    writers: int
    size: int
    seconds: float

    def row(self, processes: Sequence[Participant]) -> Row:
        """Measure with a process that searches, one that looks at the end, and writers."""
        searching, looking, *writing = processes[: 2 + self.writers]
        firsts = [self.rows + i * 10**7 for i in range(1, 1 + self.writers)]
        for each in (searching, *writing):
            each.open(self.folder)
        both = [*zip(writing, firsts, strict=True)]
        _at_once(  # what the first calls load is not timed
            partial(searching.search, 0), [partial(each.write, n - 1, 1, 0) for each, n in both]
        )
        searched, written = _at_once(
            partial(searching.search, self.seconds),
            [partial(each.write, n, self.size, self.seconds) for each, n in both],
        )
        asked = [id for own in written for id in own.ids[-ASKED // self.writers :]]
        looking.open(self.folder)
        ids = {id for own in written for id in own.ids}
        ends = {
            "acknowledged": len(ids),
            "lost": len(ids - looking.ids()),
            "unseen_share": searching.unseen(asked),
            "unfound_share": looking.unseen(asked),
        }
        for each in (searching, looking, *writing):
            each.close()
        facts = {"what": "processes", "method": self.name, "rows": self.rows, "dim": DIM}
        facts |= {"processes": self.writers, "changed": self.size}
        return {"key": key_of(facts)} | facts | self._counts(searched, written) | ends

    def _counts(self, searched: Written, written: Sequence[Written]) -> Row:
        commits = [each for own in written for each in own.seconds]
        refusals = [each for own in (*written, searched) for each in own.refusals]
        times = latency(commits or [self.seconds])
        return {
            "seconds": self.seconds,
            "changes": len(commits),
            "commits_per_s": sum(len(own.seconds) / own.elapsed for own in written),
            **latency(searched.seconds or [self.seconds]),
            **{f"{name}_changes": value for name, value in times.items()},
            "searches": len(searched.seconds),
            "refused": len(refusals),
            "refusal": refusals[0] if refusals else None,
        }


def _at_once(
    search: Callable[[], Written], writes: Sequence[Callable[[], Written]]
) -> tuple[Written, list[Written]]:
    with ThreadPoolExecutor(1 + len(writes)) as pool:
        searched, *written = [pool.submit(each) for each in (search, *writes)]
        return searched.result(), [each.result() for each in written]
