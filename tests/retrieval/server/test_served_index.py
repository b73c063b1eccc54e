"""What is known of a served index."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.server.served_index import _Fact

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
