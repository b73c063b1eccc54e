"""Diagnosis of an index: what its files and locks show without changing anything."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..atomic_files import CATALOG, WORK, size
from ..locks import FileLock
from .installation import Finding, in_units, on_network

if TYPE_CHECKING:
    from ..storage.head import Head

SIDES = (f"{CATALOG}.journal", f"{CATALOG}.wal")
"""Files beside the catalog while a commit is under way, or after it was interrupted."""
OWNER = "owner"
"""Lock of a work folder."""


def index_findings(path: Path) -> Iterator[Finding]:
    """Yield findings about an index's folder; nothing in it is changed, and no catalog opened."""
    from ..storage.head import Head

    yield _place(path)
    holder = FileLock(path, "writer").holder()
    if (head := Head.read(path)) is None:
        said = "no record of the newest commit, which is read from the catalog"
        yield Finding("newest commit", said, f"slimdex verify {path}")
    else:
        yield _commit(path, head)
        yield from _documents(path, head)
    yield Finding("being changed", holder or "by no process")
    yield from _left(path, is_changing=holder is not None)


def _is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK | os.X_OK)


def _place(path: Path) -> Finding:
    used, free = size(path), shutil.disk_usage(path).free
    said = f"{path}: {in_units(used)}, {in_units(free)} free on its disk"
    if not _is_writable(path):
        said += ", can only be read"
    if network := on_network(path):
        remedy = "move it to a local disk, or give --shared-filesystem if locks work there"
        return Finding("index", said + network, remedy)
    remedy = "free some space: a compaction needs room for a second copy"
    return Finding("index", said, remedy if free < used else None)


def _commit(path: Path, head: Head) -> Finding:
    state = head.state
    said = f"version {state.version}, {state.rows:,} rows, {len(head.deleted):,} of them deleted"
    mostly_gone = 2 * len(head.deleted) > state.rows
    return Finding("newest commit", said, f"slimdex compact {path}" if mostly_gone else None)


def _documents(path: Path, head: Head) -> Iterator[Finding]:
    state = head.state
    if missing := sorted(name for name in state.file_names if not (path / name).exists()):
        said = f"{len(missing)} missing: {', '.join(missing)}"
        yield Finding("files", said, f"slimdex repair {path}")
    if state.unfinished:
        said = f"unfinished: {state.encoded - state.rows:,} of {state.staged - state.rows:,} rows"
        yield Finding("addition", f"{said} are encoded", "run the same command again")
    if state.replacement is not None:
        said = f"{state.replacement.rows:,} of {state.rows:,} rows are encoded again"
        yield Finding("migration", said, f"slimdex migrate {path} --continue")


def _left(path: Path, *, is_changing: bool) -> Iterator[Finding]:
    """Yield findings about the rest of killed processes, which the next change deals with."""
    if not is_changing and (found := [name for name in SIDES if (path / name).exists()]):
        said = f"interrupted: {', '.join(found)}; the next command finishes or drops it"
        yield Finding("commit", said, f"slimdex info {path}")
    work = [each for each in path.iterdir() if WORK.fullmatch(each.name) and _is_left(each)]
    if work:
        said = f"{len(work)} left by killed processes, {in_units(sum(map(size, work)))}"
        yield Finding("work folders", said, "the next change removes them")


def _is_left(folder: Path) -> bool:
    """True if the process that made a work folder has ended."""
    return FileLock(folder, OWNER).holder() is None
