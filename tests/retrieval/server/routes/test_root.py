"""Indexes are created and dropped over HTTP, in one folder and by those who may write."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from pathlib import Path

import pytest

from slimdex.errors import InputError
from slimdex.retrieval.index import Index
from slimdex.retrieval.server.access import Right, Tokens
from slimdex.retrieval.server.limits import Limits
from slimdex.retrieval.server.service import RootFolder, Service
from slimdex.system.locks import FileLock
from tests.encoders import WordEncoder

from ..asking import DOCUMENTS, asking, made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    made(folder / "old.index")
    return folder


async def test_an_index_is_created_used_and_dropped(root: Path, tmp_path: Path) -> None:
    notes = made(tmp_path / "notes.index")
    async with asking({"notes": notes}, root=root) as (client, service):
        created = await client.put("/indexes/new", json={"k": 4, "kind": "flat"})
        assert (created.status_code, created.json()) == (201, {"name": "new", "documents": 0})
        assert (await client.put("/indexes/new", json={})).status_code == 409
        added = await client.post("/indexes/new/documents", json=DOCUMENTS)
        assert added.json()["documents"] == 3
        assert (await client.get("/indexes/new")).json()["requested"]["k"] == 4
        found = await client.post("/indexes/new/search", json={"query": "a dog on a rug"})
        assert found.json()["queries"][0]["hits"][0]["id"] == "a/b c?"
        listed = (await client.get("/indexes")).json()
        assert [one["name"] for one in listed["indexes"]] == ["old", "notes", "new"]
        assert listed["can"] == ["write", "create"]

        searches = [client.post("/indexes/new/search", json={"query": "a cat"}) for _ in range(20)]
        *answers, dropped = await asyncio.gather(*searches, client.delete("/indexes/new"))
        assert dropped.json() == {"name": "new", "dropped": 3}
        assert {answer.status_code for answer in answers} <= {200, 404}
        assert (await client.get("/indexes/new")).status_code == 404
        assert (await client.delete("/indexes/notes")).status_code == 403
        assert sorted(path.name for path in root.iterdir()) == ["old.index"]
        assert (await client.delete("/indexes/old")).json() == {"name": "old", "dropped": 3}
        assert [*service.indexes] == ["notes"]
    assert [*root.iterdir()] == []
    assert notes.is_dir()


@pytest.mark.skipif(sys.platform != "linux", reason="lists open files in /proc")
async def test_a_dropped_index_releases_files_and_threads(root: Path) -> None:
    """At once, not when Python collects garbage next: a service makes little of it."""
    gc.collect()
    gc.disable()
    try:
        async with asking({}, root=root) as (client, _):
            for _ in range(3):
                await client.put("/indexes/new", json={})
                await client.post("/indexes/new/documents", json=DOCUMENTS)
                for where in (None, "year > 2000"):
                    body = {"query": "a cat", "where": where}
                    found = await client.post("/indexes/new/search", json=body)
                    assert found.json()["queries"][0]["hits"]
                await client.get("/indexes/new/documents")
                assert _open_files(root / "new.index")
                assert (await client.delete("/indexes/new")).json()["dropped"] == 3
            assert _open_files(root / "new.index") + _open_files(root / ".new.index.dropped") == []
            names = [thread.name for thread in threading.enumerate()]
            assert [name for name in names if name.startswith("new-")] == []
    finally:
        gc.enable()


def _open_files(folder: Path) -> list[str]:
    """Files of a folder that this process has open or mapped, also deleted ones."""
    opened = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            opened.append(os.readlink(descriptor))
        except FileNotFoundError:  # the descriptor of this listing
            continue
    mapped = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in [*opened, *mapped] if f"{folder}/" in line]


async def test_names_that_are_no_plain_folder_names_are_refused(root: Path, tmp_path: Path) -> None:
    async with asking({}, root=root) as (client, _):
        for name in (".hidden", "..", "a%2Fb", "a%5Cb", "ä", "-a", "x" * 101, "a%00"):
            answer = await client.put(f"/indexes/{name}", json={})
            assert answer.status_code in (400, 404, 405), answer.text
    assert [path.name for path in root.iterdir()] == ["old.index"]
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


async def test_refusals_leave_nothing(root: Path) -> None:
    limits = Limits(indexes=2)
    tokens = Tokens({b"r" * 16: Right.READ, b"w" * 16: Right.WRITE})
    writing, reading = ({"Authorization": f"Bearer {letter * 16}"} for letter in "wr")
    async with asking({}, root=root, tokens=tokens, limits=limits) as (client, _):
        for method in ("PUT", "DELETE"):
            refused = await client.request(method, "/indexes/old", json={}, headers=reading)
            assert refused.status_code == 403
        wrong = await client.put("/indexes/new", json={"k": 1000}, headers=writing)
        assert wrong.status_code == 400
        odd = await client.put("/indexes/new", json={"path": "/tmp"}, headers=writing)
        assert odd.status_code == 422
        assert [path.name for path in root.iterdir()] == ["old.index"]
        assert (await client.put("/indexes/new", json={}, headers=writing)).status_code == 201
        assert (await client.put("/indexes/third", json={}, headers=writing)).status_code == 413
    async with asking({"notes": root / "old.index"}) as (client, _):
        assert (await client.put("/indexes/new", json={})).status_code == 403


async def test_an_index_that_another_process_writes_to_is_not_dropped(root: Path) -> None:
    async with asking({}, root=root) as (client, _):
        with FileLock(root / "old.index", "writer").hold():
            answer = await client.delete("/indexes/old")
        assert answer.status_code == 503
        assert str(root) not in answer.text
        again = await client.post("/indexes/old/search", json={"query": "a cat"})
        assert len(again.json()["queries"][0]["hits"]) == 3
        assert (await client.delete("/indexes/old")).status_code == 200


def test_a_root_folder_is_checked_and_cleaned(root: Path, tmp_path: Path) -> None:
    (root / ".gone.index.dropped").mkdir()
    (root / "empty.index").mkdir()
    (root / "link.index").symlink_to(made(tmp_path / "elsewhere"), target_is_directory=True)
    found = RootFolder(root, WordEncoder)
    assert [*found.places] == ["old"]
    assert not (root / ".gone.index.dropped").exists()
    with pytest.raises(InputError, match="no such folder"):
        RootFolder(tmp_path / "nowhere", WordEncoder)
    with pytest.raises(InputError, match="no such folder"):
        Service.open({}, folders=[tmp_path / "nowhere"])
    with pytest.raises(InputError, match="a second index 'old'"):
        Service.open({"old": tmp_path / "elsewhere"}, root=found, open_one=Index.open)
