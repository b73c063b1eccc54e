from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from time import monotonic

import pytest

from slimdex.indexes.errors import InputError, InUseError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.atomic_files import CATALOG
from slimdex.retrieval.catalog.folder_lock import FolderLock, waiting
from slimdex.retrieval.collection import Collection
from tests.encoders import WordEncoder


@contextmanager
def held(folder: Path, *, read_only: bool) -> Iterator[FolderLock]:
    lock = FolderLock(folder, read_only=read_only)
    try:
        lock.acquire()
        yield lock
    finally:
        lock.release()


@contextmanager
def program(code: str) -> Iterator[subprocess.Popen[str]]:
    """Another process, once it has printed a line."""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def other(folder: Path, mode: str, seconds: float = 60) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the folder for some time."""
    code = (
        f"import fcntl, os, time\nfd = os.open({str(folder)!r}, os.O_RDONLY)\n"
        f"fcntl.flock(fd, fcntl.{mode}); print('on', flush=True); time.sleep({seconds})"
    )
    with program(code) as process:
        yield process


def test_many_read_or_one_writes(tmp_path: Path) -> None:
    with held(tmp_path, read_only=True) as first, held(tmp_path, read_only=True):
        assert not first.is_alone()
        with pytest.raises(
            InUseError, match="this process is reading it; to change it, no process may"
        ):
            held(tmp_path, read_only=False).__enter__()
    with held(tmp_path, read_only=False):
        for read_only in (True, False, True):  # who is refused does not make us forget
            with pytest.raises(InUseError, match="this process is writing to it"):
                held(tmp_path, read_only=read_only).__enter__()
    with held(tmp_path, read_only=False) as last:
        assert last.is_alone()
    assert not last.is_alive


def test_who_has_it_is_told_and_how(tmp_path: Path) -> None:
    with other(tmp_path, "LOCK_SH") as first, other(tmp_path, "LOCK_SH") as second:
        low, high = sorted((first.pid, second.pid))
        readers = rf"processes {low} and {high} are reading it; .* \(wait=30 waits for that"
        with pytest.raises(InUseError, match=readers):
            held(tmp_path, read_only=False).__enter__()
        with held(tmp_path, read_only=True):
            pass
    with other(tmp_path, "LOCK_EX") as writer:
        for read_only in (True, False):
            with pytest.raises(InUseError, match=f"process {writer.pid} is writing to it; "):
                held(tmp_path, read_only=read_only).__enter__()


@pytest.mark.slow
def test_waiting_ends_when_it_is_free(tmp_path: Path) -> None:
    with other(tmp_path, "LOCK_EX", seconds=1):
        start = monotonic()
        lock = FolderLock(tmp_path, read_only=False)
        waiting(60, lock.acquire)
        assert 0 < monotonic() - start < 50
        lock.release()
    tries = []

    def never() -> None:
        tries.append(1)
        raise InUseError("used")

    with pytest.raises(InUseError, match="used"):
        waiting(0.35, never)
    assert 2 <= len(tries) <= 5
    for wrong in (-1, float("nan")):
        with pytest.raises(InputError, match="expected 0 or more seconds"):
            waiting(wrong, never)


def test_a_program_that_opens_the_catalog_by_itself_is_named(tmp_path: Path) -> None:
    """DuckDB's own lock, which another program takes, is on the file and not on the folder."""
    path = tmp_path / "x"
    Collection.create(path, WordEncoder()).close()
    for read_only, verb in ((False, "writing to it"), (True, "reading it")):
        code = (
            f"import duckdb, sys\nc = duckdb.connect({str(path / CATALOG)!r}, "
            f"read_only={read_only})\nprint('on', flush=True); sys.stdin.read()"
        )
        with program(code) as process:
            with pytest.raises(InUseError, match=f"process {process.pid} is {verb}"):
                Collection.open(path)
            process.communicate("")
    Collection.open(path).close()


def test_a_forked_child_does_not_let_go(tmp_path: Path) -> None:
    """It has the same lock, and runs its parent's finalizers if it ends as programs do."""
    with held(tmp_path, read_only=False) as lock:
        child = os.fork()
        if not child:
            lock.release()
            os._exit(0)
        os.waitpid(child, 0)
        with pytest.raises(InUseError):
            held(tmp_path, read_only=True).__enter__()


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_folder_that_was_moved_is_read_on_and_not_changed(
    is_replaced: bool, tmp_path: Path
) -> None:
    """What is written by its name would go into the folder that has its place by now."""
    place, moved = tmp_path / "i", tmp_path / "moved"
    words = ("tea", "cake", "rain")
    with Collection.create(place, WordEncoder(), Settings(2, kind="flat")) as collection:
        collection.add([{"id": word, "text": f"{word} {word}"} for word in words])
    collection = Collection.open(place, encoder=WordEncoder())
    assert collection.search("tea")[0].id == "tea"
    place.rename(moved)
    if is_replaced:
        copytree(moved, place)
    changes: list[Callable[[], object]] = [
        lambda: collection.add([{"id": "new", "text": "new"}]),
        lambda: collection.delete(["tea"]),
        lambda: collection.reduce(Settings(1, kind="flat")),
        collection.compact,
    ]
    for change in changes:
        with pytest.raises(InputError, match=r"i was moved or replaced since it was opened; exp"):
            change()
    assert collection.search("cake")[0].id == "cake"
    assert collection.get("rain").text == "rain rain"
    collection.close()
    assert place.exists() == is_replaced
    for folder in (moved, place)[: 1 + is_replaced]:
        with Collection.open(folder, encoder=WordEncoder()) as again:
            assert ([*again], again.verify()) == ([*again.get([*words])], [])
