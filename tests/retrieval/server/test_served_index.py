"""A served index: its chance score, and its encoder while another process encodes all again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.search.request import SearchRequest
from tests.encoders import WordEncoder

from .asking import asking, made

REQUEST = SearchRequest(texts=["a cat"], limit=1, hybrid="off")


async def test_the_chance_score_is_computed_once_per_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[float | Exception] = [OSError("unreadable"), 0.25, 0.5]

    def compute(collection: Collection) -> float:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(Collection, "chance_score", compute)
    async with asking({"notes": made(tmp_path / "notes.index")}) as (_, service):
        index = service.indexes["notes"]
        with pytest.raises(OSError, match="unreadable"):
            await index.chance_score(REQUEST)
        scores = await asyncio.gather(*(index.chance_score(REQUEST) for _ in range(20)))
        assert scores == [0.25] * 20
        await index.put(Document("new", "a cat"))
        assert await index.chance_score(REQUEST) == 0.25  # nobody waits for a similar value
        while await index.chance_score(REQUEST) != 0.5:
            await asyncio.sleep(0.01)
    assert results == []


async def test_queries_are_encoded_by_the_encoder_of_the_vectors(tmp_path: Path) -> None:
    """Also after another process has encoded all documents again."""
    new, path = WordEncoder(40), tmp_path / "notes.index"
    async with asking({"notes": made(path)}) as (_, service):
        index = service.indexes["notes"]
        index.collection.index.encoders.give(new)
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
