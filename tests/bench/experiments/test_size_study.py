"""A small index, whose bytes follow from its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.bench.columns import check_row
from slimdex.bench.experiments.size_study import Size, documents, measure_size
from slimdex.bench.reporting.size_tables import sizes
from slimdex.bench.rows import ResultsFile
from tests.bench.conftest import ABOUT

SIZE = Size(rows=1500, dim=32, kind="ivf-pq", characters=50)


def test_documents_are_of_so_many_characters_and_differ() -> None:
    made = list(documents(1000, 120))
    assert {len(document.text) for document in made} == {120}
    assert len({document.text for document in made}) > 990
    assert [document.metadata["n"] for document in made] == list(range(1000))


@pytest.mark.slow
def test_a_row_of_a_small_index(tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "sizes-made.jsonl")
    for _ in range(2):  # what is there is not measured again
        measure_size(SIZE, results, ABOUT, tmp_path / "disk")
    assert list((tmp_path / "disk").iterdir()) == []
    (row,) = ResultsFile(results.path).rows.values()
    check_row(row)
    assert (row["kind"], row["k"], row["candidates"]) == ("ivf-pq", 16, 200)
    assert row["ram_row_bytes"] == 16 / 8 + 8
    assert row["lists"] == 1500 // 39
    assert row["disk_vectors_bytes"] == 1500 * 32 * 2
    assert row["disk_norms_bytes"] == 1500 * 4
    held = 1500 * row["ram_row_bytes"] + row["ram_fixed_bytes"] - 4 * (32 * 16 + 32 * 32)
    assert row["disk_codes_bytes"] == pytest.approx(held, abs=2000)  # without reducer and metric
    assert row["disk_documents_bytes"] > row["text_bytes"] == 1500 * 50
    assert row["recall@10_total"] > 0.9
    total = row["fit_cpu_s"] + row["index_cpu_s"] + row["write_cpu_s"]
    assert row["build_cpu_s"] == pytest.approx(total, rel=1e-4)
    assert 0 < row["p50_ms_search_cpu"] < row["p50_ms_hits_cpu"]
    assert row["searches_per_s_one"] > 1
    (table,) = sizes([row])
    assert [cell.shown for cell in table.rows[0][:4]] == ["1,500", "32", "ivf-pq", "10"]
