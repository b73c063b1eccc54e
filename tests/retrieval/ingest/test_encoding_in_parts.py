"""Waiting rows are encoded some at a time: a long document may be half encoded meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest

from slimdex.errors import InUseError
from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import encode
from slimdex.retrieval.ingest.encode import encode_waiting
from tests.encoders import ReadingEncoder

BOOK = Document("book", " ".join(f"Page {n} is about word{n} and number{n}." for n in range(60)))
NOTES = [Document(f"note{n}", f"a note about word{n} alone") for n in range(8)]


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "LEAST_CHARACTERS", 400)


class Slow(ReadingEncoder):
    """An encoder that takes a tenth of a second for each call."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        sleep(0.1)
        return super().encode(texts)


def half_encoded(path: Path) -> Collection:
    """The book after some of its passages have vectors, and all notes wait."""
    collection = Collection.create(path, Slow())
    collection.add([BOOK, *NOTES], encode=False)
    encode_waiting(collection.index, 0.2)
    assert 2 <= collection.index.state.encoded < len(collection.get("book").passages)
    return collection


def vectors_of(collection: Collection) -> dict[str, Matrix]:
    found = {}
    for document in collection.get(where="true", vectors=True):
        assert document.vectors is not None
        found[document.id] = document.vectors
    return found


def test_a_limited_time_ends_within_a_document(tmp_path: Path) -> None:
    with (
        half_encoded(tmp_path / "parts") as parts,
        Collection.create(tmp_path / "whole", Slow()) as whole,
    ):
        reached = [parts.index.state.encoded]
        while parts.index.state.waits:
            start = monotonic()
            encode_waiting(parts.index, 0.2)
            assert monotonic() - start < 5
            reached.append(parts.index.state.encoded)
        assert len(reached) > 3
        assert all(before < after for before, after in pairwise(reached))
        whole.add([BOOK, *NOTES])
        expected = vectors_of(whole)
        assert vectors_of(parts).keys() == expected.keys()
        for id, vectors in vectors_of(parts).items():
            np.testing.assert_array_equal(vectors, expected[id])
        assert parts.verify() == []


def replace(collection: Collection) -> None:
    collection.add(Document("book", BOOK.text.replace("Page 59", "Sheet 59")), encode=False)


def delete(collection: Collection) -> None:
    collection.delete("book")


def compact(collection: Collection) -> None:
    collection.delete(["note3"])
    collection.compact()


def undo(collection: Collection) -> None:
    collection.delete(["book"])
    collection.undo()


@pytest.mark.parametrize("change", [replace, delete, compact, undo])
def test_a_half_encoded_document_changes(
    tmp_path: Path, change: Callable[[Collection], None]
) -> None:
    """As one does that has all vectors, or none."""
    with (
        half_encoded(tmp_path / "parts") as parts,
        Collection.create(tmp_path / "whole", Slow()) as whole,
    ):
        change(parts)
        passages = {"page 1 word1", "page 58 number58"}
        for query in passages:
            parts.search(query)
        parts.encode()
        whole.add([BOOK, *NOTES])
        change(whole)
        whole.encode()
        expected = vectors_of(whole)
        found = vectors_of(parts)
        assert found.keys() == expected.keys()
        for id, vectors in found.items():
            np.testing.assert_array_equal(vectors, expected[id])
        for query in passages:
            hits = [[hit.id for hit in each.search(query)] for each in (parts, whole)]
            assert hits[0] == hits[1]
        assert parts.verify() == []


def test_others_that_encode_are_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "parts"
    with half_encoded(path) as parts, Collection.open(path) as other, other.index.encoding():
        start = monotonic()
        assert encode_waiting(parts.index, 0.3).encoded == 0
        assert 0.2 < monotonic() - start < 5


def test_others_that_get_no_further_are_waited_for_as_long_as_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "parts"
    half_encoded(path).close()
    with (
        Collection.open(path, Slow(), wait=0.2) as parts,
        Collection.open(path) as other,
        other.index.encoding(),
        pytest.raises(InUseError),
    ):
        parts.add([{"id": "own", "text": "a document of its own"}])
    with Collection.open(path) as collection:
        assert "own" in collection
