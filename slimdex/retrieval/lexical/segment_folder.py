"""Segment folder: the files of a lexical index, published atomically and checked.

A folder is immutable: tantivy's segments and a checksummed list of them. Tantivy writes lock and
list files of its own, so it works in temporary folders that link to the segments. It syncs each
file several times, which takes longer than all else when few documents are added: they are
written in memory and then copied.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from pathlib import Path
from tempfile import mkdtemp
from time import time
from typing import Any

from slimdex.errors import CorruptError, SlimdexError
from slimdex.system.append_only import sync_all
from slimdex.system.atomic_files import MEMORY_FOLDER, temporary_parent
from slimdex.system.json_text import READABLE, parse_json
from slimdex.system.locks import FileLock

LITTLE_BYTES = 1 << 20
"""Free bytes below which a disk counts as full."""
MAGIC = 1337
"""Last four bytes of tantivy's files, after the length of the footer."""
LIST = "segments.json"
THEIR_LIST = "meta.json"
"""Our checksummed list of segments, and the name under which tantivy expects its own."""
SPARE_BYTES = 1 << 26
"""Bytes of it left free."""
COPIED_AT_ONCE = 1 << 20
PREFIX = "slimdex-words-"
"""Beginning of the names of temporary folders."""
OWNER = "owner"
"""Name of the lock in a temporary folder."""
NEW_S = 60
"""Seconds after which a temporary folder that is not locked may be deleted."""
NO_LINK = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV, errno.EINVAL)
"""Errors of systems and disks without links; the last is Windows'."""
REMOVALS = 10
"""Attempts to remove a folder while another thread may write to it."""
ENDINGS = ("fast", "fieldnorm", "idx", "store", "term")
"""Endings of the files of each segment."""


@contextmanager
def short_lived_folder(path: Path) -> Iterator[Path]:
    """Create a folder, if possible in memory, which tantivy needs until it has mapped the files.

    `path` is that of the index, beside which it is created if no other folder is writable.

    A caller that needs it for longer than `NEW_S` must lock `OWNER` in it. A short-lived thread of
    tantivy may create a lock file there while the folder is removed.
    """
    parent = MEMORY_FOLDER if has_memory(0) else temporary_parent(path.absolute().parent)
    for old in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if time() - old.stat().st_mtime > NEW_S and not FileLock(old, OWNER).is_held():
                shutil.rmtree(old, ignore_errors=True)  # its process was killed
    folder = Path(mkdtemp(prefix=PREFIX, dir=parent))
    try:
        yield folder
    finally:
        for _ in range(REMOVALS):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break


def has_memory(nbytes: int) -> bool:
    """True if this machine has a folder in memory with room for `nbytes`."""
    try:
        return (
            os.access(MEMORY_FOLDER, os.W_OK)
            and shutil.disk_usage(MEMORY_FOLDER).free > nbytes + SPARE_BYTES
        )
    except OSError:
        return False


@contextmanager
def work_folder(path: Path, *, in_memory: bool = False) -> Iterator[Path]:
    """Create a folder to write in and remove it at the end; on failure also remove `path`."""
    work = path.with_name(f"{path.name}.tmp")
    for old in (work, path):  # left by a killed process
        shutil.rmtree(old, ignore_errors=True)
    try:
        with tantivy_errors(path, writing=True), ExitStack() as stack:
            if in_memory:
                folder = stack.enter_context(short_lived_folder(path))
                stack.enter_context(FileLock(folder, OWNER).hold())
                yield folder
            else:
                work.mkdir()
                yield work
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def publish(work: Path, path: Path, durable: Collection[str] = ()) -> None:
    """Publish the index that tantivy wrote to `work` in its final folder, durably.

    `durable` names files that are already synced to disk.
    """
    theirs = (work / THEIR_LIST).read_text()
    path.mkdir()

    # Link the files, but copy new ones to the disk if `work` is in memory.
    in_memory = work.parent != path.parent
    new = [path / LIST]
    for name in segment_files(parse_json(theirs), work):
        is_new = name not in durable
        if is_new and in_memory:
            copy(path / name, work / name)
        else:
            is_link = link_or_copy(path / name, _link_target(work / name))
            is_new = is_new or not is_link  # a copy is not synced yet
        if is_new:
            new.append(path / name)

    # Write the list last, with a checksum, and then sync everything new.
    ours = json.dumps({"crc": zlib.crc32(theirs.encode()), "list": theirs})
    (path / LIST).write_text(ours)
    sync_all([*new, path])


