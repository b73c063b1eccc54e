"""Memory limit of a process, including pages of files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slimdex.indexes.errors import InputError

GROUPS = Path("/sys/fs/cgroup")
"""Folder of Linux control groups, version 2."""


def check_groups(root: Path = GROUPS) -> None:
    """Raise `InputError` if this process can't limit another's memory."""
    enabled = root / "cgroup.subtree_control"
    if not enabled.is_file():
        raise InputError(f"{root}: no control groups of version 2; expected them, to limit memory")
    if "memory" not in enabled.read_text().split():
        raise InputError(f"{enabled} has no memory; expected the memory controller")
    if not os.access(root, os.W_OK):
        raise InputError(f"{root}: not ours to write to; expected to be root, to limit memory")


@contextmanager
def limited(process: int, most: int, root: Path = GROUPS) -> Iterator[None]:
    """Put a process, by its id, into a control group of its own that gets `most` bytes.

    Pages of files count; at the limit they are dropped for other data. The process's own memory
    can't be dropped without swap, so the system may end the process. The process must end before
    this context does.

    Raises `InputError` if the system does not allow it.
    """
    check_groups(root)
    group = root / f"slimdex-bench-{process}"
    try:
        group.mkdir()
        (group / "memory.max").write_text(str(most))
        with suppress(FileNotFoundError):  # a system without swap has no such file
            (group / "memory.swap.max").write_text("0")
        (group / "cgroup.procs").write_text(str(process))
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        raise InputError(f"{group}: {error.strerror}; expected to limit memory there") from error
    try:
        yield
    finally:
        with suppress(OSError):  # the system takes a moment to see that the process is gone
            group.rmdir()
