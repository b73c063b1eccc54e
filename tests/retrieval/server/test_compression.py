"""Bodies and answers may be gzipped, within the same limits."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from slimdex.retrieval.server import middleware
from slimdex.retrieval.server.limits import Limits

from .asking import asking, made

AT = "/indexes/notes/documents"
GZIP = {"Content-Encoding": "gzip"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def notes(tmp_path: Path) -> dict[str, Path]:
    return {"notes": made(tmp_path / "notes")}


def documents(count: int) -> bytes:
    return json.dumps([{"id": f"new {i}", "text": f"rain fell {i}"} for i in range(count)]).encode()


async def test_gzipped_bodies_are_read_as_what_they_were(notes: dict[str, Path]) -> None:
    whole = documents(20_000)  # a megabyte, which is decompressed in parts
    middle = len(whole) // 2
    two_members = gzip.compress(whole[:middle]) + gzip.compress(whole[middle:])
    async with asking(notes) as (client, _):
        query = gzip.compress(b'{"query": "a cat", "limit": 1}')
        found = await client.post("/indexes/notes/search", content=query, headers=GZIP | JSON)
        assert found.json()["queries"][0]["hits"][0]["id"] == "1"
        for body in (gzip.compress(whole), two_members):
            added = await client.post(AT, content=body, headers=GZIP | JSON)
            assert added.status_code == 200, added.text
        assert (await client.get(f"{AT}/new 19999")).json()["text"] == "rain fell 19999"
        text = gzip.compress(b"snow fell on tuesday")
        put = await client.put("/indexes/notes/files/a.txt", content=text, headers=GZIP)
        assert put.json()["documents"] == 1
        assert (await client.get(f"{AT}/a.txt")).json()["text"] == "snow fell on tuesday"


async def test_damaged_and_unknown_encodings_are_refused(notes: dict[str, Path]) -> None:
    body = gzip.compress(documents(3))
    wrong: list[tuple[str, bytes, int]] = [
        ("gzip", b"no gzip", 400),
        ("gzip", body[:-4], 400),
        ("gzip", body[:20] + b"x" + body[21:], 400),
        ("br", body, 415),
    ]
    async with asking(notes) as (client, _):
        for encoding, content, status in wrong:
            headers = JSON | {"Content-Encoding": encoding}
            answer = await client.post(AT, content=content, headers=headers)
            assert answer.status_code == status, answer.text
            assert "\n" not in answer.json()["error"]
        assert (await client.get(AT, params={"limit": 0})).json()["count"] == 3


async def test_a_body_counts_as_decompressed(
    notes: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "REST_S", 0)
    bomb = gzip.compress(b'{"query": "' + b"a" * (1 << 24) + b'"}')
    async with asking(notes, limits=Limits(body=1 << 20)) as (client, _):
        refused = await client.post("/indexes/notes/search", content=bomb, headers=GZIP | JSON)
        assert refused.status_code == 413


async def test_answers_are_gzipped_for_those_who_accept_it(notes: dict[str, Path]) -> None:
    async with asking(notes) as (client, _):
        await client.post(AT, content=documents(200), headers=JSON)
        answers: dict[str, Any] = {}
        for accepted in ("gzip", "identity"):
            answers[accepted] = await client.get(AT, headers={"Accept-Encoding": accepted})
        assert answers["gzip"].json() == answers["identity"].json()
        assert answers["gzip"].headers["content-encoding"] == "gzip"
        sizes = [int(answers[each].headers["content-length"]) for each in ("gzip", "identity")]
        assert sizes[0] * 4 < sizes[1]


async def test_a_file_of_the_page_is_sent_once(notes: dict[str, Path]) -> None:
    async with asking(notes) as (client, _):
        for path in ("/", "/page/page.js", "/page/page.css", "/page/swagger-ui.css"):
            first = await client.get(path)
            known = {"If-None-Match": first.headers["etag"]}
            again = await client.get(path, headers=known)
            assert (first.status_code, again.status_code) == (200, 304)
            assert again.content == b""
            other = await client.get(path, headers={"If-None-Match": '"other"'})
            assert other.content == first.content
