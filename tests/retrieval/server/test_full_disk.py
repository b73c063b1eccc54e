"""A disk that is full for a while: what can be read stays so, and all is well when there is room.

Files that may not grow (RLIMIT_FSIZE) fail as on a full disk, and need neither root nor a file
system; in a process of its own, because the limit is on all of its files.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slimdex.retrieval.server.service import Service
from tests import forked

from .asking import asking, made

FILTERED = {"query": "a cat", "where": "year = 1990"}
OPEN = resource.RLIM_INFINITY


@contextmanager
def no_room(catalog: Path, more: int = 0) -> Iterator[None]:
    """While no file may be much larger than the catalog is."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (catalog.stat().st_size + more, OPEN))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (OPEN, OPEN))


def found(trial: Callable[[Path], Coroutine[Any, Any, Any]], folder: Path) -> Any:
    """What a trial in a process of its own returns, as JSON."""
    told = folder / "told.json"
    process = forked.process(run, trial, folder, told)
    process.join(300)
    assert process.exitcode == 0
    return json.loads(told.read_text())


def run(trial: Callable[[Path], Coroutine[Any, Any, Any]], folder: Path, told: Path) -> None:
    told.write_text(json.dumps(asyncio.run(trial(folder))))


async def loaded(service: Service) -> None:
    """Wait until it is ready."""
    while not service.is_ready:
        await asyncio.sleep(0.01)


def long_text(seed: int) -> str:
    """A text that can't be compressed to little."""
    return "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz ", k=120_000))


async def fill_and_free(folder: Path) -> dict[str, list[list[int]]]:
    """Statuses of a service: while the catalog may not grow, and afterwards."""
    path = made(folder / "notes.index")
    async with asking({"notes": path}) as (client, service):

        async def statuses(name: str) -> list[int]:
            at = "/indexes/notes"
            put = await client.put(f"{at}/documents/{name}", json={"text": long_text(len(name))})
            get = await client.get(f"{at}/documents/1")
            search = await client.post(f"{at}/search", json=FILTERED)
            ready = await client.get("/ready")
            kept = await client.get(f"{at}/documents/{name}")
            assert (kept.status_code == 200) == (put.status_code == 200)
            return [answer.status_code for answer in (put, get, search, ready)]

        await loaded(service)
        with no_room(path / "catalog.duckdb", 300_000):
            full = [await statuses("x" * (i + 1)) for i in range(5)]
        return {"full": full, "freed": [await statuses("y" * (i + 1)) for i in range(2)]}


def test_a_service_recovers_from_checkpoints_that_failed(tmp_path: Path) -> None:
    statuses = found(fill_and_free, tmp_path)
    assert {put for put, *_ in statuses["full"]} <= {200, 507}
    assert {tuple(reads) for _, *reads in statuses["full"]} == {(200, 200, 200)}
    assert statuses["freed"] == [[200] * 4] * 2


async def give_up(folder: Path) -> list[Any]:
    """Statuses of a service whose catalog is gone for a while."""
    path = made(folder / "notes.index")
    catalog, away = path / "catalog.duckdb", path / "away"
    async with asking({"notes": path}) as (client, service):

        async def answers() -> list[Any]:
            get = await client.get("/indexes/notes/documents/1")
            search = await client.post("/indexes/notes/search", json=FILTERED)
            ready = await client.get("/ready")
            return [get.status_code, get.json().get("error"), search.status_code, ready.json()]

        await loaded(service)
        service.indexes["notes"].collection.store.database.stop_resting()
        catalog.rename(away)
        gone = await answers()
        away.rename(catalog)
        ready = await client.get("/ready")
        return [gone, ready.json(), await answers()]


def test_it_is_not_ready_until_the_catalog_is_open_again(tmp_path: Path) -> None:
    gone, ready, back = found(give_up, tmp_path)
    line = "the index can't be read at the moment; try again later"
    assert gone == [503, line, 503, {"status": "recovering"}]
    assert (ready, back) == ({"status": "ready"}, [200, None, 200, {"status": "ready"}])
