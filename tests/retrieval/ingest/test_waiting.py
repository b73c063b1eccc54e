"""Documents that are entered and wait for their vectors: searches, changes, and what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.base import encode_queries
from slimdex.retrieval.index import Index
from slimdex.retrieval.ingest import encode
from slimdex.retrieval.ingest.repairing import repair, verify
from slimdex.retrieval.ingest.replacing import replace_vectors
from slimdex.retrieval.search.waiting import MOST
from tests.encoders import ReadingEncoder, WordEncoder
from tests.retrieval.word_documents import documents, forty, stop_after_first_vectors

QUERIES = ["word3 cat", "word57 dog 4", "cat", "dog 5"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return forty(tmp_path / "i.index")


def entered(path: Path, new: Sequence[Document]) -> Collection:
    collection = Collection.open(path, WordEncoder())
    collection.add(list(new), encode=False)
    return collection


def answers(collection: Collection) -> list[list[tuple[str, float]]]:
    found = collection.search_many(QUERIES, limit=100)
    return [[(hit.id, round(hit.similarity, 4)) for hit in hits] for hits in found]


def vector_of(collection: Collection, id: str) -> Matrix:
    vectors = collection.get([id], vectors=True)[0].vectors
    assert vectors is not None
    vector: Matrix = vectors[0]
    return vector


def index_words_again(collection: Collection) -> None:
    collection.index_lexical(False)
    collection.index_lexical(True)


def whole(path: Path, *additions: Sequence[Document]) -> list[list[tuple[str, float]]]:
    """The answers of an index in which nothing ever waited."""
    with Collection.create(path, WordEncoder()) as collection:
        for each in additions:
            collection.add(list(each), refit="never")
        return answers(collection)


def test_what_waits_is_found_filtered_listed_and_encoded(path: Path, tmp_path: Path) -> None:
    new = [Document(d.id, d.text, metadata={"n": int(d.id)}) for d in documents(40, 60)]
    with entered(path, new) as collection:
        assert len(collection) == 60
        assert collection.info()["encoded"] == 40
        assert collection.get("57").text == new[17].text
        assert collection.count("n >= 50") == 10
        assert [hit.id for hit in collection.search("word57 cat", limit=1)] == ["57"]
        assert {hit.id for hit in collection.search("cat", limit=9, where="n > 57")} == {"58", "59"}
        assert collection.verify() == []
        assert collection.encode() == 20
        assert answers(collection) == whole(tmp_path / "w", documents(0, 40), new)
        assert collection.encode() == 0
        assert collection.verify() == []


@pytest.mark.parametrize("count", [0, 40])
@pytest.mark.parametrize("hybrid", ["auto", "rrf", 0.3])
def test_one_order_holds_for_rows_with_and_without_vectors(
    tmp_path: Path, count: int, hybrid: str | float
) -> None:
    """Each hit has the cosine that numpy finds, and the score says the order."""
    texts = {each.id: each.text for each in documents(0, 120)}
    with Collection.create(tmp_path / "i", WordEncoder(), Settings(beta=0, gamma=0)) as collection:
        if count:
            collection.add(documents(0, count))
        collection.add(documents(count, 120), encode=False)
        for query in QUERIES:
            hits = collection.search(query, limit=120, hybrid=hybrid)
            assert hits == collection.search(query, limit=120, hybrid=hybrid)
            assert collection.search(query, limit=5, hybrid=hybrid) == hits[:5]
            scores = [hit.score for hit in hits]
            assert scores == sorted(scores, reverse=True)
            waiting = [hit for hit in hits if int(hit.id) >= count]
            assert 0 < len(waiting) <= MOST
            encoder = WordEncoder()
            (vector,) = normalize_rows(encode_queries(encoder, [query]))
            X = normalize_rows(encoder.encode([texts[hit.id] for hit in hits]))
            expected = X @ vector
            assert [hit.similarity for hit in hits] == pytest.approx(expected.tolist(), abs=2e-3)


CHANGES: dict[str, Callable[[Collection], object]] = {
    "delete": lambda c: c.delete(["3", "41"]),
    "replace": lambda c: c.add([Document("42", "word42 cat again")], encode=False),
    "compact": lambda c: (c.delete(["3", "41"]), c.compact()),
    "words": index_words_again,
    "undo": lambda c: (c.undo(), c.undo()),
    "undo deletion": lambda c: (c.delete(["3", "41"]), c.undo()),
    "add": lambda c: c.add(documents(60, 70), encode=False),
    "add and encode": lambda c: c.add(documents(60, 70)),
    "reencode": lambda c: c.reencode(WordEncoder(40)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("count", [0, 40])
def test_changes_while_rows_wait(tmp_path: Path, change: str, count: int) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        if count:
            collection.add(documents(0, count))
        collection.add(documents(count, 60), encode=False)
        CHANGES[change](collection)
        before = {each.id: each.text for each in collection}
        assert collection.verify() == []
        collection.encode()
        assert {each.id: each.text for each in collection} == before
        state = collection.index.state
        assert state.encoded == state.rows
        assert collection.verify() == []
        encoder = collection.encoder
        for id, text in before.items():
            expected = encoder.encode([text])[0]
            np.testing.assert_allclose(vector_of(collection, id), expected, atol=2e-3)
        assert len(collection.search("cat", limit=100, hybrid="off")) == len(before)


def test_an_addition_that_is_undone_while_it_waits_can_be_redone(path: Path) -> None:
    with entered(path, documents(40, 60)) as collection:
        collection.undo()
        assert collection.encode() == 20
        assert len(collection) == 40
        collection.undo()
        expected = WordEncoder().encode([collection.get("57").text])[0]
        np.testing.assert_allclose(vector_of(collection, "57"), expected, atol=2e-3)
        assert collection.verify() == []


@pytest.mark.parametrize("vector_dtype", ["fp16", "int8", "int4"])
@pytest.mark.parametrize("count", [0, 40])
def test_what_is_deleted_for_good_while_it_waits_is_not_encoded(
    tmp_path: Path, vector_dtype: str, count: int
) -> None:
    """Nor are its zeros taken for the vector of its text, or for the center of others."""
    with Collection.create(tmp_path / "i", WordEncoder(), vector_dtype=vector_dtype) as collection:
        if count:
            collection.add(documents(0, count))
        collection.add(documents(40, 60), encode=False)
        collection.delete([str(i) for i in range(40, 60)])
        collection.add(documents(100, 101), encode=False)  # now the deletion can't be undone
        assert collection.encode() == 1
        collection.add(documents(40, 60))
        stored = np.array([vector_of(collection, str(i)) for i in range(40, 60)])
        expected = WordEncoder().encode([each.text for each in documents(40, 60)])
        assert np.vecdot(normalize_rows(stored), normalize_rows(expected)).min() > 0.98
        assert collection.verify() == []


def test_zeros_are_not_taken_for_the_vector_of_a_text(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the encoding is interrupted after a row that was deleted for good."""
    for name in ("LEAST_ROWS", "FIRST_CHARACTERS", "GROWTH"):
        monkeypatch.setattr(encode, name, 1)
    first, *others = documents(40, 60)
    with entered(path, [first, *others]) as collection:
        collection.delete([first.id])
        collection.add([Document("other", "another text")], encode=False)
        with monkeypatch.context() as patch:
            stop_after_first_vectors(patch, KeyboardInterrupt())
            with pytest.raises(KeyboardInterrupt):
                collection.encode()
        assert 40 < collection.index.state.encoded < collection.index.state.rows
        collection.add([Document("again", first.text)], encode=False)
        collection.encode()
        expected = WordEncoder().encode([first.text])[0]
        np.testing.assert_allclose(vector_of(collection, "again"), expected, atol=2e-3)


