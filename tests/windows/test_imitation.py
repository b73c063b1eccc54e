"""slimdex where Windows' rules hold, as `imitation` imitates them on Linux."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="imitates Windows by what Linux has"),
]
STARTED = f"""
import sys
sys.path.append({str(ROOT)!r})
from tests.windows.imitation import imitate
imitate()
"""
STORAGE = (
    "tests/indexes/vectors/test_vector_file.py",
    "tests/retrieval/store/test_work_folder.py",
    "tests/system/test_atomic_files.py",
    "tests/retrieval/store/test_store.py",
)
NOT_THERE = "fork or link or pipe or symlink or killed or checkpoint_that_failed"
"""Tests of what Windows lacks; of leftovers, which stay there; and one that calls `os.pwrite`."""

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs Python with these words, in a process whose children imitate Windows, too."""
    started = tmp_path / "started"
    started.mkdir()
    (started / "sitecustomize.py").write_text(STARTED)

    def call(*words: object, code: int = 0, folder: Path = tmp_path) -> str:
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(started)},
            capture_output=True,
            text=True,
            start_new_session=True,
        )
        assert done.returncode == code, done.stdout[-9000:] + done.stderr[-9000:]
        return done.stdout

    return call


REFUSED = """
import os, socket
import numpy as np
from pathlib import Path
def refused(action, *arguments):
    try:
        action(*arguments)
    except (OSError, AttributeError) as error:
        return type(error).__name__
mapped = np.memmap("rows", "u1", "w+", shape=4096)
print([refused(*each) for each in (
    (os.remove, "rows"), (os.replace, "other", "rows"), (os.truncate, "rows", 1),
    (os.open, ".", os.O_RDONLY), (os.link, "other", "new"), (Path("new").symlink_to, "other"),
    (getattr, os, "fork"), (getattr, socket, "AF_UNIX"), (os.fsync, os.open("other", os.O_RDONLY)),
)])
del mapped
print(refused(os.remove, "rows"))
"""


def test_it_refuses_what_windows_refuses(run: Run, tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    denied, gone = ["PermissionError"] * 4, ["AttributeError"] * 2
    first, last = run("-c", REFUSED).splitlines()
    assert first == str([*denied, "OSError", "OSError", *gone, "OSError"])
    assert last == "None"


def test_the_main_job(run: Run, tmp_path: Path, tiny_bert: Path) -> None:
    notes = tmp_path / "Notes"
    notes.mkdir()
    (notes / "Boiler.txt").write_bytes(b"The boiler heats water.\r\nIt is in the cellar.\r\n")
    (notes / "Rain.txt").write_bytes(b"Rain fell on the roof.\r\n")
    (tmp_path / "more.csv").write_bytes(b"id,text\r\nx,A cat sat on the mat\r\ny,Dogs bark\r\n")

    def slimdex(*words: object) -> Any:
        return json.loads(run("-m", "slimdex", *words, "--json"))

    def ids(query: str) -> set[str]:
        found = slimdex("search", "i", query, "-n", 9)
        return {hit["id"] for hit in found["queries"][0]["hits"]}

    built = slimdex("build", "Notes", "--out", "i", "--model", tiny_bert)
    assert built["documents"] == 2
    slimdex("add", "i", "more.csv")
    assert ids("boiler") == {"Boiler.txt", "Rain.txt", "x", "y"}
    slimdex("delete", "i", "y")
    (notes / "Rain.txt").unlink()
    (notes / "Snow.txt").write_bytes(b"Snow fell on the roof.\r\n")
    slimdex("sync", "i", "Notes")
    slimdex("compact", "i")
    slimdex("reduce", "i", "--kind", "fp16", "--k", 2)
    assert ids("roof") == {"Boiler.txt", "Snow.txt", "x"}
    run("-m", "slimdex", "verify", "i")
    next((tmp_path / "i").glob("codes-*")).write_bytes(b"damaged")
    run("-m", "slimdex", "repair", "i")
    run("-m", "slimdex", "verify", "i")
    assert ids("roof") == {"Boiler.txt", "Snow.txt", "x"}


def test_storage(run: Run, tmp_path: Path) -> None:
    options = ("-q", "-p", "no:cacheprovider", "--basetemp", tmp_path / "base")
    run("-m", "pytest", *options, *STORAGE, "-k", f"not ({NOT_THERE})", folder=ROOT)
