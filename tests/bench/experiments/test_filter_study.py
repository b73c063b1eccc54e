"""Filters of every selectivity, measured on a small collection."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.experiments.filter_study import conditions_on, measure_filters, recall
from slimdex.bench.experiments.retrieval_study import Task
from slimdex.bench.reporting.search_tables import filters
from slimdex.bench.rows import ResultsFile
from slimdex.indexes.arrays import Matrix
from slimdex.indexes.settings import Settings
from tests.bench.conftest import ABOUT


def test_recall_by_hand() -> None:
    cosines: Matrix = np.array([[0.9, 0.8, 0.8, 0.1], [0.1, 0.2, 0.3, 0.4]], dtype=np.float32)
    every = np.arange(4)
    assert recall(np.array([[0, 1], [3, 2]]), cosines, every) == 1
    assert recall(np.array([[0, 2], [3, 2]]), cosines, every) == 1  # a tie
    assert recall(np.array([[0, 3], [3, -1]]), cosines, every) == 0.5
    assert recall(np.array([[0, 1], [3, 2]]), cosines, np.array([1, 3])) == 0.5  # not allowed
    assert recall(np.array([[3, -1], [3, -1]]), cosines, np.array([3])) == 1  # fewer than k


def test_conditions_allow_about_their_share() -> None:
    lengths = np.random.default_rng(0).integers(20, 10_000, size=5000)
    for share, condition in conditions_on(lengths):
        _, sign, value = condition.split()
        count = (lengths >= int(value) if sign == ">=" else lengths <= int(value)).sum()
        assert count / 5000 == pytest.approx(share, rel=0.1, abs=0.0005)


@pytest.mark.slow
def test_rows_of_a_small_collection(task: Task, tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "filters-words.jsonl")
    texts = [text[: 20 + i % 157] for i, text in enumerate(task.dataset.texts)]
    varied = replace(task, dataset=replace(task.dataset, texts=texts))
    measure_filters(varied, results, ABOUT, Settings(k=24))
    rows = list(results.rows.values())
    assert 9 == len({row["condition"] for row in rows}) == len(rows)
    assert all(row["recall@10_total"] == row["recall@10_codes"] == 1 for row in rows)
    assert max(row["allowed"] for row in rows) == 800
    for row in rows:
        assert row["selectivity"] == row["allowed"] / 800
        assert 0 < row["p50_ms_condition"] <= row["p95_ms_condition"]
        assert 0 < row["p50_ms_exact"] <= row["p95_ms_exact"]
    (table,) = filters(rows)
    assert [line[0].value for line in table.rows] == sorted(row["selectivity"] for row in rows)
    assert table.rows[-1][1].shown == "800"
