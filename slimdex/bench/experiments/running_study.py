"""`slimdex bench running`: new processes and a service, beside other libraries.

Two parts. *start*: commands in new processes, and calls of an open index, alone and beside a busy
process on each processor, which leaves work about half of their time. *serve*: a service under
load, and its memory. A third one, *processes*, is in `processes_study`.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count
from os import cpu_count, environ
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Self

from slimdex.errors import InputError
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.base import encode_queries
from slimdex.retrieval.encoders.opening import model_place, open_encoder
from slimdex.retrieval.sources.source import open_source
from slimdex.system.progress import progress

from ..engines import peer_programs
from ..engines.engine import DOCUMENTS, Documents, Place
from ..engines.processes import Attempts, Subprocess, WorkerError, in_turns, replace_rows
from ..engines.registry import database, missing
from ..engines.servers import Server, serving, serving_chroma
from ..machine import memory_parts, not_installed
from ..rows import ResultsFile, Row, key_of

MODEL = "all-MiniLM-L6-v2"
LIMIT = 10
SEARCH = "slimdex search"
SERVICE = "slimdex serve"
PACKAGES = {
    "sentence-transformers": ("sentence-transformers",),
    "Chroma": ("chromadb", "sentence-transformers"),
}
"""Other libraries whose commands are timed, and the packages that these need."""
WORDS = 8
TOGETHER = 64
QUERIES = 20
"""Words of a query, queries of a search for many, and searches of a measurement."""
LONGEST = 1800.0
"""Limit of a command in seconds."""
CALLERS = (1, 8, 64)
"""Numbers of concurrent callers."""
Spent = tuple[float, float]
"""Elapsed seconds of work, and seconds of processor time."""


@dataclass(frozen=True)
class Extent:
    """How much is measured.

    Attributes
    ----------
    documents : of the docstrings; None: all.
    stored : documents of a store before processes add others; see `processes_study`.
    rounds : of commands and calls.
    seconds : of processes that write, and of a load.
    """

    documents: int | None = None
    stored: int = 10_000
    rounds: int = 10
    seconds: float = 10.0


QUICK = Extent(documents=300, stored=300, rounds=3, seconds=1.0)


@dataclass(frozen=True)
class Subject:
    """An index, of which nothing is changed, and a folder for everything else.

    Attributes
    ----------
    model : folder of its encoder's model.
    documents : file with an object of id and text a line.
    texts : queries, the first words of documents.
    facts : columns of every row.
    """

    index: Path
    folder: Path
    model: Path
    documents: Path
    texts: Sequence[str]
    facts: Row

    @classmethod
    def open(cls, index: Path | None, folder: Path, extent: Extent) -> Self:
        """Open an index, or build one of Python's docstrings.

        Raises `InputError` if it has no texts, or no model.
        """
        path = index or _of_docstrings(folder / "docstrings.index", extent.documents)
        with Collection.open(path) as collection:
            texts = {document.id: document.content for document in collection}
            spec = collection.index.state.encoder
        if "model" not in spec or not any(texts.values()):
            raise InputError(f"{path}: expected an index of texts, made by a model")
        name, model = model_place(spec["model"])
        file = folder / "documents.jsonl"
        lines = ""
        for id, text in texts.items():
            lines += json.dumps({"id": id, "text": text}) + "\n"
        file.write_text(lines, encoding="utf-8")

        # Use the first words of documents as queries.
        queries = []
        for text in texts.values():
            words = text.split()[:WORDS]
            if words:
                queries.append(" ".join(words))
        facts = {"model": Path(name).name, "documents": len(texts)}
        return cls(
            index=path,
            folder=folder,
            model=model,
            documents=file,
            texts=queries[:TOGETHER],
            facts=facts,
        )

    def row(self, name: str) -> Row:
        """Columns of a command or call that are known before it is measured."""
        row = {"method": name} | self.facts
        return {"key": key_of(row)} | row


def _of_docstrings(path: Path, most: int | None) -> Path:
    """Index the first `most` docstrings of Python, or all, in a new folder; return its path."""
    batches = open_source("python:").batches()
    documents = [*chain.from_iterable(batches)]
    with Collection.create(path, open_encoder(MODEL)) as collection:
        collection.add(documents[:most])
    return path


@dataclass(kw_only=True)
class Work(Attempts):
    """Work that is measured alone and beside busy processes."""

    call: Callable[[], Spent]
    spent: dict[str, list[Spent]] = field(default_factory=lambda: {"alone": [], "busy": []})

    def columns(self) -> Row:
        """Columns, without the first round, which may have read files from disk."""
        row = super().columns()
        if self.error is not None:
            return row
        for way, spent in self.spent.items():
            elapsed, cpu_seconds = zip(*spent[1:], strict=True)
            row[f"{way}_s"] = statistics.median(elapsed)
            row[f"{way}_cpu_s"] = statistics.mean(cpu_seconds)
        return row


def measure_start(subject: Subject, extent: Extent, results: ResultsFile, about: Row) -> list[str]:
    """Write a row for each command and call; returns a line for each failure."""
    environ.pop("OMP_WAIT_POLICY", None)  # ours; a program that imports slimdex has none
    # Add documents to a copy, so that the index itself is not changed.
    growing = shutil.copytree(subject.index, subject.folder / "growing.index")
    texts = subject.texts
    with (
        Subprocess(OpenIndex, growing, texts) as process,
        serving(subject.index) as server,
    ):
        calls: dict[str, Callable[[], Spent]] = {
            "search": process.remote.search,
            f"search_many of {len(texts)}": process.remote.search_many,
            f"add {len(texts)}": process.remote.add,
            SERVICE: partial(_requests, server, texts[:QUERIES]),
        }
        works = [*_commands(subject, extent.rounds), *_others(subject, extent.rounds)]
        for name, call in calls.items():
            works.append(Work(name=name, row=subject.row(name), call=call))

        def take(way: str, work: Work, _: int) -> None:
            work.spent[way].append(work.call())

        for _ in range(extent.rounds + 1):
            in_turns(works, partial(take, "alone"), "alone")
            with busy_processors():
                in_turns(works, partial(take, "busy"), "beside busy processes")
    return replace_rows(results, works, about)


def _commands(subject: Subject, rounds: int) -> Iterator[Work]:
    """Yield the commands: Python alone, whose time the others include, and those of slimdex."""
    slimdex = str(Path(sys.executable).with_name("slimdex"))
    index = str(subject.index)
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "slimdex --help": [slimdex, "--help"],
        "slimdex info": [slimdex, "info", index],
        SEARCH: [slimdex, "search", index, subject.texts[0]],
    }
    for name, words in commands.items():
        row = subject.row(name) | {"processes": rounds}
        if name == SEARCH:
            empty = {"SLIMDEX_CACHE": str(subject.folder / "empty")}
            row["first_s"], _ = run(words, empty)
        yield Work(name=name, row=row, call=partial(run, words))


def _others(subject: Subject, rounds: int) -> Iterator[Work]:
    """Yield a search by each library that is installed, in an index that it builds first."""
    absent = not_installed(PACKAGES)
    for name in PACKAGES:
        if name in absent:
            continue
        program = [sys.executable, str(peer_programs.__file__), name]
        place = [str(subject.folder / name), str(subject.model)]
        search = [*program, "search", *place, subject.texts[0]]
        row = subject.row(name) | {"processes": rounds}
        work = Work(name=name, row=row, call=partial(run, search))
        progress(f"building with {name}", 0, 1)
        work.attempt(partial(run, [*program, "build", *place, str(subject.documents)]))
        yield work


def run(command: Sequence[str], variables: Row | None = None) -> Spent:
    """Time a command; raises `WorkerError` with the last line of what it says if it fails."""
    import resource  # which Windows lacks

    # As users have it: compiled modules are kept. No hub is asked, whose answers take any time.
    usual = {"PYTHONDONTWRITEBYTECODE": "", "HF_HUB_OFFLINE": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = perf_counter()
    try:
        done = subprocess.run(
            command,
            env={**environ, **usual, **(variables or {})},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=LONGEST,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkerError(str(error)) from error
    seconds = perf_counter() - start
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise WorkerError(lines[-1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu_seconds


class OpenIndex:
    """An open index in a process of its own; each method returns the mean time of a call."""

    def __init__(self, path: Path, texts: Sequence[str]) -> None:
        self._collection = Collection.open(path)
        self._texts = texts
        self._numbers = count()
        self.search()

    def search(self) -> Spent:
        """Search for one text after the other."""
        return _mean(self._collection.search, self._texts[:QUERIES], process_time)

    def search_many(self) -> Spent:
        """Search for many texts at once."""
        return _mean(self._collection.search_many, [self._texts], process_time)

    def add(self) -> Spent:
        """Add documents."""
        new = [Document(f"new-{next(self._numbers)}", text) for text in self._texts]
        return _mean(self._collection.add, [new], process_time)


def _requests(server: Server, texts: Sequence[str]) -> Spent:
    """Ask a service for one text after the other."""

    def cpu_seconds() -> float:
        times = server.process.cpu_times()
        return float(times.user + times.system)

    bodies = [json.dumps({"query": text}) for text in texts]
    return _mean(server.ask, bodies, cpu_seconds)


def _mean(
    call: Callable[..., object], each: Sequence[object], cpu_seconds: Callable[[], float]
) -> Spent:
    """Return the mean time of calls, one for each argument.

    `cpu_seconds` returns the processor time of the working process until now.
    """
    start = perf_counter()
    before = cpu_seconds()
    for argument in each:
        call(argument)
    return (perf_counter() - start) / len(each), (cpu_seconds() - before) / len(each)


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


def measure_serve(subject: Subject, extent: Extent, results: ResultsFile, about: Row) -> None:
    """Write a row for each service, kind of query and number of callers, and parts of memory.

    More callers make larger batches. Chroma's server takes vectors only: to compare with it, both
    services also get vectors that were encoded before.
    """
    with Collection.open(subject.index) as collection:
        vectors = encode_queries(collection.encoder, subject.texts)
    facts = subject.facts | {"dim": vectors.shape[1]}
    by_text = [json.dumps({"query": text, "limit": LIMIT}) for text in subject.texts]
    by_vector = [json.dumps({"vector": row, "limit": LIMIT}) for row in vectors.tolist()]

    def load(server: Server, method: str, way: str, bodies: Sequence[str]) -> None:
        for done, callers in enumerate(CALLERS, start=1):
            server.measure_load(bodies, callers, extent.seconds / 3)  # to warm up
            columns = server.measure_load(bodies, callers, extent.seconds)
            row = facts | {"what": "serve", "method": method, "way": way, "callers": callers}
            results.append({"key": key_of(row)} | row | columns | about)
            progress(f"{method}, {way}", done, len(CALLERS))

    with serving(subject.index) as server:
        idle = memory_parts(server.process, subject.index)
        load(server, SERVICE, "texts", by_text)
        loaded = memory_parts(server.process, subject.index)
        load(server, SERVICE, "vectors", by_vector)
    for row in _memory(facts, idle, loaded):
        results.append(row | about)

    # Measure Chroma's server if it is installed.
    if not missing(["Chroma"]):
        _fill_chroma(subject.index, subject.folder / "served by Chroma")
        bodies = []
        for row in vectors.tolist():
            bodies.append(json.dumps({"query_embeddings": [row], "n_results": LIMIT}))
        with serving_chroma(subject.folder / "served by Chroma") as server:
            load(server, "Chroma's server", "vectors", bodies)


Parts = dict[str, tuple[int, int]]
"""Part of a process's memory -> resident and private bytes."""


