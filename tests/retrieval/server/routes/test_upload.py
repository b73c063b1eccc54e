"""Files are uploaded: read like those of a folder, with progress, and with limits."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.server.limits import Limits

from ..asking import asking, made

LINES = {"Accept": "application/x-ndjson"}
PAGE = "<html><head><title>Rain</title></head><body><p>rain fell on the cat</p></body></html>"
TABLE = "id,text,kind\n7,stocks fell,money\n8,it was monday,days\n"


async def test_files_become_documents(tmp_path: Path) -> None:
    path = made(tmp_path / "notes.index")
    async with asking({"notes": path}) as (client, _):
        at = "/indexes/notes/files"
        sent = await client.put(f"{at}/web/rain.html?modified=86400", content=PAGE)
        assert sent.status_code == 200, sent.text
        assert {name: sent.json()[name] for name in ("documents", "replaced", "total")} == {
            "documents": 1, "replaced": 0, "total": 4,
        }  # fmt: skip
        again = await client.put(f"{at}/web/rain.html?modified=86400", content=PAGE)
        assert (again.json()["documents"], again.json()["unchanged"]) == (0, 1)
        other = await client.put(f"{at}/web/rain.html", content=PAGE.replace("rain", "snow"))
        assert (other.json()["documents"], other.json()["replaced"]) == (1, 1)
        told = await client.put(f"{at}/rows.csv", content=TABLE, headers=LINES)
        *stages, last = [json.loads(line) for line in told.text.splitlines()]
        assert (last["documents"], last["total"]) == (2, 6)
        assert "encoding" in {one["stage"] for one in stages}
        assert all(0 <= one["done"] <= one["total"] for one in stages)
    with Collection.open(path) as collection:
        page = collection.get("web/rain.html")
        assert (page.title, page.text) == ("Rain", "snow fell on the cat")
        assert page.metadata["path"] == "web/rain.html"
        assert isinstance(page.metadata["modified"], datetime)
        assert collection.get("8").metadata["kind"] == "days"
        assert not any(str(tmp_path) in str(document) for document in collection)


@pytest.mark.parametrize(
    ("name", "content", "status", "said"),
    [
        ("..%2Fx.md", "text", 400, "file '../x.md'; expected a name such as notes/boiler.md"),
        ("%2Fetc%2Fx.md", "text", 400, "expected a name such as"),
        ("a%5Cx.md", "text", 400, "expected a name such as"),
        ("x.md", "", 400, "x.md: an empty file"),
        ("x.xyz", bytes(range(256)), 400, "x.xyz: an unknown kind of file"),
        ("x.pdf", "%PDF-1.7 broken", 400, "x.pdf: can't be read"),
        ("x.csv", "a,b\n1,2\n", 400, "x.csv: "),
        ("x.md", "x" * 1001, 413, "x.md: over 1,000 bytes; expected 1,000 or fewer"),
    ],
)
async def test_what_is_refused_leaves_nothing(
    name: str, content: str | bytes, status: int, said: str, tmp_path: Path
) -> None:
    path = made(tmp_path / "notes.index")
    async with asking({"notes": path}, limits=Limits(file=1000)) as (client, _):
        for headers in ({}, LINES):
            at = f"/indexes/notes/files/{name}"
            answer = await client.put(at, content=content, headers=headers)
            last = json.loads(answer.text.splitlines()[-1])  # after lines of progress, if any
            assert last.get("status", answer.status_code) == status, answer.text
            assert said in last["error"]
            assert "slimdex-upload" not in answer.text
        assert (await client.get("/indexes/notes/documents?limit=0")).json()["count"] == 3


async def test_documents_are_listed(tmp_path: Path) -> None:
    async with asking({"notes": made(tmp_path / "notes.index")}) as (client, _):
        at = "/indexes/notes/documents"
        first = (await client.get(at, params={"limit": 2})).json()
        assert ([one["id"] for one in first["documents"]], first["count"]) == (["1", "2"], 3)
        assert first["more"]
        rest = (await client.get(at, params={"limit": 2, "after": "2"})).json()
        assert ([one["id"] for one in rest["documents"]], rest["more"]) == (["a/b c?"], False)
        some = (await client.get(at, params={"where": "kind = 'pets'", "limit": 1})).json()
        assert ([one["id"] for one in some["documents"]], some["count"]) == (["1"], 2)
        none = (await client.get(at, params={"limit": 0})).json()
        assert (none["documents"], none["count"]) == ([], 3)
        gone = await client.get(at, params={"after": "nobody"})
        assert (gone.status_code, "unknown id 'nobody'" in gone.text) == (404, True)
        assert (await client.get(at, params={"where": "nope = 1"})).status_code == 400


async def test_reranking_needs_a_model(tmp_path: Path) -> None:
    async with asking({"notes": made(tmp_path / "notes.index")}) as (client, _):
        body = {"query": "a cat", "rerank": True}
        answer = await client.post("/indexes/notes/search", json=body)
        assert (answer.status_code, answer.json()["error"]) == (
            400,
            "rerank=True: this service has no such model; expected false",
        )
