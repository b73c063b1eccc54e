"""Words beside meaning over HTTP: the answers are those of the library."""

from __future__ import annotations

import asyncio
from pathlib import Path

from slimdex.retrieval.collection import Collection
from tests.encoders import WordEncoder

from .asking import asking, made

WAYS: list[str | float] = ["off", "auto", "rrf", 0.3, 1.0]


async def test_hybrid_searches_answer_as_the_collection_does(tmp_path: Path) -> None:
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
        answers = [answer.json() for answer in await asyncio.gather(*posts)]
    hits = [
        [[(h["id"], round(h["score"], 3)) for h in one["hits"]] for one in answer["queries"]]
        for answer in answers
    ]
    assert hits == expected
    assert "words" in answers[-1]["milliseconds"]
    assert answers[-1]["chance_score"] is None


async def test_an_index_without_words_refuses_a_hybrid_search(tmp_path: Path) -> None:
    path = made(tmp_path / "notes.index")
    with Collection.open(path, WordEncoder()) as collection:
        collection.index_lexical(False)
    async with asking({"notes": path}) as (client, _):
        for way, status in (("auto", 200), (0.5, 400)):
            body = {"query": "cat", "hybrid": way}
            answer = await client.post("/indexes/notes/search", json=body)
            assert (answer.status_code, str(tmp_path) in answer.text) == (status, False)


async def test_hits_of_several_queries_to_a_vector_store_are_interleaved(tmp_path: Path) -> None:
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
