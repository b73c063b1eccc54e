"""Fits are computed before their turn: others change the index meanwhile, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import fitting
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.store import index_files
from tests.encoders import WordEncoder

OTHER = Settings(k=8, kind="sq8", candidates=20)
NEW = [Document(f"new{i}", f"a new text {i}") for i in range(5)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Collection.create(tmp_path / "x", WordEncoder(), Settings(kind="flat", k=8)) as collection:
        collection.add([Document(str(i), f"text {i} of {i % 7}") for i in range(60)])
    return tmp_path / "x"


def meanwhile(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> list[int]:
    """Call a function during the first fit; returns the number of rows of each fit."""
    rows, encode_rows = list[int](), index_files.encode_rows

    def encoded(folder: Path, state: Any, *given: Any) -> Any:
        rows.append(state.rows)
        if len(rows) == 1:
            do()
        return encode_rows(folder, state, *given)

    monkeypatch.setattr(fitting, "encode_rows", encoded)
    return rows


def ids(collection: Collection) -> set[str]:
    return {hit.id for hit in collection.search("text new", limit=100, hybrid="off")}


def test_rows_that_others_add_during_a_fit_are_coded_with_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> None:
        with Collection.open(path, WordEncoder()) as other:
            other.add([*NEW, Document("3", "another text")])
            other.delete("4")
            assert [file.name[:5] for file in path.iterdir()].count("work-") == 1

    rows = meanwhile(monkeypatch, change)
    with Collection.open(path, WordEncoder()) as collection:
        notes = collection.reduce(OTHER)
        assert notes[-1] == "6 documents that others added during the fit are coded with it"
        assert rows == [60]
        state = collection.index.state
        assert state.settings is not None
        assert state.settings.kind == "sq8"
        assert (state.rows, state.fit and state.fit.rows, len(collection)) == (66, 60, 64)
        actual = ids(collection)
        assert actual == {*map(str, range(60)), *(new.id for new in NEW)} - {"4"}
    with Collection.open(path, WordEncoder()) as again:
        assert ids(again) == actual
    assert verify(path) == []
    assert not [*path.glob("work-*")]


def test_a_fit_restarts_if_others_renumber_the_rows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> None:
        with Collection.open(path, WordEncoder()) as other:
            other.delete([str(i) for i in range(10)])
            other.compact()

    rows = meanwhile(monkeypatch, change)
    with Collection.open(path, WordEncoder()) as collection:
        notes = collection.reduce(OTHER)
        assert notes[-1].startswith("others compacted, migrated or refitted the index")
        assert rows == [60, 50]
        assert ids(collection) == {str(i) for i in range(10, 60)}
    assert verify(path) == []
