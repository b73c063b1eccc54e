"""The index of commands that name none."""

from __future__ import annotations

import os
from pathlib import Path

from slimdex.indexes.errors import InputError

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
    if given := os.environ.get(INDEX_VARIABLE):
        if not is_index(given):
            raise InputError(f"{INDEX_VARIABLE}={given}: no slimdex index there; expected one")
        return Path(given)
    if is_index(INDEX_FOLDER):
        return Path(INDEX_FOLDER)
    places = (above / INDEX_FOLDER for above in Path.cwd().parents)
    return next((place for place in places if is_index(place)), None)


def new_index() -> Path:
    """Return the folder of a build that names none: `SLIMDEX_INDEX`, or `.slimdex` here."""
    return Path(os.environ.get(INDEX_VARIABLE) or INDEX_FOLDER)


def is_index(path: str | Path) -> bool:
    """True for the folder of an index."""
    from slimdex.retrieval import atomic_files

    return atomic_files.is_index(path)
