"""Atomic files: written under a temporary name, fsynced, renamed; and a place for temporary ones.

Temporary files are in the system's folder or, where it has none, in that of an index. In a
container with a read-only root and one writable volume, no folder of the system is writable.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from glob import escape
from itertools import chain
from pathlib import Path
from tempfile import gettempdir
from time import sleep
from typing import TypeVar

from slimdex.errors import CorruptError, InputError, InUseError
from slimdex.system.append_only import OPENS_FOLDERS, sync
from slimdex.system.index_names import MANIFEST
from slimdex.system.locks import NAMES, locking

T = TypeVar("T")

STORED_ENDINGS = {"fp16": "f16", "int8": "i8", "int4": "i4"}
"""Format of vectors (`row_formats.STORED`) -> ending of their file."""
ENDINGS = {
    "vectors": tuple(STORED_ENDINGS.values()),
    "norms": ("f32",),
    "documents": ("log",),
    "offsets": ("bin",),
    "moments": ("safetensors",),
    "reducer": ("safetensors",),
    "rescorer": ("safetensors",),
    "table": ("safetensors",),
    "codes": ("faiss",),
    "words": ("tantivy",),
    "columns": ("parquet",),
    "origins": ("json",),
    "ids": ("bin",),
    "flags": ("bin",),
    "deletions": ("bin",),
}
"""Role of a numbered file -> possible endings, the default first."""
FOLDERS = ("tantivy",)
"""Endings of folders of files."""
OUR_FILES = re.compile(
    rf"({'|'.join(ENDINGS)})-\d{{6,}}\.({'|'.join(dict.fromkeys(chain(*ENDINGS.values())))})"
    rf"(\.tmp)?|{re.escape(MANIFEST)}\.tmp"
)
WORK = re.compile(r"work-[0-9a-f]{8}")
"""Folders of `store.work_folder`."""
LOCK_TRIES = 20
"""Attempts to lock a temporary file before another process removes it."""
REPLACE_TRIES = 200
REPLACE_SECONDS = 0.01
"""Attempts to replace a file on Windows, and the time between them."""
FIXED = (MANIFEST, *NAMES)
"""Names that files of every index have or begin with."""
MEMORY_FOLDER = Path("/dev/shm")
"""Folder in memory, on Linux."""
_OFFERED: dict[Path, None] = {}


def file_name(role: str, generation: int, ending: str | None = None) -> str:
    """Name of the file that a commit writes for a role.

    >>> file_name("codes", 7), file_name("vectors", 1, "i8")
    ('codes-000007.faiss', 'vectors-000001.i8')
    """
    return f"{role}-{generation:06d}.{ending or ENDINGS[role][0]}"


def vector_format(vectors: str) -> str:
    """Format of a file of vectors, a name of `row_formats.STORED`, by its ending."""
    ending = vectors.rpartition(".")[2]
    formats = {ending: name for name, ending in STORED_ENDINGS.items()}
    return formats[ending]


def check_folder(folder: Path) -> None:
    """Raise `CorruptError` unless all slimdex files in an index's folder are plain files.

    In an untrusted folder, a link with one of our names would redirect our writes, and a pipe would
    block forever.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            is_work = WORK.fullmatch(entry.name)
            is_ours = entry.name.startswith(FIXED) or OUR_FILES.fullmatch(entry.name)
            if not is_work and not is_ours:
                continue

            # Some of these names belong to folders.
            if entry.is_dir(follow_symlinks=False):
                if is_work:
                    continue
                if entry.name.removesuffix(".tmp").endswith(FOLDERS):
                    with suppress(FileNotFoundError):  # a writer has replaced it
                        _check_plain(entry.path)
                    continue

            # Everything else has to be a file.
            if not entry.is_file(follow_symlinks=False):
                kind = "a link" if entry.is_symlink() else "no file"
                raise CorruptError(
                    f"{entry.path}: {kind}; expected a plain file in an index's folder"
                )


def _check_plain(folder: str) -> None:
    """Raise `CorruptError` unless a folder contains only plain files."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_file(follow_symlinks=False):
                raise CorruptError(f"{entry.path}: expected a plain file in an index's folder")


def remove(path: Path) -> None:
    """Remove a file, or a folder with its contents; ignore failures."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder so that a crash leaves all of it, or nothing under its name.

    It is first renamed to a temporary folder. If a crash leaves a part of that, the next
    `publish_folder` removes it.
    """
    temporary = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    folder.rename(temporary)
    remove(temporary)


def size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; 0 if missing."""
    try:
        if path.is_dir():
            return sum(size(each) for each in path.iterdir())
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def in_units(count: float) -> str:
    """Bytes in a readable unit.

    >>> in_units(0), in_units(1_500), in_units(23_456_789), in_units(999_999_999)
    ('0 B', '1.5 kB', '23.5 MB', '1 GB')
    """
    for unit in ("B", "kB", "MB"):
        if count < 999.5:  # more would be rounded to 1000
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{round(count, 1):,g} GB"


