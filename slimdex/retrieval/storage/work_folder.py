"""Work folder: files of a change that is computed before its turn, until they are committed.

It is locked while its process lives. The commits of others leave it alone, and remove the folders
that killed processes left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from slimdex.indexes.errors import InUseError

from ..atomic_files import WORK, remove
from ..locks import FileLock

LOCK = "owner"


@contextmanager
def work_folder(index: Path) -> Iterator[Path]:
    """Create a folder in an index's folder, and remove it at the end."""
    while True:
        work = index / f"work-{token_hex(4)}"
        work.mkdir()
        with FileLock(work, LOCK).held():
            if not work.exists():  # removed as left by a killed process, before it was locked
                continue
            try:
                yield work
            finally:
                remove(work)
        _remove_lock(work)
        return


def remove_left_work(index: Path) -> None:
    """Remove the work folders in an index's folder whose processes have ended.

    Each is locked meanwhile: a process that has just created it would otherwise lock it after it
    was found unlocked, and lose its files.
    """
    for path in [path for path in index.iterdir() if WORK.fullmatch(path.name)]:
        with suppress(InUseError):
            with ExitStack() as stack:
                if path.is_dir():
                    stack.enter_context(FileLock(path, LOCK).held(0))
                lock = _lock_of(path)
                remove(path)
                is_kept = lock is not None and lock == _lock_of(path)
            if is_kept:
                _remove_lock(path)


def _lock_of(work: Path) -> tuple[int, int] | None:
    """Which file locks a folder: one that its process has just created is another."""
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
