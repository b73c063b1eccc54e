"""Second part of `slimdex bench start`: the same work alone, and beside busy processes.

With a busy process on each processor, work gets about half of their time. Threads that spin while
they wait then take more processor time, and the work takes many times as long.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from os import cpu_count, environ
from pathlib import Path
from time import perf_counter, process_time

import psutil

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document

from ..engines.processes import Attempts, Subprocess, in_turns
from ..rows import ResultsFile, Row, key_of
from .serve_study import served
from .start_study import SEARCH, StartJob, run

BUSY = "beside busy processes"
ASKED, TOGETHER, WORDS = 20, 64, 8
"""Searches of a measurement, texts of a search for many, words of a text."""
Spent = tuple[float, float]
"""Elapsed seconds of work, and seconds of processor time."""


class OpenIndex:
    """An open index in a process of its own; each method returns the mean time of a call."""

    def __init__(self, path: Path, texts: Sequence[str]) -> None:
        self._collection, self._texts, self._numbers = Collection.open(path), texts, count()
        self.search()

    def search(self) -> Spent:
        """Search for one text after the other."""
        return _mean(self._collection.search, self._texts[:ASKED])

    def search_many(self) -> Spent:
        """Search for many texts at once."""
        return _mean(self._collection.search_many, [self._texts])

    def add(self) -> Spent:
        """Add documents."""
        new = [Document(f"new-{next(self._numbers)}", text) for text in self._texts]
        return _mean(self._collection.add, [new])


def _mean(call: Callable[..., object], each: Sequence[object]) -> Spent:
    start, worked = perf_counter(), process_time()
    for given in each:
        call(given)
    return (perf_counter() - start) / len(each), (process_time() - worked) / len(each)


def _command(words: Sequence[str], variables: dict[str, str]) -> Spent:
    import resource

    def worked() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    start, before = perf_counter(), worked()
    run(words, variables)
    return perf_counter() - start, worked() - before


def _requests(url: str, texts: Sequence[str], service: psutil.Process) -> Spent:
    start, before = perf_counter(), service.cpu_times()
    for text in texts:
        body = json.dumps({"query": text}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{url}/indexes/served/search", body, headers)
        urllib.request.urlopen(request).read()
    after, elapsed = service.cpu_times(), perf_counter() - start
    worked = after.user + after.system - before.user - before.system
    return elapsed / len(texts), worked / len(texts)


@dataclass(kw_only=True)
class Work(Attempts):
    """Work that is measured alone and beside busy processes."""

    call: Callable[[], Spent]
    spent: dict[str, list[Spent]] = field(default_factory=lambda: {"alone": [], "busy": []})

    def measured(self) -> Row:
        """Columns, with medians."""
        row = super().measured()
        for way, each in self.spent.items() if self.error is None else ():
            elapsed, worked = zip(*each, strict=True)
            row |= {f"{way}_s": statistics.median(elapsed), f"{way}_cpu_s": statistics.mean(worked)}
        return row


@contextmanager
def busy_processors() -> Iterator[None]:
    """Keep each processor busy by a process."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(cpu_count() or 1)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure_busy(job: StartJob, results: ResultsFile, about: Row) -> list[str]:
    """Add a row for each kind of work; returns a line for each failure.

    The job's index has been built.
    """
    lines = job.documents.read_text(encoding="utf-8").splitlines()
    texts = [" ".join(json.loads(line)["text"].split()[:WORDS]) for line in lines[:TOGETHER]]
    shared = {"model": job.name, "documents": len(lines), "way": BUSY}
    environ.pop("OMP_WAIT_POLICY", None)  # ours; a program that imports slimdex has none
    growing = shutil.copytree(job.index, job.folder / "growing.index")
    with Subprocess(OpenIndex, growing, texts) as process, served(job.index) as (url, service):
        command = [str(Path(sys.executable).with_name("slimdex")), "search", str(job.index)]
        calls: dict[str, Callable[[], Spent]] = {
            SEARCH: partial(_command, [*command, job.query], job.variables),
            "search": process.remote.search,
            f"search_many of {len(texts)}": process.remote.search_many,
            f"add {len(texts)}": process.remote.add,
            "slimdex serve": partial(_requests, url, texts[:ASKED], service),
        }
        works = list[Work]()
        for name, call in calls.items():
            row = {"method": name} | shared
            works.append(Work(name=name, row={"key": key_of(row)} | row, call=call))
        for turn in range(job.rounds + 1):
            _turn(works, "alone", is_kept=turn > 0)
            with busy_processors():
                _turn(works, "busy", is_kept=turn > 0)
    for work in works:
        results.append(work.measured() | about)
    return [f"{work.name} failed: {work.error}" for work in works if work.error]


def _turn(works: Sequence[Work], way: str, *, is_kept: bool) -> None:
    def step(work: Work, _: int) -> None:
        spent = work.call()
        if is_kept:  # the first may have read files from disk
            work.spent[way].append(spent)

    in_turns(works, step, BUSY if way == "busy" else way)
