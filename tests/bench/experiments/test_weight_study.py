"""The choice of a constant against cases worked by hand, and measurement against exact search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slimdex.bench.experiments.retrieval_study import Task
from slimdex.bench.experiments.weight_study import (
    WEIGHTS,
    Measured,
    chosen,
    measured,
    weight_rows,
)
from slimdex.bench.rows import check_row
from slimdex.retrieval.lexical.weighting import WEIGHT
from tests.bench.conftest import ABOUT


def case(name: str, best: float) -> Measured:
    """Ten queries whose nDCG is 50 by the best weight, and falls by 10 for each 1 beside it."""
    by_weight = np.tile(50 - 10 * np.abs(np.array(WEIGHTS) - best), (10, 1))
    task = {"set": name, "model": "m", "dim": 2, "documents": 9, "queries": 10, "vectors": name}
    return Measured(task, by_weight[:, 0], by_weight[:, 0], by_weight, {})


def test_a_constant_is_chosen_on_the_other_sets() -> None:
    low, high, own = case("low", 0.25), case("high", 1.0), case("own", 0.5)
    assert WEIGHTS[chosen([low])] == 0.25
    ways = {}
    for rows in weight_rows([low, low, high, own]):
        ways[rows[0]["set"]] = {row["way"]: row["ndcg@10"] for row in rows}
    assert ways["own"]["left out"] == 47.5  # the others choose .25
    assert ways["high"]["left out"] == 42.5
    assert ways["high"]["weight 1"] == 50


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
    rare = [i for i in range(30) if one.by_weight[i, 0] != one.semantic[i]]
    assert len(rare) < 15  # a query with a code or a rare name gains without a weight
    np.testing.assert_allclose(one.by_weight[:, WEIGHTS.index(WEIGHT)], one.rule)
    for row in next(weight_rows([one])):
        check_row(row | ABOUT)
