"""Segment folder: the files of a words' index, made durably in one step and checked.

A folder never changes. Beside tantivy's segments lies their list with a checksum; tantivy, which
wants to write locks and lists of its own, works in folders beside, which are removed.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from slimdex.indexes.errors import CorruptError, SlimdexError
from slimdex.indexes.json_text import READABLE, parsed

from ..atomic_files import sync

LITTLE_BYTES = 1 << 20
"""Left on a disk that is full."""
MAGIC = 1337
"""What every file of tantivy's ends with, after the length of its footer."""
LIST, THEIR_LIST = "segments.json", "meta.json"
"""Our list of what belongs to an index, which holds tantivy's, and where tantivy looks for that."""
REMOVALS = 10
"""Attempts to remove a folder that someone may write into meanwhile."""
ENDINGS = ("fast", "fieldnorm", "idx", "store", "term")
"""Of the files that every segment has."""


@contextmanager
def short_lived_folder() -> Iterator[Path]:
    """A folder for links, which tantivy needs until the files are mapped.

    A thread that it has for a moment may put a lock there while the folder is removed.
    """
    folder = Path(mkdtemp(prefix="slimdex-words-"))
    try:
        yield folder
    finally:
        for _ in range(REMOVALS):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break


@contextmanager
def work_folder(path: Path) -> Iterator[Path]:
    """A folder to write in, gone at the end; should that fail, what was made by `path`, too."""
    work = path.with_name(f"{path.name}.tmp")
    for old in (work, path):  # of a process that was killed right here
        shutil.rmtree(old, ignore_errors=True)
    work.mkdir()
    try:
        with guarded(path, writing=True):
            yield work
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def publish(work: Path, path: Path, durable: Collection[str] = ()) -> None:
    """Move an index from where tantivy wrote it to a folder of its own, durably.

    Parameters
    ----------
    durable : names of files whose bytes are on disk already.
    """
    theirs = (work / THEIR_LIST).read_text()
    path.mkdir()
    for name in segment_files(parsed(theirs), work):
        linked(path / name, work / name)
        if name not in durable:
            sync(path / name)
    ours = json.dumps({"crc": zlib.crc32(theirs.encode()), "list": theirs})
    (path / LIST).write_text(ours)
    sync(path / LIST)
    sync(path)


def take(path: Path, folder: Path, link: Callable[[Path, Path], object]) -> None:
    """An index's files for tantivy, in another folder by links, and its list as it wants it."""
    own_list = listed(path)
    for name in segment_files(own_list, path):
        link(folder / name, path / name)
    (folder / THEIR_LIST).write_text(json.dumps(own_list))


def linked(new: Path, old: Path) -> None:
    """Another name for a file that never changes; where a disk has no such links, a copy."""
    try:
        os.link(old, new)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV):
            raise
        shutil.copyfile(old, new)
        sync(new)  # of the other it was known


def listed(path: Path) -> dict[str, Any]:
    """What tantivy's list of an index says; raises `CorruptError` if it is damaged."""
    try:
        ours = parsed((path / LIST).read_text(), READABLE)
        if zlib.crc32(ours["list"].encode()) != ours["crc"]:
            raise ValueError("another checksum")
        own_list: dict[str, Any] = parsed(ours["list"], READABLE)
        if not all(isinstance(each["segment_id"], str) for each in own_list["segments"]):
            raise TypeError("expected segments with names")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptError(f"{path / LIST}: missing or damaged ({error})") from error
    return own_list


def segment_files(own_list: dict[str, Any], path: Path) -> list[str]:
    """Names of the files of an index; raises `CorruptError` if one is missing."""
    stems = [segment["segment_id"].replace("-", "") for segment in own_list["segments"]]
    names = sorted(file.name for file in path.iterdir() if file.stem in stems)
    expected = {f"{stem}.{ending}" for stem in stems for ending in ENDINGS}
    if missing := expected - {*names}:
        raise CorruptError(f"{path / min(missing)}: missing")
    return names


def file_faults(path: Path) -> Iterator[str]:
    """Faults of a file: tantivy's have a checksum at their end."""
    data = path.read_bytes()
    length, magic = (int.from_bytes(data[a:b], "little") for a, b in ((-8, -4), (-4, len(data))))
    body = data[: -8 - length] if magic == MAGIC and length <= len(data) - 8 else None
    try:
        footer = {} if body is None else json.loads(data[len(body) : -8])
        is_whole = body is not None and footer["crc"] == zlib.crc32(body)
    except (ValueError, KeyError, TypeError):
        is_whole = False
    if not is_whole:
        yield f"{path}: damaged: another checksum"


@contextmanager
def guarded(path: Path, *, writing: bool = False) -> Iterator[None]:
    """What tantivy says of a folder that it can't read or write, in a line.

    Of damaged files it may even panic, which reaches Python as no `Exception`.
    """
    try:
        yield
    except SlimdexError:
        raise
    except BaseException as error:
        reason = " ".join(str(error).split())[:300]
        is_theirs = type(error).__name__ == "PanicException" or type(error) in (ValueError, OSError)
        if not is_theirs or getattr(error, "errno", None) is not None:
            raise
        number = _NUMBER.search(reason)
        code = int(number[1]) if number else errno.EIO
        if writing and not number and shutil.disk_usage(path.parent).free < LITTLE_BYTES:
            code = errno.ENOSPC  # of what its threads met it says no more
        if number or writing:
            raise OSError(code, os.strerror(code), str(path)) from error
        raise CorruptError(f"{path}: damaged ({reason})") from error


_NUMBER = re.compile(r"(?:os error|code:) (\d+)")
"""How the system's refusals stand in what Rust says."""
