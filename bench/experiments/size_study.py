"""`slimdex bench sizes`: what an index takes to build, to hold and to search, by its rows.

Vectors are made, so that millions of rows need no encoder, and so are documents, with one number
each. Each index is built in one process and searched in another, so that what either holds is its
own. Seconds of processor time are told beside those of the clock, in which others have a share.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic, perf_counter, process_time, thread_time

import numpy as np

from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.ranking import agreement
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.collection.query_pools import ASKED
from slimdex.retrieval.collection.recall_trials import NEAREST, Pool, exact_nearest
from slimdex.retrieval.documents import Document
from slimdex.retrieval.evaluation import latency
from slimdex.retrieval.sources.given_vectors import GivenEncoder

from ..data.made_vectors import MadeVectors
from ..engines.remote_object import Subprocess
from ..machine import Resident, limit_threads, peak_memory
from ..rows import ResultsFile, Row, key_of

LONGEST = 4 * 3600.0
"""Seconds that one step may take: millions of rows are built."""
QUERIES, WARM_UP = 200, 20
FACTORS = {"search_half": 0.5, "search": 1.0, "search_double": 2.0}
"""Part -> its candidates, of the index's own number."""
TRAFFIC_S = 4.0
FIT_ENDS = ("copying documents", "indexing")
"""Stages before which moments, reducer and codebooks are fitted, which reports nothing itself."""


@dataclass(frozen=True)
class Size:
    """What is measured.

    Attributes
    ----------
    kind : as in `Settings`; auto: by the rows.
    characters : of a document's text.
    """

    rows: int
    dim: int
    kind: str
    characters: int

    def facts(self) -> Row:
        """What the key is made of."""
        text = {"text_bytes": self.rows * self.characters}
        return {"what": "size", "rows": self.rows, "dim": self.dim, "asked": self.kind} | text


def measure_size(
    size: Size, results: ResultsFile, about: Row, folder: Path, progress: Progress = silent
) -> None:
    """Write a row for the index, unless it is there.

    Parameters
    ----------
    folder : on a disk with room for the index; it is empty again in the end.
    """
    facts = size.facts()
    if (key := key_of(facts)) in results.rows:
        return
    folder.mkdir(parents=True, exist_ok=True)
    row: Row = {"key": key} | facts
    with TemporaryDirectory(dir=folder) as made:
        path = Path(made) / "size.index"
        for step, process in enumerate((_Builder, _Reader), start=1):
            with Subprocess(process, size, path, longest=LONGEST) as alone:
                row |= alone.ask("measured")
            progress(f"{size.rows:,} rows of {size.dim}", step, 2)
    results.append(row | about)


def documents(count: int, characters: int) -> Iterator[Document]:
    """Documents of so many characters out of made words, with a number each.

    >>> [len(document.text) for document in documents(2, 80)]
    [80, 80]
    """
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(2, 11, 20_000)]
    text = " ".join(words[i] for i in rng.zipf(1.3, 200_000) % len(words))
    starts = rng.integers(len(text) - characters, size=count)
    for i, start in enumerate(starts.tolist()):
        yield Document(f"{i}", text[start : start + characters], metadata={"n": i})


class _Stopwatch:
    """Progress that counts seconds of processor time for each stage."""

    def __init__(self, making: MadeVectors) -> None:
        self._making, self._stage = making, ""
        self._last = self._now()
        self.seconds: dict[str, float] = defaultdict(float)

    def _now(self) -> float:
        return process_time() - self._making.seconds  # which is of one thread

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = self._now()
        new = stage != self._stage
        self.seconds["fit" if new and stage in FIT_ENDS else stage] += now - self._last
        self._stage, self._last = stage, now


class _Builder:
    """What runs in the process that builds."""

    def __init__(self, size: Size, path: Path) -> None:
        self._size, self._path = size, path

    def measured(self) -> Row:
        """Seconds and bytes of a build, without those that the vectors take to be made."""
        size, vectors = self._size, MadeVectors(self._size.dim, self._size.rows)
        settings = Settings(kind=size.kind)
        with Collection.create(self._path, GivenEncoder(size.dim), settings) as collection:
            start, began = perf_counter(), process_time()
            watch = _Stopwatch(vectors)
            made = documents(size.rows, size.characters)
            collection.add(made, vectors=vectors, progress=watch)
            total = process_time() - began - vectors.seconds
            build_s = perf_counter() - start - vectors.seconds
            facts = collection.info()
        fit, index = watch.seconds["fit"], watch.seconds["indexing"]
        return {
            "kind": facts["settings"]["kind"],
            "k": facts["settings"]["k"],
            "build_s": build_s,
            "build_cpu_s": total,
            "fit_cpu_s": fit,
            "index_cpu_s": index,
            "write_cpu_s": total - fit - index,
            "peak_bytes": peak_memory(),
            "ram_row_bytes": facts["memory"]["ram_bytes_per_vector"],
            "ram_fixed_bytes": facts["memory"]["ram_bytes_fixed"],
            **held(self._path),
        }


