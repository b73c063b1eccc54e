"""Updates: what a change costs in indexes of different size, and searches while changes go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.progress import Progress, silent
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.sources.given_vectors import GivenEncoder

from ..rows import ResultsFile, key_of
from .traffic import GROUP, Traffic

DIM = 384
CHANGED = 100
"""Documents that each measured change touches."""
REPEATS = 5
SEARCHING = 32
"""Threads that search at a time, beside one alone."""


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


def measure_traffic(
    results: ResultsFile,
    about: dict[str, Any],
    rows: int,
    seconds: float,
    progress: Progress = silent,
) -> list[str]:
    """Rows of one thread and many, alone and while one writes; returns the faults seen."""
    faults = list[str]()
    for count, writing in product((1, SEARCHING), (False, True)):
        facts = {"what": "traffic", "rows": rows, "searching": count, "writing": writing}
        key = key_of(facts | {"seconds": seconds})
        if key in results.rows:
            continue
        with TemporaryDirectory() as folder:
            collection = Collection.create(Path(folder) / "x.index", GivenEncoder(DIM))
            with collection:
                collection.add(documents(0, rows), vectors=vectors_of(0, rows), progress=progress)
                traffic = Traffic(collection, vectors_of(1, GROUP))
                traffic.run(count, seconds, writing=writing)
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
