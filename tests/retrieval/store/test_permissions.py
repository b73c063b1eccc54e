"""Permissions: files as the umask says, and changes only by those who can take turns."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.repairing import verify
from tests.encoders import ReadingEncoder, WordEncoder
from tests.other_user import as_another_user


@pytest.fixture
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    try:
        yield request.param
    finally:
        os.umask(before)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can pass and write to."""
    folder = Path(tempfile.mkdtemp(prefix="slimdex-"))
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("umask", [0o002, 0o077], indirect=True)
def test_all_files_get_the_modes_of_the_umask(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "x.index"
    with Collection.create(path, ReadingEncoder(), Settings(k=4, kind="sq8")) as collection:
        texts = [f"word{i} and {i % 7} others of some text" for i in range(1100)]
        collection.add([Document(str(i), text) for i, text in enumerate([*texts, ""])])
        collection.add([Document("a", "one more word1"), Document("b", "")])
        collection.delete("7")
        collection.undo()
        collection.compact()
        collection.add([Document("c", "a last word2")])
    expected = {True: 0o777 & ~umask, False: 0o666 & ~umask}
    modes = {file: file.stat().st_mode for file in [path, *path.rglob("*")]}
    assert {file.name.split("-")[0] for file in modes} >= {
        *("x.index", "slimdex.manifest", "writer.lock", "writer.gate", "columns", "flags"),
        *("vectors", "norms", "documents", "offsets", "moments", "codes", "words"),
    }
    odd = {
        file.name: oct(mode)
        for file, mode in modes.items()
        if stat.S_IMODE(mode) != expected[stat.S_ISDIR(mode)]
    }
    assert not odd


def test_two_users_take_turns(open_folder: Path) -> None:
    """Files that both may write to are all that it takes."""
    path = open_folder / "x.index"
    before = os.umask(0)
    try:
        with Collection.create(path, WordEncoder()) as collection:
            collection.add([Document("a", "word1"), Document("b", "word2")])

            def change() -> str:
                with Collection.open(path, WordEncoder()) as mine:
                    mine.add([Document("c", "word3")])
                    mine.delete("a")
                    return str(len(mine))

            assert as_another_user(change) == "2"
            collection.add([Document("d", "word4")])
            assert sorted(document.id for document in collection) == ["b", "c", "d"]
            assert collection.verify() == []
    finally:
        os.umask(before)


def test_a_copy_takes_no_permission_to_write(open_folder: Path) -> None:
    path = open_folder / "x.index"
    with Collection.create(path, WordEncoder()) as collection:
        collection.add([Document("a", "word1"), Document("b", "word2")])
        for file in [*path.rglob("*"), path]:
            file.chmod(0o555 if file.is_dir() else 0o444)

        def copy() -> str:
            with Collection.open(path) as mine:
                return str(mine.copy_to(open_folder / "copy"))

        assert as_another_user(copy) == str(collection.version)
        for folder in [path, *path.glob("*/")]:  # which a plain user could not empty
            folder.chmod(0o755)
    assert verify(open_folder / "copy") == []
