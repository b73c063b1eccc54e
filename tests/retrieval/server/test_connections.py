"""Bodies that never end: they are answered, and nobody waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from slimdex.retrieval.server.access import Right, Tokens
from slimdex.retrieval.server.limits import Limits

from .asking import asking, made


async def stalling() -> AsyncIterator[bytes]:
    yield b" "
    await asyncio.sleep(3600)


async def endless() -> AsyncIterator[bytes]:
    while True:
        await asyncio.sleep(0)
        yield b" " * 1000


@pytest.mark.parametrize("place", ["POST /indexes/notes/search", "PUT /indexes/notes/files/a.txt"])
async def test_a_body_without_end_is_answered(place: str, tmp_path: Path) -> None:
    method, url = place.split()
    limits = Limits(body=20_000, file=20_000, idle=0.2)
    tokens = Tokens({b"w" * 16: Right.WRITE})
    writer = {"Authorization": f"Bearer {'w' * 16}", "Content-Type": "application/json"}
    async with asking({"notes": made(tmp_path / "notes")}, limits=limits, tokens=tokens) as (
        client,
        _,
    ):
        for body, headers, status in (
            (stalling(), writer, 408),
            (endless(), writer, 413),
            (endless(), {}, 401),
        ):
            answer = await client.request(method, url, content=body, headers=headers)
            assert answer.status_code == status, answer.text
