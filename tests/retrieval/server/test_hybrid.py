"""Words beside meaning over HTTP: the answers are those of the library."""

from __future__ import annotations

import asyncio
from pathlib import Path

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from tests.encoders import WordEncoder

from .asking import asking, made

WAYS: list[str | float] = ["off", "auto", "rrf", 0.3, 1.0]


async def test_answers_are_those_of_the_library(tmp_path: Path) -> None:
    path = made(tmp_path / "notes.index")
    texts = ["the cat on a rug", "monday stocks"]
    with Collection.open(path, WordEncoder()) as collection:
        expected = [
            [[(h.id, round(h.score, 3)) for h in hits] for hits in found]
            for found in (collection.search_many(texts, 2, hybrid=way) for way in WAYS)
        ]

    async with asking({"notes": path}) as (client, _):
        bodies = [{"queries": texts, "limit": 2, "hybrid": way} for way in WAYS]
        posts = [client.post("/indexes/notes/search", json=body) for body in bodies]
        vectors = WordEncoder().encode(texts).tolist()
        refused = await client.post(
            "/indexes/notes/search", json={"vectors": vectors, "hybrid": 0.5}
        )
        assert refused.status_code == 400
        assert "with vectors; expected texts" in refused.text
        for wrong in ("on", 1.5, -1):
            body = {"query": "cat", "hybrid": wrong}
            assert (await client.post("/indexes/notes/search", json=body)).status_code == 422
        answers = [answer.json() for answer in await asyncio.gather(*posts)]
    found = [
        [[(h["id"], round(h["score"], 3)) for h in one["hits"]] for one in answer["queries"]]
        for answer in answers
    ]
    assert found == expected
    assert "words" in answers[-1]["milliseconds"]
    assert answers[-1]["chance_score"] is None


async def test_what_is_put_is_found_by_its_words(tmp_path: Path) -> None:
    path = made(tmp_path / "notes.index")

    async with asking({"notes": path}) as (client, service):
        await service.indexes["notes"].put(Document("new", "an okapi"))
        body = {"query": "okapi", "limit": 1, "hybrid": 1.0}
        answer = (await client.post("/indexes/notes/search", json=body)).json()
        assert answer["queries"][0]["hits"][0]["id"] == "new"


async def test_without_words_it_is_said_how_to_have_them(tmp_path: Path) -> None:
    path = made(tmp_path / "notes.index")
    with Collection.open(path, WordEncoder()) as collection:
        collection.index_lexical(False)
    async with asking({"notes": path}) as (client, _):
        assert (await client.post("/indexes/notes/search", json={"query": "cat"})).json()
        body = {"query": "cat", "hybrid": 0.5}
        answer = await client.post("/indexes/notes/search", json=body)
        assert answer.status_code == 400
        assert "has no lexical index" in answer.text
        assert str(tmp_path) not in answer.text


async def test_openais_searches_keep_the_order_of_the_fusion(tmp_path: Path) -> None:
    """The first hits of all queries come before the second ones; scores would order otherwise."""
    path, texts = made(tmp_path / "notes.index"), ["the cat sat on the mat", "monday"]
    with Collection.open(path, WordEncoder()) as collection:
        first, second = collection.search_many(texts, 3)
    expected = dict.fromkeys(hit.id for pair in zip(first, second, strict=True) for hit in pair)
    best = {hit.id: hit.score for hit in [*second, *first]}
    assert sorted(expected, key=lambda id: -best[id]) != [*expected]

    async with asking({"notes": path}) as (client, _):
        body = {"query": texts, "max_num_results": 3}
        answer = await client.post("/v1/vector_stores/notes/search", json=body)
    assert [hit["file_id"] for hit in answer.json()["data"]] == [*expected]
