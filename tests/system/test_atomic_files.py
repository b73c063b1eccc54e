"""New files and folders: whole or not there, whatever ends the process that writes them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slimdex.errors import CorruptError, InputError
from slimdex.system.atomic_files import publish, publish_file, publish_folder

WRITER = """
import sys, time
from pathlib import Path
from slimdex.system.atomic_files import publish_file, publish_folder

def write(new):
    (new / "part" if new.is_dir() else new).write_text("half")
    print("half", flush=True)
    time.sleep(600)

{0}(Path(sys.argv[1]), write)
"""
FILE, FOLDER = "publish_file", "publish_folder"
PUBLISH: dict[str, Callable[..., object]] = {FILE: publish_file, FOLDER: publish_folder}


def write(new: Path) -> int:
    """Fills a file or a folder."""
    (new / "part" if new.is_dir() else new).write_text("whole")
    return 7


def text(path: Path) -> str:
    return (path / "part" if path.is_dir() else path).read_text()


@pytest.mark.parametrize("name", PUBLISH)
def test_what_is_killed_leaves_nothing_by_that_name(name: str, tmp_path: Path) -> None:
    """And what it leaves by another is gone after the next, which gets through."""
    path = tmp_path / "a[1]"
    command = [sys.executable, "-c", WRITER.format(name), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        PUBLISH[name](tmp_path / "other", write)
        (half,) = tmp_path.glob(".*")
        assert text(half) == "half"
        process.kill()
    assert not path.exists()
    assert half.exists()
    assert PUBLISH[name](path, write) == 7
    assert text(path) == "whole"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["a[1]", "other"]


@pytest.mark.parametrize("name", PUBLISH)
def test_of_two_at_a_time_one_gets_the_name(name: str, tmp_path: Path) -> None:
    """The other one's work is not taken from under it."""

    def write_twice(new: Path) -> None:
        write(new)
        PUBLISH[name](tmp_path / "a", write)
        assert text(new) == "whole"

    with pytest.raises(InputError, match="a exists; expected a new "):
        PUBLISH[name](tmp_path / "a", write_twice)
    assert [found.name for found in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("name", PUBLISH)
def test_an_error_leaves_nothing(name: str, tmp_path: Path) -> None:
    def fail(new: Path) -> None:
        write(new)
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        PUBLISH[name](tmp_path / "a", fail)
    assert not [*tmp_path.iterdir()]


def test_a_file_of_another_size_is_damaged(tmp_path: Path) -> None:
    record = publish(tmp_path / "codes-000001.faiss", write)
    record.check(tmp_path)
    for content in ("whol", "whole and more", "WHOLE"):
        (tmp_path / record.name).write_text(content)
        with pytest.raises(CorruptError, match="damaged"):
            record.check(tmp_path)
        if len(content) != record.bytes:
            with pytest.raises(CorruptError, match=f"{len(content)} bytes, expected 5"):
                record.check_size(tmp_path)