def _link_target(path: Path) -> Path:
    """The file that a link of `symlink_or_copy` leads to, or the file itself."""
    try:
        return Path(os.readlink(path))  # `resolve` takes five times as long
    except OSError:
        return path


def link_files(path: Path, folder: Path, link: Callable[[Path, Path], object]) -> None:
    """Link an index's files into another folder and write tantivy's list there."""
    segment_list = read_list(path)
    for name in segment_files(segment_list, path):
        link(folder / name, path / name)
    (folder / THEIR_LIST).write_text(json.dumps(segment_list))


def link_or_copy(new: Path, old: Path) -> bool:
    """Hard-link an immutable file or, failing that, copy it; return whether it is a link."""
    try:
        os.link(old, new)
    except OSError as error:
        if error.errno not in NO_LINK:
            raise
        copy(new, old)
        return False
    return True


def symlink_or_copy(new: Path, old: Path) -> None:
    """Link to an immutable file by name; where the system forbids it, as `link_or_copy` does."""
    try:
        new.symlink_to(old)
    except OSError as error:
        if error.errno not in NO_LINK:
            raise
        link_or_copy(new, old)


def copy(new: Path, old: Path) -> None:
    """Copy a file's bytes, which are not durable before the next `sync`."""
    with old.open("rb") as source, new.open("wb") as target:
        shutil.copyfileobj(source, target, COPIED_AT_ONCE)


def read_list(path: Path) -> dict[str, Any]:
    """Read tantivy's list of segments; raise `CorruptError` if it is damaged."""
    try:
        ours = parse_json((path / LIST).read_text(), READABLE)
        if zlib.crc32(ours["list"].encode()) != ours["crc"]:
            raise ValueError("wrong checksum")
        segment_list: dict[str, Any] = parse_json(ours["list"], READABLE)
        for each in segment_list["segments"]:
            if type(each["segment_id"]) is not str or type(each["max_doc"]) is not int:
                raise TypeError("expected segments with names and numbers of rows")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptError(f"{path / LIST}: missing or damaged ({error})") from error
    return segment_list


def segment_files(segment_list: dict[str, Any], path: Path) -> list[str]:
    """Names of the files of an index; raise `CorruptError` if one is missing."""
    stems = {segment["segment_id"].replace("-", "") for segment in segment_list["segments"]}
    names = {file.name for file in path.iterdir() if file.stem in stems}
    expected = {f"{stem}.{ending}" for stem, ending in product(stems, ENDINGS)}
    missing = expected - names
    if missing:
        raise CorruptError(f"{path / min(missing)}: missing")
    return sorted(names)


def file_faults(path: Path) -> Iterator[str]:
    """Yield a file's faults, found by the checksum in tantivy's footer."""
    data = path.read_bytes()

    # A file has a body, a JSON footer, and then the footer's length and a mark, 4 bytes each.
    length = int.from_bytes(data[-8:-4], "little")
    magic = int.from_bytes(data[-4:], "little")
    body = data[: -8 - length] if magic == MAGIC and length <= len(data) - 8 else None
    try:
        footer = {} if body is None else json.loads(data[len(body) : -8])
        is_whole = body is not None and footer["crc"] == zlib.crc32(body)
    except (ValueError, KeyError, TypeError):
        is_whole = False
    if not is_whole:
        yield f"{path}: damaged: wrong checksum"


@contextmanager
def tantivy_errors(path: Path, *, writing: bool = False) -> Iterator[None]:
    """Turn tantivy's errors about a folder into `OSError` or `CorruptError`.

    For damaged files it may panic, which Python sees as a `BaseException`.
    """
    try:
        yield
    except SlimdexError:
        raise
    except BaseException as error:
        reason = " ".join(str(error).split())[:300]
        is_theirs = type(error).__name__ == "PanicException" or type(error) in (ValueError, OSError)
        if not is_theirs or getattr(error, "errno", None) is not None:  # Python's own has an errno
            raise

        # If the system failed, tantivy's message contains the system's error number.
        number = _NUMBER.search(reason)
        code = int(number[1]) if number else errno.EIO
        if writing and not number and shutil.disk_usage(path.parent).free < LITTLE_BYTES:
            code = errno.ENOSPC  # tantivy does not say why its threads failed
        if number or writing:
            raise OSError(code, os.strerror(code), str(path)) from error
        raise CorruptError(f"{path}: damaged ({reason})") from error


_NUMBER = re.compile(r"(?:os error|code:) (\d+)")
"""System error number in a Rust message."""
