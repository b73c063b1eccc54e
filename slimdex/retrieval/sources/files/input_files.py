"""Input files: text in any encoding, compressed or piped in, and the origins of documents.

An origin synchronises a document with its source: a digest of a place, "/", and a stamp that
changes with the file. The digest keeps paths out of the index. The stamp is empty if a change could
go unnoticed.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import os
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slimdex.errors import InputError, short_repr
from slimdex.system.atomic_files import temporary_parent

from .decoding import MARKS
from .kinds import ending
from .packed import GZIP, ZSTD, open_packed

STANDARD_INPUT = "-"
LARGEST_OBJECT = 32 << 20
"""Limit of a JSON object or CSV line in bytes, and of a document line in characters."""
PIECE = 1 << 20
"""Bytes decoded or copied at a time."""
SETTLED_NS = 2_000_000_000
"""A file modified more recently may change again with the same time and size: clocks of file
systems tick every few milliseconds, FAT's every two seconds."""


@dataclass(frozen=True)
class FileFormat:
    """Properties of files given by the user.

    Attributes
    ----------
    encoding : of text files, by any Python name; None means UTF-8, or UTF-16 with a byte order
        mark.
    format : an ending without its dot, which replaces the file's own.
    follow_links : whether links that lead out of a folder are followed.
    exclude : patterns of a folder's files to leave out, as in a `.gitignore` of the folder.
    generated : whether a folder's generated files are read, see `generated`.
    """

    encoding: str | None = None
    format: str | None = None
    follow_links: bool = False
    exclude: Sequence[str] = ()
    generated: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.exclude, str) or not all(map(str.strip, self.exclude)):
            raise InputError(f"exclude {short_repr(self.exclude)}; expected a list of patterns")
        if self.encoding is None:
            return

        # Codecs of bytes, such as base64, are not encodings of text.
        try:
            codecs.getincrementaldecoder(self.encoding)
            "a".encode(self.encoding)
        except (LookupError, UnicodeError, ValueError) as error:
            raise InputError(
                f"encoding {self.encoding!r}; expected a name such as utf-8, latin-1, cp1252 or "
                "utf-16"
            ) from error


@dataclass
class InputFile:
    """Input file: the original, or a UTF-8 copy of another encoding or of standard input.

    Attributes
    ----------
    name : as given by the user.
    path : path to read from.
    ending : kind, without ".gz".
    id_prefix : prefix of generated ids: the path as given.
    place : unique: the absolute path, or a digest of standard input.
    facts : values that change with the file.
    changed_ns : modification time; 0 if the facts include a digest of the content.
    quote : sign around values of CSV; "" if it has none.
    """

    name: str
    path: Path
    ending: str
    id_prefix: str
    place: str
    facts: list[Any]
    notes: list[str] = field(default_factory=list)
    changed_ns: int = 0
    quote: str = '"'

    @classmethod
    def of(cls, name: str, path: Path, ending: str, part: str = "") -> InputFile:
        """Describe an existing file, or a part of it such as ``#table``."""
        status = path.stat()
        place = path.resolve().as_posix() + part
        return cls(
            name=name,
            path=path,
            ending=ending,
            id_prefix=Path(os.path.normpath(name)).as_posix(),
            place=place,
            facts=[place, status.st_size, status.st_mtime_ns],
            changed_ns=max(status.st_mtime_ns, status.st_ctime_ns),
        )

    def fingerprint(self, *chosen: Any) -> str:
        """Stamp of the facts and of the user's choices; empty if the file was modified just now."""
        return stamp_of(self.changed_ns, *self.facts, *chosen)

    def use_copy(self) -> None:
        """Read from an empty temporary file, to be filled; it is removed with this object."""
        self.path = temporary()
        weakref.finalize(self, self.path.unlink, missing_ok=True)

    def copy(self, encoding: str | None = None, newline: str | None = "") -> None:
        """Replace the file by an unpacked copy in UTF-8; None as `newline` unifies line endings.

        Raises `InputError` if it can't be unpacked, or is not text in the encoding.
        """
        original = self.path
        self.use_copy()
        errors = "strict" if encoding else "surrogateescape"  # which keeps bytes as they are
        try:
            with (
                original.open("rb") as packed,
                io.TextIOWrapper(open_packed(packed), encoding or "utf-8", errors, newline) as text,
                self.path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as copy,
            ):
                shutil.copyfileobj(text, copy, PIECE)
        except UnicodeError as error:
            raise InputError(
                f"{self.name}: not {str(encoding).upper()} text ({error.args[-1]}); expected "
                "another encoding"
            ) from error
        except Exception as error:  # each library has its own
            raise InputError(f"{self.name}: can't be read ({error})") from error


