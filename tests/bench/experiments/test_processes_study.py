"""Commits by several processes, each of them a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.bench.experiments import processes_study, running_study
from slimdex.bench.experiments.running_study import Extent
from slimdex.bench.reporting.tables import processes
from slimdex.bench.rows import read_rows
from tests.bench.test_commands import bench


@pytest.mark.slow
def test_what_is_acknowledged_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extent = Extent(stored=50, seconds=0.5)
    monkeypatch.setattr(running_study, "QUICK", extent)
    monkeypatch.setattr(processes_study, "WRITERS", (1, 2))
    monkeypatch.setattr(processes_study, "SIZES", (3,))
    bench("running", "--only", "processes", "--quick", folder=tmp_path)
    every = read_rows(tmp_path / "bench-results", "processes")
    names = {row["method"] for row in every}
    found = {(row["method"], row["processes"]): row for row in every}
    assert set(found) == {(name, writers) for name in names for writers in (1, 2)}
    for writers in (1, 2):
        row = found["slimdex", writers]
        assert row["acknowledged"] == 3 * row["changes"] > 0
        assert (row["refused"], row["refusal"], row["lost"]) == (0, None, 0)
        assert (row["unseen_share"], row["unfound_share"]) == (0, 0)
        assert row["searches"] > 0
    (table,) = processes(every)
    assert sorted(line[1].shown for line in table.rows) == sorted(names)
