"""All documents are encoded again: old answers until the end, then those of a new index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.ingest import encode, fitting
from slimdex.retrieval.ingest.repairing import repair, verify
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.store import index_files
from tests.encoders import ReadingEncoder, WordEncoder

OLD, NEW = 24, 40
QUERIES = ["word3 text", "word17 one", "text of 4"]
Found = list[list[tuple[str, float]]]


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "LEAST_ROWS", 16)
    monkeypatch.setattr(encode, "FIRST_CHARACTERS", 1)
    monkeypatch.setattr(encode, "GROWTH", 1)
    monkeypatch.setattr(encode, "LEAST_CHARACTERS", 1)


def documents(start: int = 0, stop: int = 100) -> list[dict[str, str]]:
    return [{"id": str(i), "text": f"word{i} word{i % 7} text of {i}"} for i in range(start, stop)]


def found(collection: Collection) -> Found:
    hits = collection.search_many(QUERIES, 20, hybrid="off")
    return [[(hit.id, round(hit.score, 4)) for hit in own] for own in hits]


def expected(folder: Path, encoder: WordEncoder, texts: list[dict[str, str]]) -> Found:
    """The answers of an index that was built with the encoder."""
    with Collection.create(folder, encoder, settings=Settings(kind="flat")) as collection:
        collection.add(texts)
        return found(collection)


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Collection]:
    settings = Settings(kind="flat")
    with Collection.create(tmp_path / "i", WordEncoder(OLD), settings) as collection:
        collection.add(documents())
        yield collection


def test_the_result_equals_a_new_index(old: Collection, tmp_path: Path) -> None:
    before, new = found(old), WordEncoder(NEW)
    rows = []
    while not (run := old.reencode(new, minutes=0)).finished:
        rows.append(run.rows)
        assert found(old) == before
        replaced = old.index.state.replacement
        assert replaced is not None
        assert replaced.rows == run.rows
    assert rows == [16, 32, 48, 64, 80, 96, 100]
    assert run.total == 100
    assert len(new.encoded) == 100
    assert found(old) == expected(tmp_path / "other", WordEncoder(NEW), documents())
    assert old.index.state.dim == NEW
    assert old.index.state.encoder == new.spec()
    assert old.index.state.replacement is None
    assert [p.suffix for p in old.path.glob("vectors-*")] == [".f16"]
    assert old.verify() == []
    vectors = old.index.snapshot.vectors().take(np.arange(100))
    targets = new.encode([each["text"] for each in documents()])
    np.testing.assert_allclose(vectors, targets, rtol=1e-3, atol=1e-3)
    with pytest.raises(InputError, match="its vectors are this encoder's"):
        old.reencode(new)
    with pytest.raises(InputError, match="no migration to undo"):
        old.undo_migration()


def test_documents_can_change_during_the_migration(old: Collection, tmp_path: Path) -> None:
    new = WordEncoder(NEW)
    assert old.reencode(new, minutes=0).rows == 16
    assert old.reencode(minutes=0).rows == 32
    old.add([*documents(100, 130), {"id": "5", "text": "word5 of another text"}])
    old.delete(["3", "90"])
    assert old.info()["next_encoder"] == {"encoder": new.spec(), "encoded": 32, "of": 131}
    with pytest.raises(InputError, match="a migration is under way"):
        old.compact()
    assert old.verify() == []
    assert old.reencode(new, minutes=0).rows == 48
    assert old.delete(["120", "44"]) == 2
    run = old.reencode(new)
    assert (run.finished, run.rows) == (True, 131)
    kept = [each for each in documents(0, 130) if each["id"] not in {"3", "5", "90", "120", "44"}]
    kept.append({"id": "5", "text": "word5 of another text"})
    other = expected(tmp_path / "other", WordEncoder(NEW), kept)
    assert [[id for id, _ in own] for own in found(old)] == [[id for id, _ in own] for own in other]
    assert old.verify() == []
    with Collection.open(old.path, WordEncoder(NEW)) as again:
        assert found(again) == found(old)


def test_documents_that_others_change_during_the_fit(
    old: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_rows = index_files.encode_rows

    def fitted(*given: Any) -> object:
        made = encode_rows(*given)
        monkeypatch.setattr(fitting, "encode_rows", encode_rows)
        with Collection.open(old.path, WordEncoder(OLD)) as other:
            other.add(documents(100, 140))
            other.delete(["7"])
        return made

    monkeypatch.setattr(fitting, "encode_rows", fitted)
    assert old.reencode(WordEncoder(NEW)).finished
    assert not old.index.state.waits
    assert old.verify() == []
    ids = {hit.id for hit in old.search("text", 200, hybrid="off")}
    assert ids == {str(i) for i in range(140)} - {"7"}
    for i in (3, 99, 130):
        assert old.search(f"word{i} word{i % 7} text of {i}", 1, hybrid="off")[0].id == str(i)


def test_another_open_collection_follows_the_switch(old: Collection) -> None:
    """Its queries are encoded by the encoder of the current vectors."""
    with Collection.open(old.path, WordEncoder(OLD)) as other:
        other.index.encoders.give(WordEncoder(NEW))
        texts, epoch = ["word3 text"], other.index.state.epoch
        vectors = other.encoder.encode(texts)
        request = SearchRequest(texts=texts, vectors=vectors, epoch=epoch, hybrid="off")
        assert old.reencode(WordEncoder(NEW)).finished
        assert other.answer(request) == old.answer(request)  # encoded again
        assert other.answer(request)[0][0].id == "3"
        other.add({"id": "new", "text": "neverseen words"})
        assert old.search("neverseen", 1, hybrid="off")[0].id == "new"


def test_texts_encoded_before_the_switch_are_encoded_again(
    old: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An addition that waits for its turn while the vectors are replaced."""
    first = WordEncoder(OLD)
    with Collection.open(old.path, first) as other:
        other.index.encoders.give(WordEncoder(NEW))
        turn = other.index.turn

        def late() -> object:
            if old.index.state.dim == OLD:
                assert first.encoded[-1] == "neverseen words"
                assert old.reencode(WordEncoder(NEW)).finished
            return turn()

        monkeypatch.setattr(other.index, "turn", late)
        other.add({"id": "new", "text": "neverseen words"})
    assert old.search("neverseen", 1, hybrid="off")[0].id == "new"
    assert old.verify() == []


