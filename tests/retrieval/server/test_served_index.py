"""What is known of a served index."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.server.served_index import _Fact
from tests.encoders import WordEncoder

from .asking import asking, made


async def test_facts_are_worked_out_once_for_all_who_ask(tmp_path: Path) -> None:
    counted = list[int]()

    def count(collection: Collection) -> int:
        counted.append(len(collection))
        return counted[-1]

    async with asking({"notes": made(tmp_path / "notes.index")}) as (_, service):
        index = service.indexes["notes"]
        fact = _Fact(index, count)
        assert await asyncio.gather(*(fact.now() for _ in range(20))) == [3] * 20
        assert counted == [3]
        await index.put(Document("new", "a cat"))
        assert await fact.about_now() == 3  # nobody waits for what is nearly the same
        assert await fact.now() == 4
        assert await fact.about_now() == 4
        assert counted == [3, 4]


async def test_what_went_wrong_is_tried_again(tmp_path: Path) -> None:
    answers: list[int | Exception] = [OSError("no"), 7]

    def work(collection: Collection) -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with asking({"notes": made(tmp_path / "notes.index")}) as (_, service):
        fact = _Fact(service.indexes["notes"], work)
        with pytest.raises(OSError, match="no"):
            await fact.now()
        assert await fact.now() == 7


async def test_a_service_goes_on_while_all_is_encoded_again(tmp_path: Path) -> None:
    """Its queries are encoded by the encoder of the vectors that answer them."""
    new, path = WordEncoder(40), tmp_path / "notes.index"
    async with asking({"notes": made(path)}) as (_, service):
        index = service.indexes["notes"]
        index.collection.give(new)
        request = SearchRequest(texts=["a cat"], limit=1, hybrid="off")
        before = await index.search(request)
        with Collection.open(path, WordEncoder()) as other:
            assert other.reencode(new).finished
        new.encoded.clear()
        after = await index.search(request)
        assert new.encoded == ["a cat"]
        assert after.hits[0][0].id == before.hits[0][0].id
        await index.put(Document("new", "unheard words"))
        assert new.encoded[-1] == "unheard words"
        found = await index.search(SearchRequest(texts=["unheard words"], limit=1, hybrid="off"))
        assert found.hits[0][0].id == "new"
