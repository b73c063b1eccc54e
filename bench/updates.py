"""Updates: what a change costs in indexes of different size, and searches while changes go on."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from indexes.arrays import Matrix
from indexes.progress import Progress, silent
from retrieval.collection import Collection
from retrieval.documents import Document
from retrieval.given import GivenEncoder

from .results import ResultsFile, key_of

DIM = 384
CHANGED = 100
"""Documents that each measured change touches."""
REPEATS = 5
GROUP = 20
"""Documents that are only ever replaced together, so that a mixture of states would show."""
SIZES = (10_000, 100_000, 1_000_000)


def vectors_of(first: int, count: int) -> Matrix:
    """Random vectors (count, DIM) with a decaying spectrum: what they mean costs no time."""
    rng = np.random.default_rng(first)
    scale = (1.0 / np.arange(1, DIM + 1) ** 0.5).astype(np.float32)
    vectors: Matrix = rng.standard_normal((count, DIM), dtype=np.float32) * scale
    return vectors


def documents(first: int, count: int, word: str = "text") -> Iterator[Document]:
    """Documents of 200 to 300 characters with a number and a kind."""
    for i in range(first, first + count):
        text = f"{word} {i} " * 20
        yield Document(f"id{i}", text, metadata={"n": i, "kind": f"kind {i % 7}"})


def measure_updates(
    results: ResultsFile, about: dict[str, Any], sizes: tuple[int, ...], progress: Progress = silent
) -> None:
    """A row for each size: seconds of each change of `CHANGED` documents, median of `REPEATS`."""
    for size in sizes:
        key = key_of({"what": "changes", "rows": size, "changed": CHANGED})
        if key in results.rows:
            continue
        with TemporaryDirectory() as folder:
            times = _changes(Path(folder) / "x.index", size, progress)
        results.append(
            {"key": key, "what": "changes", "rows": size, "changed": CHANGED} | times | about
        )


def _changes(path: Path, size: int, progress: Progress) -> dict[str, float]:
    collection = Collection.create(path, GivenEncoder(DIM))
    collection.add(documents(0, size), vectors=vectors_of(0, size), progress=progress)
    found: dict[str, list[float]] = {}

    def timed(name: str, change: Callable[[], object]) -> None:
        start = time.perf_counter()
        change()
        found.setdefault(name, []).append(time.perf_counter() - start)

    with collection:
        for i in range(REPEATS):
            first, old = size + i * CHANGED, i * CHANGED
            new = vectors_of(first, CHANGED)
            ids = [f"id{n}" for n in range(old, old + CHANGED)]
            timed("add_s", lambda f=first, v=new: collection.add(documents(f, CHANGED), vectors=v))  # type: ignore[misc]
            timed(
                "replace_s",
                lambda o=old, v=new: collection.add(documents(o, CHANGED, "other"), vectors=v),  # type: ignore[misc]
            )
            timed("delete_s", lambda ids=ids: collection.delete(ids))  # type: ignore[misc]
        timed("compact_s", collection.compact)
    return {name: float(np.median(seconds)) for name, seconds in found.items()}


@dataclass
class Traffic:
    """What threads that search and one that writes have done."""

    searches: int = 0
    changes: int = 0
    compactions: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def search_while_writing(
    collection: Collection, threads: int, seconds: float, *, writing: bool = True, seed: int = 0
) -> Traffic:
    """Search by many threads while one adds, replaces, deletes and compacts.

    The writer replaces a group of documents by one commit at a time, each with the commit's
    number; a search for the group that finds two numbers, or not all of it, or a number that
    was committed before the search began and replaced, has seen no committed state.
    """
    traffic, lock, over = Traffic(), threading.Lock(), threading.Event()
    begun = done = 0  # numbers of commits
    vectors = vectors_of(-seed % 1000 + 1, GROUP)
    _replace_group(collection, vectors, 0)

    def write() -> None:
        nonlocal begun, done
        first = 10**9
        while not over.is_set():
            begun += 1
            _replace_group(collection, vectors, begun)
            done = begun
            collection.add(documents(first, GROUP), vectors=vectors_of(first, GROUP))
            collection.delete([f"id{first + i}" for i in range(GROUP // 2)])
            first += GROUP
            traffic.changes += 3
            if begun % 10 == 0:
                traffic.compactions += bool(collection.compact())

    def search(number: int) -> None:
        chosen, own = random.Random(seed * 1000 + number), list[float]()
        while not over.is_set():
            least, start = done, time.perf_counter()
            if chosen.random() < 0.5:
                (hits,) = collection.search(
                    vectors=vectors[:1], k=3 * GROUP, where="kind = 'group'"
                )
                versions = [hit.metadata["n"] for hit in hits]
                whole = len(versions) == GROUP and len(set(versions)) == 1
                if not whole or not least <= versions[0] <= begun:
                    raise AssertionError(f"group of {sorted(set(versions))}, {len(versions)} hits")
            else:
                i = chosen.randrange(GROUP)
                (hits,) = collection.search(vectors=vectors[i : i + 1], k=5)
                if len(hits) != 5 or hits[0].id != f"group {i}":
                    raise AssertionError(f"found {[hit.id for hit in hits]} for group {i}")
            own.append(time.perf_counter() - start)
        with lock:
            traffic.latencies += own

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            traffic.faults.append(f"{type(error).__name__}: {error}")
            over.set()

    workers = [threading.Thread(target=guarded, args=(write,))] if writing else []
    for i in range(threads):
        workers.append(threading.Thread(target=guarded, args=(lambda i=i: search(i),)))
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    over.wait(seconds)
    over.set()
    for worker in workers:
        worker.join()
    traffic.seconds, traffic.searches = time.perf_counter() - start, len(traffic.latencies)
    return traffic


def _replace_group(collection: Collection, vectors: Matrix, number: int) -> None:
    group = [
        Document(f"group {i}", f"text {i}", metadata={"n": number, "kind": "group"})
        for i in range(GROUP)
    ]
    collection.add(group, vectors=vectors)


def measure_traffic(
    results: ResultsFile,
    about: dict[str, Any],
    rows: int,
    threads: int,
    seconds: float,
    progress: Progress = silent,
) -> list[str]:
    """Rows of one thread and many, alone and while one writes; returns the faults seen."""
    faults = list[str]()
    for count, writing in ((1, False), (1, True), (threads, False), (threads, True)):
        facts = {"what": "traffic", "rows": rows, "searching": count, "writing": writing}
        key = key_of(facts | {"seconds": seconds})
        if key in results.rows:
            continue
        with TemporaryDirectory() as folder:
            collection = Collection.create(Path(folder) / "x.index", GivenEncoder(DIM))
            with collection:
                collection.add(documents(0, rows), vectors=vectors_of(0, rows), progress=progress)
                traffic = search_while_writing(collection, count, seconds, writing=writing)
        faults += traffic.faults
        p50, p99 = np.percentile(traffic.latencies or [0.0], [50, 99])
        measured = {
            "seconds": seconds,
            "searches_per_s": traffic.searches / traffic.seconds,
            "p50_ms": 1000 * float(p50),
            "p99_ms": 1000 * float(p99),
            "changes": traffic.changes,
            "compactions": traffic.compactions,
            "faults": len(traffic.faults),
        }
        results.append({"key": key} | facts | measured | about)
    return faults
