"""Files that are cut, deleted or replaced under a running service: an error, never a crash."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.system.index_names import MANIFEST
from tests.encoders import WordEncoder

from .asking import asking, made

SEARCH = {"query": "a cat on a mat"}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index whose searches read every kind of file; to be copied."""
    path = tmp_path_factory.mktemp("large") / "index"
    documents = [{"id": str(i), "text": f"a cat {i} on a mat"} for i in range(700)]
    settings = Settings(kind="sq8", candidates=20)
    with Collection.create(path, WordEncoder(), settings) as collection:
        collection.add(documents)
    return path


def cut(folder: Path, role: str) -> None:
    """Cut the files of a role to nothing."""
    (found,) = folder.glob(f"{role}-*")
    for path in found.iterdir() if found.is_dir() else [found]:
        os.truncate(path, 0)


@pytest.mark.parametrize("role", ["vectors", "norms", "documents", "offsets", "words"])
async def test_a_search_that_needs_a_cut_file_fails_alone(
    large: Path, tmp_path: Path, role: str
) -> None:
    path, other = shutil.copytree(large, tmp_path / "notes"), made(tmp_path / "other.index")
    async with asking({"notes": path, "other": other}) as (client, _):
        assert (await client.post("/indexes/notes/search", json=SEARCH)).status_code == 200
        while (await client.get("/ready")).json() == {"status": "loading"}:
            await asyncio.sleep(0.01)
        assert (await client.get("/ready")).json() == {"status": "ready"}
        cut(path, role)
        for _ in range(2):
            answer = await client.post("/indexes/notes/search", json=SEARCH)
            assert (answer.status_code, "damaged" in answer.text) == (500, True), answer.text
        ready = await client.get("/ready")
        assert (ready.status_code, ready.json()) == (503, {"status": "damaged"})
        assert (await client.post("/indexes/other/search", json=SEARCH)).status_code == 200


async def test_searches_go_on_after_the_words_are_deleted(tmp_path: Path) -> None:
    path = made(tmp_path / "notes.index")
    async with asking({"notes": path}) as (client, _):
        before = await client.post("/indexes/notes/search", json=SEARCH)
        (words,) = path.glob("words-*")
        shutil.rmtree(words)
        assert (await client.get("/ready")).json() == {"status": "damaged"}
        after = await client.post("/indexes/notes/search", json=SEARCH)  # their maps are readable
        assert after.json()["queries"] == before.json()["queries"]


async def test_changes_are_refused_while_the_manifest_is_gone(tmp_path: Path) -> None:
    path = made(tmp_path / "notes.index")
    async with asking({"notes": path}) as (client, service):
        while not service.is_ready:
            await asyncio.sleep(0.01)
        (path / MANIFEST).rename(tmp_path / "kept")
        put = await client.put("/indexes/notes/documents/new", json={"text": "rain"})
        assert put.status_code == 503, put.text
        assert not (path / MANIFEST).exists()
        ready = await client.get("/ready")
        assert (ready.status_code, ready.json()) == (503, {"status": "recovering"})
        (tmp_path / "kept").rename(path / MANIFEST)
        put = await client.put("/indexes/notes/documents/new", json={"text": "rain"})
        assert put.status_code == 200, put.text
        assert (await client.get("/ready")).json() == {"status": "ready"}
    with Collection.open(path, WordEncoder()) as collection:
        assert collection.get("new").text == "rain"
        assert collection.verify() == []
