"""`slimdex bench retrieval`: quality, memory and time of a grid of methods on every set.

Sizes are shares of the model's d dimensions, so that they are comparable between models. A new
reducer or kind of the catalog needs one line in the grid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slimdex.indexes.execution.progress import progress
from slimdex.indexes.options import CANDIDATES
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.quality.evaluation import latency

from ..datasets import Dataset, encoded
from ..engines.engine import Documents, Footprint, Seconds
from ..engines.measured import MeasuredEngine, engine_process
from ..engines.processes import WorkerError
from ..engines.registry import Method
from ..machine import Resident
from ..paired_measures import Judge, depth_for
from ..rows import ResultsFile, Row, key_of

if TYPE_CHECKING:
    from ..datasets import LocalEncoder

TIMED_QUERIES = 300
"""Queries timed one at a time."""
BATCH_QUERIES = 2000
"""Queries in one call for the throughput."""
ANSWERS = 10
"""Answers of a timed query."""
RESCORED = CANDIDATES
DEFAULTS = Settings(gamma=0.25, kind="pq", candidates=RESCORED)
"""Defaults of an index of up to 60,000 documents when its rows were measured, but for gamma, which
is 0 since; used for larger sets too so that rows compare."""
UNCOMPRESSED = "float32"
REDUCERS: dict[str, Settings] = {
    "slimdex": DEFAULTS,
    "PCA": Settings(beta=1.0, gamma=0.0),
    "rotation": Settings(beta=0.0, gamma=0.0),
    "BERT-whitening": Settings(beta=1.0, gamma=1.0),
    "truncate": Settings(beta=0.0, gamma=0.0, reducer="truncate"),
    "random projection": Settings(beta=0.0, gamma=0.0, reducer="random"),
}
"""Name -> way of reducing dimensions; the name also stands for its (beta, gamma)."""
OTHERS: dict[str, Settings] = {
    "all but the top": Settings(beta=0.0, gamma=0.0, reducer="all-but-the-top"),
    "tied autoencoder": Settings(beta=0.0, gamma=0.0, reducer="autoencoder"),
    "flow": Settings(beta=0.0, gamma=0.0, reducer="flow"),
}
"""The same, for half of the dimensions only."""
CURVE = ((1, 12), (1, 6), (1, 4), (1, 2), (2, 3))
"""k as shares of d."""


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
    """Times of each stage of the build, of single queries on one thread, and of a batch on all."""
    row: Row = dict(seconds) | {"build_s": sum(seconds.values())}
    each = latency(worker.latencies(ANSWERS, 0, min(TIMED_QUERIES, queries)))
    row |= {f"{measure}_one": value for measure, value in each.items()}
    return row | {"queries_per_s": worker.throughput(ANSWERS, min(BATCH_QUERIES, queries))}


def sizes(footprint: Footprint, growth: Resident, task: Task) -> Row:
    """Bytes that the structures report, the share of float32, and the growth of the process."""
    row: Row = {f"{name}_bytes": value for name, value in asdict(footprint).items()}
    if footprint.ram_row is not None:
        row["compression"] = 4 * task.vectors.dim / footprint.ram_row
    count = len(task.vectors)
    return row | {
        "process_row_bytes": growth.own / count,
        "mapped_row_bytes": growth.files / count,
    }


def results_file(task: Task, experiment: str, folder: Path) -> ResultsFile:
    """Return the file of rows of an experiment, set and model."""
    name = re.sub(r"[^\w.]+", "-", f"{experiment}-{task.dataset.name}-{task.model}").strip("-")
    return ResultsFile(folder / f"{name}.jsonl")


def uncompressed(dim: int) -> Method:
    """Exact float32 search, the reference for all methods."""
    return _plain(UNCOMPRESSED, dim, "flat")


def grid(dim: int, rows: int, *, quick: bool = False) -> list[Method]:
    """Methods for `rows` vectors of `dim` dimensions, uncompressed first."""
    usual, half = _usual(dim, rows), part(dim, 2)
    ways = [_reduced(*way, half, "pq", RESCORED) for way in (REDUCERS | OTHERS).items()]
    found = [uncompressed(dim), *usual, *ways, *(() if quick else _more(dim))]
    return [*{repr(method): method for method in found}.values()]


def _usual(dim: int, rows: int) -> Iterator[Method]:
    """Floats, scalar and binary quantisers without reduction; slimdex at 1/64 to 1/192."""
    yield _plain("float16", dim, "fp16")
    yield _plain("int8", dim, "sq8")
    yield _plain("RaBitQ", dim, "rabitq", RESCORED)
    efforts = (0, *sorted({RESCORED, max(rows // 100, 10)}))  # 1% of the rows
    for of in (2, 3, 4, 6):
        settings = Settings(k=part(dim, of), gamma=DEFAULTS.gamma, kind="pq")
        yield Method("slimdex", settings, efforts)


def _more(dim: int) -> Iterator[Method]:
    """Quality against k alone, other index kinds, codes alone, and OPQ, which trains for long."""
    half, quarter = part(dim, 2), part(dim, 4)
    for share, of in CURVE:
        for name, settings in REDUCERS.items():
            if name != "rotation":  # it differs from PCA by the mean only
                yield _reduced(name, settings, part(dim, of, share), "flat")
    for kind in ("rabitq", "sq4", "sq8", "fp16", "ivf-pq", "hnsw"):
        yield _reduced("slimdex", DEFAULTS, half, kind, RESCORED)
    sizes = {8: ["sq8"], 16: ["sq4", f"PQ{half}x4fs"], 32: [f"PQ{half // 2}x4fs", f"PQ{half // 4}"]}
    for kind in (kind for kinds in sizes.values() for kind in kinds):
        yield _reduced("slimdex", DEFAULTS, half, kind)
    for kind in ("sq8", "sq4"):  # 1/16, 1/32
        yield _reduced("slimdex", DEFAULTS, quarter, kind)
    yield _plain("int4", dim, "sq4")
    for most in (half, quarter):  # 1/16, 1/32
        yield _plain("PQ", dim, f"PQ{_divisor(dim, most)}x4fs")
    for of in (16, 8):  # 1/64, 1/32
        groups = _divisor(dim, dim // of)
        yield _plain("OPQ+PQ", dim, f"OPQ{groups},PQ{groups}", RESCORED)


def part(dim: int, of: int, share: int = 1) -> int:
    """Return the fraction share/of of the dimensions, as a multiple of 4, which `pq` requires.

    >>> part(384, 2), part(384, 3, share=2), part(312, 8)
    (192, 256, 36)
    """
    return max(dim * share // of // 4 * 4, 4)


def _divisor(dim: int, most: int) -> int:
    return max(m for m in range(1, max(most, 1) + 1) if dim % m == 0)


def _plain(name: str, dim: int, kind: str, rescored: int = 0) -> Method:
    settings = Settings(dim, 0.0, 0.0, kind, rescored, "identity")
    return Method(name, settings, _efforts(rescored))


def _reduced(name: str, like: Settings, k: int, kind: str, rescored: int = 0) -> Method:
    settings = Settings(k, like.beta, like.gamma, kind, rescored, like.reducer)
    return Method(name, settings, _efforts(rescored))


def _efforts(rescored: int) -> tuple[int, ...]:
    return (0, rescored) if rescored else (0,)
