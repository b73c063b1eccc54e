"""A pushed index beside the local one, measured on a small collection and the embedded server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slimdex.bench.columns import check_row
from slimdex.bench.experiments.milvus_study import (
    LOCAL,
    PUSHED,
    SHARES,
    measure_milvus,
    milvus_lines,
    server_memory,
)
from slimdex.bench.experiments.retrieval_study import Task
from slimdex.bench.rows import FOLDER, ResultsFile, read_rows
from slimdex.indexes.settings import Settings
from tests.bench.conftest import ABOUT


@pytest.mark.slow
def test_rows_of_a_small_collection(task: Task, tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "milvus-words.jsonl")
    texts = [text[: 20 + i % 157] for i, text in enumerate(task.dataset.texts)]
    varied = replace(task, dataset=replace(task.dataset, texts=texts))
    settings = Settings(k=24, kind="sq8", candidates=800)  # all: as brute force does
    measure_milvus(varied, results, ABOUT, str(tmp_path / "lite.db"), settings)
    rows = list(results.rows.values())
    plain = {row["method"]: row for row in rows if "condition" not in row}
    assert [*plain] == [LOCAL, PUSHED, "Milvus HNSW"]
    for name in ("ndcg@10", "agreement@10", "recall@10_total"):
        assert plain[PUSHED][name] == pytest.approx(plain[LOCAL][name], abs=0.01)
    assert plain[PUSHED]["recall@10_total"] == 1
    assert [row["ram_row_bytes"] for row in plain.values()] == [24, 32, 4 * 48 + 128 + 8]
    assert plain["Milvus HNSW"]["agreement@10"] > 0.9
    under = [row for row in rows if row["method"] == PUSHED and "condition" in row]
    assert len(under) == 2 * len(SHARES)
    assert all(row["recall@10_total"] == 1 for row in under)
    assert {round(row["selectivity"], 1) for row in under} == {0.0, 0.1, 0.5}
    for row in rows:
        check_row(row)
        assert 0 < row["p50_ms"] <= row["p95_ms"]
    said = milvus_lines(rows, varied.dataset)
    assert len(said) == 3
    assert said[1].startswith("milvus_lite-3.2.2, slimdex in Milvus (IVF_SQ8): nDCG@10 ")
    assert server_memory(str(tmp_path / "lite.db")) is None


def test_the_rows_that_there_are() -> None:
    for row in read_rows(FOLDER, "milvus", needed=False):
        check_row(row)
