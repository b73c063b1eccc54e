"""Memory limit: a process that gets so many bytes and no more, pages of files among them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slimdex.indexes.errors import InputError

GROUPS = Path("/sys/fs/cgroup")
"""Where Linux has its control groups, of version 2."""


def check_groups(root: Path = GROUPS) -> None:
    """Raise `InputError` where this process can't limit another's memory."""
    enabled = root / "cgroup.subtree_control"
    if not enabled.is_file():
        raise InputError(f"{root}: no control groups of version 2; expected them, to limit memory")
    if "memory" not in enabled.read_text().split():
        raise InputError(f"{enabled} has no memory; expected the memory controller")
    if not os.access(root, os.W_OK):
        raise InputError(f"{root}: not ours to write to; expected to be root, to limit memory")


@contextmanager
def limited(process: int, most: int, root: Path = GROUPS) -> Iterator[None]:
    """A control group of its own for a process, by its number, that gets `most` bytes.

    Pages of files count, and are dropped for others when the limit is reached; memory of the
    process's own can't be, since nothing is swapped out, so that the system ends it. The process
    has to end before this does.

    Raises
    ------
    InputError
        If the system does not let it.
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
