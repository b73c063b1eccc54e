"""Vectors as int8 beside float16, measured on a small collection."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.experiments.retrieval_study import Task
from slimdex.bench.experiments.stored_study import GAMMAS, measure_stored
from slimdex.bench.reporting.search_tables import stored
from slimdex.bench.reporting.verdict import stored_line
from slimdex.bench.rows import ResultsFile
from slimdex.indexes.int8_rows import packed, unpacked
from slimdex.indexes.linear import Whitening
from slimdex.indexes.moments import Moments
from tests.bench.conftest import ABOUT


def exact_ndcg(task: Task, gamma: float) -> float:
    """Of brute force over the rows as int8 keeps them; each query has one answer."""
    X = task.vectors.take(np.arange(len(task.vectors)))
    X = unpacked(packed(X), X.shape[1])
    whitening = Whitening(X.shape[1], 0.0, gamma).fit_moments(Moments.of([X], X.shape[1]))
    queries = task.queries.take(np.arange(len(task.queries)))
    short, rows = (
        Y / np.linalg.norm(Y, axis=1, keepdims=True) for Y in map(whitening.transform, (queries, X))
    )
    scores = short @ rows.T
    answer = np.arange(len(queries))  # query i is words of document i
    ranks = (scores > scores[answer, answer][:, None]).sum(axis=1)
    return float(100 * np.where(ranks < 10, 1 / np.log2(ranks + 2), 0.0).mean())


def test_rows_of_a_small_collection(task: Task, tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "stored-words.jsonl")
    measure_stored(task, results, ABOUT, candidates=800)  # all: as brute force does
    rows = list(results.rows.values())
    assert [(row["gamma"], row["way"]) for row in rows] == [
        (gamma, way) for gamma in GAMMAS for way in ("fp16", "int8")
    ]
    for usual, small in (rows[:2], rows[2:]):
        assert (usual["disk_row_bytes"], small["disk_row_bytes"]) == (96, 52)
        assert usual["ndcg@10_delta"] == usual["ndcg@10_low"] == usual["ndcg@10_high"] == 0
        delta = small["ndcg@10"] - usual["ndcg@10"]
        assert small["ndcg@10_delta"] == pytest.approx(delta, abs=1e-3)
        assert usual["agreement@10"] == 1 >= small["agreement@10"] > 0.9
        assert small["ndcg@10"] == pytest.approx(exact_ndcg(task, small["gamma"]), abs=1e-3)
        assert 0 < small["p50_ms_rescored"] <= small["p95_ms_rescored"]
    tables = stored(rows)
    assert [table.title for table in tables] == ["gamma 0.25", "gamma 1"]
    assert [cell.shown for cell in tables[0].rows[0]][8:10] == ["96", "52"]
    assert stored_line(rows).startswith("words: 52 bytes a vector on disk instead of 96, nDCG@10 ")
