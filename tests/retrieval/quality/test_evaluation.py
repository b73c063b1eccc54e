from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.ranking import agreement
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.quality import evaluation
from slimdex.retrieval.quality.evaluation import (
    LABELS,
    ExactSearch,
    drop_rows,
    evaluate,
    evaluate_self,
    nearest_of,
)
from slimdex.retrieval.quality.labels import (
    UserQueries,
    labelled_queries,
    ndcg,
    per_query,
    read_qrels,
)
from slimdex.retrieval.quality.query_pools import CLOZE, document_pool
from slimdex.retrieval.store.document_store import DocumentStore
from tests.conftest import Copies
from tests.encoders import WordEncoder
from tests.slow import slow


def test_measures_are_those_of_ir_measures(rng: np.random.Generator) -> None:
    """Of graded, missing and negative labels, equal scores, repeated documents, and no answer."""
    import ir_measures
    from ir_measures import RR, R, nDCG

    names = {nDCG @ 10: "ndcg@10", RR @ 10: "mrr@10", R @ 10: "recall@10", R @ 100: "recall@100"}
    ids, queries = [f"d{i}" for i in range(200)], [f"q{i}" for i in range(50)]
    scores = -np.sort(-rng.random((50, 150)).astype(np.float32), axis=1)
    rows = np.stack([rng.choice(200, 150, replace=False) for _ in queries])
    rows[:, 20] = rows[:, 3]
    qrels = {
        query: {ids[row]: int(rng.integers(-1, 4)) for row in rng.choice(200, 12, replace=False)}
        for query in queries
    }
    scores[5, 4:9] = scores[5, 4]
    rows[7], scores[7] = -1, -np.inf
    run = {
        q: {ids[row]: float(-place) for place, row in reversed([*enumerate(r)]) if row >= 0}
        for q, r in zip(queries, rows.tolist(), strict=True)
    }
    tied = {
        ids[row]: float(score) for score, row in zip(scores[5, ::-1], rows[5, ::-1], strict=True)
    }
    found = per_query(scores, rows, queries, ids, qrels)
    for metric in ir_measures.iter_calc(list(names), qrels, run | {"q5": tied}):
        own = found[names[metric.measure]][queries.index(metric.query_id)]
        assert own == pytest.approx(metric.value), metric


def test_the_default_search_is_measured_as_it_answers(
    tmp_path: Path, copied: Copies, docstrings: list[Document]
) -> None:
    collection = Collection.open(copied(tmp_path / "x"), WordEncoder())
    asked = docstrings[100:900:40]
    queries = [(d.id, " ".join(d.text.split()[3:6])) for d in asked]
    report = evaluate(collection.index, queries, {d.id: {d.id: 1} for d in asked})
    assert list(report["default"]) == list(report["index"]) == list(report["exact"])
    for column, hybrid in (("default", "auto"), ("index", "off")):
        answers = collection.search_many([text for _, text in queries], 10, hybrid=hybrid)
        ids = [[hit.id for hit in hits] for hits in answers]
        ranks = [hits.index(d.id) for hits, d in zip(ids, asked, strict=True) if d.id in hits]
        assert report[column]["recall@10"] == len(ranks) / len(asked)
        reciprocal = sum(1 / (rank + 1) for rank in ranks)
        assert report[column]["mrr@10"] == pytest.approx(reciprocal / len(asked))
    assert report["default"]["ndcg@10"] > report["index"]["ndcg@10"]
    words = collection.info()["lexical"]["disk_bytes_per_vector"]
    assert report["default"]["disk_bytes_per_vector"] == pytest.approx(
        report["index"]["disk_bytes_per_vector"] + words
    )
    assert report["default"]["agreement@10"] is None
    collection.index_lexical(False)
    without = evaluate(collection.index, queries, {d.id: {d.id: 1} for d in asked})
    assert "default" not in without
    assert without["index"]["ndcg@10"] == report["index"]["ndcg@10"]


def test_dropping_the_query_itself(
    tmp_path: Path, copied: Copies, docstrings: list[Document]
) -> None:
    collection = Collection.open(copied(tmp_path / "x"), WordEncoder())
    queries = [(d.id, d.content) for d in docstrings[:20]]
    own = {d.id: {d.id: 1} for d in docstrings[:20]}
    assert evaluate(collection.index, queries, own)["exact"]["mrr@10"] > 0.9
    dropped = evaluate(collection.index, queries, own, drop_self=True)
    assert dropped["exact"]["recall@100"] == dropped["index"]["recall@100"] == 0


