"""A served index: its encoder while another process encodes all again, and what waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from time import monotonic, sleep

import pytest

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import encode
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.server import served_index
from slimdex.retrieval.server.service import Service
from tests.encoders import WordEncoder

from .asking import asking, made

REQUEST = SearchRequest(texts=["a cat"], limit=1, hybrid="off")


async def test_queries_are_encoded_by_the_encoder_of_the_vectors(tmp_path: Path) -> None:
    """Also after another process has encoded all documents again."""
    new, path = WordEncoder(40), tmp_path / "notes.index"
    async with asking({"notes": made(path)}) as (_, service):
        index = service.indexes["notes"]
        index.index.encoders.give(new)
        before = await index.search(REQUEST)
        with Collection.open(path, WordEncoder()) as other:
            assert other.reencode(new).finished
        new.encoded.clear()
        after = await index.search(REQUEST)
        assert new.encoded == ["a cat"]
        assert after.hits[0][0].id == before.hits[0][0].id
        await index.put(Document("new", "unheard words"))
        assert new.encoded[-1] == "unheard words"
        found = await index.search(SearchRequest(texts=["unheard words"], limit=1, hybrid="off"))
        assert found.hits[0][0].id == "new"


class Gated(WordEncoder):
    """An encoder that waits for a gate before it encodes several texts."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Event()

    def encode(self, texts: Sequence[str]) -> Matrix:
        assert len(texts) == 1 or self.gate.wait(60)
        return super().encode(texts)


class Slow(WordEncoder):
    """An encoder that takes a twentieth of a second for a text."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        sleep(0.05 * len(texts))
        return super().encode(texts)


MORE = [{"id": f"n{n}", "text": f"note{n} of rain and snow"} for n in range(40)]


async def encoded(service: Service) -> list[list[str]]:
    """The nearest of each text by meaning, once all have vectors."""
    served = service.indexes["notes"]
    end = monotonic() + 60
    while served.index.state.waits:
        assert monotonic() < end
        await asyncio.sleep(0.02)
    request = SearchRequest(texts=[each["text"] for each in MORE], limit=3, hybrid="off")
    return [[hit.id for hit in hits] for hits in (await served.search(request)).hits]


async def test_documents_are_acknowledged_before_they_are_encoded(tmp_path: Path) -> None:
    encoder = Gated()
    with Collection.open(made(tmp_path / "whole.index"), WordEncoder()) as whole:
        whole.add(MORE)
        request = SearchRequest(texts=[each["text"] for each in MORE], limit=3, hybrid="off")
        expected = [[hit.id for hit in hits] for hits in whole.answer(request)]
    async with asking({"notes": made(tmp_path / "i")}, encoder=encoder) as (client, service):
        answer = await client.post("/indexes/notes/documents?wait=false", json=MORE)
        assert answer.json() | {"notes": []} == {
            **answer.json(),
            "documents": 40,
            "encoded": 0,
            "notes": [],
        }
        assert (await client.get("/indexes/notes/documents/n7")).json()["text"] == MORE[7]["text"]
        assert (await client.get("/indexes/notes")).json()["encoded"] == 3
        refused = await client.post("/indexes/notes/documents?wait=soon", json=MORE)
        assert refused.status_code == 422
        encoder.gate.set()
        assert await encoded(service) == expected


async def test_a_server_that_ends_leaves_the_rest_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode, "LEAST_CHARACTERS", 64)
    monkeypatch.setattr(served_index, "ENCODING_SECONDS", 0.2)
    path = made(tmp_path / "i")
    start = monotonic()
    async with asking({"notes": path}, encoder=Slow()) as (client, _):
        await client.post("/indexes/notes/documents?wait=false", json=MORE)
        await asyncio.sleep(0.3)
    assert monotonic() - start < 0.05 * len(MORE) + 20
    with Collection.open(path, WordEncoder()) as left:
        assert 3 < left.index.state.encoded < 43
        assert left.verify() == []
    async with asking({"notes": path}) as (_, service):
        assert [ids[0] for ids in await encoded(service)] == [each["id"] for each in MORE]
