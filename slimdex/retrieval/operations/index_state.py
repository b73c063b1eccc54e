"""Diagnosis of an index: what its files and locks show without changing anything."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from slimdex.indexes.errors import SlimdexError

from ..atomic_files import in_units, size
from ..locks import FileLock
from ..storage.work_folder import is_held, resumable, work_folders
from .installation import Finding, on_network

if TYPE_CHECKING:
    from ..storage.manifest import Manifest


def index_findings(path: Path) -> Iterator[Finding]:
    """Yield findings about an index's folder; nothing in it is changed, and no segment opened."""
    from ..storage.manifest import Manifest

    yield _place(path)
    holder = FileLock(path, "writer").holder()
    try:
        manifest = Manifest.read(path)
    except (OSError, SlimdexError) as error:
        yield Finding("newest commit", str(error), "restore the folder from a copy")
    else:
        yield _commit(path, manifest)
        yield from _documents(path, manifest)
    yield Finding("being changed", holder or "by no process")
    yield from _left(path)


def _place(path: Path) -> Finding:
    used, free = size(path), shutil.disk_usage(path).free
    said = f"{path}: {in_units(used)}, {in_units(free)} free on its disk"
    if not os.access(path, os.W_OK | os.X_OK):
        said += ", can only be read"
    if network := on_network(path):
        remedy = "move it to a local disk, or give --shared-filesystem if locks work there"
        return Finding("index", said + network, remedy)
    remedy = "free some space: a compaction needs room for a second copy"
    return Finding("index", said, remedy if free < used else None)


def _commit(path: Path, manifest: Manifest) -> Finding:
    state = manifest.state
    said = (
        f"version {state.version}, {state.rows:,} rows, {len(manifest.deleted):,} of them deleted"
    )
    mostly_gone = 2 * len(manifest.deleted) > state.rows
    return Finding("newest commit", said, f"slimdex compact {path}" if mostly_gone else None)


def _documents(path: Path, manifest: Manifest) -> Iterator[Finding]:
    state = manifest.state
    if missing := sorted(name for name in state.file_names if not (path / name).exists()):
        said = f"{len(missing)} missing: {', '.join(missing)}"
        yield Finding("files", said, f"slimdex repair {path}")
    if state.replacement is not None:
        said = f"{state.replacement.rows:,} of {state.rows:,} rows are encoded again"
        yield Finding("migration", said, f"slimdex migrate {path} --continue")


def _left(path: Path) -> Iterator[Finding]:
    """Yield findings about the rest of killed processes, which the next change deals with."""
    work = [each for each in work_folders(path) if not is_held(each)]
    if encoded := [file for folder in work for file in resumable(folder)]:
        said = f"interrupted after {in_units(sum(map(size, encoded)))} of vectors were encoded"
        yield Finding("addition", said, "run the same command again")
    if work := [folder for folder in work if not resumable(folder)]:
        said = f"{len(work)} left by killed processes, {in_units(sum(map(size, work)))}"
        yield Finding("work folders", said, "the next change removes them")