def test_without_labels_the_agreement_is_bounded_by_sentences_of_the_documents(
    tmp_path: Path, copied: Copies
) -> None:
    settings = Settings(k=24, candidates=30)
    collection = Collection.open(copied(tmp_path / "x", settings=settings), WordEncoder())
    collection.delete(where="kind = 'module'")
    report = evaluate_self(collection.index, sample=40)
    assert report["queries"] == 40
    assert report["exact"]["encoder_agreement@10"] is report["exact"]["agreement@10"] is None
    assert 0.3 < report["index"]["encoder_agreement@10"] < 1
    assert list(report["index"]) == list(report["exact"])
    proved = report["proved"]
    assert proved["estimate"] == report["index"]["agreement@10"] > proved["bound"] > 0
    assert proved["pool"] == CLOZE
    with pytest.raises(InputError, match="sample=0; expected 1 or more documents"):
        evaluate_self(collection.index, sample=0)


def test_measures_at_ten_and_at_a_hundred_are_those_of_searches_for_as_many(
    tmp_path: Path, docstrings: list[Document]
) -> None:
    settings = Settings(8, kind="sq4", candidates=15, reducer="truncate")
    with Collection.create(tmp_path / "x", WordEncoder(), settings) as collection:
        collection.add(docstrings)
        asked = {f"q{i}": " ".join(d.text.split()[:4]) for i, d in enumerate(docstrings[:60])}
        ids = [d.id for d in docstrings]
        qrels = {q: {ids[i]: 1, ids[i + 100]: 1} for i, q in enumerate(asked)}
        report = evaluate(collection.index, [*asked.items()], qrels)["index"]
        queries = WordEncoder().encode([*asked.values()])
        found, by_label = dict[int, Rows](), dict[int, dict[str, NDArray[np.float64]]]()
        for limit in (10, 100):
            each = [nearest_of(collection.index, query[None], limit) for query in queries]
            scores, found[limit] = (np.concatenate(part) for part in zip(*each, strict=True))
            by_label[limit] = per_query(scores, found[limit], [*asked], ids, qrels)
        for measure, limit in (
            ("ndcg@10", 10),
            ("mrr@10", 10),
            ("recall@10", 10),
            ("recall@100", 100),
        ):
            assert report[measure] == pytest.approx(by_label[limit][measure].mean())
        assert (found[10] != found[100][:, :10]).any()
        exact = ExactSearch(collection.index)(queries, 10)[1]
        agreed = agreement(found[10], exact, 10).mean()
        assert report["encoder_agreement@10"] == pytest.approx(agreed)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(24, 0.5, 0.5, candidates=30),
        *slow([Settings(20, 0, 0.25, "sq4", 0, "pca")]),
    ],
)
def test_agreement_in_the_own_metric_by_brute_force(
    tmp_path: Path, docstrings: list[Document], settings: Settings
) -> None:
    encoder = WordEncoder()
    collection = Collection.create(tmp_path / "x", encoder, settings)
    collection.add(docstrings)
    X = collection.index.snapshot.vectors().take(np.arange(1200))
    beta, gamma = (1.0, 0.0) if settings.reducer == "pca" else (settings.beta, settings.gamma)
    shift = beta * X.mean(axis=0, dtype=np.float64)
    values, axes = np.linalg.eigh((X - shift).T @ (X - shift) / len(X))
    turned = axes * values ** (-gamma / 2)
    if settings.candidates == 0:
        turned = turned[:, -(settings.k or 0) :]
    collection.delete(where="kind = 'module'")
    encoder.encoded.clear()
    report = evaluate_self(collection.index, sample=40)
    rng = np.random.default_rng(0)
    own = document_pool(collection.index.snapshot, encoder, 40, rng).held_out[:, 0]
    queries = WordEncoder().encode(encoder.encoded[:40])
    unit = (X - shift) @ turned
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    cosines = ((queries - shift) @ turned) @ unit.T
    cosines[:, collection.index.snapshot.deleted] = -np.inf
    cosines[np.arange(40), own] = -np.inf
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :10]
    search = partial(nearest_of, collection.index)
    found = [
        drop_rows(*search(q[None], 11), own[i : i + 1, None])[1] for i, q in enumerate(queries)
    ]
    by_hand = agreement(np.concatenate(found), nearest, 10).mean()
    assert report["index"]["agreement@10"] == pytest.approx(by_hand, abs=0.003)


