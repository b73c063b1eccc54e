"""Processes that add documents to a store while another one searches it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.bench.engines.engine import CHANGES
from slimdex.bench.engines.registry import missing, names_of, packages_of
from slimdex.bench.experiments import update_study
from slimdex.bench.machine import provenance
from slimdex.bench.reporting.study_tables import processes
from slimdex.bench.rows import ResultsFile


@pytest.mark.slow
def test_what_is_acknowledged_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_study, "WRITERS", (1, 2))
    monkeypatch.setattr(update_study, "SIZES", (3,))
    results = ResultsFile(tmp_path / "processes-random.jsonl")
    absent = missing(names_of(CHANGES))
    names = [name for name in names_of(CHANGES) if name not in absent]
    about = provenance(["duckdb", *packages_of(names)])
    update_study.measure_updates(names, 50, 0.5, results, about)
    found = {(row["method"], row["processes"]): row for row in results.rows.values()}
    assert set(found) == {(name, writers) for name in names for writers in (1, 2)}
    for writers in (1, 2):
        row = found["slimdex", writers]
        assert row["acknowledged"] == 3 * row["changes"] > 0
        assert (row["refused"], row["refusal"], row["lost"]) == (0, None, 0)
        assert (row["unseen_share"], row["unfound_share"]) == (0, 0)
        assert row["searches"] > 0
    (table,) = processes(list(found.values()))
    assert len(table.rows) == 2 * len(names)
