"""The ledger of losses: every step against labels, and against exact search, by brute force."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError
from slimdex.indexes.search.ablation import Found
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.quality.evaluation.ablation import losses, ndcg_bounds, rank_bounds
from slimdex.retrieval.quality.evaluation.labels import per_query
from slimdex.retrieval.quality.evaluation.measures import evaluate
from tests.encoders import WordEncoder


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory, docstrings: list[Document]) -> Collection:
    documents, path = docstrings, tmp_path_factory.mktemp("losses") / "i"
    made = Collection.create(path, WordEncoder(), Settings(k=16, candidates=30))
    made.add(documents)
    made.delete([documents[7].id])
    return made


def asked(collection: Collection) -> tuple[list[tuple[str, str]], dict[str, dict[str, int]]]:
    """Half of a document's words, which it is the answer to; some labels are graded."""
    queries, qrels = [], {}
    documents = [document for document in collection if len(document.text) > 40][:150]
    for i, (one, other) in enumerate(pairwise(documents)):
        queries.append((f"q{i}", " ".join(one.content.split()[::2])))
        qrels[f"q{i}"] = {one.id: 2, other.id: 1} if i % 3 == 0 else {one.id: 1}
    return queries, qrels


@pytest.mark.slow
def test_the_last_step_is_what_eval_measures_and_float16_its_exact_search(
    collection: Collection,
) -> None:
    queries, qrels = asked(collection)
    report, expected = (
        losses(collection, queries, qrels),
        evaluate(collection, queries, qrels),
    )
    values = {step["step"]: step["value"] for step in report["steps"]}
    assert report["measure"] == "ndcg@10"
    assert [*values] == ["float32", "float16", "whitened", "cut to k", "codes", "index"]
    assert values["float16"] == pytest.approx(expected["exact"]["ndcg@10"], abs=1e-6)
    vectors = WordEncoder().encode([text for _, text in queries])
    scores, rows = collection.nearest(vectors, 10)
    ids = collection.store.ids.by_row(collection.state.rows)
    own = per_query(scores, rows, [id for id, _ in queries], ids, qrels)["ndcg@10"].mean()
    assert values["index"] == pytest.approx(own, abs=1e-6)
    assert values["index"] == pytest.approx(expected["index"]["ndcg@10"], abs=1e-6)
    changes = [step["change"] for step in report["steps"][2:]]
    assert sum(changes) == pytest.approx(values["index"] - values["float16"])
    first = report["steps"][0]
    assert first["least"] - 1e-9 <= values["float16"] <= first["most"] + 1e-9


def test_without_labels_the_own_metric_is_what_is_to_be_found(collection: Collection) -> None:
    report = losses(collection, sample=60)
    steps = {step["step"]: step for step in report["steps"]}
    assert [*steps] == ["float16", "whitened", "cut to k", "codes", "index"]
    assert (report["measure"], report["queries"]) == ("agreement@10", 60)
    assert 0.9 < steps["float16"]["least"] <= 1
    assert steps["cut to k"]["change"] == pytest.approx(steps["cut to k"]["value"] - 1)
    assert steps["codes"]["value"] < steps["index"]["value"] <= 1
    pool = collection.pool(collection.snapshot, 60)
    metric = collection.reduced_index.metric
    assert metric is not None
    live = np.setdiff1d(np.arange(collection.state.rows), collection.snapshot.hidden)
    found, exact = [], []
    for query, own in zip(pool.vectors, pool.own, strict=True):
        allowed = np.setdiff1d(live, own)
        _, truth = metric.nearest(query[None], 10, allowed)
        exact.append(truth[0])
        hidden = collection.snapshot.hidden
        _, rows = collection.reduced_index.search(
            query[None], 10 + len(own), exclude=hidden, candidates=30
        )
        found.append([row for row in rows[0] if row not in own][:10])
    shares = [np.isin(t, f).mean() for t, f in zip(exact, found, strict=True)]
    assert steps["index"]["value"] == pytest.approx(np.mean(shares), abs=0.003)


