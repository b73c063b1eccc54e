"""The default index: the one of a command line that names none, as `git` finds its repository."""

from __future__ import annotations

import os
from pathlib import Path

from slimdex.indexes.errors import InputError

FOLDER = ".slimdex"
VARIABLE = "SLIMDEX_INDEX"
EXPECTED = (
    f"an index's folder, {VARIABLE}, or a folder {FOLDER} here or above "
    "(`slimdex build SOURCE` makes one)"
)


def default_index() -> Path | None:
    """Return `SLIMDEX_INDEX`, or else the nearest `.slimdex` upwards; None without either.

    Raises `InputError` if the variable names a folder that is no index.
    """
    if given := os.environ.get(VARIABLE):
        if not is_index(given):
            raise InputError(f"{VARIABLE}={given}: no slimdex index there; expected one")
        return Path(given)
    if is_index(FOLDER):
        return Path(FOLDER)
    places = (above / FOLDER for above in Path.cwd().parents)
    return next((place for place in places if is_index(place)), None)


def new_index() -> Path:
    """Return the folder of a build that names none: `SLIMDEX_INDEX`, or `.slimdex` here."""
    return Path(os.environ.get(VARIABLE) or FOLDER)


def is_index(path: str | Path) -> bool:
    """True for the folder of an index."""
    from ... import atomic_files

    return atomic_files.is_index(path)
