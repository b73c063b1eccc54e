"""Unread parts of documents: the ends of long texts, and documents without text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from slimdex.retrieval.ingest.repairing import verify
from tests.encoders import WordEncoder

EMPTY = ("", "  ", "\n\t")


def words(count: int) -> list[Document]:
    return [Document(str(i), f"word{i % 7} and word{i % 11} of {i}") for i in range(count)]


def with_empty(count: int) -> list[Document]:
    """Documents of which every fourth has no text."""
    return [
        Document(d.id, EMPTY[i % 3] if i % 4 == 1 else d.text) for i, d in enumerate(words(count))
    ]


def moments_of_texts(collection: Collection) -> Moments:
    live = np.setdiff1d(np.arange(collection.index.state.rows), collection.index.snapshot.hidden)
    return Moments(collection.index.state.dim).update(
        collection.index.snapshot.vectors().take(live)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "candidates"),
    [("flat", 0), ("pq", 200), ("hnsw", 0)],
)
def test_documents_without_text_are_in_no_search(
    tmp_path: Path, kind: str, candidates: int
) -> None:
    settings = Settings(k=16, kind=kind, candidates=candidates)
    with Collection.create(tmp_path / "i", WordEncoder(), settings) as collection:
        added = collection.add(with_empty(1000))
        assert "250 of 1,000 documents have no text: no search finds them" in added.notes
        assert (len(collection), len(collection.index.snapshot.hidden)) == (1000, 250)
        for where in (None, "id < '5'", "text = '' OR id = '2'"):
            (hits,) = collection.search_many("party", limit=1000, where=where)
            assert all(hit.text.strip() for hit in hits)
        assert [hit.id for hit in hits] == ["2"]
        assert len(collection.search_many("party", limit=1000)[0]) == 750
        assert collection.index.snapshot.moments().n == 750
        expected = moments_of_texts(collection)
        np.testing.assert_allclose(
            collection.index.snapshot.moments().scatter, expected.scatter, atol=1e-3
        )
        assert collection.info()["without_text"] == 250
    assert verify(tmp_path / "i") == []


def test_documents_without_text_stay_hidden_through_changes(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add(with_empty(40))
        collection.add([Document("1", "a text at last"), Document("2", ""), Document("x", " ")])
        collection.delete(["5", "6", "x"])
        actual = {hit.id for hit in collection.search_many("a text", limit=50)[0]}
        for change in (collection.compact, lambda: collection.reduce(Settings(k=8, kind="sq8"))):
            change()
            assert {hit.id for hit in collection.search_many("a text", limit=50)[0]} == actual
        assert "1" in actual
        assert not actual & {"2", "5", "6", "9", "13", "x"}
        assert collection.info()["without_text"] == 9
        assert collection.index.snapshot.moments().n == len(collection) - 9 == len(actual)
        expected = moments_of_texts(collection)
        np.testing.assert_allclose(
            collection.index.snapshot.moments().scatter, expected.scatter, atol=1e-3
        )
    assert verify(tmp_path / "i") == []
    with Collection.open(tmp_path / "i", WordEncoder()) as collection:
        assert {hit.id for hit in collection.search_many("a text", limit=50)[0]} == actual


def test_a_first_addition_without_any_text_is_refused(tmp_path: Path) -> None:
    encoder = WordEncoder()
    with Collection.create(tmp_path / "i", encoder) as collection:
        with pytest.raises(InputError, match="no document with text; expected one"):
            collection.add([Document(str(i), text) for i, text in enumerate(EMPTY)])
        assert encoder.encoded == []
        collection.add(words(4))
        added = collection.add([Document("e", "")])
        assert added.notes == ["1 of 1 document have no text: no search finds them"]
        collection.delete([d.id for d in words(4)])
        assert collection.search_many("party") == [[]]
        collection.add([Document("f", "")])
        assert collection.search_many("party") == [[]]
        collection.add(words(2))
        assert {hit.id for hit in collection.search_many("party")[0]} == {"0", "1"}
    assert verify(tmp_path / "i") == []


LONG = "cat dog rain the " * 50
"""200 tokens, and two special ones."""


@pytest.fixture
def reader(tiny_bert: Path) -> TransformerEncoder:
    return TransformerEncoder(str(tiny_bert), max_length=16, precision="fp32")


@pytest.mark.slow
def test_token_counts_and_tokens_read(reader: TransformerEncoder) -> None:
    texts = ["cat", LONG, "the cat " * 7, "the cat " * 8]
    vectors, lengths = reader.encode_measured(texts)
    assert lengths.tolist() == [[3, 3], [202, 16], [16, 16], [18, 16]]
    np.testing.assert_array_equal(vectors, reader.encode(texts))
    assert reader.encode_measured([LONG])[1].tolist() == [[202, 16]]
    assert reader.token_counts([*texts, ""]) == [3, 202, 16, 18, 2]


def test_documents_that_are_cut_are_counted(tmp_path: Path, reader: TransformerEncoder) -> None:
    cut = [Document(f"long{i}", LONG) for i in range(3)]
    whole = [Document(str(i), f"cat {'dog ' * (i % 5)}") for i in range(37)]
    with Collection.create(tmp_path / "i", reader, passages="off") as collection:
        added = collection.add([*cut, *whole])
        line = "longer than the encoder reads, or refused: only what it has read is found"
        assert any(note.startswith(f"3 documents {line}") for note in added.notes)
        again = [Document("long1", "cat"), Document("long2", f"{LONG} cat")]
        assert any(note.startswith(f"1 document {line}") for note in collection.add(again).notes)
        assert not [note for note in collection.add([Document("y", "dog")]).notes if line in note]
