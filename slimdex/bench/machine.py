"""The machine: facts about it, limits of threads and of memory, and resident memory."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self

import psutil
from threadpoolctl import threadpool_limits

from slimdex.errors import InputError
from slimdex.system.threads import bind_threads

FLAGS = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
"""Processor flags that matter for speed: wide registers, products of int8 and bf16."""
LIBRARIES = ("slimdex", "numpy", "faiss-cpu", "torch", "transformers")
GROUPS = Path("/proc/self/cgroup")
MOUNTED = Path("/sys/fs/cgroup")
"""Control groups of Linux: those of this process, and where they are mounted."""
_PROCESSORS: Iterable[int] = (
    os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
)


@dataclass(frozen=True)
class Resident:
    """Bytes of this process in RAM.

    Attributes
    ----------
    private : pages that only the process can free; all of them on systems other than Linux.
    files : pages of mapped files, which the system may drop and read again.
    """

    private: int
    files: int

    @classmethod
    def now(cls, ignored: Path | None = None) -> Resident:
        """Measure, after collecting garbage and returning free memory to the system.

        Pages of the file `ignored`, such as the input of an index, are not counted.
        """
        gc.collect()
        if sys.platform != "linux":
            return cls(psutil.Process().memory_info().rss, 0)
        with suppress(OSError, AttributeError):  # other C libraries have no malloc_trim
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        maps = psutil.Process().memory_maps()
        private = 0
        files = 0
        for mapping in maps:
            private += mapping.anonymous
            if mapping.path != str(ignored):
                files += mapping.rss - mapping.anonymous
        return cls(private, files)

    def since(self, before: Resident) -> Resident:
        """Growth since an earlier measurement."""
        return Resident(self.private - before.private, self.files - before.files)


def peak_memory() -> int:
    """Maximum number of bytes that this process has had in RAM."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would also count the process that started it
        _, _, line = status.read_text().partition("VmHWM:")
        return int(line.split()[0]) * 1024
    import resource  # Windows has none

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def provenance(packages: Iterable[str] = ()) -> dict[str, Any]:
    """Facts for every row of a run, taken before it, so that its own load is not among them.

    Versions, processor, threads, load of the last minute, commit, and whether the checkout was
    clean.
    """
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for name in (*LIBRARIES, *packages):
        versions[name] = version_of(name)
    info = _cpuinfo()
    flags = info.get("flags", "").split()
    load = {"load": round(os.getloadavg()[0], 2)} if hasattr(os, "getloadavg") else {}
    return {
        "versions": versions,
        "processor": processor_name(info),
        "flags": " ".join(flag for flag in FLAGS if flag in flags),
        "threads": os.cpu_count(),
        **load,  # Windows has none
        "system": f"{platform.system()} {platform.machine()}",
        **_checkout(),
    }


def version_of(package: str) -> str | None:
    """Installed version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def not_installed(packages: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Map names to their missing packages, for names that lack some."""
    missing = {}
    for name, needed in packages.items():
        absent = [package for package in needed if version_of(package) is None]
        if absent:
            missing[name] = " ".join(absent)
    return missing


def limit_threads(threads: int | None) -> None:
    """Limit this process to a number of threads and processors; None for all.

    Limits of OpenMP and BLAS do not affect libraries with thread pools of their own (in Rust or
    C++), so all threads of the process are also bound to that number of processors.
    """
    available = sorted(_PROCESSORS)
    count = len(available) if threads is None else threads
    threadpool_limits(limits=count)
    bind_threads(set(available[:count]))


def processor_name(info: Mapping[str, str]) -> str:
    """Name of a processor with its family, model and stepping, since many share a name.

    `info` has the lines of /proc/cpuinfo. Without them it is the name that Python knows, which on
    Windows has these numbers too.

    >>> processor_name({"model name": "P", "cpu family": "6", "model": "143", "stepping": "8"})
    'P (family 6, model 143, stepping 8)'
    """
    kind = {"family": "cpu family", "model": "model", "stepping": "stepping"}
    numbers = []
    for word, line in kind.items():
        if line in info:
            numbers.append(f"{word} {info[line]}")
    name = info.get("model name") or platform.processor() or platform.machine()
    return f"{name} ({', '.join(numbers)})" if numbers else name


def _cpuinfo() -> dict[str, str]:
    """Lines of /proc/cpuinfo about the first processor; none on other systems."""
    info = Path("/proc/cpuinfo")
    first = info.read_text().partition("\n\n")[0] if info.exists() else ""
    values = {}
    for line in first.splitlines():
        name, _, value = line.partition(":")
        values[name.strip()] = value.strip()
    return values


def _checkout() -> dict[str, Any]:
    """Commit of this checkout, and whether its code is unchanged; None without git."""
    folder = Path(__file__).parents[2]

    def git(*words: str) -> str | None:
        result = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True)
        return result.stdout.strip() if result.returncode == 0 else None

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--", "*.py", "*.toml")
    except OSError:  # no git here
        commit = None
        changed = None
    return {"commit": commit, "clean": None if commit is None else not changed}


def mapped_memory(folder: Path) -> int:
    """Bytes of a folder's files that this process has mapped and in memory; 0 if unknown."""
    process = psutil.Process()
    if not hasattr(process, "memory_maps"):  # macOS
        return 0
    maps = process.memory_maps()
    return sum(mapping.rss for mapping in maps if mapping.path.startswith(f"{folder}/"))


class MemoryGroup:
    """A control group, which limits the memory of the processes in it; removed by `with`.

    Pages of files are counted unless they were in memory before. The system drops them to stay
    below the limit.

    Raises `InputError` if this process may not make one.
    """

    def __init__(self) -> None:
        try:
            parent, limit = place_of_groups(GROUPS.read_text())
            self.folder = Path(mkdtemp(prefix="slimdex-", dir=parent))
        except OSError as error:
            raise InputError(f"no control group can be made here: {error}") from error
        self._limit = self.folder / limit
        if not self._limit.exists():
            self.folder.rmdir()
            raise InputError(f"no control group can be made here: {parent} limits no memory")

    def limit(self, nbytes: int) -> None:
        """Limit the memory of the group's processes, or raise `InputError`.

        Version 2 of control groups may kill the processes instead of refusing.
        """
        try:
            self._limit.write_text(str(nbytes))
        except OSError as error:
            raise InputError(f"more than {nbytes:,} bytes are in use") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a process of a library may still be ending
            self.folder.rmdir()


def join(folder: Path) -> None:
    """Move this process into a group, which does not count the memory that it already has."""
    (folder / "cgroup.procs").write_text(str(os.getpid()))


def place_of_groups(membership: str) -> tuple[Path, str]:
    r"""Return the folder of new groups, and the name of the file with a group's limit.

    `membership` is the text of /proc/self/cgroup.

    >>> place_of_groups("4:memory:/a/b\n1:cpu:/\n0::/a\n")
    (PosixPath('/sys/fs/cgroup/memory/a/b'), 'memory.limit_in_bytes')
    >>> place_of_groups("0::/user.slice/shell.scope\n")
    (PosixPath('/sys/fs/cgroup/user.slice'), 'memory.max')
    >>> place_of_groups("0::/\n")
    (PosixPath('/sys/fs/cgroup'), 'memory.max')
    """
    groups = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        groups[controllers] = path.lstrip("/")
    if "memory" in groups:  # version 1
        return MOUNTED / "memory" / groups["memory"], "memory.limit_in_bytes"
    # Version 2 allows no limited group inside one that has processes.
    group = MOUNTED / groups.get("", "")
    return (group.parent if groups.get("") else group), "memory.max"
