"""Row flags and deletions, over many commits, against plain sets."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.errors import CorruptError
from slimdex.indexes.arrays import Rows
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.repairing import repair, verify
from slimdex.retrieval.store.manifest import Manifest
from slimdex.retrieval.store.row_flags import CONTINUES, TEXTLESS, RowSets
from slimdex.system.index_names import MANIFEST
from tests.chance import CHANCE
from tests.encoders import ReadingEncoder

LONG = " ".join(f"Sentence {i} of a longer text." for i in range(12))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x"


def documents(start: int, stop: int) -> list[Document]:
    """Some without text, some of several passages."""
    texts = (f"tea {n}" + n % 3 * LONG if n % 5 else "" for n in range(start, stop))
    return [Document(f"{n}", text) for n, text in enumerate(texts, start)]


def assert_same(one: Manifest, other: Manifest) -> None:
    for name in ("deleted", "textless"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("firsts", "counts"):
        expected: Rows = getattr(other.document_rows, name)
        np.testing.assert_array_equal(getattr(one.document_rows, name), expected)


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
        for ids in changes(one, seed):
            own, read = one.index.snapshot.manifest, Manifest.read(path)
            assert {each.id for each in one} == {each.id for each in other} == ids
            for manifest in (own, Manifest.read(path, before=before)):
                assert_same(manifest, read)
            assert_same(Manifest.read(path, before=first), read)
            before = Manifest.read(path, before=before)
        assert one.verify() == []
        copy = path.with_name("copy")
        one.copy_to(copy)
        assert verify(copy) == []
        assert_same(Manifest.read(copy), Manifest.read(path))
        one.compact()
        assert_same(one.index.snapshot.manifest, Manifest.read(path))
        one.add(documents(900, 920))
    assert verify(path) == []
    with Collection.open(path, ReadingEncoder()) as collection:
        assert {each.id for each in collection} == ids | {str(n) for n in range(900, 920)}


@pytest.mark.parametrize("role", ["flags", "deletions"])
def test_a_missing_or_damaged_file_is_an_error(path: Path, role: str) -> None:
    with Collection.create(path, ReadingEncoder()) as collection:
        collection.add(documents(0, 20))
        collection.delete(["1", "2"])
        (file,) = path.glob(f"{role}-*")
        data = file.read_bytes()
        for damage in (data[:-1], None):
            file.unlink()
            if damage is not None:
                file.write_bytes(damage)
            with pytest.raises(CorruptError, match=file.name):
                Manifest.read(path)
            assert any(file.name in fault for fault in collection.verify())
        file.write_bytes(bytes([data[0] ^ 2]) + data[1:])
        assert any(file.name in fault for fault in collection.verify())
        with pytest.raises(CorruptError, match=file.name):
            repair(path)
        file.write_bytes(data)
        assert verify(path) == []


def test_a_copy_that_is_restored_shows_its_own_rows(path: Path) -> None:
    """Its files have the same names, and more rows than those that were read."""
    copy = path.with_name("copy")
    with Collection.create(path, ReadingEncoder()) as collection:
        collection.add(documents(0, 20))
        collection.copy_to(copy)
        collection.add(documents(20, 30))
        collection.delete(["3"])
        with Collection.open(copy, ReadingEncoder()) as other:
            other.delete(["5", "7", "8"])
            other.add(documents(40, 60))
            expected = {each.id for each in other}
        path.rename(path.with_name("old"))
        copy.rename(path)
        assert {each.id for each in collection} == expected
        assert_same(collection.index.snapshot.manifest, Manifest.read(path))


ROWS = st.lists(st.integers(1, 3), max_size=8)  # of each document
CHANGES = st.lists(st.tuples(ROWS, st.randoms(use_true_random=False)), max_size=5)


@given(CHANGES)
def test_appended_files_equal_plain_sets(changes: list[tuple[list[int], Random]]) -> None:
    """Each change adds documents, some without text, and deletes or restores some rows."""
    deleted, textless, continued, rows = set[int](), set[int](), set[int](), 0
    sets, flags, entries = RowSets(), b"", np.zeros(0, np.int64)
    for counts, random in changes:
        start = rows
        for count in counts:
            continued |= {*range(rows + 1, rows + count)}
            rows += count
        textless |= {row for row in range(start, rows) if random.random() < 0.3}
        gone = {row for row in range(rows) if row not in deleted and random.random() < 0.3}
        back = {row for row in deleted if random.random() < 0.3}
        deleted = (deleted | gone) - back
        new = np.array([CONTINUES * (row in continued) for row in range(start, rows)], np.uint8)
        new |= np.array([TEXTLESS * (row in textless) for row in range(start, rows)], np.uint8)
        more = np.array([*sorted(gone), *(~row for row in sorted(back))], np.int64)
        sets = sets.with_later(start, new, more)
        flags, entries = flags + new.tobytes(), np.append(entries, more)
    again = RowSets().with_later(0, np.frombuffer(flags, np.uint8), entries)
    for each in (sets, again):
        assert each.deleted.tolist() == sorted(deleted)
        assert each.textless.tolist() == sorted(textless)
        assert each.flags(0, rows) == flags


def test_a_reader_reads_again_if_others_commit_and_remove_the_file(
    path: Path, tmp_path: Path
) -> None:
    with Collection.create(path, ReadingEncoder()) as collection:
        collection.add(documents(0, 20))
        copy = Path(shutil.copytree(path, tmp_path / "copy"))
        collection.delete(["3"])
        collection.compact()
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
        assert Manifest.read(path).state.version > Manifest.read(copy).state.version