class Far(WordEncoder):
    """Its vectors are far from zero, as those of some models are."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        return super().encode(texts) + np.float32(10)


@pytest.mark.parametrize("vector_dtype", ["int8", "int4"])
def test_what_is_deleted_for_good_does_not_move_the_center(
    tmp_path: Path, vector_dtype: str
) -> None:
    expected = Far().encode([each.text for each in documents(100, 120)])
    errors = []
    for count in (0, 20):
        with Collection.create(tmp_path / f"{count}", Far(), vector_dtype=vector_dtype) as made:
            if count:
                made.add(documents(0, count), encode=False)
                made.delete(where="true")
            made.add(documents(100, 120), encode=False)
            made.encode()
            stored = [vector_of(made, each.id) for each in documents(100, 120)]
        errors.append(np.abs(np.array(stored) - expected).mean())
    assert errors[1] < 1.1 * errors[0]


class Refusing(WordEncoder):
    """Refuses a text, as a server may."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        if any("poison" in text for text in texts):
            raise InputError("a text that can't be read")
        return super().encode(texts)


@pytest.mark.parametrize("is_large", [False, True])
def test_a_text_that_the_encoder_refuses_stops_no_other(tmp_path: Path, is_large: bool) -> None:
    bad = Document("bad", "poison zebra " + "cat " * 9000 * is_large)
    with Collection.create(tmp_path / "i", Refusing(), passages=None) as collection:
        added = collection.add([*documents(0, 30), bad, *documents(30, 60)])
        assert "('bad')" in added.notes[-1]
        assert added.encoded == 61
        expected = WordEncoder().encode([each.text for each in documents(0, 60)])
        stored = [vector_of(collection, str(i)) for i in range(60)]
        np.testing.assert_allclose(stored, expected, atol=2e-3)
        assert collection.search("zebra", limit=1, hybrid=1.0)[0].id == "bad"
        collection.add([Document("worse", "poison gnu")], encode=False)
        assert collection.search("gnu", limit=1)[0].id == "worse"
        collection.encode()
        assert not vector_of(collection, "worse").any()
        assert collection.verify() == []


