"""A disk that is full for a while: what can be read stays so, and all is well when there is room.

Files that may not grow fail as on a full disk, and need neither root nor a file system.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from tests.indexes.codes.test_vector_index import limited_files

from .asking import asking, made

AT = "/indexes/notes"


def long_text(seed: int) -> str:
    """A text that can't be compressed to little."""
    return "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz ", k=120_000))


async def test_a_service_reads_on_a_full_disk_and_writes_when_there_is_room(tmp_path: Path) -> None:
    async with asking({"notes": made(tmp_path / "notes.index")}) as (client, service):
        while not service.is_ready:
            await asyncio.sleep(0.01)

        async def put(number: int) -> int:
            """The status of a change, during which others read."""
            at = f"{AT}/documents/x{number}"
            status = (await client.put(at, json={"text": long_text(number)})).status_code
            assert (await client.get(f"{AT}/documents/1")).status_code == 200
            body = {"query": "a cat", "where": "year = 1990"}
            assert (await client.post(f"{AT}/search", json=body)).status_code == 200
            assert (await client.get("/ready")).status_code == 200
            assert ((await client.get(at)).status_code == 200) == (status == 200)
            return status

        with limited_files(200_000):
            assert 507 in {await put(number) for number in range(5)} <= {200, 507}
        assert [await put(number) for number in (5, 6)] == [200, 200]