def _memory(facts: Row, idle: Parts, loaded: Parts) -> Iterator[Row]:
    """Yield rows of a service's memory, for each part and in total.

    `idle` is measured after the first search, and `loaded` after the most callers.
    """
    for part in (*loaded, "whole process"):
        row = facts | {"what": "memory", "part": part}
        row["key"] = key_of(row)
        for name, parts in (("idle", idle), ("loaded", loaded)):
            is_part = part in loaded
            sizes = [parts.get(part, (0, 0))] if is_part else [*parts.values()]
            row[f"{name}_bytes"] = sum(resident for resident, _ in sizes)
            row[f"{name}_private_bytes"] = sum(private for _, private in sizes)
        yield row


def _fill_chroma(index: Path, folder: Path) -> None:
    """Fill Chroma with the documents and vectors of an index."""
    folder.mkdir()
    with Collection.open(index) as collection, TemporaryDirectory() as temporary:
        snapshot = collection.index.snapshot
        dim = snapshot.state.dim
        vectors = VectorFile(Path(temporary) / "vectors", dim, 0, FLOAT32)
        vectors.append(snapshot.vectors().take(snapshot.live_documents()))
        documents = [*collection]
        ids = [document.id for document in documents]
        texts = [document.text or " " for document in documents]
        database("Chroma").write(Documents(vectors, ids, texts), Place(folder, dim, DOCUMENTS))
