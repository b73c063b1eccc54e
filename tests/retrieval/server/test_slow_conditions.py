"""Conditions that take long."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slimdex.errors import SlimdexError
from slimdex.retrieval import commands
from slimdex.retrieval.index import Index
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.server.limits import Limits

from .asking import asking, made

REGEXES = " OR ".join(f"text ~ '(a?b? ?){{{i}}}z'" for i in (130, 131))
"""Takes at least some hundredths of a second over the documents below, whatever the machine."""


@pytest.mark.slow
async def test_a_condition_is_interrupted_after_the_time_limit(tmp_path: Path) -> None:
    documents = [{"id": str(i), "text": f"{i} " + "ab " * 60} for i in range(30_000)]
    path = made(tmp_path / "notes.index", documents)

    async with asking({"notes": path}, limits=Limits(seconds=0.005)) as (client, service):
        body = {"query": "a cat", "where": REGEXES}
        answer = await client.post("/indexes/notes/search", json=body)
        assert answer.status_code == 504, answer.text
        request = SearchRequest(texts=["a cat"], where=REGEXES)
        with pytest.raises(SlimdexError, match="no answer after"):
            await service.read("notes", partial(commands.search, request=request), REGEXES)


async def test_a_slow_condition_delays_no_search_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    find = Index.find

    def slow(self: Index, request: SearchRequest) -> Any:
        if request.where is not None:
            assert released.wait(60)
        return find(self, request)

    monkeypatch.setattr(Index, "find", slow)
    places = {"notes": made(tmp_path / "notes.index")}
    async with asking(places, limits=Limits(seconds=1)) as (client, _):
        body = {"query": "a cat", "where": "year > 1"}
        searches = [
            asyncio.create_task(client.post("/indexes/notes/search", json=body)) for _ in range(5)
        ]
        await asyncio.sleep(0.05)
        for _ in range(3):
            quick = await client.post("/indexes/notes/search", json={"query": "a cat"})
            assert quick.status_code == 200
        assert not any(task.done() for task in searches)
        assert {each.status_code for each in await asyncio.gather(*searches)} == {504}
        released.set()
