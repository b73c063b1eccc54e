"""Diagnosis of an installation: libraries, processor, memory and cache.

Works where libraries are missing, which are looked up and not imported.
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

from ..atomic_files import in_units, size
from ..extras import install_command
from ..user_cache import cache_folder

OF_DEVELOPERS = {"test", "peers", "bench"}
"""Extras that users do not need."""
LEAST_MEMORY, LEAST_DISK = 500_000_000, 1_000_000_000
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
    packages: dict[str, list[str]] = {}
    for line in requires("slimdex") or []:
        if (parts := REQUIREMENT.match(line)) and parts[1] != "slimdex":
            packages.setdefault(parts[2] or "", []).append(parts[1])
    missing = [name for name in packages[""] if _version(name) is None]
    found = [f"{name} {_version(name)}" for name in packages.pop("") if name not in missing]
    remedy = f"{sys.executable} -m pip install {' '.join(missing)}" if missing else None
    lacks = f"; missing: {', '.join(missing)}" if missing else ""
    yield Finding("libraries", ", ".join(found) + lacks, remedy)
    for extra, names in packages.items():
        if extra not in OF_DEVELOPERS:
            yield Finding(f"extra {extra}", _extra(extra, names))


def _extra(extra: str, names: list[str]) -> str:
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
        from ..encoders.runtimes.processor import cores, fast_precision

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
    import psutil

    found = psutil.virtual_memory()
    is_short = found.available < LEAST_MEMORY
    remedy = "close other programs, or use word vectors (`slimdex distill`)" if is_short else None
    said = f"{in_units(found.available)} of {in_units(found.total)} are free"
    yield Finding("memory", said, remedy)


def cache_finding() -> Finding:
    """Find out whether the cache's folder can be written, its size and the room on its disk."""
    folder = cache_folder()
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not os.access(there, os.W_OK | os.X_OK) or not there.is_dir():
        remedy = "set SLIMDEX_CACHE to a folder that you can write to"
        return Finding("cache", f"{folder}: can't be written", remedy)
    free, used = shutil.disk_usage(there).free, size(folder)
    said = f"{folder}: {in_units(used)}, {in_units(free)} free on its disk{on_network(there)}"
    remedy = f"free some space, or delete {folder}, which is made again"
    return Finding("cache", said, remedy if free < LEAST_DISK else None)


def on_network(path: Path) -> str:
    """Say that a path is on a network file system; empty for a local one, or if unknown."""
    if _version("psutil") is None:
        return ""
    from ..storage.network_filesystems import network_kind

    kind = network_kind(path)
    return "" if kind is None else f", on a network file system ({kind})"