def open_file(name: str, path: Path, file_format: FileFormat = FileFormat()) -> InputFile:
    """Open an existing file; "-" is standard input.

    Raises `InputError` if it is not valid text in its encoding.
    """
    if name == STANDARD_INPUT:
        file = _standard_input(file_format)
    else:
        file = InputFile.of(name, path, ending_of(path, file_format))

    # A copy, if it is compressed or in another encoding.
    head = _beginning(file.path)
    encoding = file_format.encoding
    if encoding is None or codecs.lookup(encoding).name in ("utf-8", "utf-8-sig"):
        encoding = _by_mark(head)
        if encoding not in (None, "utf-8-sig"):
            file.notes.append(f"read as {str(encoding).upper()}, by its first bytes")
    if file.ending == ".parquet":
        encoding = None
    if encoding:
        file.facts.append(encoding)
    if encoding or _is_packed(file.path):
        file.copy(encoding)
    return file


def ending_of(path: Path, file_format: FileFormat) -> str:
    """Kind of a file by its name, or as given by the user."""
    if file_format.format is not None:
        return f".{file_format.format.removeprefix('.')}"
    return ending(path.name)


def _standard_input(file_format: FileFormat) -> InputFile:
    """Copy standard input to a file, since it is read more than once."""
    if sys.stdin is None:
        raise InputError("-: no standard input")
    file = InputFile(
        name="standard input", path=Path(), ending="", id_prefix="stdin", place="", facts=[]
    )
    file.use_copy()

    # The copy.
    with file.path.open("w+b") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy, PIECE)
        copy.seek(0)
        digest = hashlib.file_digest(copy, "sha256").hexdigest()

    # What it is.
    file.facts = [digest]
    file.place = f"stdin {digest}"
    if file_format.format:
        file.ending = ending_of(file.path, file_format)
    else:
        file.ending = _guess_ending(_beginning(file.path))
        kind = file.ending.removeprefix(".")
        file.notes.append(f"read as {kind}, by its first bytes; format=NAME overrides this")
    return file


def _guess_ending(head: bytes) -> str:
    """Guess the kind of a file from its first bytes: Parquet, JSON objects, or lines."""
    if head.startswith(b"PAR1"):
        return ".parquet"
    text = head.decode(_by_mark(head) or "utf-8", "ignore")
    return ".jsonl" if text.lstrip().startswith("{") else ".txt"


def _by_mark(head: bytes) -> str | None:
    """Encoding of a byte order mark; None if there is none."""
    return next((encoding for mark, encoding in MARKS.items() if head.startswith(mark)), None)


def _beginning(path: Path) -> bytes:
    """First bytes of a file, decompressed; b"" if it can't be read."""
    try:
        with path.open("rb") as packed:
            head: bytes = open_packed(packed).read(PIECE)
    except Exception:
        return b""  # reported when the file is read
    return head


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4).startswith((GZIP, ZSTD))


def temporary() -> Path:
    """Create a temporary file."""
    descriptor, name = tempfile.mkstemp(prefix="slimdex-", dir=temporary_parent())
    os.close(descriptor)
    return Path(name)


@dataclass(frozen=True)
class Reading:
    """Options for reading a source into an index.

    Attributes
    ----------
    prefix : prefix of generated ids and of ids that are paths; None for the source's default.
    place : digest of the source's location; empty to record no origins.
    inside : path of this folder or file within a folder that the index knows.
    parts : earlier prefix of a folder or file that became part of this folder -> its path in it.
    known : origins of documents in the index, whose files need not be read again.
    """

    prefix: str | None = None
    place: str = ""
    inside: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    known: Set[str] = frozenset()

    def origin(self, stamp: str) -> str:
        """Origin of a document of this source; "" if not recorded.

        >>> Reading(place="c0ffee").origin("1d"), Reading().origin("1d")
        ('c0ffee/1d', '')
        """
        return f"{self.place}/{stamp}" if self.place else ""

    def has(self, stamp: str) -> bool:
        """Return whether the index has a document with this stamp; False for an empty stamp."""
        return bool(stamp) and self.origin(stamp) in self.known


def place_digest(place: str) -> str:
    """Return an irreversible digest of a place."""
    return hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def stamp_of(changed_ns: int, *facts: object) -> str:
    """Return a stamp of some facts; empty if the file was modified just now.

    >>> stamp_of(0, "notes.md", 7) == stamp_of(0, "notes.md", 8), stamp_of(time.time_ns(), 7)
    (False, '')
    """
    if time.time_ns() - changed_ns < SETTLED_NS:
        return ""
    return hashlib.sha256(
        repr((changed_ns, *facts)).encode("utf-8", "surrogateescape")
    ).hexdigest()[:16]
