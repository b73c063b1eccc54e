"""Workers are real processes here, and peers the real libraries, where they are installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.datasets import Task
from slimdex.bench.engines.engine import VECTORS, Engine
from slimdex.bench.engines.measuring import engine_process
from slimdex.bench.engines.processes import WorkerError
from slimdex.bench.engines.registry import Method, exact_method, libraries_for, missing
from slimdex.bench.experiments.points_study import grid
from slimdex.bench.machine import limit_threads
from slimdex.indexes.arrays import Rows, normalize_rows
from slimdex.indexes.ranking import agreement
from slimdex.indexes.settings import Settings


def brute_force(task: Task, k: int) -> Rows:
    X, Q = (normalize_rows(f.take(np.arange(len(f)))) for f in (task.vectors, task.queries))
    return np.argsort(-(Q @ X.T), axis=1, kind="stable")[:, :k]


def test_float32_in_a_worker_is_brute_force(task: Task) -> None:
    with engine_process(exact_method(48), task.vectors, task.queries) as process:
        worker = process.remote
        seconds = worker.build()
        _, rows = worker.answer(10)
        told, grown = worker.memory()
        one = worker.latencies(10, 0, 20)
        rate = worker.throughput(10, 60)
    assert agreement(rows, brute_force(task, 10), 10).mean() == 1
    assert set(seconds) == {"fit_s", "index_s"}  # nothing is written
    assert all(value > 0 for value in seconds.values())
    assert told.ram_row == 4 * 48
    assert grown.private >= 800 * 4 * 48  # it holds at least its rows
    assert len(one) == 20
    assert 1e-6 < np.median(one) < 1
    assert rate > 10


def test_slimdex_costs_and_finds_as_said(task: Task) -> None:
    settings = Settings(k=24, beta=0.0, gamma=0.0)
    with engine_process(Method("slimdex", settings), task.vectors, task.queries) as process:
        worker = process.remote
        worker.build()
        found, disk_rows = {}, list[float]()
        for effort in (0, 20, 200):
            worker.set_effort(effort)
            scores, rows = worker.answer(100)
            told, _ = worker.memory()
            assert told.disk_row is not None
            disk_rows.append(told.disk_row)
            assert told.ram_row == 24 / 4 / 2  # 6 sub-quantisers of 4 bits
            assert (np.diff(scores[:, : effort or 100], axis=1) <= 0).all()
            found[effort] = agreement(rows, brute_force(task, 10), 10).mean()
            if effort == 20:  # no more than the candidates are ever looked at
                assert (rows[:, 20:] == -1).all()
                assert (rows[:, :20] >= 0).all()
    # Rescoring reads halves of floats and a norm.
    assert disk_rows[1] - disk_rows[0] == pytest.approx(2 * 48 + 4, rel=0.01)
    assert disk_rows[2] == disk_rows[1]
    assert found[0] < found[20] < found[200]
    assert found[200] > 0.9


def test_what_fails_says_so_and_leaves_no_process(task: Task) -> None:
    process = engine_process(Method("slimdex", Settings(k=49)), task.vectors, task.queries)
    with process, pytest.raises(WorkerError, match="build: k=49; expected 1 to the encoder's 48"):
        process.remote.build()
    assert not process._process.is_alive()
    with engine_process(exact_method(48), task.vectors, task.queries) as process:
        worker = process.remote
        process._process.kill()
        with pytest.raises(WorkerError, match="answer: the process ended with code -9"):
            worker.answer(10)


def in_this_process(method: Method, task: Task, folder: Path) -> tuple[Engine, Rows]:
    """The method's engine at its largest effort, and its ten answers to each query."""
    engine = method.make()
    assert engine.build(task.vectors, folder)["index_s"] > 0
    engine.set_effort(method.efforts[-1])
    scores, rows = engine.search(task.queries.take(np.arange(len(task.queries))), 10)
    assert (np.diff(scores, axis=1) <= 1e-6).all()
    return engine, rows


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:legacy embedding function config")  # by Chroma
@pytest.mark.parametrize("name", libraries_for(VECTORS))
def test_a_peer_finds_what_exact_search_finds(task: Task, name: str, tmp_path: Path) -> None:
    if absent := missing([name]):
        pytest.skip(f"{name} is not installed: pip install {absent[name]}")
    engine, rows = in_this_process(Method.of_peer(name), task, tmp_path)
    least = 0.9 if name == "usearch i8" else 0.97
    assert agreement(rows, brute_force(task, 10), 10).mean() >= least
    assert (engine.footprint().disk_row or 0) > 0


@pytest.mark.slow
def test_every_method_of_a_quick_grid_finds_more_than_chance(task: Task, tmp_path: Path) -> None:
    for number, method in enumerate(grid(48, 800, quick=True)):
        if method.settings is None:
            continue
        (folder := tmp_path / str(number)).mkdir()
        _, rows = in_this_process(method, task, folder)
        assert agreement(rows, brute_force(task, 10), 10).mean() > 0.1, method  # by chance 0.01


def test_threads_are_limited_and_given_back() -> None:
    import os

    from threadpoolctl import threadpool_info

    before = os.sched_getaffinity(0)
    limit_threads(1)
    assert len(os.sched_getaffinity(0)) == 1
    assert {pool["num_threads"] for pool in threadpool_info()} == {1}
    limit_threads(None)
    assert os.sched_getaffinity(0) == before
