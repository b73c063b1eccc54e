from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from indexes.errors import InputError
from indexes.settings import Settings
from retrieval.collection import Collection
from retrieval.documents import Document
from retrieval.evaluation import (
    ExactSearch,
    Results,
    agreement,
    evaluate,
    latency,
    measures,
    read_qrels,
)
from tests.encoders import WordEncoder


def test_measures_worked_by_hand() -> None:
    ids = ["a", "b", "c", "d"]
    rows = np.array([[1, 0, 2], [3, 2, -1]])
    scores = np.array([[0.9, 0.8, 0.7], [0.5, 0.4, -np.inf]], dtype=np.float32)
    qrels = {"q1": {"a": 1, "c": 2}, "q2": {"b": 1}}
    found = measures(Results(scores, rows, []), ["q1", "q2"], ids, qrels)
    # q1 ranks b, a, c: gains 0, 1, 2 at discounts 1, log2(3), 2; ideally c, a.
    dcg = 1 / np.log2(3) + 2 / 2
    ideal = 2 + 1 / np.log2(3)
    assert found["ndcg@10"] == pytest.approx(dcg / ideal / 2)
    assert found["mrr@10"] == pytest.approx((1 / 2 + 0) / 2)
    assert found["recall@10"] == found["recall@100"] == pytest.approx((1 + 0) / 2)


def test_agreement() -> None:
    exact = np.array([[1, 2, 3], [4, -1, -1], [-1, -1, -1]])
    found = np.array([[3, 2, 9], [4, 8, 7], [5, 6, 7]])
    assert agreement(found, exact, 3) == pytest.approx((2 / 3 + 1 + 1) / 3)


def test_latency_is_in_milliseconds() -> None:
    assert latency([0.001, 0.002, 0.003])["p50_ms"] == pytest.approx(2)


def test_exact_search_is_the_cosine_of_live_vectors(
    tmp_path: Path, docstrings: list[Document]
) -> None:
    collection = Collection.create(tmp_path / "x", WordEncoder())
    collection.add(docstrings)
    collection.delete(where="kind = 'module'")
    queries = WordEncoder().encode(["parse a date"])
    vectors = collection.vectors.take(np.arange(1200))
    cosines = vectors @ queries[0] / np.linalg.norm(vectors, axis=1) / np.linalg.norm(queries)
    cosines[collection.deleted] = -np.inf
    scores, rows = ExactSearch(collection)(queries, 10)
    np.testing.assert_allclose(scores[0], -np.sort(-cosines)[:10], atol=1e-5)
    np.testing.assert_allclose(cosines[rows[0]], scores[0], atol=1e-5)
    assert ExactSearch(collection).memory()["ram_bytes_per_vector"] == 4 * 48


def test_an_uncompressed_index_measures_as_exact(
    tmp_path: Path, docstrings: list[Document]
) -> None:
    settings = Settings(k=48, gamma=0.0, kind="flat", candidates=0)
    collection = Collection.create(tmp_path / "x", WordEncoder(), settings)
    collection.add(docstrings)
    queries = [(f"q{i}", d.text[:60]) for i, d in enumerate(docstrings[:50])]
    qrels = {f"q{i}": {d.id: 1} for i, d in enumerate(docstrings[:50])}
    report = evaluate(collection, queries, qrels)
    assert report["queries"] == 50
    assert report["documents"] == 1200
    assert report["index"]["fidelity@10"] > 0.99
    assert report["exact"]["fidelity@10"] == 1
    for measure in ("ndcg@10", "mrr@10", "recall@10", "recall@100"):
        assert report["index"][measure] == pytest.approx(report["exact"][measure], abs=0.01)
    assert report["exact"]["mrr@10"] > 0.5
    assert report["index"]["ram_bytes_per_vector"] == report["exact"]["ram_bytes_per_vector"]
    assert list(report["index"]) == list(report["exact"])


def test_dropping_the_query_itself(tmp_path: Path, docstrings: list[Document]) -> None:
    collection = Collection.create(tmp_path / "x", WordEncoder())
    collection.add(docstrings)
    queries = [(d.id, d.content) for d in docstrings[:20]]
    own = {d.id: {d.id: 1} for d in docstrings[:20]}
    assert evaluate(collection, queries, own)["exact"]["mrr@10"] > 0.9
    dropped = evaluate(collection, queries, own, drop_self=True)
    assert dropped["exact"]["recall@100"] == dropped["index"]["recall@100"] == 0


def test_qrels_of_both_forms(tmp_path: Path) -> None:
    (tmp_path / "beir.tsv").write_text("query-id\tcorpus-id\tscore\nq 1\td 1\t2\nq 1\td2\t0\n")
    assert read_qrels(tmp_path / "beir.tsv") == {"q 1": {"d 1": 2, "d2": 0}}
    (tmp_path / "trec.txt").write_text("q1 0 d1 1\nq2 0 d2 1\n")
    assert read_qrels(tmp_path / "trec.txt") == {"q1": {"d1": 1}, "q2": {"d2": 1}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no labels"),
        ("query-id\tcorpus-id\tscore\n", "no labels"),
        ("q\td\t1\nq\td\tmany\n", "line 2: 'q\\td\\tmany'"),
        ("q\td\t1\nq\t1\n", "line 2"),
        ("q\td\t--1\n", "line 1"),
        ("q\td\t1.0\n", "line 1"),
        ("q\td\t\u00b2\n", "line 1"),
    ],
)
def test_bad_qrels(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "q.tsv").write_text(content)
    with pytest.raises(InputError) as raised:
        read_qrels(tmp_path / "q.tsv")
    assert message in str(raised.value)
    with pytest.raises(InputError, match="can't be read"):
        read_qrels(tmp_path / "none.tsv")


def test_everything_deleted(tmp_path: Path, docstrings: list[Document]) -> None:
    collection = Collection.create(tmp_path / "x", WordEncoder())
    collection.add(docstrings[:30])
    collection.delete(where="true")
    with pytest.raises(InputError, match="holds no documents; expected some to search"):
        evaluate(collection, [("q", "x")], {"q": {"d": 1}})


def test_labels_that_fit_nothing(tmp_path: Path, docstrings: list[Document]) -> None:
    collection = Collection.create(tmp_path / "x", WordEncoder())
    collection.add(docstrings[:30])
    with pytest.raises(InputError, match="none of 1 queries has a label among 1"):
        evaluate(collection, [("q", "x")], {"other": {"d": 1}})
    with pytest.raises(InputError, match="none of the labelled documents is in the index"):
        evaluate(collection, [("q", "x")], {"q": {"d": 1}})
