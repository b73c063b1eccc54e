from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.bench.engines.registry import Method
from slimdex.bench.experiments import retrieval_study as grids
from slimdex.bench.experiments.retrieval_study import Task, measure_grid
from slimdex.bench.reporting.retrieval_tables import of_task
from slimdex.bench.rows import ResultsFile
from slimdex.indexes.execution.progress import listening
from slimdex.indexes.options import REDUCERS
from slimdex.indexes.settings import Settings
from tests.bench.conftest import ABOUT

SMALL = [
    grids.uncompressed(48),
    Method("slimdex", Settings(k=24), (0, 200)),
    Method("too much", Settings(k=96)),
]


@pytest.mark.parametrize("dim", [384, 768])
def test_every_method_of_the_grid_suits_the_vectors(dim: int) -> None:
    methods = grids.grid(dim, 60_000)
    assert methods[0] == grids.uncompressed(dim)
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
    assert measured_again == ["words, words 1/3", "words, words 2/3", "words, words 3/3"]
    rows = ResultsFile(path).rows.values()
    assert [r["method"] for r in rows] == ["float32", "slimdex", "slimdex", "too much"]
