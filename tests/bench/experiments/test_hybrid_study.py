"""Rows of every fusion over a small collection, and of the one that labels choose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.columns import check_row
from slimdex.bench.experiments.hybrid_study import SHOWN, measure_hybrid, way_of
from slimdex.bench.experiments.retrieval_study import Task
from slimdex.bench.rows import ResultsFile
from slimdex.retrieval.quality.tuning.hybrid_choice import FUSIONS
from tests.bench.conftest import ABOUT
from tests.encoders import WordEncoder


@pytest.mark.slow
def test_rows_of_a_small_collection(task: Task, tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "hybrid-words.jsonl")
    measure_hybrid(task, WordEncoder(), tmp_path, results, ABOUT, names=True)
    rows = list(results.rows.values())
    for row in rows:
        check_row(row)
    for what in ("queries", "names"):
        ways = {row["way"]: row for row in rows if row["what"] == what}
        assert ways.keys() == {"float32", "meaning", "words", *SHOWN, "auto"}
        assert ways["rule"]["fusion"] == "rule"
        alone = ways["float32"]["ndcg@10"]
        for row in ways.values():
            assert row["ndcg@10_delta"] == pytest.approx(row["ndcg@10"] - alone, abs=1e-3)
        assert ways["float32"]["ndcg@10_delta"] == 0
        assert all(row["recall@10"] >= 100 * row["first_share"] for row in ways.values())
        chosen = ways[ways["auto"]["fusion"]] if ways["auto"]["fusion"] in SHOWN else None
        assert chosen is None or chosen["ndcg@10"] == ways["auto"]["ndcg@10"]
        if what == "names":
            firsts = [ways[way]["first_share"] for way in ("words", *SHOWN)]
            np.testing.assert_array_equal(firsts, 1)


def test_no_two_ways_have_the_same_name() -> None:
    names = [way_of(fusion) for fusion in FUSIONS]
    assert len(set(names)) == len(names)
    assert set(SHOWN) <= set(names)
    assert "auto" not in names  # which is the fusion that labels choose
