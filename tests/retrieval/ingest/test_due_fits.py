"""Fits that are made again: after an undo, while others change settings, and if they fail."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import encode, fitting, undoing
from slimdex.retrieval.ingest.text_vectors import StoredTexts
from slimdex.retrieval.store import index_files
from tests.encoders import WordEncoder
from tests.retrieval.word_documents import documents


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An index of a hundred documents, which was reduced to four dimensions, then to eight."""
    with Collection.create(tmp_path / "i", WordEncoder(), Settings(k=4, kind="flat")) as collection:
        collection.add(documents(0, 100))
        collection.reduce(Settings(k=8, kind="flat"))
    return tmp_path / "i"


def opened(path: Path) -> Collection:
    return Collection.open(path, WordEncoder())


def more(collection: Collection) -> None:
    """An addition with a fit, which undoing makes again."""
    collection.add(documents(100, 120), refit="always")


def meanwhile(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """During the next fit, others reduce to six dimensions."""

    def fitted(*given: Any) -> Any:
        monkeypatch.setattr(fitting, "encode_rows", index_files.encode_rows)
        with opened(path) as other:
            other.reduce(Settings(k=6, kind="flat"))
        return index_files.encode_rows(*given)

    monkeypatch.setattr(fitting, "encode_rows", fitted)


def check_fit(collection: Collection, k: int) -> None:
    state = collection.index.state
    assert state.settings is not None
    assert (state.requested.k, state.settings.k, state.is_provisional) == (k, k, False)
    assert collection.search("word7 cat", 1, hybrid="off")[0].id == "7"
    assert collection.verify() == []


def test_a_fit_that_was_due_follows_what_others_request(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path) as collection:
        more(collection)
        meanwhile(monkeypatch, path)
        collection.undo()
        assert len(collection) == 100
        check_fit(collection, 6)


def test_undoing_a_fit_undoes_the_last_one_if_others_fit_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was of eight dimensions, which the one of others replaces."""
    with opened(path) as collection:
        meanwhile(monkeypatch, path)
        collection.undo()
        check_fit(collection, 8)


def test_undoing_a_fit_is_one_step(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that one who undoes again, after an interrupt, does not get the change back."""

    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    with opened(path) as collection:
        before = collection.version
        with monkeypatch.context() as patch:
            patch.setattr(fitting, "encode_rows", interrupted)
            with pytest.raises(KeyboardInterrupt):
                collection.undo()
        assert collection.version == before
        collection.undo()
        assert collection.version == before + 1
        check_fit(collection, 4)
        collection.undo()
        check_fit(collection, 8)


def test_an_undo_whose_fit_fails_is_done(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(index: object) -> list[str]:
        raise OSError("No space left on device")

    with opened(path) as collection:
        more(collection)
        with monkeypatch.context() as patch:
            patch.setattr(undoing, "finish_fit", full)
            assert collection.undo() == undoing.Undone(restored=0, removed=20)
        assert "goes on" in " ".join(collection.info()["notes"])
        assert collection.search("word7 cat", 1)[0].id == "7"
        collection.encode()
        check_fit(collection, 8)


def test_undoing_a_fit_by_the_same_settings_makes_none(path: Path) -> None:
    with opened(path) as collection:
        collection.reduce(Settings(k=8, kind="flat"))
        reducer = collection.index.state.reducer
        collection.undo()
        assert collection.index.state.reducer == reducer
        assert not collection.index.state.is_provisional


def test_nothing_waits_once_what_waited_is_undone(path: Path) -> None:
    with opened(path) as collection:
        collection.add(documents(100, 120), encode=False)
        collection.undo()
        assert collection.info()["notes"] == []
        collection.reduce(Settings(k=5, kind="flat"))
        assert collection.index.state.settings is not None
        assert collection.index.state.settings.k == 5
        collection.add(documents(100, 120))
        assert collection.search("word110 cat", 1)[0].id == "110"
        assert collection.verify() == []


def test_a_migration_of_nothing_ends_by_compaction(path: Path) -> None:
    with opened(path) as collection:
        collection.reencode(WordEncoder(40), minutes=0)
        collection.delete(where="true")
        assert collection.compact() == 100
        assert collection.index.state.replacement is None
        collection.add(documents(0, 20))
        assert collection.search("word7 cat", 1)[0].id == "7"
        assert collection.verify() == []


def test_texts_of_a_restored_copy_have_vectors_of_their_own(path: Path, tmp_path: Path) -> None:
    """The copy has as many rows, but others, in an epoch of the same number."""
    copy = shutil.copytree(path, tmp_path / "copy")
    with opened(path) as collection, opened(copy) as other:
        collection.add(Document("new", "apple pie"))
        other.add(Document("new", "zebra crossing"))
        snapshot = collection.index.snapshot
        rows = snapshot.store.rows_of(["new"])
        stored = StoredTexts.of(snapshot.store, rows)
        assert {*stored.vectors(snapshot, ["apple pie", "tea"])} == {"apple pie"}
        assert stored.vectors(other.index.snapshot, ["apple pie"]) == {}


def test_a_first_fit_that_was_interrupted_is_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its documents have vectors, but no reducer yet: words find them."""

    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    with Collection.create(tmp_path / "i", WordEncoder(), Settings(k=4, kind="flat")) as collection:
        with monkeypatch.context() as patch:
            patch.setattr(encode, "finish_fit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                collection.add(documents(0, 30))
        assert collection.search("word7 cat", 1)[0].id == "7"
        assert "goes on" in " ".join(collection.info()["notes"])
        assert collection.encode() == 0
        assert collection.info()["notes"] == []
        assert collection.search("word7 cat", 1, hybrid="off")[0].id == "7"
        assert collection.verify() == []
