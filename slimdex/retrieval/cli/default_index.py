"""The index of commands that name none."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from slimdex.errors import InputError
from slimdex.system.index_names import is_index
from slimdex.system.locks import network_kind
from slimdex.system.user_cache import cache_folder

INDEX_FOLDER = ".slimdex"
INDEX_VARIABLE = "SLIMDEX_INDEX"
EXPECTED_INDEX = (
    f"an index's folder, {INDEX_VARIABLE}, or a folder {INDEX_FOLDER} here or above "
    "(`slimdex build SOURCE` makes one)"
)


def default_index() -> Path | None:
    """Return `SLIMDEX_INDEX`, or else the nearest `.slimdex` upwards; None without either.

    Raises `InputError` if the variable names a folder that is no index.
    """
    if folder := os.environ.get(INDEX_VARIABLE):
        if not is_index(folder):
            raise InputError(f"{INDEX_VARIABLE}={folder}: no slimdex index there; expected one")
        return Path(folder)
    if is_index(INDEX_FOLDER):
        return Path(INDEX_FOLDER)
    for folder_above in Path.cwd().parents:
        if is_index(folder_above / INDEX_FOLDER):
            return folder_above / INDEX_FOLDER
    return None


def index_of_folder(folder: Path) -> Path:
    """Return where a folder's index is, or will be: `.slimdex` in it, or in the user's cache.

    It is in the cache if this user can't change the folder, or it is on a network.
    """
    path = folder.absolute() / INDEX_FOLDER
    may_write = os.access(path if path.exists() else folder, os.W_OK)
    if may_write and network_kind(folder) is None:
        return path
    name = sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    return cache_folder() / f"folder-{name}"


def new_index() -> Path:
    """Return the folder of a build that names none: `SLIMDEX_INDEX`, or `.slimdex` here."""
    return Path(os.environ.get(INDEX_VARIABLE) or INDEX_FOLDER)
