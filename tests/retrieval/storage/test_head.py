"""The head: a copy of the committed state that is small, whatever the number of documents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.catalog.passages_table import DocumentRows
from slimdex.retrieval.catalog.state import State
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.storage import head as heads
from slimdex.retrieval.storage.head import Head
from tests.chance import CHANCE
from tests.encoders import WordEncoder

ONE_EACH = DocumentRows(np.empty(0, np.int64), np.empty(0, np.int64))


def head(rows: int, deleted: list[int], textless: list[int], documents: DocumentRows) -> Head:
    state = State({"type": "given"}, 4, Settings(), rows=rows, staged=rows, encoded=rows)
    return Head(state, {"n": "BIGINT"}, np.array(deleted, int), np.array(textless, int), documents)


def random_rows(seed: int, rows: int) -> DocumentRows:
    random, firsts, counts, row = CHANCE.random("head", seed), list[int](), list[int](), 0
    while row < rows:
        count = random.choice([1, 1, 2, 3, 9])
        if 1 < count <= rows - row:
            firsts.append(row)
            counts.append(count)
        row += count
    return DocumentRows(np.array(firsts, int), np.array(counts, int))


@pytest.mark.parametrize("seed", range(8))
def test_written_values_are_read_back(tmp_path: Path, seed: int) -> None:
    random = CHANCE.random("sets", seed)
    some = [sorted(random.sample(range(200), random.choice([0, 1, 50, 200]))) for _ in range(2)]
    deleted, textless = some
    written = head(200, deleted, textless, random_rows(seed, 200))
    written.write(tmp_path)
    read = Head.read(tmp_path)
    assert read == written
    assert read is not None
    for name in ("deleted", "textless"):
        np.testing.assert_array_equal(getattr(read, name), getattr(written, name))
    for name in ("firsts", "counts"):
        expected = getattr(written.document_rows, name)
        np.testing.assert_array_equal(getattr(read.document_rows, name), expected)
    assert read.columns == {"n": "BIGINT"}


def test_a_million_rows_take_three_bits_each_at_most(tmp_path: Path) -> None:
    rows = 1_000_000
    documents = DocumentRows(np.arange(0, rows, 2), np.full(rows // 2, 2))
    full = head(rows, [*range(0, rows, 3)], [*range(1, rows, 3)], documents)
    for actual, most in ((full, 3 * rows // 8 + 2000), (head(rows, [], [], ONE_EACH), 2000)):
        actual.write(tmp_path)
        assert (tmp_path / "head.bin").stat().st_size < most
        assert Head.read(tmp_path) == actual


def test_damage_is_found(tmp_path: Path) -> None:
    assert Head.read(tmp_path) is None
    written = head(20, [1, 19], [2], random_rows(1, 20))
    written.write(tmp_path)
    file = tmp_path / "head.bin"
    data = bytearray(file.read_bytes())
    data[-1] ^= 4
    file.write_bytes(data)
    assert Head.read(tmp_path) is None
    replace(written, deleted=np.array([20])).write(tmp_path)  # beyond the last row
    assert Head.read(tmp_path) is None
    with pytest.raises(ValueError, match="row 0"):
        DocumentRows.of_continued(np.array([0, 2]))


def test_without_room_it_is_removed_durably(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power would otherwise bring back the head of an older commit."""
    actual = head(1, [], [], ONE_EACH)
    actual.write(tmp_path)
    durable = list[bool]()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(heads, "publish", full)
    monkeypatch.setattr(
        heads, "sync", lambda folder: durable.append(not (folder / "head.bin").exists())
    )
    actual.write(tmp_path)
    assert durable == [True]


def test_a_disk_that_fails_as_an_index_is_created_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the catalog in use, which would refuse the next attempt of this process."""
    path, written = tmp_path / "x", Head.write

    def failing(self: Head, folder: Path) -> None:
        monkeypatch.setattr(Head, "write", written)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Head, "write", failing)
    with pytest.raises(OSError, match="Input/output"):
        Collection.create(path, WordEncoder(4))
    assert [*tmp_path.iterdir()] == []
    with Collection.create(path, WordEncoder(4)) as collection:
        assert len(collection) == 0
