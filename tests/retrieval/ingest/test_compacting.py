"""Compacting: files are copied before the turn, and again if others change the index meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import compacting
from slimdex.retrieval.ingest.repairing import verify
from slimdex.system.locks import FileLock
from slimdex.system.progress import listening
from tests.encoders import WordEncoder

AGAIN = "others changed the index while it was copied; compacting starts over"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """60 documents, of which ten are deleted."""
    path = tmp_path / "x"
    with Collection.create(path, WordEncoder(), Settings(kind="sq8", k=4)) as collection:
        collection.add([Document(str(i), f"text {i} word{i % 7}") for i in range(60)])
        collection.delete([str(i) for i in range(10)])
    return path


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Collection, int], object], times: int
) -> list[bool]:
    """Change the index in another handle during the first copies.

    Returns whether the copier had the turn, for each time that it copied.
    """
    turns, compacted = list[bool](), compacting._compact

    def copied(snapshot: Any, *given: Any) -> Any:
        turns.append(FileLock(snapshot.path, "writer").is_held())
        actual = compacted(snapshot, *given)
        if len(turns) <= times:
            with Collection.open(snapshot.path, WordEncoder()) as other:
                change(other, len(turns))
        return actual

    monkeypatch.setattr(compacting, "_compact", copied)
    return turns


def compacted(path: Path) -> tuple[int, list[str]]:
    notes = list[str]()
    with Collection.open(path, WordEncoder()) as collection, listening(note=notes.append):
        return collection.compact(), notes


def check(path: Path, ids: set[str]) -> None:
    """The index contains these documents and no deleted row, and each finds itself."""
    with Collection.open(path, WordEncoder()) as collection:
        assert {document.id for document in collection} == ids
        assert (len(collection), collection.index.state.rows) == (len(ids), len(ids))
        for document in collection:
            assert document.text is not None
            cosines = {hit.id: hit.similarity for hit in collection.search(document.text, 3)}
            np.testing.assert_allclose(cosines[document.id], 1, atol=1e-3)
    assert verify(path) == []
    assert not [*path.glob("work-*")]


def test_files_are_copied_without_the_turn(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = meanwhile(monkeypatch, lambda other, _: other.search("text 20"), times=1)
    assert compacted(path) == (10, [])
    assert turns == [False]
    check(path, {str(i) for i in range(10, 60)})


def test_compacting_restarts_if_others_change_the_index(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(other: Collection, _: int) -> None:
        other.add([Document("new", "text new"), Document("20", "another text")])
        other.delete(["30"])

    turns = meanwhile(monkeypatch, change, times=1)
    assert compacted(path) == (12, [AGAIN])
    assert turns == [False, False]
    check(path, {*map(str, range(10, 60)), "new"} - {"30"})


def test_the_third_attempt_makes_others_wait(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = meanwhile(monkeypatch, lambda other, n: other.delete([str(20 + n)]), times=2)
    assert compacted(path) == (12, [AGAIN, AGAIN])
    assert turns == [False, False, True]
    check(path, {*map(str, range(10, 60))} - {"21", "22"})


def test_compacting_ends_if_others_have_compacted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = meanwhile(monkeypatch, lambda other, n: n == 1 and other.compact(), times=1)
    assert compacted(path) == (0, [AGAIN])
    assert turns == [False, False]
    check(path, {*map(str, range(10, 60))})
