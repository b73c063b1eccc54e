"""`slimdex bench stored`: what it costs to keep the full vectors as int8, beside float16.

Each way has an index of its own, fitted on the vectors as they are stored, as a user's is. The
answers of both are held against the labels, query by query, and the same candidates are rescored
by both in turns, in one process.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.settings import Settings
from slimdex.indexes.vector_file import STORED
from slimdex.retrieval.evaluation import latency

from ..engines.engine import SlimdexEngine
from ..machine import limit_threads
from ..rows import ResultsFile, Row, key_of
from .paired_measures import Judge, depth_for
from .retrieval_study import Task

GAMMAS = (0.25, 1.0)
"""The default, and whitening to the end, which enlarges what is off where vectors differ least."""
CANDIDATES = 200
TIMED_QUERIES, ROUNDS = 100, 5
USUAL = "fp16"


def measure_stored(
    task: Task,
    results: ResultsFile,
    about: Row,
    candidates: int = CANDIDATES,
    progress: Progress = silent,
) -> None:
    """Write a row for each gamma and way; a run replaces all rows of the one before."""
    queries = task.queries.take(np.arange(len(task.queries)))
    rows = list[Row]()
    for done, gamma in enumerate(GAMMAS):
        settings = Settings(gamma=gamma, kind="pq", candidates=candidates)
        with TemporaryDirectory() as folder:
            engines = {}
            for stored in STORED:
                engines[stored] = SlimdexEngine(settings, stored)
                (Path(folder) / stored).mkdir()
                engines[stored].build(task.vectors, Path(folder) / stored)
            depth = depth_for(task.dataset)
            answers = {way: engine.search(queries, depth) for way, engine in engines.items()}
            judge = Judge(task.dataset, *answers[USUAL])
            times = rescoring_times(engines, queries[:TIMED_QUERIES], candidates)
            for way, engine in engines.items():
                known = task.facts() | {"way": way, "gamma": gamma, "candidates": candidates}
                found = latency(times[way])
                row = {f"{measure}_rescored": value for measure, value in found.items()}
                row |= judge.columns(*answers[way])
                row["disk_row_bytes"] = engine.index.vectors.row_bytes
                rows.append({"key": key_of(known)} | known | row | about)
        progress("stored", done + 1, len(GAMMAS))
    results.replace(rows)


def rescoring_times(
    engines: dict[str, SlimdexEngine], queries: Matrix, candidates: int
) -> dict[str, list[float]]:
    """Seconds that each engine takes to score the same candidates of each query, in memory."""
    seconds: dict[str, list[float]] = {way: [] for way in engines}
    codes, reducer = engines[USUAL].index.index, engines[USUAL].index.reducer
    _, nearest = codes.search(reducer.transform(queries), candidates)
    metrics = {way: engine.index.metric for way, engine in engines.items()}
    limit_threads(1)
    try:
        for turn in range(1 + ROUNDS):  # the first brings the files into memory
            for query, found in zip(queries, nearest, strict=True):
                rows = np.sort(found[found >= 0])
                for way, metric in metrics.items():
                    assert metric is not None
                    probe, start = metric.probes(query[None]), perf_counter()
                    metric.scores(probe, rows)
                    if turn:
                        seconds[way].append(perf_counter() - start)
    finally:
        limit_threads(None)
    return seconds
