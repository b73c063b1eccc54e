"""`slimdex bench retrieval`: quality, memory and time of every method on every set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slimdex.indexes.execution.progress import progress
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.quality.evaluation import latency

from ..data.datasets import Dataset
from ..data.paired_measures import Judge, depth_for
from ..data.vectors import encoded
from ..engines.engine import Documents, Footprint, Seconds
from ..engines.measured import MeasuredEngine, engine_process
from ..engines.registry import Method, missing
from ..engines.remote_object import WorkerError
from ..machine import Resident
from ..rows import ResultsFile, Row, key_of
from .measured_methods import GRID_PEERS, grid, uncompressed

if TYPE_CHECKING:
    from ..data.vectors import LocalEncoder

TIMED_QUERIES = 300
"""Queries timed one at a time, on one thread and on all."""
BATCH_QUERIES = 2000
"""Queries in one call for the throughput."""
ANSWERS = 10
"""Answers of a timed query."""


@dataclass(frozen=True)
class Task:
    """A dataset encoded by a model."""

    dataset: Dataset
    model: str
    vectors: VectorFile
    queries: VectorFile

    @classmethod
    def encoded(cls, dataset: Dataset, encoder: LocalEncoder, cache: Path) -> Task:
        """Encode texts that are not in the cache yet."""
        model = Path(encoder.spec()["model"]).name
        if encoder.precision != "fp32":
            model += f" ({encoder.precision})"
        vectors = encoded(encoder, dataset.texts, cache, "encoding documents")
        asked = dataset.query_texts
        queries = encoded(encoder, asked, cache, "encoding queries", queries=True)
        return cls(dataset, model, vectors, queries)

    @property
    def documents(self) -> Documents:
        """Documents in the form of databases."""
        return Documents(self.vectors.reopened(), self.dataset.ids, self.dataset.texts)

    def facts(self) -> Row:
        """Columns of every row of this task, with the name of its vectors."""
        return {
            "set": self.dataset.name,
            "model": self.model,
            "dim": self.vectors.dim,
            "documents": len(self.vectors),
            "queries": len(self.queries),
            "vectors": self.vectors.path.stem,
        }


def measure_grid(task: Task, results: ResultsFile, about: Row, *, quick: bool = False) -> None:
    """Append the rows of the grid that are missing; `about` are columns of every row."""
    methods = grid(task.vectors.dim, len(task.vectors), quick=quick)
    absent = missing(GRID_PEERS)
    methods = [method for method in methods if method.name not in absent]
    stage, judge = f"{task.dataset.name}, {task.model}", None
    for done, method in enumerate(methods):
        efforts = unmeasured(task, method, results)
        if efforts:
            progress(stage, done, len(methods))
            judge = judge or Judge(task.dataset, *exact_answers(task))
            for row in measured(task, method, efforts, judge):
                key = row_key(task, method, row["effort"])
                results.append({"key": key} | row | about)
    progress(stage, len(methods), len(methods))


def exact_answers(task: Task) -> tuple[Any, Any]:
    """Scores and rows (queries, depth) of the uncompressed search."""
    with engine_process(uncompressed(task.vectors.dim), task.vectors, task.queries) as process:
        process.remote.build()
        return process.remote.answer(depth_for(task.dataset))


def unmeasured(task: Task, method: Method, results: ResultsFile) -> tuple[int, ...]:
    """Efforts of a method that have no row yet, or failed."""
    rows = {e: results.rows.get(row_key(task, method, e)) for e in method.efforts}
    return tuple(effort for effort, row in rows.items() if row is None or "error" in row)


def row_key(task: Task, method: Method, effort: int) -> str:
    """Key of a row, from its vectors and method."""
    return key_of(task.facts() | method.columns(effort) | {"seed": 0})


def measured(task: Task, method: Method, efforts: Sequence[int], judge: Judge) -> Iterator[Row]:
    """Yield a row for each effort; with an `error` if the method failed."""
    done = 0
    try:
        with engine_process(method, task.vectors, task.queries) as process:
            worker = process.remote
            seconds = worker.build()
            for effort in efforts:
                worker.set_effort(effort)
                row = task.facts() | method.columns(effort)
                row |= judge.columns(*worker.answer(depth_for(task.dataset)))
                row |= times(worker, seconds, len(task.queries))
                row |= sizes(*worker.memory(), task)
                yield row
                done += 1
    except WorkerError as error:
        for effort in efforts[done:]:
            yield task.facts() | method.columns(effort) | {"error": str(error)}


def times(worker: MeasuredEngine, seconds: Seconds, queries: int) -> Row:
    """Times of each stage of the build, single queries on one thread and on all, and a batch."""
    row: Row = dict(seconds) | {"build_s": sum(seconds.values())}
    count = min(TIMED_QUERIES, queries)
    for name, threads in (("one", 1), ("all", None)):
        found = latency(worker.latencies(ANSWERS, 0, count, threads))
        row |= {f"{measure}_{name}": value for measure, value in found.items()}
    return row | {"queries_per_s": worker.throughput(ANSWERS, min(BATCH_QUERIES, queries))}


def sizes(told: Footprint, growth: Resident, task: Task) -> Row:
    """Bytes that the structures report, the share of float32, and the growth of the process."""
    row: Row = {f"{name}_bytes": value for name, value in asdict(told).items()}
    if told.ram_row is not None:
        row["compression"] = 4 * task.vectors.dim / told.ram_row
    count = len(task.vectors)
    return row | {
        "process_row_bytes": growth.own / count,
        "process_files_row_bytes": growth.files / count,
    }


def results_file(task: Task, experiment: str, folder: Path) -> ResultsFile:
    """Return the file of rows of an experiment, set and model."""
    name = re.sub(r"[^\w.]+", "-", f"{experiment}-{task.dataset.name}-{task.model}").strip("-")
    return ResultsFile(folder / f"{name}.jsonl")
