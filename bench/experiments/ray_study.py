"""`slimdex bench ray`: an index built by one process and by workers, and by some that are killed.

Each is built by the command line, in processes of its own. The indexes are compared: their files,
their reducers, and the answers to queries that are sentences of the documents.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import numpy as np
import psutil

from slimdex.indexes.errors import InputError
from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.registry import load_reducer
from slimdex.retrieval.collection.collection import Collection

from ..rows import ResultsFile, Row, key_of

QUERIES, NEAREST = 500, 10
WORKER = "ray::_comp"
"""How the name of a process of `RayWorkers` begins, cut to the 15 letters that Linux keeps."""
PAUSE_S = 0.5
"""Seconds between kills at most, in a build that is short."""
START_S = 30
"""Seconds in which Ray and the models of its workers have started."""


def measure_ray(
    source: Path,
    model: str,
    counts: Sequence[int],
    kills: tuple[int, int],
    results: ResultsFile,
    about: Row,
    folder: Path,
    progress: Progress = silent,
) -> None:
    """Write a row for a build without Ray, for each number of workers, and for one with kills.

    Parameters
    ----------
    kills : of workers and of the process that builds, in one build by the last number of workers;
        none if both are 0.
    folder : a new one for the indexes, which stay.
    """
    facts: Row = {"what": "ray", "source": source.name, "model": Path(model).name}
    whole = folder / "0.index"
    runs = [(0, (0, 0)), *((count, (0, 0)) for count in counts)]
    if any(kills):
        runs.append((counts[-1], kills))
    alone = 0.0
    for done, (workers, killed) in enumerate(runs):
        progress("building", done, len(runs))
        path = folder / f"{workers}{'-killed' if any(killed) else ''}.index"
        command = build_command(source, path, model, workers)
        start = perf_counter()
        pause = max(PAUSE_S, (alone - START_S) / max(sum(killed), 1))  # they are all through it
        builders = build_with_kills(command, *killed, Random(0), path.with_suffix(".log"), pause)
        row = facts | {"workers": workers, "worker_kills": killed[0], "builder_kills": killed[1]}
        row |= {"key": key_of(row), "build_s": perf_counter() - start, "builders": builders}
        alone = alone or row["build_s"]
        results.append(row | {"ratio": row["build_s"] / alone} | compared(whole, path) | about)
    progress("building", len(runs), len(runs))


def build_command(source: Path, path: Path, model: str, workers: int) -> list[str]:
    """What is typed; 0 workers are none of Ray's."""
    command = [sys.executable, "-m", "slimdex", "build", str(source), "--out", str(path)]
    command += ["--model", model]
    return command + (["--ray", "local", "--workers", str(workers)] if workers else [])


def build_with_kills(
    command: Sequence[str],
    workers: int,
    builders: int,
    random: Random,
    log: Path,
    pause: float = PAUSE_S,
) -> int:
    """Run a command until it ends by itself; kill -9 so many workers, and itself so many times.

    Returns how often it was begun.

    Parameters
    ----------
    pause : seconds from one kill to the next, at most.

    Raises
    ------
    InputError
        If it fails, with its last line.
    """
    killed = 0
    for turn in range(builders + 1):
        with log.open("a") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
            share = (workers - killed) // (builders + 1 - turn)
            killed += kill_workers(process, share, random, pause)
            if turn < builders and process.poll() is None:
                process.kill()
        if process.returncode == 0:
            break
        if turn == builders or process.returncode != -signal.SIGKILL:
            lines = log.read_text().splitlines() or [""]
            raise InputError(f"{' '.join(command)}: exit code {process.returncode}: {lines[-1]}")
    if killed < workers or turn < builders:
        raise InputError(
            f"{killed} workers and {turn} builders killed before the build ended; expected "
            f"{workers} and {builders}: take more documents"
        )
    return turn + 1


def kill_workers(
    builder: subprocess.Popen[Any], count: int, random: Random, pause: float = PAUSE_S
) -> int:
    """Kill so many of its workers at random times while it runs; returns how many."""
    killed = 0
    while killed < count and builder.poll() is None:
        time.sleep(random.uniform(0.05, pause))
        with suppress(psutil.NoSuchProcess):
            below = psutil.Process(builder.pid).children(recursive=True)
            if found := [process for process in below if process.name().startswith(WORKER)]:
                random.choice(found).send_signal(signal.SIGKILL)
                killed += 1
    return killed


def compared(one: Path, other: Path) -> Row:
    """How far two indexes of the same documents are the same."""
    names = [{p.name: p for p in path.iterdir() if _is_compared(p)} for path in (one, other)]
    differing = [
        name
        for name in sorted(names[0].keys() | names[1].keys())
        if name not in names[0] or name not in names[1] or not _same(names[0][name], names[1][name])
    ]
    components = [_components(path) for path in (one, other)]
    return {
        "documents": _documents(one),
        "files_differing": len(differing),
        "reducer_difference": float(np.abs(components[0] - components[1]).max()),
        "same_answers": _agreement(one, other),
    }


def _is_compared(path: Path) -> bool:
    return path.is_file() and not path.name.startswith("catalog")


def _same(one: Path, other: Path) -> bool:
    return one.read_bytes() == other.read_bytes()


def _components(path: Path) -> Any:
    (found,) = path.glob("reducer-*")
    return load_reducer(found).components_  # type: ignore[attr-defined]


def _documents(path: Path) -> int:
    with Collection.open(path, read_only=True) as collection:
        return len(collection)


def _answers(path: Path, queries: Any) -> Iterable[list[tuple[str, float]]]:
    with Collection.open(path, read_only=True) as collection:
        return [
            [(hit.id, hit.score) for hit in hits]
            for hits in collection.search_many(queries, NEAREST)
        ]


def _agreement(one: Path, other: Path) -> float:
    """The share of queries, vectors of documents with noise, whose answers are identical."""
    with Collection.open(one, read_only=True) as collection:
        rows = np.random.default_rng(0).choice(len(collection._vectors), QUERIES)
        queries = collection._vectors.take(np.sort(rows))
    noise = np.random.default_rng(1).standard_normal(queries.shape).astype(np.float32)
    queries = queries + 0.5 * noise * queries.std()
    pairs = zip(_answers(one, queries), _answers(other, queries), strict=True)
    return sum(a == b for a, b in pairs) / QUERIES