def test_an_index_of_float32_rows_loses_nothing(tmp_path: Path) -> None:
    documents = [Document(str(i), f"word{i % 7} word{i % 11} word{i}") for i in range(300)]
    settings = Settings(k=48, gamma=0.0, kind="flat", candidates=0)
    with Collection.create(tmp_path / "i", WordEncoder(), settings) as collection:
        collection.add(documents)
        report = losses(collection, sample=40)
    assert [step["step"] for step in report["steps"]] == ["float16", "cut to k", "codes"]
    assert all(step["value"] > 0.99 for step in report["steps"][1:])


def test_vectors_that_are_stored_as_int8_are_called_so(tmp_path: Path) -> None:
    documents = [Document(str(i), f"word{i % 7} word{i % 11} word{i}") for i in range(300)]
    with Collection.create(tmp_path / "i", WordEncoder(), vector_dtype="int8") as collection:
        collection.add(documents)
        first, second, *_ = losses(collection, sample=40)["steps"]
    assert (first["step"], second["of"]) == ("int8", "int8")
    assert 0 <= first["least"] < 1


def test_a_document_with_the_querys_own_id_can_be_dropped(collection: Collection) -> None:
    documents = [document for document in collection if document.text][:20]
    queries = [(d.id, d.content) for d in documents]
    qrels = {d.id: {d.id: 1} for d in documents}
    kept, without = (losses(collection, queries, qrels, drop_self=d) for d in (False, True))
    assert kept["steps"][1]["value"] > 0.9
    assert all(step["value"] == 0 for step in without["steps"][1:])


@given(st.integers(0, 2**32 - 1), st.floats(0, 0.2))
def test_no_order_within_reach_is_beyond_the_bounds(seed: int, reach: float) -> None:
    """Scores are moved at random, and to the ends of what they can be."""
    rng = np.random.default_rng(seed)
    scores: Matrix = -np.sort(-rng.random((1, 30)).round(2)).astype(np.float32)
    rows = rng.permutation(30)[None]
    ids = [str(i) for i in range(30)]
    labels = {str(i): int(rng.integers(0, 4)) for i in rng.choice(30, 8, replace=False)}
    labels["elsewhere"] = 3
    best, worst = rank_bounds(Found(scores, rows), np.full((1, 30), reach))
    least, most = ndcg_bounds(rows, best, worst, [labels], ids)
    gains = sorted(labels.values(), reverse=True)[:10]
    ideal = sum(gain / np.log2(i + 2) for i, gain in enumerate(gains))
    exact = scores[0].astype(np.float64)
    for moved in (
        exact,
        exact + rng.uniform(-reach, reach, 30),
        exact + reach * rng.choice([-1, 1], 30),
        exact + reach * np.where([labels.get(str(row), 0) > 0 for row in rows[0]], 1, -1),
        exact + reach * np.where([labels.get(str(row), 0) > 0 for row in rows[0]], -1, 1),
    ):
        order = np.argsort(-moved, kind="stable")
        ranks = np.empty(30, dtype=int)
        ranks[order] = np.arange(30)
        assert (best[0] <= ranks).all()
        assert (ranks <= worst[0]).all()
        dcg = sum(
            labels.get(str(rows[0, i]), 0) / np.log2(place + 2)
            for place, i in enumerate(order[:10])
        )
        assert least - 1e-9 <= (dcg / ideal if ideal else 0.0) <= most + 1e-9


def test_bad_input_is_one_line(collection: Collection) -> None:
    with pytest.raises(InputError, match="both queries and labels"):
        losses(collection, [("q", "text")])
    with pytest.raises(InputError, match="sample=0; expected 1 or more"):
        losses(collection, sample=0)
    with pytest.raises(InputError, match="none of 1 queries has a label among 1"):
        losses(collection, [("q", "text")], {"other": {"a": 1}})
    with pytest.raises(InputError, match="none of the labelled documents"):
        losses(collection, [("q", "text")], {"q": {"nowhere": 1}})