@dataclass(frozen=True)
class FileRecord:
    """Name, size and checksum of a file of an index."""

    name: str
    bytes: int
    sha256: str

    def check(self, folder: Path) -> None:
        """Raise `CorruptError` unless the file exists with this size and checksum."""
        self.check_size(folder)
        checksum = sha256(folder / self.name)
        if checksum != self.sha256:
            raise self._fault(
                folder, f"damaged: SHA-256 {checksum[:12]}, expected {self.sha256[:12]}"
            )

    def check_size(self, folder: Path) -> None:
        """Raise `CorruptError` unless the file exists with this size."""
        path = folder / self.name
        size = path.stat().st_size if path.is_file() else None
        if size is None:
            raise self._fault(folder, "missing")
        if size != self.bytes:
            raise self._fault(folder, f"damaged: {size} bytes, expected {self.bytes}")

    def _fault(self, folder: Path, what: str) -> CorruptError:
        return CorruptError(f"{folder / self.name}: {what}; {self.way_out(folder)}")

    def way_out(self, folder: Path) -> str:
        """Advice if it is damaged, for the end of a message."""
        return f"`slimdex repair {folder}` rebuilds it"


def publish(path: Path, write: Callable[[Path], object]) -> FileRecord:
    """Let `write` create a temporary file, make it durable, and rename it.

    The new name is durable once the folder is synced, as each commit does.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        write(temporary)
        sync(temporary)
        record = FileRecord(path.name, temporary.stat().st_size, sha256(temporary))
        _replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return record


def _replace(new: Path, path: Path) -> None:
    """Rename a file over another one; on Windows, once no process reads that one."""
    tries = 1 if OPENS_FOLDERS else REPLACE_TRIES
    for tries_left in reversed(range(tries)):
        try:
            os.replace(new, path)
        except PermissionError:
            if not tries_left:
                raise
            sleep(REPLACE_SECONDS)
        else:
            return


class ExistsError(InputError):
    """A path that is taken."""


def check_free(path: Path, kind: str = "folder") -> None:
    """Raise `ExistsError` if a path is taken."""
    if path.exists() or path.is_symlink():
        raise ExistsError(f"{path} exists; expected a new {kind}")


def check_new(path: Path, kind: str = "folder") -> None:
    """Raise `InputError` unless a folder, or a file, can be created under this name."""
    check_free(path, kind)
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: no folder {path.absolute().parent}; expected an existing one")


def publish_folder(folder: Path, write: Callable[[Path], T]) -> T:
    """Let `write` fill a new temporary folder, make it durable, and rename it.

    Returns the result of `write`. Leftovers of killed processes are removed.

    Raises `InputError` if the name exists.
    """
    with _temporary_sibling(folder, Path.mkdir) as new:
        result = write(new)
        for path in [*new.rglob("*"), new]:
            sync(path)
        check_new(folder)  # a rename would replace an empty folder
        try:
            new.rename(folder)
        except OSError:
            check_new(folder)  # another process has just created it
            raise
    sync(folder.absolute().parent)
    return result


def publish_file(path: Path, write: Callable[[Path], T]) -> T:
    """Let `write` create a new file atomically; unlike `publish`, never replace one."""
    with _temporary_sibling(path, Path.touch) as new:
        result = write(new)
        sync(new)
        check_new(path, "file")  # a rename would replace a file
        new.rename(path)
    sync(path.absolute().parent)
    return result


@contextmanager
def _temporary_sibling(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """Create a locked temporary file or folder in the same folder, and remove it at the end.

    Unlocked temporary files belong to no process and are removed. Windows can't lock them, so they
    stay there.
    """
    absolute = path.absolute()
    pattern = f".{escape(path.name)}-{'[0-9a-f]' * 8}"
    leftovers = absolute.parent.glob(pattern) if OPENS_FOLDERS else ()
    for leftover in leftovers:
        with suppress(OSError, InUseError), locking(leftover):  # one in use stays
            remove(leftover)
            sync(absolute.parent)  # once the name is taken, nobody looks for these again
    with ExitStack() as stack:
        new = _create_locked(absolute, make, stack)
        stack.callback(remove, new)
        yield new


def _create_locked(path: Path, make: Callable[[Path], None], stack: ExitStack) -> Path:
    """Create a temporary file or folder for `path`, and lock it until the end of a stack.

    Before it is locked, another process may take it for a leftover and remove it.
    """
    for attempt in range(LOCK_TRIES):
        new = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
        make(new)
        if not OPENS_FOLDERS:
            return new

        # It is ours only if it still exists once it is locked.
        try:
            with ExitStack() as attempt_stack:
                attempt_stack.enter_context(locking(new))
                if new.exists():
                    stack.enter_context(attempt_stack.pop_all())
                    return new
        except (FileNotFoundError, InUseError):
            if attempt + 1 == LOCK_TRIES:
                raise
    raise InUseError(f"{new}: another process has removed it; expected it to stay")


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def offer(folder: Path) -> None:
    """Offer a folder for temporary files; it may be one that is about to be created."""
    _OFFERED[folder] = None


def temporary_parent(last: Path | None = None) -> Path:
    """Return the folder in which to create temporary files; `last` if no other is writable.

    Raises `InputError` if none is writable.
    """
    try:
        return Path(gettempdir())
    except FileNotFoundError as error:
        # A folder that is about to be created does not exist yet: use its parent.
        offered = (each if each.exists() else each.parent for each in _OFFERED)
        for folder in (*offered, MEMORY_FOLDER, last):
            if folder is not None and os.access(folder, os.W_OK):
                return folder
        raise InputError(
            "temporary files: no folder of the system is writable, and no index's; expected TMPDIR "
            "to name one that is"
        ) from error
