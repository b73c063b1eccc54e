"""Damage: derived files are derived again; of the log, all documents that can be read are saved."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from slimdex.errors import CorruptError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Part
from slimdex.retrieval.ingest.adding import add
from slimdex.retrieval.ingest.addition import Addition
from slimdex.retrieval.ingest.repairing import repair, verify
from slimdex.retrieval.store import next_commit
from tests.chance import CHANCE
from tests.encoders import ReadingEncoder

PLACE = "0" * 32


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files of columns: of texts that are cut, of wider types, and of origins; and a row."""
    cut = [
        Document(
            f"cut{i}",
            " ".join(f"Sentence {j} of word{i}." for j in range(i)),
            f"title {i}",
            parts=(Part(0, ("A",)), Part(20, ("A", "B"), 2)) if i % 2 else (),
            metadata={"n": i},
            origin=f"{PLACE}/{i}" if i % 3 else "",
        )
        for i in range(2, 12)
    ]
    wider = [Document(f"wide{i}", f"word{i}", metadata={"n": i / 2, "m": [i]}) for i in range(20)]
    more = [
        Document(f"more{i}", f"word{i}", metadata={"n": "iv", "m": {"a": i}}) for i in range(20)
    ]
    made = tmp_path / "x"
    with Collection.create(made, ReadingEncoder(), passages=16) as collection:
        with monkeypatch.context() as patch:
            patch.setattr(next_commit, "MOST_TRAILING", 0)
            for documents in (cut, wider, more):
                add(collection.index, Addition(documents))
        collection.delete(["cut3", "more7"])
        with collection.index.change() as change:
            change.origins = {0: f"{PLACE}/changed"}
            change.commit()
        collection.add([Document("late", "word5", metadata={"n": 5})])
        state = collection.index.state
        assert len(state.column_files) == 3
        assert state.column_rows == state.rows - 1
    return made


def told(collection: Collection) -> list[Any]:
    store = collection.index.store
    return [
        repr(store.fetch('FROM documents ORDER BY "row"')),
        [*map(repr, collection)],
        dict(store.columns),
        store.origins_of(range(collection.index.state.rows)),
        [
            each.id
            for each in collection.get(where="n IN ('5', '0.5', 'iv') OR text LIKE '%word5.'")
        ],
        [(hit.id, hit.start) for hit in collection.search("word5", limit=20)],
    ]


def opened(path: Path) -> list[Any]:
    with Collection.open(path, ReadingEncoder()) as collection:
        return told(collection)


def column_files(path: Path) -> list[Path]:
    with Collection.open(path) as collection:
        return [path / each.name for each in collection.index.state.column_files]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("damaged", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("is_missing", [True, False])
def test_columns_are_derived_again(path: Path, damaged: tuple[int, ...], is_missing: bool) -> None:
    expected = opened(path)
    files = [column_files(path)[number] for number in damaged]
    for file in files:
        if is_missing:
            file.unlink()
        else:
            flip(file, 900)
    faults = verify(path)
    assert [fault.partition(":")[0] for fault in faults] == [*map(str, files)]
    with Collection.open(path, ReadingEncoder()) as collection:
        assert len([*collection]) == len(collection)  # the log is whole
        with pytest.raises(CorruptError, match=files[0].name):
            collection.count("n = '5'")
    assert repair(path) == faults
    assert verify(path) == []
    with Collection.open(path, ReadingEncoder()) as collection:
        assert told(collection) == expected
        collection.add([Document("another", "word9")])
        collection.compact()
        assert verify(path) == []
    assert repair(path) == []


def test_every_flipped_byte_of_columns_is_detected(path: Path) -> None:
    """By `verify` and by the first condition."""
    file = column_files(path)[1]
    whole = file.read_bytes()
    for at in CHANCE.sample(range(len(whole)), 20):
        flip(file, at)
        assert len(verify(path)) == 1
        with Collection.open(path, ReadingEncoder()) as collection, pytest.raises(CorruptError):
            collection.count("id = 'late'")
        file.write_bytes(whole)


def test_columns_are_derived_again_while_others_read(path: Path) -> None:
    with Collection.open(path, ReadingEncoder()) as reader:
        expected = told(reader)
        for file in column_files(path):
            flip(file, 900)
        repair(path)
        assert told(reader) == expected


def with_long(path: Path) -> dict[str, str]:
    """Add a document that is most of the log to an index; return all ids and texts."""
    words = (f"{Random(i).getrandbits(99)}" for i in range(9000))
    with Collection.open(path, ReadingEncoder()) as collection:
        collection.add([Document("long", " ".join(words), metadata={"n": "long"})])
        collection.add([Document("last", "word5 of the last")])
        return {each.id: each.text for each in collection}


@pytest.mark.parametrize("is_flipped", [True, False])
def test_documents_that_can_be_read_are_saved(path: Path, is_flipped: bool) -> None:
    """Whatever else is damaged, and whether columns still know the id of the lost one."""
    texts = with_long(path)
    (log,) = path.glob("documents-*")
    flip(log, log.stat().st_size // 2)
    faults = verify(path)
    assert len(faults) == 1
    assert "'long'" in faults[0]
    with Collection.open(path, ReadingEncoder()) as collection:
        assert collection.get("cut2").text == texts["cut2"]
        with pytest.raises(CorruptError):
            collection.get("long")
    if is_flipped:
        for file in column_files(path):
            flip(file, 900)
    assert ("'long'" in repair(path)[0]) == (not is_flipped)
    assert verify(path) == []
    del texts["long"]
    with Collection.open(path, ReadingEncoder()) as collection:
        assert {each.id: each.text for each in collection} == texts
        assert collection.count("n = 'long'") == 0
        assert collection.count("n = '5'") == 3
        assert collection.get("cut5").parts == (Part(0, ("A",)), Part(20, ("A", "B"), 2))
        assert {hit.id for hit in collection.search("word5", limit=3)} <= texts.keys()
        assert collection.add([Document("long", "again")]).documents == 1
        collection.compact()
        assert verify(path) == []
    assert repair(path) == []


def test_damaged_places_of_documents_lose_none(path: Path) -> None:
    expected = opened(path)
    (offsets,) = path.glob("offsets-*")
    flip(offsets, offsets.stat().st_size // 2)
    faults = verify(path)
    assert [fault.partition(":")[0] for fault in faults] == [str(offsets)]
    with Collection.open(path, ReadingEncoder()) as reader:
        assert repair(path) == faults
        assert not offsets.exists()
        assert told(reader) == expected
    assert verify(path) == []
    assert opened(path) == expected


@pytest.mark.parametrize("name", ["documents-*", "offsets-*"])
def test_a_log_that_is_cut_can_not_be_repaired(path: Path, name: str) -> None:
    """Nothing is lost that was there."""
    (file,) = path.glob(name)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert len(verify(path)) == 1
    with pytest.raises(CorruptError):
        repair(path)
    file.write_bytes(whole)
    assert verify(path) == []
