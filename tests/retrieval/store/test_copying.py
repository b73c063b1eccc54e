"""Copies of an index: verified, and one of its committed states, whoever writes meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex import Collection, CorruptError, Document, InputError
from slimdex.system.index_names import MANIFEST
from tests.encoders import ReadingEncoder
from tests.retrieval.collection.test_restored import documents
from tests.slow import slow


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.index"
    with Collection.create(path, ReadingEncoder()) as collection:
        collection.add([Document("first", "the first one")])
    return path


def test_a_copy_has_the_files_of_the_manifest_alone(path: Path, tmp_path: Path) -> None:
    """With what follows their committed bytes, which is ignored; the copy can also be undone."""
    with Collection.open(path, ReadingEncoder()) as collection:
        collection.add(documents("x", 20))
        for name in (collection.index.state.vectors, collection.index.state.flags):
            with (path / name).open("ab") as file:
                file.write(b"of an addition that failed")
        (path / "codes-000099.faiss").write_bytes(b"left")
        (path / "README").write_text("not ours")
        assert collection.copy_to(tmp_path / "copy") == collection.version
        names = {MANIFEST, *collection.index.state.file_names}
    copy = tmp_path / "copy"
    assert {file.name for file in copy.iterdir()} == names
    assert (copy / MANIFEST).read_bytes() == (path / MANIFEST).read_bytes()
    with Collection.open(copy, ReadingEncoder()) as copied:
        assert copied.verify() == []
        copied.undo()
        assert [each.id for each in copied] == ["first"]
        copied.add(documents("y", 3))
        assert copied.verify() == []


@pytest.mark.parametrize(
    ("role", "damage"),
    [
        ("vectors", "flipped"),
        *slow([("documents", "flipped"), ("codes", "missing"), ("words", "flipped")]),
    ],
)
def test_a_damaged_index_has_no_copy(path: Path, tmp_path: Path, role: str, damage: str) -> None:
    with Collection.open(path, ReadingEncoder()) as collection:
        (file,) = path.glob(f"{role}-*")
        file = max(file.iterdir(), key=lambda part: part.stat().st_size) if file.is_dir() else file
        if damage == "missing":
            file.unlink()
        else:
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        with pytest.raises(CorruptError, match=f"x.index/{role}-") as raised:
            collection.copy_to(tmp_path / "copy")
    assert "\n" not in str(raised.value)
    assert str(tmp_path / ".copy") not in str(raised.value)
    assert [file.name for file in tmp_path.iterdir()] == ["x.index"]


def test_an_existing_target_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with Collection.open(path) as collection:
        for name in ("file", "folder", "link", "x.index"):
            with pytest.raises(InputError, match=f"{name} exists; expected a new folder"):
                collection.copy_to(tmp_path / name)
        with pytest.raises(InputError, match="no folder"):
            collection.copy_to(tmp_path / "none" / "copy")
    assert not any((tmp_path / "folder").iterdir())
