"""The manifest: a committed state in a file that is small, whatever the number of documents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slimdex.errors import CorruptError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.store.manifest import Manifest
from slimdex.retrieval.store.row_flags import RowSets
from slimdex.retrieval.store.state import ColumnFile, LogFiles, State
from slimdex.system.index_names import MANIFEST
from tests.encoders import WordEncoder


def manifest(rows: int) -> Manifest:
    files = [ColumnFile("columns-000001.parquet", 1, "", 0, rows)] if rows else []
    log = LogFiles(blocks=rows)
    state = State({"type": "given"}, 4, Settings(), rows=rows, log=log, column_files=files)
    return Manifest(state, {"n": "BIGINT"})


def test_written_values_are_read_back(tmp_path: Path) -> None:
    manifest(0).with_new_name().write(tmp_path / MANIFEST)
    read = Manifest.read(tmp_path)
    read.write(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / MANIFEST).read_bytes()
    assert read.columns == {"n": "BIGINT"}


def test_a_manifest_of_a_million_rows_is_small(tmp_path: Path) -> None:
    manifest(1_000_000).write(tmp_path / MANIFEST)
    assert (tmp_path / MANIFEST).stat().st_size < 2500


def test_commits_are_compared_by_their_names(tmp_path: Path) -> None:
    """Whatever the number of rows."""
    one = manifest(0).with_new_name()
    other = manifest(0).with_new_name()
    one.write(tmp_path / MANIFEST)
    assert Manifest.read(tmp_path) == one
    assert one != other
    assert one.with_new_name(one.commits) != one
    assert replace(one, row_sets=RowSets(np.arange(20))) == one  # of which no more is looked at


def test_damage_is_found(tmp_path: Path) -> None:
    file = tmp_path / MANIFEST
    with pytest.raises(FileNotFoundError):
        Manifest.read(tmp_path)
    manifest(0).write(file)
    data = bytearray(file.read_bytes())
    for place in (0, len(data) // 2, len(data) - 1):
        data[place] ^= 4
        file.write_bytes(data)
        with pytest.raises(CorruptError):
            Manifest.read(tmp_path)
        data[place] ^= 4


def test_a_disk_that_fails_as_an_index_is_created_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, written = tmp_path / "x", Manifest.write

    def failing(self: Manifest, path: Path) -> None:
        monkeypatch.setattr(Manifest, "write", written)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Manifest, "write", failing)
    with pytest.raises(OSError, match="Input/output"):
        Collection.create(path, WordEncoder(4))
    assert [*tmp_path.iterdir()] == []
    with Collection.create(path, WordEncoder(4)) as collection:
        assert len(collection) == 0
