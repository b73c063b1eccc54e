"""A served index: its chance score, and its encoder while another process encodes all again."""

from __future__ import annotations

from pathlib import Path

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.search.request import SearchRequest
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
