from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from indexes.errors import InputError
from retrieval.folder_lock import FolderLock


@contextmanager
def held(folder: Path, *, read_only: bool) -> Iterator[FolderLock]:
    lock = FolderLock(folder, read_only=read_only)
    try:
        lock.acquire()
        yield lock
    finally:
        lock.release()


def test_many_read_or_one_writes(tmp_path: Path) -> None:
    with held(tmp_path, read_only=True) as first, held(tmp_path, read_only=True):
        assert not first.is_alone()
        with pytest.raises(InputError, match=f"process {os.getpid()} is using it"):
            held(tmp_path, read_only=False).__enter__()
    with held(tmp_path, read_only=False):
        for read_only in (True, False, True):  # who is refused does not make us forget
            with pytest.raises(InputError, match="this process is writing to it"):
                held(tmp_path, read_only=read_only).__enter__()
    with held(tmp_path, read_only=False) as last:
        assert last.is_alone()
    assert not last.is_alive


def test_a_forked_child_does_not_let_go(tmp_path: Path) -> None:
    """It has the same lock, and runs its parent's finalizers if it ends as programs do."""
    with held(tmp_path, read_only=False) as lock:
        child = os.fork()
        if not child:
            lock.release()
            os._exit(0)
        os.waitpid(child, 0)
        with pytest.raises(InputError):
            held(tmp_path, read_only=True).__enter__()
