"""An answer waits for a sync that is quick, and for no other."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.server.freshness import BEHIND, Following, Freshness
from slimdex.retrieval.sources.files import input_files
from slimdex.retrieval.sources.source_request import SourceRequest
from tests.encoders import WordEncoder


async def test_answers_remark_on_a_slow_sync_which_continues() -> None:
    begun, released = list[int](), threading.Event()

    def catch_up() -> None:
        begun.append(len(begun))
        assert released.wait(60)

    fresh = Freshness(partial(asyncio.to_thread, catch_up), patience=0.05)
    assert [await fresh.remark(), await fresh.remark()] == [BEHIND, BEHIND]
    while not begun:
        await asyncio.sleep(0.01)
    assert begun == [0]  # one at a time
    released.set()
    while await fresh.remark() != "":  # on a busy machine, several times
        pass
    assert len(begun) >= 2  # the first may have begun before a change


async def test_concurrent_answers_share_a_sync_that_begins_after_them() -> None:
    begun, turn = list[int](), threading.Semaphore(0)

    def catch_up() -> None:
        begun.append(len(begun))
        assert turn.acquire(timeout=60)

    fresh = Freshness(partial(asyncio.to_thread, catch_up), patience=60)
    first = asyncio.create_task(fresh.remark())
    while not begun:
        await asyncio.sleep(0.01)
    others = [asyncio.create_task(fresh.remark()) for _ in range(5)]
    await asyncio.sleep(0)
    turn.release(2)
    assert await first == ""
    assert [await other for other in others] == [""] * 5
    assert begun == [0, 1]


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to follow, whose files can't have changed unnoticed just now."""
    monkeypatch.setattr(input_files, "SETTLED_NS", 0)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("the cat sat")
    return tmp_path / "notes"


def test_sources_are_read_again_only_if_files_have_changed(notes: Path, tmp_path: Path) -> None:
    following = Following(SourceRequest([str(notes)]))
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        following.catch_up(collection.index)
        assert len(collection) == 1
        (notes / "a.md").write_text("the dog sat")
        (notes / "b.md").write_text("rain fell")
        following.catch_up(collection.index)
        assert [document.text for document in collection] == ["the dog sat", "rain fell"]
        (notes / "a.md").unlink()
        following.catch_up(collection.index)
        assert [document.id for document in collection] == ["b.md"]
        following.catch_up(collection.index)
        collection.add({"id": "own", "text": "snow fell"})
        collection.delete("b.md")
        following.catch_up(collection.index)
        assert [document.id for document in collection] == ["own"]
        (notes / "b.md").write_text("rain fell again")
        following.catch_up(collection.index)
        assert {document.id for document in collection} == {"own", "b.md"}