def nothing_fitted(path: Path) -> Collection:
    """An index in which all rows are encoded, but none is live."""
    collection = Collection.create(path, WordEncoder())
    collection.add(documents(0, 20), encode=False)
    collection.delete([str(i) for i in range(20)])
    collection.add([Document("empty", "")], encode=False)
    collection.encode()
    assert collection.index.state.settings is None
    return collection


def test_an_index_without_any_vector_works(tmp_path: Path) -> None:
    with nothing_fitted(tmp_path / "i") as collection:
        assert collection.search("cat") == []
        assert collection.get(["empty"], vectors=True)[0].id == "empty"
        collection.compact()
        assert collection.verify() == []
        collection.add(documents(0, 20))
        assert collection.search("word7 cat", limit=1)[0].id == "7"
        assert collection.verify() == []


def test_repair_where_nothing_is_fitted(tmp_path: Path) -> None:
    with nothing_fitted(tmp_path / "i") as collection:
        collection.add(documents(0, 400), encode=False)
        words = collection.index.state.words
        columns = [file.name for file in collection.index.state.column_files]
    path = tmp_path / "i"
    for name in (f"{words}/{next((path / str(words)).iterdir()).name}", *columns):
        (path / name).write_bytes(b"damaged")
        assert verify(path) != []
        repair(path)
        assert verify(path) == []
    repair(path, untrusted=True)
    with Collection.open(path, WordEncoder()) as collection:
        assert collection.encode() == 400
        assert collection.count("id = '7'") == 1
        assert collection.verify() == []


