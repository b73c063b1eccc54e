from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel

from slimdex.bench.datasets import Dataset
from slimdex.bench.paired_measures import Judge, depth_for, interval
from slimdex.retrieval.documents import Document


def test_pairing_sees_what_two_intervals_would_not() -> None:
    rng = np.random.default_rng(4)
    hard = rng.uniform(0, 1, 300)  # queries differ far more than methods do
    ours, theirs = hard + rng.normal(0.01, 0.02, 300), hard
    low, high = interval(ours - theirs)
    assert 0 < low < 0.01 < high < 0.02
    t = ttest_rel(ours, theirs).confidence_interval()
    assert low == pytest.approx(t.low, abs=5e-4)
    assert high == pytest.approx(t.high, abs=5e-4)


def test_columns_worked_by_hand() -> None:
    documents = [Document(name, name) for name in "abcd"]
    queries = [("q1", "x"), ("q2", "y")]
    data = Dataset.of("s", documents, queries, {"q1": {"a": 1}, "q2": {"b": 1}})
    scores = np.array([[3.0, 2, 1], [3, 2, 1]], dtype=np.float32)
    judge = Judge(data, scores, np.array([[0, 1, 2], [3, 2, 1]]))
    row = judge.columns(scores, np.array([[1, 0, 3], [1, 2, 3]]))
    assert row["mrr@10"] == pytest.approx(100 * (1 / 2 + 1) / 2)
    assert row["mrr@10_delta"] == pytest.approx(100 * ((1 / 2 - 1) + (1 - 1 / 3)) / 2)
    assert row["recall@10"] == 100
    assert row["recall@10_delta"] == row["recall@10_low"] == row["recall@10_high"] == 0
    assert row["agreement@10"] == pytest.approx((2 / 3 + 1) / 2)
    assert row["mrr@10_low"] == pytest.approx(-50)
    assert row["mrr@10_high"] == pytest.approx(200 / 3)


def test_a_query_that_is_a_document_gets_one_answer_more() -> None:
    documents = [Document(f"d{i}", f"t{i}") for i in range(300)]
    plain = Dataset.of("s", documents, [("q", "t0")], {"q": {"d1": 1}})
    own = Dataset.of("s", documents, [("d0", "t0")], {"d0": {"d1": 1}})
    assert (depth_for(plain), depth_for(own), depth_for(own, 10)) == (100, 101, 11)
    assert depth_for(Dataset.of("s", documents[:5], [("q", "x")], {"q": {"d1": 1}})) == 5
    scores = np.array([[3.0, 2, 1]], dtype=np.float32)
    judge = Judge(own, scores, np.array([[0, 1, 2]]))
    assert judge.columns(scores, np.array([[0, 1, 2]]))["mrr@10"] == 100
