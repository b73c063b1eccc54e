"""From a text to documents: real stores over a small collection, asked in turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.bench.datasets import Task
from slimdex.bench.engines.registry import SLIMDEX, missing
from slimdex.bench.experiments.search_study import CALLERS, ENOUGH, measure_search
from slimdex.bench.reporting.tables import stores
from slimdex.bench.rows import ResultsFile, check_row
from tests.bench.conftest import ABOUT
from tests.encoders import WordEncoder

pytestmark = pytest.mark.slow

OURS = f"{SLIMDEX} by vectors"
PARTS = ("total", "encode")


def test_rows_of_a_small_collection(task: Task, tmp_path: Path) -> None:
    every = [SLIMDEX, OURS, "sqlite-vec"]
    names = [name for name in every if name not in missing(every)]
    results, folder = ResultsFile(tmp_path / "search-words.jsonl"), tmp_path / "stores"
    failed = measure_search(task, WordEncoder, names, results, ABOUT, folder=folder, rounds=1)
    assert failed == []
    assert list(folder.iterdir()) == []
    rows = list(results.rows.values())
    assert {row["method"] for row in rows} == set(names)
    (ours,) = (row for row in rows if row["method"] == OURS)
    assert ours["effort"] > 0  # the default finds less
    assert ours["agreement@10"] >= ENOUGH
    for row in rows:
        check_row(row)
        assert 0 <= row["ndcg@10"] <= 100
        assert row["callers"] == CALLERS
        assert row["faults"] == 0
        assert 0 < row["store_bytes"] < row["memory_bytes"]
        assert row["disk_row_bytes"] > 48  # at least its text
        assert row["searches_per_s_one"] > 0
        for threads in ("one", "all"):
            for part in (*PARTS, *(["callers"] if threads == "one" else [])):
                name = f"ms_{part}_{threads}"
                assert row[f"p50_{name}"] <= row[f"p95_{name}"] <= row[f"p99_{name}"]
    (table,) = stores([row | {"queries": 100} for row in rows])
    place = table.heads.index("text to documents, p50 ms")
    shown = [(line[0].shown, line[1].value, line[place].value) for line in table.rows]
    expected = [(r["method"], r["agreement@10"], r["p50_ms_total_one"]) for r in rows]
    assert shown == sorted(expected, key=lambda line: line[2])
