"""Ways to make codes, measured on a small collection."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.columns import check_row
from slimdex.bench.experiments.codes_study import TRIALS, measure_codes
from slimdex.bench.experiments.retrieval_study import Task
from slimdex.bench.reporting.codes_tables import codes, codes_line
from slimdex.bench.rows import ResultsFile, Row
from slimdex.indexes.kinds import PQ, PQ_L2
from tests.bench.conftest import ABOUT


@pytest.mark.slow
def test_rows_of_a_small_collection(task: Task, tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "codes-words.jsonl")
    measure_codes(task, results, ABOUT)
    rows = list(results.rows.values())
    quick = [trial for trial in TRIALS if not trial.slow]
    assert [(row["method"], row["k"], row["gamma"]) for row in rows] == [
        (trial.name, trial.k(48), trial.gamma) for trial in quick
    ]
    for row in rows:
        check_row(row)
        assert row["ram_row_bytes"] == _bytes(row)
        assert row["needed"] is None or 10 <= row["needed"] <= 400
        assert row["method"] == "ideal" or row["p50_ms_one"] > 0
        assert row["ndcg@10_delta"] < 2  # as much as exact search finds, but for chance
    measure_codes(task, results, ABOUT)
    assert list(results.rows.values()) == rows  # what is there is not measured again
    (table,) = codes(rows)
    assert len(table.rows) == len(rows)
    assert {len(line) for line in table.rows} == {len(table.heads)}
    assert "from exact by pq-l2" in codes_line(rows)


def _bytes(row: Row) -> float:
    """Of a code; RaBitQ keeps two floats beside its first bits, and three more beside the rest."""
    k, kind = int(row["k"]), row["kind"]
    bits = {"RaBitQ": k + 64, "RaBitQ2": 2 * k + 160, "RaBitQ4": 4 * k + 160}
    bits |= {"PQ6x4fs": 24, "PQ12x4fs": 48, "24 bits": 24, "48 bits": 48}
    return bits[kind] / 8


@pytest.mark.slow
def test_a_mean_is_of_all_sets_or_of_none(task: Task, tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "codes-words.jsonl")
    measure_codes(task, results, ABOUT)
    rows = list(results.rows.values())
    (table,) = codes([*rows, rows[0] | {"set": "other", "needed": None, "ndcg@10_delta": -4.0}])
    mean, needed = table.heads.index("mean"), table.heads.index("candidates")
    first = next(line for line in table.rows if line[0].shown == "pq (PQ6x4fs)")
    assert first[mean].value == pytest.approx(np.mean([rows[0]["ndcg@10_delta"], -4.0]))
    assert first[needed].shown == "400 and more"
    assert [line[mean].shown for line in table.rows if line is not first] == [""] * len(rows[1:])


def test_the_kinds_of_the_catalog_are_those_that_are_tried() -> None:
    first = {trial.name: trial for trial in reversed(TRIALS)}
    for trial, kind, k in ((first["pq"], PQ, 192), (first["pq-l2"], PQ_L2, 192)):
        assert trial.kind(384).factory(k, 5000) == kind.factory(k, 5000)
        assert trial.kind(384).by_distance == kind.by_distance
        assert trial.k(384) == k
