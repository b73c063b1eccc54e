"""Work folder: files of a change that is computed before its turn, until they are committed.

It is locked while its process lives. The commits of others leave it alone, and remove the folders
that killed processes left.
"""

from __future__ import annotations

import os
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
                remove(path)
            _remove_lock(path)


def _remove_lock(work: Path) -> None:
    """Remove a folder of which Windows kept the lock, as it was open.

    Elsewhere a lock that is left is of a process that has just created the folder.
    """
    if os.name != "nt":
        return
    with suppress(OSError):
        for file in work.glob(f"{LOCK}.*"):
            file.unlink()
        work.rmdir()
