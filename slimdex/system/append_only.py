"""Append-only files: make their bytes durable, and compute a checksum of each block.

An append ends with an fsync. In `syncing_later`, all files of a change are synced together instead,
which takes a file system little longer than one of them.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from slimdex.errors import CorruptError

if TYPE_CHECKING:
    from hashlib import _Hash

BLOCK_BYTES = 1 << 22
"""Size of a checksummed block, 4 MiB; an append hashes only the blocks that it changes."""
OPENS_FOLDERS = hasattr(os, "O_DIRECTORY")
"""False on Windows, which also renames no open file and syncs none that may only be read."""
MOST_ENDS = 64
"""Number of files whose last block's hash is remembered, so that an append continues it."""


class _SyncQueue:
    """Files to sync together later.

    The queue keeps duplicates of their descriptors, since a file may be renamed in the meantime.
    """

    def __init__(self) -> None:
        self._descriptors = dict[int, str]()  # -> name, for messages

    def add(self, descriptor: int, name: str) -> None:
        """Add an open file."""
        self._descriptors[os.dup(descriptor)] = name

    def sync(self) -> None:
        """Sync all files; raises `OSError` if one can't be."""
        if self._descriptors:
            with ThreadPoolExecutor(len(self._descriptors)) as pool:
                try:
                    # `list` waits for all of them and raises the first error.
                    list(pool.map(_sync, self._descriptors, self._descriptors.values()))
                except RuntimeError:  # Python is ending and starts no thread
                    for descriptor, name in self._descriptors.items():
                        _sync(descriptor, name)
        self.close()

    def close(self) -> None:
        """Close the files."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[0])


_queue: ContextVar[_SyncQueue | None] = ContextVar("queue", default=None)
"""Files that `syncing_later` has deferred; None if files are synced at once."""


@contextmanager
def syncing_later() -> Iterator[None]:
    """Defer every `sync` in the context until `sync_now`; without that call nothing is synced.

    Other threads are affected only if they run in a copy of the context. On Windows, where an open
    file can't be renamed, nothing is deferred.
    """
    queue = _SyncQueue()
    token = _queue.set(queue if OPENS_FOLDERS else None)
    try:
        yield
    finally:
        _queue.reset(token)
        queue.close()


def sync_now() -> None:
    """Sync the files that `syncing_later` has deferred, and defer no more."""
    queue = _queue.get()
    if queue is not None:
        _queue.set(None)
        queue.sync()


def sync_all(paths: Iterable[Path]) -> None:
    """Make the bytes of files and the names in folders durable, all of them together."""
    with ExitStack() as stack:
        # Within `syncing_later`, these files wait for its `sync_now`.
        is_outermost = _queue.get() is None
        if is_outermost:
            stack.enter_context(syncing_later())
        for path in paths:
            sync(path)
        if is_outermost:
            sync_now()


def sync(path: Path) -> None:
    """Make a file's bytes durable, or the names in a folder, which syncing its files does not.

    Windows keeps names durable itself.
    """
    if not OPENS_FOLDERS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if OPENS_FOLDERS else os.O_RDWR)
    try:
        sync_open(descriptor, path)
    finally:
        os.close(descriptor)


def sync_open(descriptor: int, path: Path) -> None:
    """Make an open file's bytes durable, or the names in a folder."""
    queue = _queue.get()
    if queue is None:
        _sync(descriptor, str(path))
    else:
        queue.add(descriptor, str(path))


def _sync(descriptor: int, name: str) -> None:
    """Call fsync now; add the file's name to its `OSError`."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        error.filename = name
        raise


@contextmanager
def appending(path: Path, nbytes: int) -> Iterator[BinaryIO]:
    """Open a file to append after its first `nbytes`, cutting off the rest; durable at the end."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with os.fdopen(descriptor, "r+b") as file:
        file.truncate(nbytes)
        file.seek(nbytes)
        yield file
        file.flush()
        sync_open(descriptor, path)


