"""Fusions over a small collection, and choices of constants worked by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.datasets import Task
from slimdex.bench.experiments.fusion_study import (
    SHOWN,
    WEIGHTS,
    WeightScores,
    best_weight,
    measure_hybrid,
    score_weights,
    weight_rows,
)
from slimdex.bench.rows import ResultsFile, check_row
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.lexical.fusion import WEIGHT
from slimdex.retrieval.search.request import SearchRequest
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
        exact = {"float32", "float32 rule"}
        assert ways.keys() == exact | {"meaning", "words", *SHOWN, "rule codes", "auto"}
        assert ways["rule"]["fusion"] == "rule"
        for way, row in ways.items():
            base = ways["float32 rule" if way == "rule codes" else "float32"]["ndcg@10"]
            assert row["ndcg@10_delta"] == pytest.approx(row["ndcg@10"] - base, abs=1e-3)
        assert ways["float32"]["ndcg@10_delta"] == 0
        assert all(row["recall@10"] >= 100 * row["first_share"] for row in ways.values())
        chosen = ways[ways["auto"]["fusion"]] if ways["auto"]["fusion"] in SHOWN else None
        assert chosen is None or chosen["ndcg@10"] == ways["auto"]["ndcg@10"]
        if what == "names":
            firsts = [ways[way]["first_share"] for way in ("float32 rule", "words", *SHOWN)]
            np.testing.assert_array_equal(firsts, 1)


@pytest.mark.slow
def test_exact_search_alone_and_fused_equals_an_index_of_all_dimensions(
    task: Task, tmp_path: Path
) -> None:
    results = ResultsFile(tmp_path / "hybrid-words.jsonl")
    measure_hybrid(task, WordEncoder(), tmp_path, results, ABOUT)
    found = {row["way"]: row["ndcg@10"] for row in results.rows.values()}
    judging = np.random.default_rng(0).permutation(len(task.queries))[1::2].tolist()
    data, vectors = task.dataset, task.queries.take(np.array(judging))
    exact = Settings(k=None, beta=0.0, gamma=0.0, kind="flat")
    with Collection.create(tmp_path / "x", GivenEncoder(task.vectors.dim), exact) as collection:
        documents = map(Document, data.ids, data.texts)
        collection.add(documents, vectors=task.vectors.take(np.arange(len(data.ids))))
        texts = [data.query_texts[i] for i in judging]
        for way, hybrid in (("float32", "off"), ("float32 rule", "auto")):
            answers = collection.answer(SearchRequest(texts=texts, vectors=vectors, hybrid=hybrid))
            places = [
                [hit.id for hit in hits].index(f"d{i}") if f"d{i}" in {h.id for h in hits} else None
                for i, hits in zip(judging, answers, strict=True)
            ]
            gains = [0.0 if place is None else 1 / np.log2(place + 2) for place in places]
            assert found[way] == pytest.approx(100 * np.mean(gains), abs=1e-3)
    assert found["float32 rule"] > found["float32"] + 5


def case(name: str, best: float) -> WeightScores:
    """Ten queries whose nDCG is 50 by the best weight, and falls by 10 for each 1 beside it."""
    by_weight = np.tile(50 - 10 * np.abs(np.array(WEIGHTS) - best), (10, 1))
    task = {"set": name, "model": "m", "dim": 2, "documents": 9, "queries": 10, "vectors": name}
    return WeightScores(task, by_weight[:, 0], by_weight[:, 0], by_weight, {})


def test_a_constant_is_chosen_on_the_other_sets() -> None:
    low, high, own = case("low", 0.25), case("high", 1.0), case("own", 0.5)
    assert WEIGHTS[best_weight([low])] == 0.25
    ways = {}
    for rows in weight_rows([low, low, high, own]):
        ways[rows[0]["set"]] = {row["way"]: row["ndcg@10"] for row in rows}
    assert ways["own"]["left out"] == 47.5  # the others choose .25
    assert ways["high"]["left out"] == 42.5
    assert ways["high"]["weight 1"] == 50


@pytest.mark.slow
def test_measured_equals_exact_search(task: Task) -> None:
    one = score_weights(replace(task, dataset=task.dataset.asking(30)))
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
