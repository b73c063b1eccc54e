"""What formats of stored vectors lose: `python -m slimdex.bench.stored_formats DATA MODEL SET...`.

Each format is compared with float32, by exact search of all rows: in the encoder's own metric, and
whitened at full dimension, with the reducer fitted on the stored vectors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.reducers.reducer import reduce_rows
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.row_formats import FLOAT32, STORED, Blocks, RowFormat, center_of
from slimdex.indexes.vectors.vector_file import VectorFile

from .datasets import Task, load_dataset, open_local
from .engines.registry import exact_settings
from .machine import provenance
from .options import CACHE
from .paired_measures import Judge, depth_for
from .rows import ResultsFile, Row, key_of

FIRST = 2048
"""Rows that decide the center, as the first batch of an index does."""
GAMMAS = (0.25, 1.0)


def main(data: Path, model: str, names: list[str]) -> None:
    """Append the rows of some sets with one model."""
    encoder = open_local(model, precision="fp32")
    for name in names:
        task = Task.encode(load_dataset(name, data), encoder, CACHE)
        results = ResultsFile(Path("bench-results") / f"stored-{name}-{task.model}.jsonl")
        for row in measure(task):
            results.append(row | provenance(["faiss-cpu"]))
            print(row, flush=True)


def measure(task: Task) -> Iterator[Row]:
    """Yield a row for each metric and format."""
    dim = task.vectors.dim
    metrics = {"own": exact_settings(dim)}
    for gamma in GAMMAS:
        metrics[f"gamma {gamma:g}"] = Settings(k=dim, gamma=gamma, kind="flat")
    depth = depth_for(task.dataset)
    for metric, settings in metrics.items():
        judge = Judge(task.dataset, *_answers(task, FLOAT32, settings, depth))
        for name, format in STORED.items():
            row = task.facts() | {"method": name, "part": metric}
            row |= {"beta": settings.beta, "gamma": settings.gamma}
            key = key_of(row)
            row |= {"disk_row_bytes": format.row_bytes(dim)}
            yield {"key": key} | row | judge.columns(*_answers(task, format, settings, depth))


def _answers(task: Task, format: RowFormat, settings: Settings, depth: int) -> tuple[Matrix, Rows]:
    """Return scores and rows (queries, depth) of exact search over rows stored in a format."""
    center = None
    if isinstance(format, Blocks):
        center = center_of(task.vectors.take(np.arange(min(FIRST, len(task.vectors)))))
    with TemporaryDirectory() as folder:
        stored = VectorFile(Path(folder) / "v", task.vectors.dim, 0, format, center)
        for chunk in task.vectors.scan():
            stored.append(chunk)
        reducer = settings.fit_reducer(stored, Moments.of(stored.scan(), stored.dim))
        documents = np.vstack([reduce_rows(reducer, chunk) for chunk in stored.scan()])
    queries = reduce_rows(reducer, np.vstack([*task.queries.scan()]))
    parts = [_nearest(queries[part] @ documents.T, depth) for part in batches(len(queries), 256)]
    return np.vstack([s for s, _ in parts]), np.vstack([r for _, r in parts])


def _nearest(scores: Matrix, depth: int) -> tuple[Matrix, Rows]:
    rows = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
    best = np.take_along_axis(scores, rows, axis=1)
    order = np.argsort(-best, axis=1, kind="stable")
    return np.take_along_axis(best, order, axis=1), np.take_along_axis(rows, order, axis=1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
