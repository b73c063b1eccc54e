"""Temporary files: in the system's folder or, where it has none, in that of an index.

In a container with a read-only root and one writable volume, no folder of the system is writable.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import gettempdir

from slimdex.indexes.errors import InputError

MEMORY = Path("/dev/shm")
"""Folder in memory, on Linux."""
_OFFERED: dict[Path, None] = {}


def offer(folder: Path) -> None:
    """Offer a folder for temporary files; it may be one that is about to be created."""
    _OFFERED[folder] = None


def temporary_parent(last: Path | None = None) -> Path:
    """Return the folder in which to create temporary files; `last` if no other is writable.

    Raises `InputError` if none is writable.
    """
    try:
        return Path(gettempdir())
    except FileNotFoundError as error:
        offered = (each if each.exists() else each.parent for each in _OFFERED)
        for folder in (*offered, MEMORY, last):
            if folder is not None and os.access(folder, os.W_OK):
                return folder
        raise InputError(
            "temporary files: no folder of the system is writable, and no index's; expected TMPDIR "
            "to name one that is"
        ) from error
