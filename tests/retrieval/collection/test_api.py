"""Methods and operators of a Collection: get, count, in, for, len, repr, info, verify."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slimdex import (
    Collection,
    Document,
    Hit,
    InputError,
    Settings,
    export,
)
from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.quality.evaluation import evaluate_self, rank_documents
from tests.encoders import ReadingEncoder, WordEncoder

PETS = [
    Document("cat", "the cat sat on the mat", metadata={"year": 2001}),
    Document("dog", "the dog chased the cat", metadata={"year": 2002}),
    Document("rain", "rain fell on the roof", metadata={"year": 2003}),
]


@pytest.fixture
def pets(tmp_path: Path) -> Collection:
    collection = Collection.create(tmp_path / "pets", WordEncoder())
    collection.add(PETS)
    return collection


def test_one_query_has_one_list_of_hits(pets: Collection) -> None:
    hits = pets.search("rain on a roof", limit=2, where="year > 2001")
    assert [type(hit) for hit in hits] == [Hit, Hit]
    assert hits[0].id == "rain"
    assert hits == pets.search_many(["rain on a roof"], limit=2, where="year > 2001")[0]
    assert [actual[0].id for actual in pets.search_many(["mat", "chased"], 1)] == ["cat", "dog"]
    assert pets.search_many([]) == []


def test_vectors_may_be_lists_or_tensors(pets: Collection, tmp_path: Path) -> None:
    array = WordEncoder().encode(["rain on a roof", "the cat"])
    expected = pets.search_many(array, limit=2)
    tensor = torch.tensor(array, requires_grad=True)
    rows: list[Any] = [array.tolist(), tuple(array), tensor, [*tensor], tensor.double()]
    for vectors in rows:
        assert pets.search_many(vectors, limit=2) == expected
        assert pets.search(vectors[0], limit=2) == expected[0]
    coarse = pets.search_many(tensor.to(torch.bfloat16), limit=2)
    assert [[hit.id for hit in hits] for hits in coarse] == [
        [hit.id for hit in hits] for hits in expected
    ]
    wrongs: list[Any] = [["a", "b"], [array], 5, None, [], {"a": 1}, [[1.0], [1.0, 2.0]]]
    for wrong in wrongs:
        with pytest.raises(InputError):
            pets.search(wrong)
    for name, given in enumerate([array, *rows]):
        with Collection.create(tmp_path / str(name), WordEncoder()) as collection:
            collection.add([{"id": 1, "text": "x"}, {"id": 2, "text": "y"}], vectors=given)
            scores = [[hit.score for hit in hits] for hits in collection.search_many(array, 1)]
            np.testing.assert_allclose(scores, 1, atol=1e-3)


def test_documents_by_id(pets: Collection) -> None:
    assert pets.get("dog") == PETS[1]
    assert pets.get(["rain", "cat", "rain"]) == [PETS[2], PETS[0], PETS[2]]
    assert pets.get([]) == []
    with pytest.raises(InputError, match=r"unknown id 'cow'; expected the id of a document$"):
        pets.get("cow")
    pets.delete("rain")
    with pytest.raises(InputError, match=r"unknown id 'rain'; expected the id of a document$"):
        pets.get("rain")
    pets.add(PETS[2])
    assert [document.id for document in pets] == ["cat", "dog", "rain"]
    assert (pets.count("year > 2001"), len(pets)) == (2, 3)
    assert "dog" in pets
    assert "cow" not in pets
    assert 5 not in pets


def test_documents_by_condition_in_parts(pets: Collection) -> None:
    assert pets.get(where="true") == PETS
    assert pets.get(where="year > 2001") == PETS[1:]
    assert pets.get(limit=2) == PETS[:2]
    assert pets.get(where="year > 2001", limit=5, after="dog") == PETS[2:]
    assert (pets.get(limit=0), pets.get(after="z"), pets.get(where="false")) == ([], [], [])
    pets.delete("cat")
    assert pets.get(limit=1) == PETS[1:2]
    for given in ({"limit": -1}, {"after": 1.5}, {"ids": "dog", "limit": 1}, {"where": {"id": 1}}):
        with pytest.raises(InputError, match="expected"):
            pets.get(**given)


def check_vectors(document: Document, expected: Matrix) -> None:
    assert document.vectors is not None
    np.testing.assert_allclose(document.vectors, expected, rtol=1e-3)


def test_documents_come_with_their_vectors(pets: Collection, tmp_path: Path) -> None:
    expected = WordEncoder().encode([pet.text for pet in PETS])
    assert pets.get("dog").vectors is None
    check_vectors(pets.get("dog", vectors=True), expected[1:2])
    documents = pets.get(["rain", "cat"], vectors=True)
    assert documents == [PETS[2], PETS[0]]
    for document, row in zip(documents, (2, 0), strict=True):
        check_vectors(document, expected[row : row + 1])
    with Collection.create(tmp_path / "cut", ReadingEncoder(8)) as cut:
        cut.add([Document("short", "the mat"), Document("long", "the cat sat. " * 9)])
        cut.add(Document("next", "the dog"))
        for document in cut.get(where="true", vectors=True):
            texts = [document.text[start:end] for start, end in document.passages]
            own = cut.encoder.encode(texts or [document.text])
            check_vectors(document, own)
        assert len(cut.get("long").passages) > 1


def test_documents_as_an_arrow_table(pets: Collection) -> None:
    pets.delete("cat")
    pets.add({"id": "cow", "text": "a cow", "tags": {"a": [1]}})
    rows = pets.to_arrow().to_pylist()
    assert rows[0] == {
        **{"id": "dog", "title": "", "text": PETS[1].text, "year": 2002, "tags": None}
    }
    cow = rows[-1] | {"tags": json.loads(rows[-1]["tags"])}
    assert cow == {**rows[0], "id": "cow", "text": "a cow", "year": None, "tags": {"a": [1]}}
    assert pets.to_arrow("year > 2002")["id"].to_pylist() == ["rain"]
    assert pets.to_arrow("false").num_rows == 0
    again = Collection.create(pets.path.parent / "again", WordEncoder())
    again.add(pets.to_arrow("tags IS NULL"))
    assert [document.metadata["year"] for document in again] == [2002, 2003]


NOTHING: dict[str, tuple[Callable[[Collection], object], object]] = {
    "search": (lambda c: c.search("x"), []),
    "search with a condition": (lambda c: c.search("x", where="id = 'x'"), []),
    "search by a vector": (lambda c: c.search(np.ones(48), hybrid="off"), []),
    "search for passages": (lambda c: c.search("x", group_by="passage", min_score=0.1), []),
    "search_many": (lambda c: c.search_many(["x", "y"]), [[], []]),
    "no queries": (lambda c: c.search_many([]), []),
    "related": (lambda c: c.related("a"), "unknown id 'a'"),
    "get": (lambda c: c.get("a"), "unknown id 'a'"),
    "get none": (lambda c: c.get([]), []),
    "get with a condition": (lambda c: c.get(where="true", vectors=True), []),
    "an unknown column": (lambda c: c.get(where="nope = 1"), "column 'nope' not found"),
    "count": (lambda c: (c.count(), c.count("true"), len(c)), (0, 0, 0)),
    "count with an unknown column": (lambda c: c.count("nope = 1"), "column 'nope' not found"),
    "iterate": (lambda c: ([*c], "a" in c), ([], False)),
    "to_arrow": (lambda c: (c.to_arrow().num_rows, c.to_arrow("false").num_columns), (0, 3)),
    "ranked": (lambda c: rank_documents(c.index, "x", np.ones((1, 48), np.float32), 3)[1].size, 0),
    "near_duplicates": (lambda c: c.near_duplicates(), []),
    "verify": (lambda c: c.verify(), []),
    "info": (lambda c: (c.info()["documents"], c.info()["notes"]), (0, [])),
    "delete": (lambda c: c.delete("a"), "unknown id 'a'"),
    "delete with a condition": (lambda c: c.delete(where="true"), 0),
    "health": (lambda c: c.health(), "0 documents; at least 3 are needed"),
    "tune": (lambda c: c.tune(), "0 documents of 48 dimensions"),
    "reduce": (lambda c: c.reduce(Settings()), "holds no documents; expected some"),
    "reencode": (lambda c: c.reencode(WordEncoder(16)), "holds no documents; expected some"),
    "migrate": (
        lambda c: c.migrate(WordEncoder(16), queries=[("q", "x")], labels={"q": {"a": 1}}),
        "a sample of 0 of 0 documents",
    ),
    "evaluate": (lambda c: evaluate_self(c.index), "0 documents; at least 3 are needed"),
    "export": (lambda c: export(c, c.path / "x", "jsonl"), "no documents with text"),
}
"""Calls, and what they return, or the message of their error, where there are no documents."""


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "emptied"])
def test_a_collection_without_documents_answers(tmp_path: Path, is_new: bool) -> None:
    """Whether it never had any, or has no longer any."""
    with Collection.create(tmp_path / "x", WordEncoder()) as collection:
        if not is_new:
            collection.add({"id": "a", "text": "a cat"})
            collection.delete("a")
        for name, (call, expected) in NOTHING.items():
            if isinstance(expected, str):
                with pytest.raises(InputError, match=re.escape(expected)):
                    call(collection)
            else:
                assert call(collection) == expected, name
        collection.add({"id": "b", "text": "a dog"})
        assert [hit.id for hit in collection.search("dog")] == ["b"]


def test_repr_info_and_verify(pets: Collection) -> None:
    assert repr(pets) == f"Collection({str(pets.path)!r}, 3 documents, k=3, kind='flat')"
    with Collection.create(pets.path.parent / "new", WordEncoder()) as new:
        assert repr(new) == f"Collection({str(new.path)!r}, 0 documents)"
    assert repr(pets.search("mat", 1)[0]).startswith("Hit('cat', 0.")
    info = pets.info()
    assert (info["documents"], info["columns"]) == (3, {"year": "BIGINT"})
    assert pets.verify() == []
    codes = pets.path / pets.index.state.files["codes"].name
    codes.write_bytes(codes.read_bytes()[:-1] + b"?")
    assert [fault for fault in pets.verify() if "codes" in fault]


def test_integers_are_ids_everywhere(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "x", WordEncoder()) as numbered:
        numbered.add([{"id": 1, "text": "a cat"}, {"id": np.int64(2), "text": "a dog"}])
        numbered.add(Document(3, "a hen"))  # type: ignore[arg-type]
        assert [d.id for d in numbered] == ["1", "2", "3"]
        assert numbered.get(1) == numbered.get("1")
        several: list[Any] = [3, "1", np.int64(2)]
        assert [d.text for d in numbered.get(several)] == ["a hen", "a cat", "a dog"]
        assert 1 in numbered
        assert np.int64(2) in numbered
        assert 4 not in numbered
        wrongs: list[Any] = [1.0, True, None, b"1"]
        for wrong in wrongs:
            assert wrong not in numbered
            for use in (numbered.get, numbered.delete):
                with pytest.raises(InputError, match="expected"):
                    use(wrong)
            with pytest.raises(InputError, match="expected"):
                numbered.add({"id": wrong, "text": "a cow"})
        assert numbered.delete([1, "2"]) == 2
        assert numbered.delete(3) == 1
        assert len(numbered) == 0


def test_notes_of_an_addition_are_logged(
    pets: Collection, caplog: pytest.LogCaptureFixture
) -> None:
    added = pets.add({"id": "empty", "text": ""})
    assert added.notes == ["1 of 1 document have no text: no search finds them"]
    assert [(r.name, r.levelname, r.getMessage()) for r in caplog.records] == [
        ("slimdex", "WARNING", f"{pets.path.name}: {added.notes[0]}")
    ]


def test_open_or_create_opens_what_it_created(tmp_path: Path) -> None:
    for unchanged in (0, 1):
        with Collection.open_or_create(
            tmp_path / "x", WordEncoder(), Settings(gamma=0.5), vector_dtype="int8"
        ) as collection:
            assert collection.add({"id": 1, "text": "a cat"}).unchanged == unchanged
            assert collection.info()["requested"]["gamma"] == 0.5
            assert len(collection) == 1
            with Collection.open_or_create(tmp_path / "x") as same:  # even in one process
                assert same.get(1).text == "a cat"
    others: list[dict[str, Any]] = [{"settings": Settings(k=8)}, {"vector_dtype": "fp16"}]
    others += [{"passages": 32}, {"lexical": False}]
    for other in others:
        with pytest.raises(InputError):
            Collection.open_or_create(tmp_path / "x", WordEncoder(), **other)
    given: dict[str, Any] = {"settings": Settings(gamma=0.5), "passages": "off", "lexical": True}
    Collection.open_or_create(tmp_path / "x", WordEncoder(), **given).close()
    with pytest.raises(InputError, match="this index was built with"):
        Collection.open_or_create(tmp_path / "x", WordEncoder(8))
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="no slimdex index"):
        Collection.open_or_create(tmp_path / "folder")


def test_arguments_of_another_type_are_refused(tmp_path: Path) -> None:
    wrong: Any = {"k": 8}
    with pytest.raises(InputError):
        Collection.create(tmp_path / "x", WordEncoder(), wrong)
    assert not (tmp_path / "x").exists()
    with Collection.create(tmp_path / "x", WordEncoder()) as collection:
        collection.add(PETS)
        for use in (collection.reduce, collection.count, collection.to_arrow):
            with pytest.raises(InputError):
                use(wrong)
        with pytest.raises(InputError):
            collection.delete(where=wrong)
        assert len(collection) == 3
