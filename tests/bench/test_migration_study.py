"""Rows of pairs of encoders over a small collection, whose bags of words differ by a rotation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.columns import check_row
from slimdex.bench.data.cached_vectors import encoded
from slimdex.bench.experiments.retrieval_study import Task
from slimdex.bench.migration.migration_study import SHARES, measure_pairs
from slimdex.bench.migration.moving_study import (
    MOVED,
    RULES,
    STAYING,
    in_spreads,
    measure_moving,
    merged,
)
from slimdex.bench.reporting.tables.migration import migration, moving
from slimdex.bench.reporting.verdict import migrate_line
from slimdex.bench.rows import ResultsFile
from tests.bench.conftest import ABOUT
from tests.encoders import Rotated


@pytest.fixture
def results(task: Task, tmp_path: Path) -> ResultsFile:
    data, encoder = task.dataset, Rotated()
    vectors = encoded(encoder, data.texts, tmp_path)
    other = Task(data, "rotated", vectors, encoded(encoder, data.query_texts, tmp_path))
    found = ResultsFile(tmp_path / "migrate-words.jsonl")
    measure_pairs([replace(task, model="words"), other], found, ABOUT)
    return found


def test_a_rotation_is_undone_by_the_map(results: ResultsFile) -> None:
    rows = list(results.rows.values())
    for row in rows:
        check_row(row)
    shares = [row["share"] for row in rows if row["old"] == "words"]
    assert shares == [share for share in SHARES if share * 800 >= 10]
    last = next(row for row in rows if row["old"] == "words" and row["share"] == 1)
    assert last["old ndcg@10"] == last["new ndcg@10"]  # a rotation keeps all cosines
    assert last["ndcg@10"] == pytest.approx(last["old ndcg@10"], abs=1)
    assert last["ndcg@10_low"] <= last["ndcg@10_delta"] <= last["ndcg@10_high"]
    assert 0 <= last["too_high"] / last["trials"] <= 0.06  # 5% and chance
    means, of_set, coverage = migration(rows)
    assert len(means.rows) == len(of_set.rows) == 2
    assert len(coverage.rows) == 1
    assert "retain 9" in migrate_line(rows) or "retain 100%" in migrate_line(rows)


def test_answers_while_documents_move(task: Task, tmp_path: Path) -> None:
    """A rotation keeps all cosines: documents that have moved are found as before."""
    encoder = Rotated()
    texts = (task.dataset.texts, task.dataset.query_texts)
    other = Task(task.dataset, "rotated", *(encoded(encoder, each, tmp_path) for each in texts))
    found = ResultsFile(tmp_path / "moving-words.jsonl")
    measure_moving([task, other], found, ABOUT)
    rows = list(found.rows.values())
    assert [(row["way"], row["share"]) for row in rows] == [
        (way, share) for way in (STAYING, *RULES) for share in MOVED
    ]
    for row in rows:
        check_row(row)
        same = row["way"] in (STAYING, "cosines", "spreads") or row["share"] in (0, 1)
        assert row["ndcg@10"] == pytest.approx(rows[0]["ndcg@10"], abs=0.5 if same else 15)
        assert row["ndcg@10_low"] <= row["ndcg@10_delta"] <= row["ndcg@10_high"]
    measure_moving([task, other], found, {"none": "is measured twice"})
    (table,) = moving(rows)
    shares = ["0%", "25%", "50%", "75%", "100%"]
    assert table.heads == ["from", "to", "scores", *shares, "50% - 0%"]
    assert [cell.shown for cell in table.rows[0]][2] == STAYING


def test_scores_of_two_spaces_are_merged() -> None:
    """The new cosines are higher throughout: as they are, they hide the best old document."""
    old = np.array([[0.1, 0.2, 0.3, 0.4]], dtype=np.float32)
    new = np.array([[0.8, 0.82, 0.83, 0.81]], dtype=np.float32)
    moved = np.array([0, 1])
    order = {way: np.argsort(-merged(old, new, moved, way)[0]).tolist() for way in RULES}
    assert order["cosines"] == [1, 0, 3, 2]
    assert set(order["z-scores"][:2]) == set(order["percentiles"][:2]) == {1, 3}
    calibrated = merged(old, new, moved, "z-scores")[0]
    assert np.allclose(calibrated, [-1, 1, -1, 1], atol=1e-4)


def test_cosines_of_pairs_of_documents_have_mean_0_and_spread_1(task: Task) -> None:
    texts = task.vectors.take(np.arange(len(task.vectors)))
    unit = texts / np.linalg.norm(texts, axis=1, keepdims=True)
    found = in_spreads(task, unit @ unit.T)[np.triu_indices(len(unit), 1)]
    assert found.mean() == pytest.approx(0, abs=0.05)
    assert found.std() == pytest.approx(1, abs=0.05)
