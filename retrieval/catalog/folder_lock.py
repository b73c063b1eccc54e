"""FolderLock: one process writes to a folder, or any number of processes read it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar
from weakref import finalize

from slimdex.indexes.errors import InputError, InUseError

T = TypeVar("T")
POLL_SECONDS = 0.1
"""Time between two attempts to lock."""
ADVICE = "wait=30 waits for that"
_WRITING: set[Path] = set()
"""Folders that this process writes to, for error messages."""


class FolderLock:
    """A lock on a folder; it ends with its process or with `release`.

    With `read_only`, the lock is shared with other readers.
    """

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        self._folder, self._is_shared = folder, read_only
        self._descriptor = os.open(folder, os.O_RDONLY)
        self._written = list[Path]()
        self.release = finalize(self, _let_go, self._descriptor, self._written, os.getpid())

    @property
    def is_alive(self) -> bool:
        """True until released."""
        return self.release.alive

    def acquire(self) -> None:
        """Lock for reading or writing; raises `InUseError` if another process holds the lock."""
        if not self._takes(fcntl.LOCK_SH if self._is_shared else fcntl.LOCK_EX):
            raise self.in_use()
        if not self._is_shared and not self._written:
            self._written.append(self._folder.resolve())
            _WRITING.update(self._written)

    def is_alone(self) -> bool:
        """Try to lock exclusively until `acquire`; return False if others hold the lock."""
        return self._takes(fcntl.LOCK_EX)

    def check_place(self) -> None:
        """Raise `InputError` if the folder was moved or replaced: writes would go elsewhere."""
        with suppress(FileNotFoundError, NotADirectoryError):
            if os.path.samestat(os.fstat(self._descriptor), self._folder.stat()):
                return
        raise InputError(
            f"{self._folder} was moved or replaced since it was opened; expected the same folder "
            "(open the index again where it is now)"
        )

    def _takes(self, mode: int) -> bool:
        try:
            fcntl.flock(self._descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def in_use(self, file: Path | None = None) -> InUseError:
        """Error for a lock held by others.

        `file` is the file that DuckDB could not lock, if that failed.
        """
        if file is None and self._folder.resolve() in _WRITING:
            return InUseError(
                f"{self._folder}: this process is writing to it; expected no writer (close() the "
                "collection that is open, or open it in a `with`)"
            )
        held = _holders(self._folder, "FLOCK") if file is None else _holders(file, "POSIX")
        writers, readers = held.get("WRITE", []), held.get("READ", [])
        if self._is_shared or writers:
            said = f"{_named(writers)} writing to it; expected no writer"
        elif readers:
            said = f"{_named(readers)} reading it; to change it, no process may have it open"
        else:
            said = "another process is using it; expected no other"
        advice = "" if [os.getpid()] in (writers, readers) else f" ({ADVICE})"
        return InUseError(f"{self._folder}: {said}{advice}")


def waiting(seconds: float, take: Callable[[], T]) -> T:
    """Call `take`, retrying for some seconds while others hold the folder.

    Raises `InUseError` if they still hold it, and `InputError` if `seconds` is negative or NaN.
    """
    if not seconds >= 0:  # also refuses NaN
        raise InputError(f"wait={seconds:g}; expected 0 or more seconds")
    end = monotonic() + seconds
    while True:
        try:
            return take()
        except InUseError:
            if monotonic() >= end:
                raise
        sleep(min(POLL_SECONDS, max(end - monotonic(), 0.0)))


def _holders(path: Path, kind: str) -> dict[str, list[int]]:
    """Map READ and WRITE to the processes that hold such locks on a path, if the system reports
    them."""
    held: dict[str, list[int]] = {}
    with suppress(OSError, ValueError):
        inode = path.stat().st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            _, found, _, mode, process, where, *_ = line.split()
            if found == kind and where.split(":")[-1] == str(inode) and int(process) > 0:
                held.setdefault(mode, []).append(int(process))
    return {mode: sorted(set(processes)) for mode, processes in held.items()}


def _named(processes: Sequence[int]) -> str:
    """Subject and verb of a sentence about processes.

    >>> _named([7]), _named([7, 8, 9]), _named([])
    ('process 7 is', 'processes 7, 8 and 9 are', 'another process is')
    """
    if not processes:
        return "another process is"
    if list(processes) == [os.getpid()]:
        return "this process is"
    *others, last = map(str, processes)
    return f"processes {', '.join(others)} and {last} are" if others else f"process {last} is"


def _let_go(descriptor: int, written: list[Path], process: int) -> None:
    """Unlock a folder, in the process that locked it.

    Closing is not enough: forked processes have it open too.
    """
    if os.getpid() == process:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
    _WRITING.difference_update(written)
