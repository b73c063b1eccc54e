"""Queries encoded by a token table: without the encoder, by default or for one search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.errors import CorruptError, EncoderError, InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.pieces import word_tokenizer
from slimdex.retrieval.ingest import adding, encode
from slimdex.retrieval.ingest.repairing import verify
from tests.encoders import WordEncoder
from tests.retrieval.server.asking import asking, made
from tests.retrieval.word_documents import stop_after_first_vectors

WORDS = [f"word{i}" for i in range(200)]


class TokenEncoder(WordEncoder):
    """A bag of words with a tokenizer."""

    def plain_tokenizer(self) -> str:
        definition: str = word_tokenizer([*WORDS, "cat", "dog"]).to_str()
        return definition


def documents(start: int = 0, stop: int = 200) -> list[Document]:
    return [Document(str(i), f"{WORDS[i]} {WORDS[i // 2]} cat dog") for i in range(start, stop)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    settings = Settings(query_encoder="table")
    with Collection.create(tmp_path / "i", TokenEncoder(), settings) as collection:
        collection.add(documents())
    return tmp_path / "i"


def first(collection: Collection, text: str, **options: Any) -> str:
    return collection.search(text, 1, hybrid="off", **options)[0].id


def test_queries_need_no_encoder(path: Path) -> None:
    with Collection.open(path) as collection:  # whose encoder is unknown
        assert [first(collection, f"word{i} cat") for i in (150, 151, 199)] == ["150", "151", "199"]
        with pytest.raises((InputError, EncoderError)):
            first(collection, "word150 cat", query_encoder="model")


def test_each_search_may_choose(path: Path) -> None:
    encoder = TokenEncoder()
    with Collection.open(path, encoder) as collection:
        assert first(collection, "word150 cat") == "150"
        assert encoder.encoded == []
        assert first(collection, "word150 cat", query_encoder="model") == "150"
        assert encoder.encoded == ["word150 cat"]
        collection.reduce(Settings())
        assert not [*path.glob("table-*")]
        assert first(collection, "word151 cat") == "151"
        with pytest.raises(InputError):
            first(collection, "word150 cat", query_encoder="table")
        collection.reduce(Settings(query_encoder="table"))
        encoder.encoded.clear()
        assert first(collection, "word150 cat") == "150"
        assert encoder.encoded == []


def test_scores_are_cosines_of_the_tables_vector(path: Path) -> None:
    with Collection.open(path, TokenEncoder()) as collection:
        query = collection.index.snapshot.table.encode_queries("word9 dog")[0]
        by_vector = collection.search(query, 5)
        by_text = collection.search("word9 dog", 5, hybrid="off")
        assert [hit.id for hit in by_text] == [hit.id for hit in by_vector]
        np.testing.assert_allclose([h.score for h in by_text], [h.score for h in by_vector], 1e-6)


def test_a_table_outlives_changes_and_follows_a_new_fit(path: Path) -> None:
    with Collection.open(path, TokenEncoder()) as collection:
        table = [*path.glob("table-*")]
        collection.delete([str(i) for i in range(50, 100)])
        collection.compact()
        assert [*path.glob("table-*")] == table
        assert first(collection, "word150 cat") == "150"
        collection.add([Document("new", "cat dog")], refit="always")
        assert [*path.glob("table-*")] != table
        collection.undo()
        assert first(collection, "word150 cat") == "150"
        assert collection.verify() == []


def test_while_documents_wait_queries_are_encoded_by_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = TokenEncoder()
    settings = Settings(query_encoder="table")
    monkeypatch.setattr(adding, "MOST_ENCODED_FIRST", 0)
    monkeypatch.setattr(encode, "FIRST_CHARACTERS", 500)
    with Collection.create(tmp_path / "i", encoder, settings) as collection:
        with monkeypatch.context() as patch:
            stop_after_first_vectors(patch, KeyboardInterrupt())
            with pytest.raises(KeyboardInterrupt):
                collection.add(documents())
        assert collection.index.state.is_provisional
        assert first(collection, "word0 cat") == "0"
        assert "word0 cat" in encoder.encoded
        collection.encode()
        encoder.encoded.clear()
        assert first(collection, "word150 cat") == "150"
        assert encoder.encoded == []


def test_deleted_documents_are_not_in_a_new_table(path: Path) -> None:
    with Collection.open(path, TokenEncoder()) as collection:
        assert collection.index.snapshot.table.encode_queries("word199").any()
        collection.delete([str(i) for i in range(150, 200)])
        collection.reduce(Settings(query_encoder="table", k=8))
        assert not collection.index.snapshot.table.encode_queries("word199").any()


def test_a_damaged_table_is_found_and_fitted_again(path: Path) -> None:
    (table,) = path.glob("table-*")
    data = bytearray(table.read_bytes())
    data[-1] ^= 1
    table.write_bytes(data)
    with Collection.open(path, TokenEncoder()) as collection, pytest.raises(CorruptError):
        first(collection, "word150 cat")
    assert [table.name in fault for fault in verify(path)] == [True]


def test_an_encoder_without_tokenizer_is_refused_at_once(path: Path, tmp_path: Path) -> None:
    settings = Settings(query_encoder="table")
    with pytest.raises(InputError):
        Collection.create(tmp_path / "other", WordEncoder(), settings)
    assert not (tmp_path / "other").exists()
    with Collection.create(tmp_path / "plain", WordEncoder()) as collection:
        collection.add(documents(0, 20))
        with pytest.raises(InputError):
            collection.reduce(settings)
        assert first(collection, "word10 cat") == "10"
    with Collection.open(path, TokenEncoder()) as collection:
        with pytest.raises(InputError):
            collection.reencode(WordEncoder(40))
        assert collection.index.state.replacement is None
    with pytest.raises(InputError):
        Settings(query_encoder="words")


async def test_a_service_encodes_by_the_table(path: Path) -> None:
    encoder = TokenEncoder()
    async with asking({"notes": path}, encoder=encoder) as (client, _):
        encoder.encoded.clear()
        body = {"query": "word150 cat", "limit": 1, "hybrid": "off"}
        answer = await client.post("/indexes/notes/search", json=body)
        assert answer.json()["queries"][0]["hits"][0]["id"] == "150"
        several = {"queries": ["word1 dog", "word2 dog"], "limit": 1, "query_encoder": "table"}
        answer = await client.post("/indexes/notes/search", json=several)
        assert answer.status_code == 200
        assert encoder.encoded == []
        answer = await client.post("/indexes/notes/search", json=body | {"query_encoder": "model"})
        assert answer.status_code == 200
        assert encoder.encoded == ["word150 cat"]
        answer = await client.post("/indexes/notes/search", json=body | {"query_encoder": "x"})
        assert answer.status_code == 422


async def test_a_service_fits_a_table_or_refuses(path: Path, tmp_path: Path) -> None:
    body = {"query_encoder": "table"}
    async with asking({"notes": path}, encoder=TokenEncoder()) as (client, _):
        for name in ("model", "table"):
            answer = await client.post("/indexes/notes/reduce", json={"query_encoder": name})
            assert answer.json()["settings"]["query_encoder"] == name
            assert len([*path.glob("table-*")]) == (name == "table")
    async with asking({"words": made(tmp_path / "words")}) as (client, _):
        answer = await client.post("/indexes/words/reduce", json=body)
        assert answer.status_code == 400
