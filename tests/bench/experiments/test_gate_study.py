"""The gate's fit against cases worked by hand, and its measurement against an exact search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slimdex.bench.experiments.gate_study import (
    WEIGHTS,
    Measured,
    fitted,
    gate_rows,
    judged,
    measured,
)
from slimdex.bench.experiments.retrieval_study import Task
from slimdex.bench.rows import check_row
from slimdex.retrieval.lexical.weighting import BIAS, OF_RANK, OF_WORDS
from tests.bench.conftest import ABOUT


def case(name: str, terms: int, slope: float) -> Measured:
    """Ten queries whose nDCG changes in proportion to the weight, from 50 on."""
    curves = np.tile(50 + slope * WEIGHTS, (10, 1))
    same = np.full(10, 50.0)
    task = {"set": name, "model": "m", "dim": 2, "documents": 9, "queries": 10, "vectors": name}
    return Measured(task, same, same, {}, curves, np.full(10, float(terms)), np.zeros(10))


def test_a_gate_of_zeros_is_half_the_largest_weight() -> None:
    assert judged((0.0, 0.0, 0.0), case("a", 3, 10.0)).tolist() == pytest.approx([57.5] * 10)
    # z = 1 - 4 * 4 / 8 = -1, so the weight is 1.5 * (1 - 1 / 2) / 2
    assert judged((1.0, -4.0, 0.0), case("a", 4, 10.0)).tolist() == pytest.approx([53.75] * 10)


def test_a_fit_tells_sets_apart_by_their_words() -> None:
    """Long queries gain by lexical scores, short ones lose: no constant is as good for both."""
    long, short = case("long", 20, 10.0), case("short", 1, -10.0)
    gate = fitted([long, short])
    assert judged(gate, long).mean() > 62
    assert judged(gate, short).mean() > 48
    (rows, _) = gate_rows([long, short])
    (left_out,) = (row for row in rows if row["way"] == "left out")
    assert left_out["ndcg@10"] == pytest.approx(judged(fitted([short]), long).mean())


@pytest.mark.slow
def test_measured_equals_exact_search(task: Task) -> None:
    one = measured(replace(task, dataset=task.dataset.asking(30)))
    rows = task.vectors.take(np.arange(len(task.vectors)))
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    queries = task.queries.take(np.arange(30))
    places = [(scores > scores[i]).sum() for i, scores in enumerate(queries @ rows.T)]
    gains = [100 / np.log2(place + 2) if place < 10 else 0.0 for place in places]
    np.testing.assert_allclose(one.semantic, gains)
    assert one.rule.mean() > one.semantic.mean() + 5
    np.testing.assert_allclose(one.curves[:, 0], one.semantic)
    by_gate = judged((BIAS, OF_WORDS, OF_RANK), one)
    assert by_gate.mean() == pytest.approx(one.rule.mean(), abs=3)  # but for interpolation
    for row in next(gate_rows([one])):
        check_row(row | ABOUT)
