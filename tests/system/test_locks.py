"""Locks between processes and threads: who waits, and for how long."""

from __future__ import annotations

import os
import signal
import threading
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from slimdex.errors import InputError, InUseError
from slimdex.system.locks import FileLock, check_wait, locking
from tests import forked
from tests.other_user import as_another_user


@pytest.fixture(autouse=True)
def _in_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another user may not pass the folders above."""
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o777)


def wait_until_wanted(folder: Path, name: str) -> None:
    """Wait until somebody holds the gate."""
    while True:
        try:
            with locking(folder / f"{name}.gate"):
                pass
        except InUseError:
            return
        time.sleep(0.001)


def test_one_holds_it(tmp_path: Path) -> None:
    lock = FileLock(tmp_path, "x")
    with lock.hold():
        assert lock.is_held()
        with pytest.raises(InUseError), lock.hold(0):
            pass
    assert not lock.is_held()
    with lock.hold(0):
        pass
    for wrong in (-1, float("nan")):
        with pytest.raises(InputError, match="expected 0 or more seconds"):
            check_wait(wrong)


def test_who_waits_goes_before_those_who_come_later(tmp_path: Path) -> None:
    lock, order = FileLock(tmp_path, "x"), list[str]()

    def write(name: str) -> None:
        with lock.hold():
            order.append(name)

    with lock.hold():
        first, second = (threading.Thread(target=write, args=(name,)) for name in ("1st", "2nd"))
        first.start()
        wait_until_wanted(tmp_path, "x")
        second.start()
        time.sleep(0.1)
        assert order == []
    first.join()
    second.join()
    assert order == ["1st", "2nd"]


def test_a_forked_child_does_not_let_go(tmp_path: Path) -> None:
    lock = FileLock(tmp_path, "x")
    with lock.hold():
        child = os.fork()
        if not child:  # pragma: no cover - another process
            os._exit(0)
        os.waitpid(child, 0)
        with pytest.raises(InUseError), lock.hold(0):
            pass


def hold_and_fork(folder: Path, held: Connection) -> None:
    with FileLock(folder, "x").hold(), locking(folder / "file"):
        child = os.fork()
        if not child:  # pragma: no cover - another process
            time.sleep(600)
        held.send(child)
        time.sleep(600)


def test_a_fork_does_not_keep_the_lock_of_a_killed_holder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    here, there = Pipe(duplex=False)
    process = forked.process(hold_and_fork, tmp_path, there)
    child = here.recv()
    try:
        with pytest.raises(InUseError), FileLock(tmp_path, "x").hold(0.1):
            pass
        process.kill()
        process.join()
        with FileLock(tmp_path, "x").hold(1), locking(tmp_path / "file"):
            os.kill(child, 0)  # it is still there
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("what is here stays")
    (tmp_path / "x.lock").symlink_to(outside)
    with (
        pytest.raises(InputError, match=r"x.lock: .*symbolic link.*; expected a file that this"),
        FileLock(tmp_path, "x").hold(),
    ):
        pass
    assert outside.read_text() == "what is here stays"


@pytest.mark.parametrize(("name", "kind"), [("x.lock", "forbidden"), ("x.gate", "a folder")])
def test_a_lock_that_cannot_be_opened_is_not_held(tmp_path: Path, name: str, kind: str) -> None:
    """Whoever may open it could hold it meanwhile."""
    lock = FileLock(tmp_path, "x")
    with lock.hold():
        pass
    (tmp_path / name).unlink()
    if kind == "a folder":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).touch(0)

    def take() -> str:
        try:
            with lock.hold(0):
                return "held"
        except InputError as error:
            return str(error)

    lock = FileLock(Path(), "x")
    line = as_another_user(take)
    assert line.startswith(f"{name}: ")
    assert line.endswith("; expected a file that this user may open, to lock it")
    assert not lock.is_held()  # as far as this user can see


def test_one_may_lock_what_one_may_only_read(tmp_path: Path) -> None:
    lock = FileLock(Path(), "x")
    with lock.hold():
        pass
    for file in tmp_path.iterdir():
        file.chmod(0o444)

    def take() -> str:
        try:
            with lock.hold(0):
                return "held"
        except InUseError as error:
            return str(error)

    assert as_another_user(take) == "held"
    with lock.hold():
        assert "another process" in as_another_user(take)


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no open file")
def test_who_waited_for_a_removed_file_locks_the_one_that_follows(tmp_path: Path) -> None:
    """Otherwise it and the next one would both hold it."""
    lock, is_held, may_end = FileLock(tmp_path, "files"), threading.Event(), threading.Event()

    def wait_for_it() -> None:
        with lock.hold():
            is_held.set()
            may_end.wait()

    waiting = threading.Thread(target=wait_for_it)
    with lock.hold():
        waiting.start()
        wait_until_wanted(tmp_path, "files")
        (tmp_path / "files.lock").unlink()
    try:
        assert is_held.wait(10)
        with pytest.raises(InUseError), lock.hold(0):
            pass
    finally:
        may_end.set()
        waiting.join()
