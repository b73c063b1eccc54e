"""Page cache: measure which parts of files are in memory, and drop them.

Reading a file leaves pages in memory for the next reader, until the system needs the memory.
Dropping the pages of our files makes it possible to measure a query with a cold disk. Linux only.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from slimdex.indexes.errors import InputError

PAGE = mmap.PAGESIZE
LEFT = 0.01
"""Share of a file that may stay in memory: another process may be reading ahead."""


def check_system() -> None:
    """Raise `InputError` if files can't be dropped from memory, or reads can't be counted."""
    if sys.platform != "linux" or not _COUNTS.is_file():
        raise InputError(
            f"{sys.platform} without {_COUNTS}: reads from disk are not counted; expected Linux"
        )


def bytes_read() -> int:
    """Bytes that all threads of this process have read from disk so far, also through maps."""
    lines = dict(line.split(": ") for line in _COUNTS.read_text().splitlines())
    return int(lines["read_bytes"])


def cached_bytes(path: Path) -> int:
    """Bytes of a file whose pages are in memory, whichever process read them.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "written"
    >>> _ = file.write_bytes(bytes(10_000))
    >>> cached_bytes(file)
    10000
    """
    size = path.stat().st_size
    if not size:
        return 0
    flags = np.empty(-(-size // PAGE), dtype=np.uint8)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = np.frombuffer(mapped, dtype=np.uint8)  # its address; nothing is read
        address = view.ctypes.data
        del view
        _checked(_LIBC.mincore(_pointer(address), ctypes.c_size_t(size), _pointer(flags)), path)
    return min(int((flags & 1).sum()) * PAGE, size)


def drop(files: Iterable[Path]) -> None:
    """Drop the pages of files, which this process may have mapped, from memory.

    Unwritten data are written to disk first. Raises `InputError` if pages stay: another process has
    them mapped, or the file is in memory (tmpfs).
    """
    paths = [path.resolve() for path in files]
    _unmap(paths)
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
        left, size = cached_bytes(path), path.stat().st_size
        if left > LEFT * size + PAGE:
            raise InputError(
                f"{path}: {left:,} of {size:,} bytes stay in memory; expected a file on a disk "
                "that no other process has open"
            )


def _unmap(paths: list[Path]) -> None:
    """Unmap the pages of these files, since the system does not drop mapped pages.

    The maps stay, and read pages again when needed. Writable maps are left alone.
    """
    names = {str(path) for path in paths}
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, rights, *_, name = line.split(maxsplit=5)
        if name in names and "w" not in rights:
            start, stop = (int(part, 16) for part in place.split("-"))
            size = ctypes.c_size_t(stop - start)
            _checked(_LIBC.madvise(_pointer(start), size, mmap.MADV_DONTNEED), Path(name))


def _pointer(place: int | np.ndarray[tuple[int], np.dtype[np.uint8]]) -> ctypes.c_void_p:
    return ctypes.c_void_p(place if isinstance(place, int) else place.ctypes.data)


def _checked(outcome: int, path: Path) -> None:
    if outcome:
        number = ctypes.get_errno()
        raise InputError(f"{path}: {os.strerror(number)}; expected Linux's page cache")


_COUNTS = Path("/proc/self/io")
_LIBC = ctypes.CDLL(None, use_errno=True)