def held(folder: Path) -> dict[str, int]:
    """Bytes of an index's files, by what they hold: `disk_vectors_bytes` and so on.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("vectors-000001.f16", "norms-000001.f32", "catalog.duckdb"):
    ...     _ = (folder / name).write_bytes(bytes(len(name)))
    >>> held(folder)["disk_norms_bytes"], held(folder)["disk_codes_bytes"]
    (16, 0)
    """
    sizes = dict.fromkeys(("vectors", "norms", "codes", "catalog", "documents"), 0)
    for path in folder.iterdir():
        name = path.name.split("-")[0].split(".")[0]
        name = "documents" if name == "offsets" else name  # where each document's line begins
        if name in sizes:
            sizes[name] += path.stat().st_size
    return {f"disk_{name}_bytes": size for name, size in sizes.items()}


class _Reader:
    """What runs in the process that searches."""

    def __init__(self, size: Size, path: Path) -> None:
        self._queries = MadeVectors(size.dim, size.rows).queries(QUERIES)
        before = Resident.now()
        self._collection = Collection.open(path, read_only=True)
        self._collection.search(self._queries[0], NEAREST)
        self._memory = Resident.now().since(before)

    def measured(self) -> Row:
        """Memory, agreement and times; files are in the system's cache if it has room."""
        collection = self._collection
        index = collection._index
        assert index.metric is not None  # the default settings rescore
        rows = np.arange(len(index))
        pool = Pool.asked(ASKED, self._queries)
        truth = exact_nearest(index.vectors, index.metric.rescorer, pool, rows)
        _, found = index.search(self._queries, NEAREST)
        row: Row = {
            "candidates": index.candidates,
            "memory_bytes": self._memory.own,
            "recall@10_total": float(agreement(found, truth, NEAREST).mean()),
        }
        if index.index.probes is not None:
            row |= dict(zip(("lists_probed", "lists"), index.index.probes, strict=True))
        limit_threads(1)
        row |= self._times(index.candidates)
        row["searches_per_s_one"] = self._rate(1)
        limit_threads(None)
        row["searches_per_s_all"] = self._rate(os.cpu_count() or 1)
        return row

    def _times(self, usual: int) -> Row:
        """Milliseconds of each part with one thread: of the clock, and of the processor."""
        row = Row()
        asked: dict[str, Callable[[int], object]] = {
            part: partial(self._search, round(factor * usual)) for part, factor in FACTORS.items()
        }
        asked["hits"] = lambda i: self._collection.search(self._queries[i], NEAREST)
        for part, seconds in self._in_turns(asked).items():
            row |= {f"{measure}_{part}": ms for measure, ms in latency(seconds["clock"]).items()}
            row[f"p50_ms_{part}_cpu"] = latency(seconds["cpu"])["p50_ms"]
        return row

    def _search(self, candidates: int, i: int) -> object:
        return self._collection._index.search(
            self._queries[i][None], NEAREST, candidates=candidates
        )

    def _in_turns(
        self, asked: dict[str, Callable[[int], object]]
    ) -> dict[str, dict[str, list[float]]]:
        """What is asked, one after the other for each query, some queries to warm up."""
        found: dict[str, dict[str, list[float]]] = {
            name: {"clock": [], "cpu": []} for name in asked
        }
        for i in [*range(WARM_UP), *range(QUERIES)]:
            for name, call in asked.items():
                start, began = perf_counter(), thread_time()
                call(i)
                found[name]["cpu"].append(thread_time() - began)
                found[name]["clock"].append(perf_counter() - start)
        return {
            name: {clock: times[WARM_UP:] for clock, times in both.items()}
            for name, both in found.items()
        }

    def _rate(self, callers: int) -> float:
        """Searches a second, from vectors to documents, by so many threads."""
        counts, end = [0] * callers, monotonic() + TRAFFIC_S

        def ask(caller: int) -> None:
            while monotonic() < end:
                query = self._queries[(counts[caller] * callers + caller) % QUERIES]
                self._collection.search(query, NEAREST)
                counts[caller] += 1

        threads = [Thread(target=ask, args=(caller,)) for caller in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / TRAFFIC_S
