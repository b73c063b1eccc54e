"""`slimdex bench search --cold`: searches from text to documents with the index's files on disk.

Before each query the system drops the pages of all files of the collection, also mapped ones. The
process keeps its own memory, as for a user: codes, and the catalog's cache. If the collection is
opened for each query, the catalog has no cache.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from slimdex.indexes.execution.progress import progress
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.base import Encoder, encode_queries
from slimdex.retrieval.quality.evaluation.measures import latency

from .. import page_cache
from ..engines.document_stores import SLIMDEX, SLIMDEX_FOLDER
from ..engines.measured import store_process
from ..engines.remote_object import Subprocess, WorkerError
from ..machine import Resident
from ..memory_limit import limited
from ..rows import ResultsFile, Row, key_of
from .retrieval_study import ANSWERS, Task

CACHED, DROPPED, REOPENED = "cached", "dropped", "dropped, reopened"
WAYS = (CACHED, DROPPED, REOPENED)
"""Files are in memory; dropped before each query; or dropped, and the collection reopened."""
QUERIES, TURNS, WARM_UP = 100, 4, 5
BLOCK = 1 << 22


@dataclass(frozen=True)
class Timed:
    """Times and bytes of a query.

    Attributes
    ----------
    encode_s, total_s : seconds of encoding another text, and from the text to documents.
    read : bytes read from disk.
    cached : kind of content -> bytes of its files that are in memory afterwards.
    """

    encode_s: float
    total_s: float
    read: int
    cached: dict[str, int]


def measure_cold(
    task: Task,
    open_encoder: Callable[[], Encoder],
    results: ResultsFile,
    about: Row,
    *,
    folder: Path,
    limit: int | None = None,
) -> list[str]:
    """Replace all rows by one for each way; returns a line for each failure.

    Parameters
    ----------
    open_encoder : makes the encoder of the task, in another process.
    folder : on a disk, for the collection; empty again afterwards.
    limit : bytes of memory for a second process, whose ways get separate rows.

    Raises `InputError` if files can't be dropped from memory here, or memory can't be limited.
    """
    page_cache.check_system()
    folder.mkdir(parents=True, exist_ok=True)
    rows, failed = list[Row](), list[str]()
    with TemporaryDirectory(dir=folder) as made:
        with store_process(SLIMDEX, open_encoder, Path(made), task.dataset.query_texts[:1]) as new:
            new.remote.build(task.documents)
        path = Path(made) / SLIMDEX_FOLDER
        page_cache.drop(_files(path))  # fail at once if it can't be done
        for most in dict.fromkeys((None, limit)):
            facts = task.facts() | {"limit_bytes": most}
            try:
                columns = _in_turns(task, open_encoder, path, most)
            except WorkerError as error:
                failed.append(f"{'unlimited' if most is None else f'{most:,} bytes'}: {error}")
                columns = {way: {"error": str(error)} for way in WAYS}
            for way in WAYS:
                known = facts | {"way": way}
                rows.append({"key": key_of(known)} | known | columns[way] | about)
    results.replace(rows)
    return failed


def _in_turns(
    task: Task, open_encoder: Callable[[], Encoder], path: Path, most: int | None
) -> dict[str, Row]:
    """Columns of each way, which take turns with some queries, round after round."""
    timed: dict[str, list[Timed]] = defaultdict(list)
    memory: dict[str, Resident] = {}
    process = Subprocess(_Reader, open_encoder, path)
    with ExitStack() as stack:
        if most is not None:
            stack.enter_context(limited(process.number, most))
        stack.enter_context(process)  # ends before its group of processes does
        texts = task.dataset.query_texts
        process.remote.open(texts[:WARM_UP])
        for turn, few in enumerate(np.array_split(np.arange(min(QUERIES, len(texts))), TURNS)):
            for way in WAYS:
                timed[way] += process.remote.timed([texts[i] for i in few], way)
                memory[way] = process.remote.memory()
            progress("in turns" if most is None else "limited", turn + 1, TURNS)
    return {way: _columns(timed[way], memory[way]) for way in WAYS}


def _columns(queries: Sequence[Timed], memory: Resident) -> Row:
    row: Row = {}
    for what in ("encode", "total"):
        found = latency([getattr(query, f"{what}_s") for query in queries])
        row |= {f"{measure}_{what}": value for measure, value in found.items()}
    row["read_query_bytes"] = float(np.mean([query.read for query in queries]))
    for held in queries[0].cached:
        size = float(np.mean([query.cached[held] for query in queries]))
        row[f"cached_{held}_bytes"] = size
    return row | {"memory_bytes": memory.own, "memory_files_bytes": memory.files}


class _Reader:
    """The collection in the process that searches."""

    def __init__(self, open_encoder: Callable[[], Encoder], path: Path) -> None:
        self._open_encoder, self._path = open_encoder, path

    def open(self, texts: Sequence[str]) -> None:
        self._encoder = self._open_encoder()
        self._collection = self._opened()
        for text in texts:
            self._collection.search(text, ANSWERS)

    def timed(self, texts: Sequence[str], way: str) -> list[Timed]:
        if way == CACHED:
            _read(_files(self._path))
        half = len(texts) // 2
        others = [*texts[half:], *texts[:half]]
        return [
            self._query(text, other, way, encode_first=turn % 2 == 0)
            for turn, (text, other) in enumerate(zip(texts, others, strict=True))
        ]

    def memory(self) -> Resident:
        return Resident.now()

    def _query(self, text: str, other: str, way: str, *, encode_first: bool) -> Timed:
        """Time a search of a text, and the encoding of another one, before or after it.

        Encoding before both puts the encoder into the processor's caches, for the one that comes
        first as for the other.
        """
        if way == REOPENED:
            self._collection.close()
            self._collection = self._opened()
        encode_queries(self._encoder, [other])
        if way != CACHED:
            page_cache.drop(_files(self._path))
        encode_s = self._encoding_s(other) if encode_first else 0.0
        read, start = page_cache.bytes_read(), perf_counter()
        self._collection.search(text, ANSWERS)
        total_s = perf_counter() - start
        read = page_cache.bytes_read() - read
        encode_s = encode_s or self._encoding_s(other)
        cached: dict[str, int] = defaultdict(int)
        for file in _files(self._path):
            cached[_held(file.relative_to(self._path))] += page_cache.cached_bytes(file)
        return Timed(encode_s, total_s, read, dict(cached))

    def _encoding_s(self, text: str) -> float:
        start = perf_counter()
        encode_queries(self._encoder, [text])
        return perf_counter() - start

    def _opened(self) -> Collection:
        collection = Collection.open(self._path, self._encoder)
        _ = collection.reduced_index  # it is loaded when it is first asked for
        return collection


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _held(file: Path) -> str:
    """Kind of content of a file, by its path in the collection.

    >>> _held(Path("vectors-000001.f16")), _held(Path("words-000001.tantivy/meta.json"))
    ('vectors', 'words')
    """
    return re.split(r"[-.]", file.parts[0])[0]


def _read(files: Sequence[Path]) -> None:
    """Read files into memory, as far as they fit."""
    for path in files:
        with path.open("rb") as file:
            while file.read(BLOCK):
                pass
