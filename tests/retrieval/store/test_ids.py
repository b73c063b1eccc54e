"""The file of ids, and those of later rows, against a dict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.errors import CorruptError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.repairing import repair, verify
from slimdex.retrieval.store import ids
from slimdex.retrieval.store.ids import NO_IDS, IdFile, hashes_of
from tests.chance import CHANCE
from tests.encoders import WordEncoder


@given(st.lists(st.lists(st.text(max_size=3)), max_size=4), st.lists(st.text(max_size=3)))
def test_a_file_finds_all_rows_of_ids(commits: list[list[str]], wanted: list[str]) -> None:
    file, every = NO_IDS, list[str]()
    for new in commits:
        rows = np.arange(len(every), len(every) + len(new))
        file = file.with_later(hashes_of(new), rows)
        every += new
    assert file.find(wanted).tolist() == [row for row, id in enumerate(every) if id in wanted]
    assert np.all(file.hashes[:-1] <= file.hashes[1:])


def test_a_file_that_is_read_back_is_the_same(tmp_path: Path) -> None:
    hashes = hashes_of([str(n) for n in range(100)])
    file = NO_IDS.with_later(hashes, np.arange(100))
    read = IdFile.read(tmp_path, file.write(tmp_path / "ids-000001.bin"))
    assert read.hashes.tolist() == file.hashes.tolist()
    assert read.rows.tolist() == file.rows.tolist()


@pytest.mark.parametrize("seed", range(2))
def test_every_reader_finds_documents_by_their_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """One that makes the changes, one that follows, one that has just come, and older snapshots."""
    monkeypatch.setattr(ids, "LEAST_LATER", 5)
    random = CHANCE.random("ids", seed)
    names = [f"d{n}" for n in range(40)]
    path, texts, count = tmp_path / "x", dict[str, str](), 0
    with Collection.create(path, WordEncoder(8)) as one, Collection.open(path) as other:
        one.add([Document(name, "word1") for name in names[:3]])
        texts = dict.fromkeys(names[:3], "word1")
        older = [(one.index.snapshot, {**texts})]
        before = dict[str, str]()
        for _ in range(10):
            kind = random.choice(["add", "add", "add", "delete", "undo", "compact"])
            some = random.sample(names, random.choice([1, 2, 9]))
            if kind == "undo" and before:
                one.undo()
                texts, before = before, {}
            elif kind == "add":
                before = {**texts}
                count += 1
                one.add([Document(name, f"word{count}") for name in some])
                texts |= dict.fromkeys(some, f"word{count}")
            elif kind == "delete" and len(texts) > len(some):
                before = {**texts}
                gone = [name for name in some if name in texts]
                assert one.delete(gone) == len(gone)
                texts = {name: text for name, text in texts.items() if name not in gone}
            else:
                one.compact()
                older.clear()
                before = {}
            older.append((one.index.snapshot.open(), {**texts}))
            with Collection.open(path) as new:
                for collection in (one, other, new):
                    assert {name for name in names if name in collection} == {*texts}
            for snapshot, expected in older:
                found = snapshot.store.rows_of_ids(names)
                assert found.keys() == expected.keys()
                documents = snapshot.store.documents([*found.values()])
                assert {each.id: each.text for each in documents.values()} == expected
        assert one.verify() == []
        one.add([Document(name, "word0") for name in names])
        assert one.index.state.id_rows == one.index.state.rows


def test_a_damaged_file_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "LEAST_LATER", 5)
    path = tmp_path / "x"
    with Collection.create(path, WordEncoder(8)) as collection:
        collection.add([Document(str(n), f"word{n}") for n in range(20)])
    (file,) = path.glob("ids-*")
    file.write_bytes(file.read_bytes()[::-1])
    with Collection.open(path) as collection, pytest.raises(CorruptError, match=file.name):
        collection.get("3")
    assert any(file.name in fault for fault in verify(path))
    assert repair(path)
    assert verify(path) == []
    with Collection.open(path) as collection:
        assert collection.get("3").text == "word3"
