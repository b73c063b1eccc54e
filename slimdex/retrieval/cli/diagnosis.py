"""Diagnosis of an installation and an index, which changes nothing.

That of the installation works where libraries are missing, which are looked up and not imported.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

from slimdex.errors import InputError, SlimdexError
from slimdex.system.atomic_files import in_units, size
from slimdex.system.extras import MODULES, require
from slimdex.system.locks import FileLock, network_kind
from slimdex.system.spare_threads import cores
from slimdex.system.user_cache import cache_folder

from . import console

if TYPE_CHECKING:
    from ..store.manifest import Manifest

LEAST_FREE_MEMORY = 500_000_000
LEAST_FREE_DISK = 1_000_000_000
"""Bytes that should be free: for the default encoder, and for the weights and copies of models."""


@dataclass(frozen=True)
class Finding:
    """Name and value of one fact and, if it is a problem, its remedy in one line."""

    name: str
    value: str
    remedy: str | None = None


def installation_findings() -> Iterator[Finding]:
    """Yield findings about Python, libraries, processor, memory and cache."""
    yield Finding("Python", f"{platform.python_version()} on {platform.platform()}")
    yield Finding("slimdex", f"{version('slimdex')} in {Path(__file__).parents[3]}")
    yield from _library_findings()
    yield _processor()
    yield from _memory()
    yield cache_finding()


def _library_findings() -> Iterator[Finding]:
    """Yield a finding about the required packages, and one about each extra for users."""
    lines = (line for line in requires("slimdex") or [] if "extra ==" not in line)
    names = [re.split(r"[^\w.-]", line)[0] for line in lines]
    missing = [name for name in names if _version(name) is None]
    remedy = f"{sys.executable} -m pip install {' '.join(missing)}" if missing else None
    versions = ", ".join(f"{name} {_version(name) or 'missing'}" for name in names)
    yield Finding("libraries", versions, remedy)
    for extra in MODULES:
        try:
            require("it", extra)
            yield Finding(f"extra {extra}", "installed")
        except InputError as error:
            yield Finding(f"extra {extra}", str(error))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> Finding:
    """Ask OpenVINO, which also shows that it starts here."""
    try:
        # Loads OpenVINO, which may be missing or not start.
        from ..encoders.runtimes.openvino_runtime import fast_precision

        precision = fast_precision()
    except Exception as error:  # whatever a library says that can't be loaded
        remedy = f"{sys.executable} -m pip install --force-reinstall openvino"
        return Finding("processor", f"OpenVINO does not start: {error}", remedy)
    value = f"{platform.machine()}, {cores()} threads; encoders run in {precision}"
    return Finding("processor", value)


def _memory() -> Iterator[Finding]:
    if _version("psutil") is None:
        return  # among the missing libraries
    import psutil  # may be missing

    memory = psutil.virtual_memory()
    is_short = memory.available < LEAST_FREE_MEMORY
    remedy = "close other programs, or use word vectors (`--fast`)" if is_short else None
    value = f"{in_units(memory.available)} of {in_units(memory.total)} are free"
    yield Finding("memory", value, remedy)


def cache_finding() -> Finding:
    """Find out whether the cache's folder can be written, its size and the room on its disk."""
    # The folder may not exist yet; it is created in its nearest existing parent.
    folder = cache_folder()
    paths = (folder, *folder.absolute().parents)
    existing = next(path for path in paths if path.exists())
    if not os.access(existing, os.W_OK | os.X_OK) or not existing.is_dir():
        remedy = "set SLIMDEX_CACHE to a folder that you can write to"
        return Finding("cache", f"{folder}: can't be written", remedy)
    is_full = shutil.disk_usage(existing).free < LEAST_FREE_DISK
    remedy = f"free some space, or delete {folder}, which is made again"
    return Finding("cache", _room(folder, existing), remedy if is_full else None)


def _room(folder: Path, existing: Path) -> str:
    """Describe the size of a folder, and the disk of an existing folder that it is in."""
    free = shutil.disk_usage(existing).free
    kind = network_kind(existing) if _version("psutil") else None
    network = f", on a network file system ({kind})" if kind else ""
    return f"{folder}: {in_units(size(folder))}, {in_units(free)} free on its disk{network}"


def index_findings(path: Path) -> Iterator[Finding]:
    """Yield findings about an index's folder; no file of it is opened."""
    from ..store.manifest import Manifest  # loads numpy, which may be missing

    remedy = "free some space: a compaction needs room for a second copy"
    is_full = shutil.disk_usage(path).free < size(path)
    yield Finding("index", _room(path, path), remedy if is_full else None)
    is_locked = FileLock(path, "writer").is_held()
    try:
        manifest = Manifest.read(path)
    except (OSError, SlimdexError) as error:
        yield Finding("newest commit", str(error), "restore the folder from a copy")
    else:
        yield from _commit(path, manifest)
    yield Finding("being changed", "by another process" if is_locked else "by no process")


def _commit(path: Path, manifest: Manifest) -> Iterator[Finding]:
    """Yield findings about the newest commit: deleted rows and missing files."""
    state = manifest.state
    deleted = len(manifest.deleted)
    compact = console.shell_command("compact", path)
    yield Finding(
        "newest commit",
        f"version {state.version}, {state.rows:,} rows, {deleted:,} of them deleted",
        compact if 2 * deleted > state.rows else None,
    )

    # An index without rows may have no file of vectors yet.
    names = state.file_names
    missing = sorted(name for name in names if not (path / name).exists())
    if missing:
        value = f"{len(missing)} missing: {', '.join(missing)}"
        yield Finding("files", value, console.shell_command("repair", path))
