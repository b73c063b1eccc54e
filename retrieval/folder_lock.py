"""FolderLock: one process writes to a folder, alone, or any number of processes read it."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from weakref import finalize

from indexes.errors import InputError

_WRITING: set[Path] = set()
"""Folders that this process writes to, to tell the user so."""


class FolderLock:
    """A lock on a folder, to be acquired; it ends with its process, or with `release`.

    Parameters
    ----------
    read_only : whether it is shared with others who read.
    """

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        self._folder, self._is_shared = folder, read_only
        self._descriptor = os.open(folder, os.O_RDONLY)
        self._written = list[Path]()
        self.release = finalize(self, _let_go, self._descriptor, self._written, os.getpid())

    @property
    def is_alive(self) -> bool:
        """Whether it was not released yet."""
        return self.release.alive

    def acquire(self) -> None:
        """Take it, for the time of writing or reading.

        Raises
        ------
        InputError
            If others hold it.
        """
        if not self._takes(fcntl.LOCK_SH if self._is_shared else fcntl.LOCK_EX):
            raise self.in_use()
        if not self._is_shared and not self._written:
            self._written.append(self._folder.resolve())
            _WRITING.update(self._written)

    def is_alone(self) -> bool:
        """Take it alone for a moment, until `acquire`, if nobody else holds it."""
        return self._takes(fcntl.LOCK_EX)

    def _takes(self, mode: int) -> bool:
        try:
            fcntl.flock(self._descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def in_use(self) -> InputError:
        """What to tell who wants it, too."""
        if self._folder.resolve() in _WRITING:
            return InputError(f"{self._folder}: this process is writing to it; expected no writer")
        holder = _holder(self._folder)
        who = "this process, or another," if holder is None else f"process {holder}"
        return InputError(f"{self._folder}: {who} is using it; expected no other writer")


def _holder(folder: Path) -> int | None:
    """The process that has locked a folder, where the system tells; asking takes no lock."""
    with suppress(OSError, ValueError):
        inode = folder.stat().st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            _, kind, _, _, process, where, *_ = line.split()
            if kind == "FLOCK" and where.split(":")[-1] == str(inode) and int(process) > 0:
                return int(process)
    return None


def _let_go(descriptor: int, written: list[Path], process: int) -> None:
    """Unlock a folder; only the process that locked it does.

    To close it would not be enough: processes that were forked meanwhile have it open, too.
    """
    if os.getpid() == process:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
    _WRITING.difference_update(written)