def test_a_migration_of_what_waits(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add(documents(0, 600), encode=False)
        replace_vectors(collection.index, WordEncoder(40), seconds=0)
        collection.delete(["3", "4"])
        assert collection.verify() == []
        collection.reencode(WordEncoder(40))
        assert collection.search("word7 cat", limit=1)[0].id == "7"
        assert collection.verify() == []


def test_the_words_index_is_undone_while_nothing_is_encoded(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add(documents(0, 20), encode=False)
        collection.index_lexical(False)
        assert collection.search("word7 cat") == []
        collection.undo()
        assert collection.search("word7 cat", limit=1)[0].id == "7"


def test_each_document_that_waits_is_found_by_its_best_passage(tmp_path: Path) -> None:
    long = " ".join(f"Sentence {i} of a cat." for i in range(60))
    with Collection.create(tmp_path / "i", ReadingEncoder()) as collection:
        new = [Document(f"long{i}", f"{long} name{i}") for i in range(6)]
        collection.add(new, encode=False)
        assert collection.index.state.rows > 2 * MOST
        assert {hit.id for hit in collection.search("cat", limit=15)} == {d.id for d in new}
        assert collection.search("cat name3", limit=1)[0].id == "long3"


def test_texts_that_had_a_vector_are_not_encoded_again(path: Path) -> None:
    """By the last change, also when its run was interrupted."""
    moved = [Document(f"m{each.id}", each.text) for each in documents(0, 20)]
    with entered(path, moved) as collection:
        collection.delete([str(i) for i in range(20)])
        encoder = collection.encoder
        assert isinstance(encoder, WordEncoder)
        before = len(encoder.encoded)
        assert collection.encode() == 0
        assert encoder.encoded[before:] == []
        assert collection.search("word7 cat", 1)[0].id == "m7"


def test_given_vectors_come_after_what_waits(path: Path) -> None:
    with entered(path, documents(40, 60)) as collection:
        vectors = np.eye(3, collection.index.state.dim, dtype=np.float32)
        collection.add(documents(60, 63), vectors=vectors)
        assert collection.info()["encoded"] == 63
        given = [vector_of(collection, f"{60 + i}") for i in range(3)]
        np.testing.assert_allclose(given, vectors, atol=1e-3)
        assert collection.verify() == []


def test_repair_leaves_what_waits(path: Path) -> None:
    with entered(path, documents(40, 60)) as collection:
        words = collection.index.state.words
    for file in (path / str(words)).iterdir():
        file.write_bytes(b"damaged")
    assert verify(path) != []
    repair(path)
    assert verify(path) == []
    with Collection.open(path, WordEncoder()) as collection:
        assert collection.search("word57 cat", limit=1)[0].id == "57"
        assert collection.encode() == 20
        assert collection.verify() == []


def test_fits_want_all_vectors(path: Path) -> None:
    with entered(path, documents(40, 60)) as collection:
        with pytest.raises(InputError, match="40 of 60 documents have vectors"):
            collection.reduce(Settings(k=8))
        collection.encode()
        collection.reduce(Settings(k=8))


class Meanwhile(WordEncoder):
    """Lets others change the index while texts are encoded."""

    def __init__(self, change: Callable[[], object]) -> None:
        super().__init__()
        self.change: Callable[[], object] | None = change

    def encode(self, texts: Sequence[str]) -> Matrix:
        change, self.change = self.change, None
        if change is not None:
            change()
        return super().encode(texts)


@pytest.mark.parametrize("change", sorted(CHANGES.keys() - {"add and encode"}))
def test_others_change_the_index_while_it_is_encoded(
    path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(encode, "FIRST_CHARACTERS", 1)
    monkeypatch.setattr(encode, "LEAST_ROWS", 8)
    with entered(path, documents(40, 60)) as other:
        meanwhile = Meanwhile(lambda: CHANGES[change](other))
        with Collection.open(path, meanwhile) as collection:
            collection.index.encoders.give(WordEncoder(40))
            collection.encode()
            collection.encode()  # what others have entered since
            state = collection.index.state
            assert state.encoded == state.rows
            assert collection.verify() == []
            assert len(collection.search("cat", limit=100, hybrid="off")) == len(other)


def test_a_document_that_comes_back_while_others_are_encoded_gets_its_vector(path: Path) -> None:
    with entered(path, documents(40, 60)) as other:
        other.delete(["41"])
        with Collection.open(path, Meanwhile(other.undo)) as collection:
            collection.encode()
            expected = WordEncoder().encode([collection.get("41").text])[0]
            np.testing.assert_allclose(vector_of(collection, "41"), expected, atol=2e-3)
            assert collection.verify() == []


def test_one_process_encodes_at_a_time(path: Path) -> None:
    """The others wait, and find that all is done."""
    with entered(path, documents(40, 60)) as first, Collection.open(path, WordEncoder()) as other:
        with first.index.encoding():
            thread = Thread(target=other.encode)
            thread.start()
            other.add([Document("own", "of the other")], encode=False)  # entering goes on
            thread.join(0.2)
            assert thread.is_alive()
            assert other.info()["encoded"] == 40
        thread.join()
        assert other.info()["encoded"] == 61


def test_a_small_change_that_a_compaction_crosses_is_one_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no search by meaning misses a document that is being replaced."""
    with Collection.open(path, WordEncoder()) as collection:
        collection.delete(["0"])
        turn = Index.turn

        def crossed(index: Index) -> Any:
            monkeypatch.setattr(Index, "turn", turn)
            with Collection.open(path, WordEncoder()) as other:
                other.compact()
            return turn(index)

        monkeypatch.setattr(Index, "turn", crossed)
        before = collection.version
        collection.add([Document("7", "word7 mouse")])
        assert collection.version == before + 2  # the compaction, and this
        assert collection.search("word7 mouse", 1, hybrid="off")[0].id == "7"
