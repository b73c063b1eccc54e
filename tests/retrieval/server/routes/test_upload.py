"""Files are uploaded: read like those of a folder, with progress, and with limits."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.server.limits import Limits

from ..asking import asking, made

PAGE = "<html><head><title>Rain</title></head><body><p>rain fell on the cat</p></body></html>"
TABLE = "id,text,kind\n7,stocks fell,money\n8,it was monday,days\n"


async def test_files_become_documents_and_replace_earlier_ones(tmp_path: Path) -> None:
    path = made(tmp_path / "notes.index")
    async with asking({"notes": path}) as (client, _):
        at = "/indexes/notes/files"
        sent = await client.put(f"{at}/web/rain.html?modified=86400", content=PAGE)
        assert sent.status_code == 200, sent.text
        assert (sent.json()["documents"], sent.json()["replaced"]) == (1, 0)
        again = await client.put(f"{at}/web/rain.html?modified=86400", content=PAGE)
        assert (again.json()["documents"], again.json()["unchanged"]) == (0, 1)
        other = await client.put(f"{at}/web/rain.html", content=PAGE.replace("rain", "snow"))
        assert (other.json()["documents"], other.json()["replaced"]) == (1, 1)
        table = await client.put(f"{at}/rows.csv", content=TABLE)
        assert table.json()["documents"] == 2
        lines = await client.put(f"{at}/lines.txt", content="one\ntwo\n")
        assert lines.json()["documents"] == 1  # as in a folder
    with Collection.open(path) as collection:
        page = collection.get("web/rain.html")
        assert (page.title, page.text) == ("Rain", "snow fell on the cat")
        assert page.metadata["path"] == "web/rain.html"
        assert isinstance(page.metadata["modified"], datetime)
        assert collection.get("8").metadata["kind"] == "days"
        assert not any(str(tmp_path) in str(document) for document in collection)


REFUSED: dict[str, tuple[str | bytes, int]] = {
    "..%2Fx.md": ("text", 400),
    "%2Fetc%2Fx.md": ("text", 400),
    "a%5Cx.md": ("text", 400),
    "empty.md": ("", 400),
    "unknown.xyz": (bytes(range(256)), 400),
    "broken.pdf": ("%PDF-1.7 broken", 400),
    "textless.csv": ("a,b\n1,2\n", 400),
    "large.md": ("x" * 1001, 413),
}


async def test_refused_files_leave_nothing(tmp_path: Path) -> None:
    path = made(tmp_path / "notes.index")
    async with asking({"notes": path}, limits=Limits(file=1000)) as (client, _):
        for name, (content, status) in REFUSED.items():
            answer = await client.put(f"/indexes/notes/files/{name}", content=content)
            assert (answer.status_code, "error" in answer.json()) == (status, True), answer.text
            assert "slimdex-upload" not in answer.text
        assert (await client.get("/indexes/notes/documents?limit=0")).json()["count"] == 3