def test_times_include_what_their_names_say(
    tmp_path: Path, docstrings: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that the encoder and the catalog move: what is timed is seen in what it counts."""
    now = 0.0

    class SlowEncoder(WordEncoder):
        def encode(self, texts: Sequence[str]) -> Matrix:
            nonlocal now
            now += 0.007 * len(texts)
            return super().encode(texts)

    stored = DocumentStore.documents

    def slow_documents(store: DocumentStore, rows: Sequence[int]) -> dict[int, Document]:
        nonlocal now
        now += 0.003
        return stored(store, rows)

    collection = Collection.create(tmp_path / "x", SlowEncoder())
    collection.add(docstrings[:300])
    monkeypatch.setattr(DocumentStore, "documents", slow_documents)
    monkeypatch.setattr(evaluation, "perf_counter", lambda: now)
    report = evaluate_self(collection.index, sample=20)
    index, exact = report["index"], report["exact"]
    for p in ("p50_ms", "p95_ms", "p99_ms"):
        assert index[p] == exact[p] == 0
        assert index[f"text_to_documents_{p}"] == pytest.approx(10)
        assert exact[f"text_to_documents_{p}"] is None
    assert set(index) == set(exact) == {*LABELS}


def test_qrels_of_both_forms(tmp_path: Path) -> None:
    (tmp_path / "beir.tsv").write_text("query-id\tcorpus-id\tscore\nq 1\td 1\t2\nq 1\td2\t0\n")
    assert read_qrels(tmp_path / "beir.tsv") == {"q 1": {"d 1": 2, "d2": 0}}
    (tmp_path / "trec.txt").write_text("q1 0 d1 1\nq2 0 d2 1\n")
    assert read_qrels(tmp_path / "trec.txt") == {"q1": {"d1": 1}, "q2": {"d2": 1}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("query-id\tcorpus-id\tscore\n", "no labels"),
        ("q\td\t1\nq\td\tmany\n", "line 2: 'q\\td\\tmany'"),
        ("q\td\t1\nq\t1\n", "line 2"),
        ("q\td\t\u00b2\n", "line 1"),
    ],
)
def test_bad_qrels(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "q.tsv").write_text(content)
    with pytest.raises(InputError) as raised:
        read_qrels(tmp_path / "q.tsv")
    assert message in str(raised.value)


def test_labelled_documents_that_are_missing_count_as_not_found_everywhere(
    tmp_path: Path, docstrings: list[Document]
) -> None:
    with Collection.create(tmp_path / "x", WordEncoder()) as collection:
        collection.add(docstrings[:30])
        names = [document.id for document in docstrings[:3]]
        queries = [(name, document.text) for name, document in zip(names, docstrings, strict=False)]
        labels = {names[0]: {names[0]: 1}, names[1]: {names[1]: 1, "missing": 1}}
        labels[names[2]] = {"missing": 2, "another": 1}
        by_hand = [1, 1 / (1 + 1 / np.log2(3)), 0]
        found = evaluate(collection.index, queries, labels)["exact"]["ndcg@10"]
        assert found == pytest.approx(np.mean(by_hand))
        judged = labelled_queries(collection.index.snapshot, UserQueries(queries, labels))
        first = [ndcg([row], each.labels) for row, each in enumerate(judged)]
        assert first == pytest.approx(by_hand)


def test_no_documents_and_labels_that_fit_nothing_are_refused(
    tmp_path: Path, docstrings: list[Document]
) -> None:
    collection = Collection.create(tmp_path / "x", WordEncoder())
    collection.add(docstrings[:30])
    with pytest.raises(InputError, match="none of 1 queries has a label among 1"):
        evaluate(collection.index, [("q", "x")], {"other": {"d": 1}})
    with pytest.raises(InputError, match="none of the labelled documents is in the index"):
        evaluate(collection.index, [("q", "x")], {"q": {"d": 1}})
    collection.delete(where="true")
    with pytest.raises(InputError, match="0 documents; at least 3"):
        evaluate_self(collection.index)
