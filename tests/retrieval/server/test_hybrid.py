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