def test_searches_during_the_migration_are_consistent(old: Collection) -> None:
    """Threads that search all the time get the old answer or the new one."""
    before, stop = found(old), Event()

    def searched() -> list[Found]:
        with Collection.open(old.path, WordEncoder(OLD)) as other:
            other.index.encoders.give(WordEncoder(NEW))
            seen = [found(other)]
            while not stop.is_set():
                seen.append(found(other))
            return [*seen, found(other)]

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(searched) for _ in range(2)]
        assert old.reencode(WordEncoder(NEW)).finished
        stop.set()
        seen = [each.result() for each in running]
    after = found(old)
    for own in seen:
        assert own[0] == before
        assert own[-1] == after
        assert all(each in (before, after) for each in own)


def test_two_migrations_at_once(old: Collection, tmp_path: Path) -> None:
    def run(_: int) -> bool:
        with Collection.open(old.path, WordEncoder(OLD)) as other:
            return other.reencode(WordEncoder(NEW)).finished

    old.reencode(WordEncoder(NEW), minutes=0)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, range(2))) == [True, True]
    old.index.encoders.give(WordEncoder(NEW))
    assert found(old) == expected(tmp_path / "other", WordEncoder(NEW), documents())
    assert old.verify() == []


def test_undoing_during_the_migration(old: Collection) -> None:
    class Undoing(WordEncoder):
        def encode(self, texts: Sequence[str]) -> Matrix:
            with Collection.open(old.path, WordEncoder(OLD)) as other:
                other.undo_migration()
            return super().encode(texts)

    with pytest.raises(InputError, match="the migration was undone meanwhile"):
        old.reencode(Undoing(NEW))
    assert old.index.state.replacement is None


def test_undoing_before_the_end(old: Collection) -> None:
    before, state = found(old), old.index.state
    old.reencode(WordEncoder(NEW), minutes=0)
    with pytest.raises(InputError, match=r"are being encoded by .*40.*; expected that"):
        old.reencode(WordEncoder(NEW + 8))
    assert len(list(old.path.glob("vectors-*"))) == 2
    old.undo_migration()
    assert [path.name for path in old.path.glob("vectors-*")] == [state.vectors]
    assert found(old) == before
    assert old.index.state.replacement is None


def test_giving_up_a_migration_leaves_the_last_change_to_undo(old: Collection) -> None:
    before = found(old)
    old.reencode(WordEncoder(NEW), minutes=0)
    old.add(documents(100, 130))
    old.delete(["3", "90"])
    old.undo_migration()
    assert len([*old.path.glob("vectors-*")]) == 1
    assert old.undo().restored == 2
    assert old.undo().removed == 2
    old.delete([str(i) for i in range(100, 130)])
    old.undo()
    old.undo()
    assert "3" not in old
    old.add([document for document in documents() if document["id"] in {"3", "90"}])
    assert found(old) == before
    assert old.verify() == []


def test_damaged_new_vectors_are_dropped(old: Collection) -> None:
    old.reencode(WordEncoder(NEW), minutes=0)
    replaced, path = old.index.state.replacement, old.path
    assert replaced is not None
    old.close()
    file = path / replaced.vectors
    file.write_bytes(b"\xff" + file.read_bytes()[1:])
    fault = f"{file}: damaged in bytes 0 to {file.stat().st_size - 1}"
    assert verify(path) == [fault]
    assert repair(path) == [fault]
    assert verify(path) == []


def test_passages_are_encoded_below_their_headings(tmp_path: Path) -> None:
    """As by a new index: each passage has its title and headings before it."""

    class Other(ReadingEncoder):
        def spec(self) -> dict[str, Any]:
            return super().spec() | {"type": "other words"}

    def section(name: str) -> str:
        return f"## {name}\n\n" + " ".join(f"{name}{i} is said here." for i in range(9))

    folder = tmp_path / "notes"
    folder.mkdir()
    text = "# Heating\n\n" + "\n\n".join(map(section, ("Boiler", "Valve", "Pipe")))
    (folder / "house.md").write_text(text)
    with (
        Collection.create(tmp_path / "a", ReadingEncoder()) as moved,
        Collection.create(tmp_path / "b", Other()) as new,
    ):
        moved.sync(folder)
        moved.reencode(Other())
        new.sync(folder)
        rows = moved.index.state.rows
        assert rows > 3
        vectors, expected = (
            each.index.snapshot.vectors().take(np.arange(rows)) for each in (moved, new)
        )
        np.testing.assert_allclose(vectors, expected, atol=1e-3)
