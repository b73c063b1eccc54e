"""Methods over the vectors of a set, each in its own process."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.bench.datasets import Task
from slimdex.bench.engines.registry import Method
from slimdex.bench.experiments import retrieval_study as grids
from slimdex.bench.experiments.retrieval_study import (
    measure_grid,
    measure_peers,
    uncompressed,
)
from slimdex.bench.machine import MemoryGroup
from slimdex.bench.reporting.choices import of_task
from slimdex.bench.reporting.tables import peers_in_memory
from slimdex.bench.rows import ResultsFile
from slimdex.errors import InputError
from slimdex.indexes.options import REDUCERS
from slimdex.indexes.settings import Settings
from slimdex.system.progress import listening
from tests.bench.conftest import ABOUT

AMPLE, TOO_SMALL = 1 << 30, 1 << 20
"""Caps of memory in bytes."""
SMALL = [
    uncompressed(48),
    Method("slimdex", Settings(k=24), (0, 200)),
    Method("too much", Settings(k=96)),
]


@pytest.mark.parametrize("dim", [384, 768])
def test_every_method_of_the_grid_suits_the_vectors(dim: int) -> None:
    methods = grids.grid(dim, 60_000)
    assert methods[0] == uncompressed(dim)
    assert len(set(methods)) == len(methods)
    for method in methods:
        if method.settings:
            method.settings.checked(dim)
    reducers = {method.settings.reducer for method in methods if method.settings}
    assert reducers == set(REDUCERS) - {"pca"}  # which is whitening's (1, 0)
    assert any(600 in method.efforts for method in methods)  # 1% of the rows
    assert set(grids.grid(dim, 60_000, quick=True)) < set(methods)


@pytest.mark.slow
def test_rows_are_measured_once_and_a_killed_run_goes_on(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slimdex.bench.experiments.retrieval_study.grid", lambda *_, **__: SMALL)
    path = tmp_path / "rows.jsonl"
    measure_grid(task, ResultsFile(path), ABOUT)
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 4
    exact, codes, rescored, failed = ResultsFile(path).rows.values()
    assert exact["ndcg@10_delta"] == exact["ndcg@10_low"] == 0
    assert exact["agreement@10"] == 1
    assert exact["compression"] == 1
    assert codes["compression"] == 64
    assert codes["ndcg@10_low"] <= codes["ndcg@10_delta"] <= codes["ndcg@10_high"] < 0
    assert rescored["ndcg@10"] > codes["ndcg@10"]
    assert rescored["candidates"] == 200
    assert rescored["seed"] == 0
    assert failed["error"] == "build: k=96; expected 1 to the encoder's 48 dimensions"
    assert [r["method"] for r in of_task([failed, exact], ("words", "words"))] == ["float32"]

    path.write_text("".join(lines[:2]) + lines[2][:50])  # as a kill leaves it
    measured_again: list[str] = []
    report = lambda stage, done, total: measured_again.append(f"{stage} {done}/{total}")  # noqa: E731
    with listening(report):
        measure_grid(task, ResultsFile(path), ABOUT)
    own = [line for line in measured_again if line.startswith("words")]
    assert own == ["words, words 1/3", "words, words 2/3", "words, words 3/3"]
    rows = ResultsFile(path).rows.values()
    assert [r["method"] for r in rows] == ["float32", "slimdex", "slimdex", "too much"]


@pytest.fixture
def methods() -> list[Method]:
    return [uncompressed(48), Method("slimdex 1/64", Settings(24, 0.0, 0.0, "pq"), (20, 100))]


def has_groups() -> bool:
    try:
        with MemoryGroup():
            return True
    except InputError:
        return False


@pytest.mark.slow
def test_each_effort_has_a_row_with_both_kinds_of_memory(
    task: Task, methods: list[Method], tmp_path: Path
) -> None:
    results = ResultsFile(tmp_path / "peers-words.jsonl")
    assert measure_peers(task, methods, results, ABOUT) == []
    rows = list(results.rows.values())
    assert [(row["method"], row["effort"]) for row in rows] == [
        ("float32", 0),
        ("slimdex 1/64", 20),
        ("slimdex 1/64", 100),
    ]
    assert rows[0]["agreement@10"] == 1
    assert rows[1]["agreement@10"] < rows[2]["agreement@10"]
    assert rows[0]["process_row_bytes"] >= 4 * 48
    for row in rows:
        assert "p50_ms_capped" not in row
    (table,) = peers_in_memory(rows)
    assert {line[0].shown for line in table.rows} == {"float32", "slimdex 1/64"}
    for line in table.rows:
        cells = dict(zip(table.heads, line, strict=True))
        (own,) = (row for row in rows if row["p50_ms_one"] == cells["p50 ms"].value)
        assert own["agreement@10"] == cells["agreement"].value
        grown = own["process_row_bytes"] + own["mapped_row_bytes"]
        assert cells["private"].value == own["process_row_bytes"]
        assert cells["and mapped"].value == grown
        assert cells["disk"].value == own["disk_row_bytes"]
    dates = [row["time"] for row in rows]
    assert measure_peers(task, methods, results, ABOUT) == []  # all rows exist
    assert [row["time"] for row in results.rows.values()] == dates


@pytest.mark.slow
@pytest.mark.skipif(not has_groups(), reason="this process may not make control groups")
@pytest.mark.parametrize(("cap", "fits"), [(AMPLE, True), (TOO_SMALL, False)])
def test_below_a_cap_there_are_times_if_it_fits(
    task: Task, methods: list[Method], tmp_path: Path, cap: int, fits: bool
) -> None:
    results = ResultsFile(tmp_path / "peers-words.jsonl")
    assert measure_peers(task, methods, results, ABOUT, cap) == []
    for row in results.rows.values():
        assert row["cap_bytes"] == cap
        assert row["p50_ms_one"] > 0
        assert ("p50_ms_capped" in row) is fits
    (table,) = peers_in_memory(list(results.rows.values()))
    assert f"capped: at most {cap // 10**6} MB" in table.note
