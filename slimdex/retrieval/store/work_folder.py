"""Work folder: files of a change that is computed without the writer lock, until it is committed.

It is locked while its process lives. The commits of others leave it alone, and remove the folders
that killed processes left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from time import time

from slimdex.errors import InputError, InUseError
from slimdex.system.atomic_files import LOCK_TRIES, SPILL, WORK, remove
from slimdex.system.locks import FileLock

LOCK = "owner"
SPILL_SECONDS = 24 * 3600
"""Age after which a folder left by DuckDB is removed: its process must have been killed by then."""


@contextmanager
def work_folder(index: Path) -> Iterator[Path]:
    """Create a folder in an index's folder; at the end remove it, unless this is a fork."""
    for _ in range(LOCK_TRIES):
        work = index / f"work-{token_hex(4)}"
        work.mkdir()
        process = os.getpid()
        with FileLock(work, LOCK).hold():
            if not work.exists():  # removed as left by a killed process, before it was locked
                continue
            try:
                yield work
            finally:
                is_fork = os.getpid() != process  # which leaves the folder to its parent
                if not is_fork:
                    remove(work)
        if not is_fork:
            _remove_lock(work)
        return
    raise InUseError(f"{work}: another process has removed it; expected it to stay")


def remove_left_work(index: Path) -> None:
    """Remove the work folders in an index's folder whose processes have ended.

    Each is locked meanwhile: a process that has just created it would otherwise lock it after it
    was found unlocked, and lose its files.
    """
    for path in index.iterdir():
        if SPILL.fullmatch(path.name) and _age(path) > SPILL_SECONDS:
            remove(path)
    for path in work_folders(index):
        # One that its process has removed meanwhile is not there any more.
        with suppress(InUseError, InputError, FileNotFoundError):
            with ExitStack() as stack:
                if path.is_dir():
                    stack.enter_context(FileLock(path, LOCK).hold(0))
                lock = _lock_of(path)
                remove(path)

                # Windows keeps a lock that is open; one of another process is a different file.
                has_same_lock = lock is not None and lock == _lock_of(path)
            if has_same_lock:
                _remove_lock(path)


def work_folders(index: Path) -> list[Path]:
    """The work folders in an index's folder; none if that is gone."""
    return [path for path in index.glob("work-*") if WORK.fullmatch(path.name)]


def _age(path: Path) -> float:
    """Seconds since a file changed; also positive for a time in the future."""
    return abs(time() - path.stat().st_mtime)


def is_held(work: Path) -> bool:
    """True unless the process that made a work folder has ended."""
    return FileLock(work, LOCK).is_held()


def _lock_of(work: Path) -> tuple[int, int] | None:
    """Identify the file that locks a folder, by device and number; None if there is none.

    A process that has just created the folder again has locked another file.
    """
    try:
        status = (work / f"{LOCK}.lock").stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _remove_lock(work: Path) -> None:
    """Remove a folder whose lock Windows kept because it was open."""
    with suppress(OSError):
        for file in work.glob(f"{LOCK}.*"):
            file.unlink()
        work.rmdir()
