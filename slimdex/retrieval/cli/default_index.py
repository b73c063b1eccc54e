"""The index that a command's word names, and that of commands that name none."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from slimdex.errors import InputError, SlimdexError
from slimdex.system.index_names import is_index

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


def new_index() -> Path:
    """Return the folder of a build that names none: `SLIMDEX_INDEX`, or `.slimdex` here."""
    return Path(os.environ.get(INDEX_VARIABLE) or INDEX_FOLDER)


def index_of(path: str | Path) -> Path | None:
    """Return the index that a path names, or that of a folder of sources; None without one.

    That is the `.slimdex` in the folder, or one beside it that was built from it: `.slimdex`, or
    `FOLDER.index`.
    """
    if is_index(path):
        return Path(path)
    if not os.path.isdir(path):  # false for a word longer than a name
        return None
    inner = Path(path, INDEX_FOLDER)
    folder = Path(path).absolute()
    if is_index(inner):
        return inner
    for name in (INDEX_FOLDER, f"{folder.name}.index"):
        beside = Path(path).parent / name
        if is_index(beside) and _is_built_from(beside, folder):
            return beside
    return None


def _is_built_from(index: Path, folder: Path) -> bool:
    """Return whether a folder is a source of an index's build or last sync."""
    # Loads numpy and FAISS: only for a folder of sources that has an index beside it.
    from ..sources.source_request import last_sources
    from ..store.manifest import Manifest

    with suppress(OSError, SlimdexError):
        origins = Manifest.read(index).state.origins
        specs = last_sources(index, origins).specs
        return folder in [Path(spec).absolute() for spec in specs]
    return False