@dataclass(frozen=True)
class AppendOnlyFile:
    """An append-only file, and its committed size; bytes beyond that are ignored.

    >>> import tempfile
    >>> file = AppendOnlyFile(Path(tempfile.mkdtemp()) / "rows").append(b"abc").append(b"de")
    >>> file.nbytes, file.read(2)
    (5, b'cde')
    """

    path: Path
    nbytes: int = 0

    def check(self) -> None:
        """Raise `CorruptError` if the file is too short."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size < self.nbytes:
            raise CorruptError(f"{self.path}: {size} bytes; expected {self.nbytes}")

    def checksums(self) -> list[str]:
        """SHA-256 of each block; the last may be short."""
        return block_digests(self.path, self.nbytes)

    def read(self, start: int = 0) -> bytes:
        """Read the committed bytes from `start` on.

        Raises `FileNotFoundError` if the file is missing, and `CorruptError` if it is too short.
        """
        if start == self.nbytes:  # there may be no file yet
            return b""
        with self.path.open("rb") as file:
            file.seek(start)
            data = file.read(self.nbytes - start)
        if len(data) < self.nbytes - start:
            raise CorruptError(f"{self.path}: {start + len(data)} bytes; expected {self.nbytes}")
        return data

    def map(self) -> mmap.mmap | bytes:
        """Map the committed bytes; the map outlives the file's name. Raises as `check`."""
        self.check()
        if not self.nbytes:
            return b""  # which can't be mapped
        with self.path.open("rb") as file:
            return mmap.mmap(file.fileno(), self.nbytes, access=mmap.ACCESS_READ)

    def append(self, data: bytes) -> Self:
        """Append bytes durably; return the longer file."""
        with appending(self.path, self.nbytes) as file:
            file.write(data)
        return replace(self, nbytes=self.nbytes + len(data))


@dataclass(frozen=True)
class _End:
    """The hashed part of a file's last block.

    Attributes
    ----------
    block : number of the block.
    nbytes : bytes hashed.
    hash : SHA-256 of these bytes, to be continued.
    """

    block: int
    nbytes: int
    hash: _Hash


_ends = OrderedDict[Path, _End]()


def digests_after_growth(
    path: Path, before: int, nbytes: int, known: str | None = None
) -> tuple[str, list[str]]:
    """SHA-256 of blocks of a file that has grown from `before` to `nbytes`.

    The first is of the block in which the file used to end, without the bytes added since. The
    others are of this block and all later ones as they are now. Nothing is read twice.

    `known` is the recorded SHA-256 of the former. Bytes that this process hashed for an
    earlier append are not read again if their hash agrees with it.
    """
    first, old_bytes = divmod(before, BLOCK_BYTES)
    first_start = before - old_bytes
    with path.open("rb") as file:
        digest = _hash_start(file, path, first, old_bytes, known)
        old_digest = digest.hexdigest()
        if nbytes <= first_start:
            return old_digest, []
        new_bytes = min(nbytes - before, BLOCK_BYTES - old_bytes)
        digest.update(file.read(new_bytes))
        _remember(path, _End(first, old_bytes + new_bytes, digest))
    return old_digest, [digest.hexdigest(), *block_digests(path, nbytes, first + 1)]


def _hash_start(file: BinaryIO, path: Path, block: int, nbytes: int, known: str | None) -> _Hash:
    """Hash the first bytes of a block, and leave the file's position after them.

    `known` is their recorded SHA-256, if there is one.
    """
    end = _ends.get(path)
    start = block * BLOCK_BYTES

    # Continue an earlier hash of this block, unless it came from another file at this path.
    if known and end is not None and end.block == block and end.nbytes <= nbytes:
        digest = end.hash.copy()
        file.seek(start + end.nbytes)
        digest.update(file.read(nbytes - end.nbytes))
        if digest.hexdigest() == known:
            return digest
    file.seek(start)
    return hashlib.sha256(file.read(nbytes))


def _remember(path: Path, end: _End) -> None:
    """Remember the end of a file; beyond `MOST_ENDS` files, forget the least recent one."""
    _ends[path] = _End(end.block, end.nbytes, end.hash.copy())
    _ends.move_to_end(path)
    if len(_ends) > MOST_ENDS:
        _ends.popitem(last=False)


def block_digests(path: Path, nbytes: int, first: int = 0) -> list[str]:
    """SHA-256 of each block in a file's first `nbytes`, from number `first` on."""
    digests = list[str]()
    if nbytes > first * BLOCK_BYTES:
        with path.open("rb") as file:
            file.seek(first * BLOCK_BYTES)
            for start in range(first * BLOCK_BYTES, nbytes, BLOCK_BYTES):
                data = file.read(min(BLOCK_BYTES, nbytes - start))
                digests.append(hashlib.sha256(data).hexdigest())
    return digests
