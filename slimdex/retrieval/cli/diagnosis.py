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

from slimdex.errors import SlimdexError
from slimdex.system.atomic_files import in_units, size
from slimdex.system.extras import install_command
from slimdex.system.locks import FileLock, network_kind
from slimdex.system.spare_threads import cores
from slimdex.system.user_cache import cache_folder

from ..store.work_folder import is_held, work_folders
from . import console

if TYPE_CHECKING:
    from ..store.manifest import Manifest

DEVELOPER_EXTRAS = {"test", "peers", "bench"}
"""Extras that users do not need."""
LEAST_FREE_MEMORY = 500_000_000
LEAST_FREE_DISK = 1_000_000_000
"""Bytes that should be free: for the default encoder, and for the weights and copies of models."""
REQUIREMENT = re.compile(r"""([\w.-]+)(?:[^;]*;.*extra == ["']([\w-]+)["'])?""")
"""A requirement in a package's metadata: the name, and the extra that it belongs to."""


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
    """Yield a finding about all required packages, and one about each extra for users."""
    # Collect the packages of each extra; "" stands for required ones. slimdex itself is skipped:
    # an extra that includes another one lists it.
    packages: dict[str, list[str]] = {}
    for line in requires("slimdex") or []:
        parts = REQUIREMENT.match(line)
        if parts and parts[1] != "slimdex":
            packages.setdefault(parts[2] or "", []).append(parts[1])

    # Report the required packages.
    missing = []
    installed = []
    for name in packages.pop(""):
        version = _version(name)
        if version is None:
            missing.append(name)
        else:
            installed.append(f"{name} {version}")
    remedy = f"{sys.executable} -m pip install {' '.join(missing)}" if missing else None
    lacks = f"; missing: {', '.join(missing)}" if missing else ""
    yield Finding("libraries", ", ".join(installed) + lacks, remedy)

    # Report each extra for users.
    for extra, names in packages.items():
        if extra not in DEVELOPER_EXTRAS:
            yield Finding(f"extra {extra}", _extra(extra, names))


def _extra(extra: str, names: list[str]) -> str:
    """Describe the packages of an extra, or name the missing ones and how to install them."""
    missing = [name for name in names if _version(name) is None]
    if not missing:
        return ", ".join(f"{name} {_version(name)}" for name in names[:3]) + (
            f" and {len(names) - 3} more" if len(names) > 3 else ""
        )
    lacks = "not installed" if len(missing) == len(names) else f"lacks {', '.join(missing)}"
    return f"{lacks}: {install_command(extra)}"


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
        threads = cores()
    except Exception as error:  # whatever a library says that can't be loaded
        remedy = f"{sys.executable} -m pip install --force-reinstall openvino"
        return Finding("processor", f"OpenVINO does not start: {error}", remedy)
    value = f"{platform.machine()}, {threads} threads; encoders run in {precision}"
    return Finding("processor", value)


def _memory() -> Iterator[Finding]:
    if _version("psutil") is None:
        return  # among the missing libraries
    import psutil  # may be missing

    memory = psutil.virtual_memory()
    is_short = memory.available < LEAST_FREE_MEMORY
    remedy = "close other programs, or use word vectors (`slimdex distill`)" if is_short else None
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

    free = shutil.disk_usage(existing).free
    used = size(folder)
    value = f"{folder}: {in_units(used)}, {in_units(free)} free on its disk{on_network(existing)}"
    remedy = f"free some space, or delete {folder}, which is made again"
    return Finding("cache", value, remedy if free < LEAST_FREE_DISK else None)


def on_network(path: Path) -> str:
    """Return a clause for a path on a network file system; "" if it is local or unknown."""
    if _version("psutil") is None:
        return ""
    kind = network_kind(path)
    return "" if kind is None else f", on a network file system ({kind})"


def index_findings(path: Path) -> Iterator[Finding]:
    """Yield findings about an index's folder; no segment is opened."""
    from ..store.manifest import Manifest  # loads numpy, which may be missing

    yield _place(path)
    is_held = FileLock(path, "writer").is_held()
    try:
        manifest = Manifest.read(path)
    except (OSError, SlimdexError) as error:
        yield Finding("newest commit", str(error), "restore the folder from a copy")
    else:
        yield _commit(path, manifest)
        yield from _documents(path, manifest)
    yield Finding("being changed", "by another process" if is_held else "by no process")
    yield from _leftovers(path)


def _place(path: Path) -> Finding:
    """Describe where an index is, its size and the room on its disk."""
    used = size(path)
    free = shutil.disk_usage(path).free
    value = f"{path}: {in_units(used)}, {in_units(free)} free on its disk"
    if not os.access(path, os.W_OK | os.X_OK):
        value += ", can only be read"
    network = on_network(path)
    if network:
        remedy = "move it to a local disk, or give --shared-filesystem if locks work there"
        return Finding("index", value + network, remedy)
    remedy = "free some space: a compaction needs room for a second copy"
    return Finding("index", value, remedy if free < used else None)


def _commit(path: Path, manifest: Manifest) -> Finding:
    """Describe the newest commit; advise compacting if most rows are deleted."""
    state = manifest.state
    value = (
        f"version {state.version}, {state.rows:,} rows, {len(manifest.deleted):,} of them deleted"
    )
    is_mostly_deleted = 2 * len(manifest.deleted) > state.rows
    remedy = console.shell_command("compact", path) if is_mostly_deleted else None
    return Finding("newest commit", value, remedy)


def _documents(path: Path, manifest: Manifest) -> Iterator[Finding]:
    """Yield findings about missing files, an unfinished addition and an unfinished migration."""
    from ..store.unfinished import progress_of  # loads numpy, as the manifest did

    # An index without rows may have no file of vectors yet.
    state = manifest.state
    names = state.file_names if state.rows else state.file_names - {state.vectors}
    missing = sorted(name for name in names if not (path / name).exists())
    if missing:
        value = f"{len(missing)} missing: {', '.join(missing)}"
        yield Finding("files", value, console.shell_command("repair", path))

    unfinished = progress_of(path, state)
    if unfinished:
        yield Finding("documents", unfinished)
    if state.replacement is not None:
        value = f"{state.replacement.rows:,} of {state.rows:,} rows are encoded again"
        yield Finding("migration", value, console.shell_command("migrate", path, "--continue"))


def _leftovers(path: Path) -> Iterator[Finding]:
    """Yield a finding if killed processes have left work folders in an index."""
    work = [folder for folder in work_folders(path) if not is_held(folder)]
    if work:
        value = f"{len(work)} left by killed processes, {in_units(sum(map(size, work)))}"
        yield Finding("work folders", value, "the next change removes them")
