"""Work folders: files of a change that is computed without the writer lock, until it is committed.

DuckDB, too, keeps in one what does not fit into its memory limit. The commits of others leave them
alone, and remove those that killed processes have left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from time import time

from slimdex.system.atomic_files import WORK, remove
from slimdex.system.locks import FileLock

OWNER = "owner"
"""Lock in a folder while its process lives."""
NEW_SECONDS = 60
"""A younger folder may not be locked yet."""
LEFT_SECONDS = 24 * 3600
"""DuckDB's folders have no lock: one that is so old is left."""


def new_work_folder(index: Path) -> Path:
    """Path of a folder in an index's folder, which does not exist yet."""
    return index / f"work-{token_hex(4)}"


@contextmanager
def work_folder(index: Path) -> Iterator[Path]:
    """Create a folder in an index's folder; at the end remove it, unless this is a fork."""
    process = os.getpid()
    work = new_work_folder(index)
    work.mkdir()
    try:
        with FileLock(work, OWNER).hold():
            yield work
    finally:
        if os.getpid() == process:  # a fork leaves the folder to its parent
            remove(work)


def remove_left_work(index: Path) -> None:
    """Remove the work folders in an index's folder that killed processes have left."""
    for path in index.glob("work-*"):
        with suppress(FileNotFoundError):  # its process has just removed it
            age = abs(time() - path.stat().st_mtime)  # also of a time in the future
            least = NEW_SECONDS if (path / f"{OWNER}.lock").exists() else LEFT_SECONDS
            if WORK.fullmatch(path.name) and age > least and not FileLock(path, OWNER).is_held():
                remove(path)
