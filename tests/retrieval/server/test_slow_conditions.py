"""Conditions that take long: they end in time, and quick ones do not wait for them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from slimdex.indexes.errors import SlimdexError
from slimdex.retrieval.catalog.where.checks import SlowConditionError, seconds_allowed
from slimdex.retrieval.operations.commands import Search
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.server import conditional
from slimdex.retrieval.server.conditional import QUICK, SLOW, Conditional
from slimdex.retrieval.server.limits import Limits

from .asking import asking, made

REGEXES = " OR ".join(f"text ~ '(a?b? ?){{{i}}}z'" for i in range(300, 340))
"""Takes seconds over the documents below, and is interrupted after a third of them."""


async def test_quick_ones_do_not_wait_for_slow_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional, "QUICK_S", 0.05)
    let_go = threading.Event()

    def slow() -> str:
        if let_go.wait(seconds_allowed()):
            return "slow"
        raise SlowConditionError

    conditions = Conditional()
    running = [asyncio.create_task(conditions.run(slow, 60)) for _ in range(QUICK + SLOW + 4)]
    await asyncio.sleep(0.01)
    assert await conditions.run(lambda: "quick", 60) == "quick"
    assert not any(task.done() for task in running)
    let_go.set()
    assert set(await asyncio.gather(*running)) == {"slow"}
    let_go.clear()
    with pytest.raises(SlowConditionError):
        await conditions.run(slow, 0.1)


@pytest.mark.slow
async def test_what_takes_too_long_is_interrupted(tmp_path: Path) -> None:
    documents = [{"id": str(i), "text": f"{i} " + "ab " * 60} for i in range(6144)]
    path = made(tmp_path / "notes.index", documents)
    line = "no answer after 0.3 s; expected one by then"

    async with asking({"notes": path}, limits=Limits(seconds=0.3)) as (client, service):
        index = service.indexes["notes"]
        body = {"query": "a cat", "where": REGEXES}
        answer = await client.post("/indexes/notes/search", json=body)
        assert (answer.status_code, answer.json()["error"]) == (504, line)
        with pytest.raises(SlimdexError, match=line):
            await service.do("notes", Search(SearchRequest(texts=["a cat"], where=REGEXES)))
        with pytest.raises(SlowConditionError, match="it took more than 0"):
            await Conditional().run(lambda: index.collection.count(REGEXES), 0.3)


async def test_conditions_that_are_too_long(tmp_path: Path) -> None:
    """They are refused before DuckDB plans them."""

    async with asking({"notes": made(tmp_path / "notes.index")}) as (client, _):
        for where, line in (
            (" OR ".join(["year = 0"] * 400_000), "characters; at most 262144 are read"),
            (" OR ".join(["year = 0"] * 600), "names columns more than 500 times"),
            (" AND ".join(f"year <> {i}" for i in range(501)), "columns more than 500 times"),
        ):
            body = {"query": "a cat", "where": where}
            answer = await client.post("/indexes/notes/search", json=body)
            said = answer.json()["error"]
            assert (answer.status_code, line in said, len(said) < 400) == (400, True, True), said
