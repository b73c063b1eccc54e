"""The file of rows that manifests name, over many commits, against plain sets."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from slimdex.errors import CorruptError
from slimdex.indexes.arrays import Rows
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import writer
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.store import row_file
from slimdex.retrieval.store.manifest import Manifest
from slimdex.retrieval.store.row_file import ROWS
from slimdex.system.index_names import MANIFEST
from tests.chance import CHANCE
from tests.encoders import ReadingEncoder

LONG = " ".join(f"Sentence {i} of a longer text." for i in range(12))


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file after a few rows, so that small indexes have many."""
    monkeypatch.setattr(row_file, "LEAST_LATER", 6)
    monkeypatch.setattr(row_file, "MOST_CHANGED", 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x"


def documents(start: int, stop: int) -> list[Document]:
    """Some without text, some of several passages."""
    texts = (f"tea {n}" + n % 3 * LONG if n % 5 else "" for n in range(start, stop))
    return [Document(f"{n}", text) for n, text in enumerate(texts, start)]


def row_files(path: Path) -> list[str]:
    return sorted(each.name for each in path.glob("rows-*.bin"))


def assert_same(one: Manifest, other: Manifest) -> None:
    for name in ("deleted", "textless"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("firsts", "counts"):
        expected: Rows = getattr(other.document_rows, name)
        np.testing.assert_array_equal(getattr(one.document_rows, name), expected)
    np.testing.assert_array_equal(one.row_file.changed, other.row_file.changed)


def changes(collection: Collection, seed: int) -> Iterator[set[str]]:
    """Add, replace, delete and undo; yield the ids that there should be."""
    random = CHANCE.random("row file", seed)
    ids, before, count = set[str](), set[str](), 0
    for _ in range(14):
        kind = random.choice(["add", "add", "replace", "delete", "undo"]) if count else "add"
        if kind == "undo":
            collection.undo()
            yield before
            return
        if kind == "add" or len(ids) < 3:
            before = {*ids}
            size = random.choice([2, 3, 9])
            collection.add(documents(count, count + size))
            ids |= {str(n) for n in range(count, count + size)}
            count += size
        else:
            before = {*ids}
            some = random.sample(sorted(ids), 2)
            if kind == "replace":
                collection.add([Document(id, f"another {count} {LONG}") for id in some])
            else:
                collection.delete(some)
                ids -= {*some}
        yield ids


@pytest.mark.parametrize("seed", range(4))
def test_every_reader_sees_the_rows_of_each_commit(path: Path, seed: int) -> None:
    """One that has read all before, one that has read the first, and a new one."""
    encoder = ReadingEncoder()
    with Collection.create(path, encoder) as one, Collection.open(path, encoder) as other:
        first = before = Manifest.read(path)
        names = set[str]()
        for ids in changes(one, seed):
            own, read = one.index.snapshot.manifest, Manifest.read(path)
            assert {each.id for each in one} == {each.id for each in other} == ids
            for manifest in (own, Manifest.read(path, before=before)):
                assert_same(manifest, read)
            assert_same(Manifest.read(path, before=first), read)
            before = Manifest.read(path, before=before)
            names |= {read.state.files[ROWS].name} if ROWS in read.state.files else set()
        assert len(names) > 1
        assert one.verify() == []
        assert len(row_files(path)) <= 2  # and that of the state before, for `undo`
        copy = path.with_name("copy")
        one.copy_to(copy)
        assert row_files(copy) == row_files(path)
        assert verify(copy) == []
        assert_same(Manifest.read(copy), Manifest.read(path))
        one.compact()
        assert row_files(path) == []
        one.add(documents(900, 920))
        assert len(row_files(path)) == 1
    assert verify(path) == []
    with Collection.open(path, ReadingEncoder()) as collection:
        assert {each.id for each in collection} == ids | {str(n) for n in range(900, 920)}


def test_a_missing_or_damaged_file_is_an_error_and_memory_writes_it_again(path: Path) -> None:
    with Collection.create(path, ReadingEncoder()) as collection:
        collection.add(documents(0, 20))
        ids = {each.id for each in collection}
        (file,) = (path / name for name in row_files(path))
        data = file.read_bytes()
        for damage in (data[:-1], data[:9] + b"!" + data[10:], None):
            file.unlink()
            if damage is not None:
                file.write_bytes(damage)
            with pytest.raises(CorruptError, match=rf"{file.name}: .*restore it from a copy"):
                Manifest.read(path)
            assert any(file.name in fault for fault in collection.verify())
        writer.rebuild(collection.index)
        assert collection.verify() == verify(path) == []
        assert {each.id for each in collection} == ids


def test_a_reader_reads_again_if_others_commit_and_remove_the_file(
    path: Path, tmp_path: Path
) -> None:
    with Collection.create(path, ReadingEncoder()) as collection:
        collection.add(documents(0, 20))
        copy = Path(shutil.copytree(path, tmp_path / "copy"))
        for start in (20, 40):
            collection.add(documents(start, start + 20))
    older = (copy / MANIFEST).read_bytes()
    newer = (path / MANIFEST).read_bytes()
    (path / MANIFEST).write_bytes(older)
    read = Path.read_bytes

    def read_bytes(self: Path) -> bytes:
        data = read(self)
        if self.name == MANIFEST:  # which is replaced once it was read
            self.write_bytes(newer)
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", read_bytes)
        assert Manifest.read(path).state.rows > Manifest.read(copy).state.rows
