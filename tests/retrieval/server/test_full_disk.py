"""A disk that is full for a while: what can be read stays so, and all is well when there is room.

Files that may not grow (RLIMIT_FSIZE) fail as on a full disk, and need neither root nor a file
system; in a process of its own, because the limit is on all of its files.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import forked

from .asking import asking, made

FILTERED = {"query": "a cat", "where": "year = 1990"}
OPEN = resource.RLIM_INFINITY


@contextmanager
def no_room(size: int) -> Iterator[None]:
    """While no file may be larger."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, OPEN))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (OPEN, OPEN))


def write_statuses(folder: Path, result: Path) -> None:
    """Write the statuses of a trial, as JSON."""
    result.write_text(json.dumps(asyncio.run(fill_and_free(folder))))


def long_text(seed: int) -> str:
    """A text that can't be compressed to little."""
    return "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz ", k=120_000))


async def fill_and_free(folder: Path) -> dict[str, list[list[int]]]:
    """Statuses of a service: while no file may grow beyond some size, and afterwards."""
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

        while not service.is_ready:
            await asyncio.sleep(0.01)
        with no_room(200_000):
            full = [await statuses("x" * (i + 1)) for i in range(5)]
        return {"full": full, "freed": [await statuses("y" * (i + 1)) for i in range(2)]}


def test_a_service_reads_on_a_full_disk_and_writes_when_there_is_room(tmp_path: Path) -> None:
    process = forked.process(write_statuses, tmp_path, tmp_path / "statuses.json")
    process.join(300)
    assert process.exitcode == 0
    statuses = json.loads((tmp_path / "statuses.json").read_text())
    assert {put for put, *_ in statuses["full"]} <= {200, 507}
    assert {tuple(reads) for _, *reads in statuses["full"]} == {(200, 200, 200)}
    assert statuses["freed"] == [[200] * 4] * 2
