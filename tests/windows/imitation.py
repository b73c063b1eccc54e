"""An imitation of Windows on Linux, as far as slimdex's own code could notice the difference.

It takes away what Windows lacks, and refuses what Windows refuses: to delete, rename or shorten a
file that any process has open or mapped, to open a folder as a file, to sync a file that may only
be read, and to open a file that DuckDB writes. C and Rust libraries call Linux as before.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any

MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "pty", "tty"}
NAMES = (
    *("fork", "forkpty", "register_at_fork", "pread", "pwrite", "preadv", "pwritev"),
    *("posix_fallocate", "mkfifo", "chown", "fchmod", "sched_getaffinity"),
    *("O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY"),
)
"""Names missing from `os` on Windows, except those that libraries need on Linux."""
WRITTEN_BY_DUCKDB = (".duckdb", ".wal")
OURS = "slimdex"
_TURN = RLock()
"""Held to open a file, and from asking whether one is open to changing it, as one step there."""


def imitate() -> None:
    """Change this process for good; run it in one that has nothing else to do."""
    import asyncio
    import concurrent.futures.thread
    import logging
    import random

    import duckdb
    import portalocker
    import psutil

    assert asyncio
    assert concurrent.futures.thread
    assert logging
    assert random
    assert duckdb
    assert portalocker
    assert psutil
    for name in NAMES:
        if hasattr(os, name):
            delattr(os, name)
    for module, name in ((socket, "AF_UNIX"), (signal, "setitimer")):
        delattr(module, name)
    _refuse_imports()
    _refuse_links()
    _refuse_changes()
    _refuse_opening()


def _refuse_imports() -> None:
    real = builtins.__import__

    def only_of_windows(name: str, globals: Any = None, *rest: Any, **named: Any) -> Any:
        if name in MODULES and str((globals or {}).get("__name__")).startswith(OURS):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, globals, *rest, **named)

    builtins.__import__ = only_of_windows


def _refuse_links() -> None:
    def refuse(old: Any, new: Any, *_: Any, **__: Any) -> None:  # error 1314, and 1 on FAT
        raise OSError(errno.EINVAL, "A required privilege is not held by the client", str(new))

    vars(os).update(symlink=refuse, link=refuse)


def _refuse_changes() -> None:
    vars(shutil).update(_use_fd_functions=False)
    real_access = os.access
    vars(os)["access"] = lambda path, *rest, **named: (
        not str(path).startswith("/dev") and real_access(path, *rest, **named)
    )
    for name, count in (("unlink", 1), ("remove", 1), ("rename", 2), ("replace", 2)):
        setattr(os, name, _guarded(getattr(os, name), count))
    os.truncate = _guarded(os.truncate, 1)
    real_rename = os.rename

    def rename(old: Any, new: Any) -> None:
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, "Cannot create a file that exists", str(new))
        real_rename(old, new)

    vars(os).update(rename=rename)


def _guarded(change: Callable[..., Any], count: int) -> Callable[..., Any]:
    def checked(*paths: Any, **named: Any) -> Any:
        of_system = sys._getframe(1).f_globals.get("__name__") == "tempfile"  # O_TEMPORARY there
        with _TURN:
            for path in () if of_system else map(os.fspath, paths[:count]):
                if isinstance(path, str) and (user := in_use(os.path.abspath(path))):
                    raise PermissionError(
                        errno.EACCES, f"The process {user} is using the file (WinError 32)", path
                    )
            return change(*paths, **named)

    return checked


def in_use(path: str) -> int | None:
    """Process of this group that has a file open or mapped, or one below it; None if none has."""
    if not os.path.lexists(path):
        return None
    path = os.path.realpath(path)
    for process in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.getpgid(int(process)) == os.getpgid(0) and any(
                each == path or each.startswith(f"{path}/") for each in _held_by(process)
            ):
                return int(process)
    return None


def _held_by(process: str) -> Iterator[str]:
    for number in os.listdir(f"/proc/{process}/fd"):
        with suppress(OSError):
            yield os.readlink(f"/proc/{process}/fd/{number}")
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        yield line.partition("/")[1] + line.partition("/")[2]


def _refuse_opening() -> None:
    real_open, real_os_open, real_sync = io.open, os.open, os.fsync

    def open_file(file: Any, *others: Any, **named: Any) -> Any:
        with _TURN:
            _check_duckdb(file)
            return real_open(file, *others, **named)

    def open_descriptor(path: Any, *others: Any, **named: Any) -> int:
        if isinstance(path, (str, Path)) and os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        with _TURN:
            _check_duckdb(path)
            return real_os_open(path, *others, **named)

    def sync(file: Any) -> None:
        number = file if isinstance(file, int) else file.fileno()
        assert stat.S_ISREG(os.fstat(number).st_mode)
        if _flags(number) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        real_sync(number)

    vars(builtins).update(open=open_file)
    vars(io).update(open=open_file)
    vars(os).update(open=open_descriptor, fsync=sync)


def _check_duckdb(file: Any) -> None:
    """Raise `PermissionError` for a file that this process writes, which only DuckDB does."""
    if not isinstance(file, (str, Path)) or not str(file).endswith(WRITTEN_BY_DUCKDB):
        return
    place = os.path.realpath(file)
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            is_it = os.readlink(f"/proc/self/fd/{number}") == place
            if is_it and _flags(int(number)) & os.O_ACCMODE != os.O_RDONLY:
                raise _Sharing(errno.EACCES, "sharing violation (WinError 32)", str(file))


class _Sharing(PermissionError):
    """Not suppressed with errors of descriptors that have just been closed."""


def _flags(number: int) -> int:
    with _raw(f"/proc/self/fdinfo/{number}") as file:
        return int(next(line for line in file if line.startswith("flags:")).split()[1], 8)


_raw = io.open
