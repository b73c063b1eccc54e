"""Methods over the vectors of a set, each in its own process, side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.bench.datasets import Task
from slimdex.bench.engines.registry import Method, exact_method
from slimdex.bench.experiments.peers_study import measure_peers
from slimdex.bench.machine import MemoryGroup
from slimdex.bench.reporting.tables import peers
from slimdex.bench.rows import ResultsFile
from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from tests.bench.conftest import ABOUT

AMPLE, TOO_SMALL = 1 << 30, 1 << 20
"""Caps of memory in bytes."""


@pytest.fixture
def methods() -> list[Method]:
    return [exact_method(48), Method("slimdex 1/64", Settings(24, 0.0, 0.0, "pq"), (20, 100))]


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
    (table,) = peers(rows)
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
    (table,) = peers(list(results.rows.values()))
    assert f"capped: at most {cap // 10**6} MB" in table.note
