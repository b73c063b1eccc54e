"""Control groups of Linux, by which the system limits the memory of processes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Self

from slimdex.errors import InputError

GROUPS = Path("/proc/self/cgroup")
MOUNTED = Path("/sys/fs/cgroup")


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


def place_of_groups(own_groups: str) -> tuple[Path, str]:
    r"""Return the folder of new groups, and the name of the file with a group's limit.

    `own_groups` is the text of /proc/self/cgroup.

    >>> place_of_groups("4:memory:/a/b\n1:cpu:/\n0::/a\n")
    (PosixPath('/sys/fs/cgroup/memory/a/b'), 'memory.limit_in_bytes')
    >>> place_of_groups("0::/user.slice/shell.scope\n")
    (PosixPath('/sys/fs/cgroup/user.slice'), 'memory.max')
    >>> place_of_groups("0::/\n")
    (PosixPath('/sys/fs/cgroup'), 'memory.max')
    """
    lines = (line.split(":", 2) for line in own_groups.splitlines())
    groups = {controllers: path.lstrip("/") for _, controllers, path in lines}
    if "memory" in groups:  # version 1
        return MOUNTED / "memory" / groups["memory"], "memory.limit_in_bytes"
    # Version 2 allows no limited group inside one that has processes.
    own = MOUNTED / groups.get("", "")
    return (own.parent if groups.get("") else own), "memory.max"
