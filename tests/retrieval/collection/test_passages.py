"""Documents with passages: searches, changes and reads, against brute force."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Hit, Part
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.ingest import writer
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.quality.evaluation import evaluate, evaluate_self
from slimdex.retrieval.quality.query_pools import document_pool, rows_of_documents
from tests.cutting import cut
from tests.encoders import ReadingEncoder, WordEncoder

TOKENS = 16
PLAIN = Settings(beta=0.0, gamma=0.0, reducer="identity", kind="flat", candidates=5)


def story(name: str, sentences: int) -> str:
    return " ".join(f"{name} {i} does w{(i * 7) % 11} and w{i % 5}." for i in range(sentences))


def some(count: int = 60) -> list[Document]:
    """Every fifth is long, one of them very long, and one has parts."""
    documents = [
        Document(
            f"d{i}",
            story(f"n{i}", 40 if i == 5 else 3 + i % 9 if i % 5 == 0 else 1),
            title=f"t{i % 4}" if i % 2 else "",
            metadata={"n": i},
        )
        for i in range(count)
    ]
    text = "Alpha beta gamma.\n" + story("x", 6) + "\n\n" + story("y", 6)
    starts = [0, text.index("x 0"), text.index("y 0")]
    parts = [
        Part(starts[0], ["Book"], 1, "top"),
        Part(starts[1], ["Book", "On x"], 2, "x"),
        Part(starts[2], ["Book", "On y"], 3, "y"),
    ]
    return [*documents, Document("parts", text, "Book", {"n": 999}, parts)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Collection.create(tmp_path / "x", ReadingEncoder(max_length=TOKENS), PLAIN) as made:
        added = made.add(some())
        assert added.documents == 61
        rows = made.index.state.rows
        assert f"13 of 61 documents cut into {rows - 48} passages" in added.notes
    return tmp_path / "x"


def oracle(
    documents: Sequence[Document], query: str, per: str = "document"
) -> list[tuple[float, str, int, int]]:
    """(score, id, start, end), best first, by brute force over the passages of `cut`."""
    encoder, scored = ReadingEncoder(max_length=TOKENS), []
    (q,) = normalize_rows(encoder.encode([query]))
    for document in documents:
        passages = cut(document.title, document.text, document.parts, encoder.token_counts, TOKENS)
        X = encoder.encode([p.content(document.text) for p in passages]).astype(np.float16)
        scores = normalize_rows(X.astype(np.float32)) @ q
        own = [
            (float(score), document.id, p.start, p.end)
            for score, p in zip(scores, passages, strict=True)
        ]
        scored += own if per == "passage" else [max(own)]
    return sorted(scored, reverse=True)


def check(hits: Sequence[Hit], expected: Sequence[tuple[float, str, int, int]]) -> None:
    np.testing.assert_allclose([hit.score for hit in hits], [e[0] for e in expected], atol=2e-3)
    known = {(id, start): (score, end) for score, id, start, end in expected}
    for hit in hits:
        if (hit.id, hit.start) in known:  # else another of the same score
            score, end = known[hit.id, hit.start]
            assert abs(hit.score - score) < 2e-3
            assert hit.end == end


@pytest.mark.slow
@pytest.mark.parametrize(("per", "limit"), [("document", 10), ("passage", 10), ("document", 500)])
def test_hits_equal_brute_force(path: Path, per: str, limit: int) -> None:
    with Collection.open(path, ReadingEncoder(max_length=TOKENS)) as collection:
        collection.delete(["d0", "d15", "d3"])
        live = [document for document in some() if document.id not in ("d0", "d15", "d3")]
        texts = {document.id: document.text for document in live}
        for query in ("n5 does w3", "n10 9 does w8", "y 3", "beta", "w1 and w4"):
            for where, kept in (
                (None, live),
                ("n % 2 = 1", [d for d in live if d.metadata["n"] % 2]),
            ):
                for candidates in (None, 500, 0):
                    hits = collection.search(
                        query, limit, where, group_by=per, candidates=candidates, hybrid="off"
                    )
                    expected = oracle(kept, query, per)[:limit]
                    if candidates != 0 or limit == 500:
                        check(hits, expected)
                    assert len(hits) == len(expected)
                    for hit in hits:
                        assert hit.text == texts[hit.id][hit.start : hit.end]
                    if per == "document":
                        assert len({hit.id for hit in hits}) == len(hits)


def test_a_hit_has_the_place_of_its_passage(path: Path) -> None:
    with Collection.open(path, ReadingEncoder(max_length=TOKENS)) as collection:
        (hit,) = collection.search("y 3 does w10 and w3", 1)
        (first,) = collection.search("alpha beta gamma", 1)
        (short,) = collection.search("n1 0 does w0", 1)
        documents = collection.get("parts")
        (again,) = [document for document in collection if document.id == "parts"]
    assert (hit.id, hit.page, hit.headings, hit.anchor) == ("parts", 3, ("Book", "On y"), "y")
    assert hit.line == 1 + documents.text[: hit.start].count("\n")
    assert (first.id, first.start, first.page, first.anchor) == ("parts", 0, 1, "top")
    assert (short.start, short.end, short.line, short.page) == (0, len(short.text), 1, None)
    assert documents == again == some()[-1].__class__(
        "parts", some()[-1].text, "Book", {"n": 999},
        tuple(Part(p.start, tuple(p.headings), p.page, p.anchor) for p in some()[-1].parts),
    )  # fmt: skip
    assert (hit.start, hit.end) in documents.passages


def test_changes_keep_a_document_and_all_its_passages(path: Path) -> None:
    documents = {document.id: document for document in some()}
    encoder = ReadingEncoder(max_length=TOKENS)
    with Collection.open(path, encoder) as collection:
        before = len(encoder.encoded)
        assert collection.add(some()).unchanged == 61
        changed = Document("d5", documents["d5"].text, documents["d5"].title, {"n": -5})
        other = Document("parts", documents["parts"].text, "Book", {"n": 999})  # without its parts
        added = collection.add([changed, other, Document("d10", "short now", metadata={"n": 10})])
        assert (added.documents, added.replaced) == (3, 3)
        ways = ((), documents["parts"].parts)
        now, then = (cut("Book", other.text, p, encoder.token_counts, TOKENS) for p in ways)
        had = {passage.content(other.text) for passage in then}
        new = [passage.content(other.text) for passage in now]
        expected = ["short now", *(text for text in new if text not in had)]
        assert 1 < len(expected) < 1 + len(new)  # of what changed only that is encoded again
        assert sorted(encoder.encoded[before:]) == sorted(expected)
        documents |= {each.id: each for each in (changed, other, Document("d10", "short now"))}
        documents["d10"] = Document("d10", "short now", metadata={"n": 10})
        assert collection.delete(where="n = 20 OR n = 21") == 2
        for id in ("d20", "d21"):
            del documents[id]
        for change in ("nothing", "compact", "reduce", "reopen", "rebuild"):
            if change == "compact":
                assert collection.compact() == 5
                assert collection.index.state.rows == len(
                    oracle([*documents.values()], "a", "passage")
                )
            elif change == "reduce":
                collection.reduce(PLAIN)
            elif change == "rebuild":
                writer.rebuild(collection.index, fit_again=True)
            assert collection.verify() == []
            assert len(collection) == collection.count("true") == 59
            assert {d.id: (d.text, d.title) for d in collection} == {
                id: (d.text, d.title) for id, d in documents.items()
            }
            for query in ("n5 does w3", "y 3", "short now"):
                check(
                    collection.search(query, 70, hybrid="off"), oracle([*documents.values()], query)
                )
    assert verify(path) == []


@pytest.mark.slow
def test_passage_options(tmp_path: Path) -> None:
    reading = ReadingEncoder(max_length=32)
    for requested, expected in (("auto", 32), ("off", None), (None, None), (20, 20)):
        path = tmp_path / str(requested)
        with Collection.create(path, reading, passages=requested) as made:
            assert made.index.state.passages == expected
    with Collection.create(tmp_path / "words", WordEncoder()) as made:
        assert made.index.state.passages is None
    for wrong in (33, 15, "long"):
        with pytest.raises(InputError, match="passages="):
            Collection.create(tmp_path / "wrong", reading, passages=wrong)
        assert not (tmp_path / "wrong").exists()
    with pytest.raises(InputError, match="can't count tokens"):
        Collection.create(tmp_path / "wrong", WordEncoder(), passages=64)


def test_passages_off_keeps_documents_whole(tmp_path: Path) -> None:
    encoder = ReadingEncoder(max_length=TOKENS)
    with Collection.create(tmp_path / "x", encoder, PLAIN, passages="off") as collection:
        assert "passages" not in " ".join(collection.add(some()).notes)
        assert collection.index.state.rows == 61
        (documents,) = collection.get(["parts"])
        assert documents.passages == ()
        assert [part.anchor for part in documents.parts] == ["top", "x", "y"]
        (hit,) = collection.search("alpha beta gamma", 1)
        assert (hit.id, hit.text, hit.headings, hit.page) == ("parts", documents.text, ("Book",), 1)
        assert [*hit.pages] == [(hit.text.index("x 0"), 2), (hit.text.index("y 0"), 3)]


@pytest.mark.slow
def test_given_vectors_are_of_whole_documents(tmp_path: Path) -> None:
    vectors = np.eye(61, 8, dtype=np.float32) + 1
    with Collection.create(tmp_path / "x", GivenEncoder(8)) as collection:
        collection.add(some(), vectors=vectors)
        assert (collection.index.state.passages, collection.index.state.rows) == (None, 61)
        assert len(collection.get("parts").parts) == 3
    encoder = ReadingEncoder(8, max_length=TOKENS)
    with Collection.create(tmp_path / "y", encoder, PLAIN) as collection:
        collection.add(some(), vectors=vectors)
        collection.add([Document("long", story("z", 9))])
        assert (len(collection), collection.index.state.rows > 62) == (62, True)
        assert collection.verify() == []


PARTS: list[Any] = [
    *([Part(9), Part(3)], [Part(16)], [Part(-1)], [Part(0, "abc")], ["x"]),
    *([Part(2, lines=[(1, 4)])], [Part(0, lines=[(0, 4), (3, 2)])]),
]


def test_invalid_parts_are_refused(path: Path) -> None:
    with Collection.open(path, ReadingEncoder(max_length=TOKENS)) as collection:
        for parts in PARTS:
            with pytest.raises(InputError, match="document 'new': "):
                collection.add([Document("new", "fifteen letters", parts=parts)])
        assert len(collection) == 61


def test_queries_hold_out_all_passages_of_their_document(path: Path) -> None:
    with Collection.open(path, ReadingEncoder(max_length=TOKENS)) as collection:
        snapshot, rng = collection.index.snapshot, np.random.default_rng(0)
        pool = document_pool(snapshot, collection.encoder, 50, rng)
        rows = collection.index.snapshot.document_rows
        assert pool.held_out.shape[1] > 1
        for own in pool.held_out:
            own = own[own >= 0]
            assert own.tolist() == rows.all_rows(np.unique(rows.documents(own))).tolist()
        ids = collection.index.store.ids_by_row()
        assert len(ids) == collection.index.state.rows
        report = evaluate_self(collection.index, sample=40)
        assert report["documents"] == 61
        assert report["index"]["agreement@10"] > 0.6
        assert collection.health(sample=40)["agreement"]["queries"] == 40
        facts = collection.info()
        assert facts["passages"]["documents_cut"] == 13
        assert facts["passages"]["rows"] == collection.index.state.rows
    both = rows_of_documents(rows, np.array([[1, 2]]))  # the second row of the first document
    assert both.tolist() == [[0, 1, 2]]


def test_labels_are_of_documents(path: Path) -> None:
    queries = [("q1", "n5 7 does w5"), ("q2", "y 3 does w10"), ("q3", "n1 0 does w0")]
    qrels = {"q1": {"d5": 1}, "q2": {"parts": 1}, "q3": {"d1": 1}}
    with Collection.open(path, ReadingEncoder(max_length=TOKENS)) as collection:
        report = evaluate(collection.index, queries, qrels)
    for side in ("index", "exact"):
        actual = [oracle(some(), text)[:10] for _, text in queries]
        expected = [
            any(id in qrels[query] for _, id, _, _ in own)
            for (query, _), own in zip(queries, actual, strict=True)
        ]
        assert report[side]["recall@10"] == np.mean(expected)
