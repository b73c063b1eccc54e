"""Text files as users have them: in any encoding, compressed or piped in, and where they break."""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from slimdex.indexes.errors import InputError
from slimdex.indexes.json_text import TooDeepError, parsed

from ..extras import install_command
from .files.compressed import opened
from .origins import stamp_of

STANDARD_INPUT = "-"
ZSTANDARD = ".zst"
JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
LARGEST_OBJECT = 32 << 20
"""Bytes that one JSON object or CSV line may have, and characters of a line that is a document."""
_GIVEN_FOR_IT: ContextVar[str | None] = ContextVar("standard_input", default=None)
PIECE = 1 << 20
"""Bytes that are decoded or copied at a time."""
UNREADABLE = (UnicodeDecodeError, EOFError, OSError, zlib.error)
"""What reading a file as text can raise: it is no UTF-8, cut off, or gone."""
MARKS = {  # UTF-32's mark begins with UTF-16's
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""First bytes of a file -> its encoding."""


@dataclass(frozen=True)
class FileFormat:
    """What the user says of files that they do not say themselves.

    Attributes
    ----------
    encoding : of text files, by any name that Python knows; None is UTF-8, or UTF-16 with a mark.
    format : an ending without its dot, which takes the place of the file's own.
    """

    encoding: str | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        if self.encoding is None:
            return
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
    """A file to read: itself, or a copy in UTF-8 of one in another encoding or of what is piped in.

    Attributes
    ----------
    name : as the user has it.
    path : what is read.
    ending : its kind, without ".gz".
    id_prefix : what made-up ids begin with: the path as given.
    place : the whole path, or for standard input a digest: no two files have the same.
    facts : what changes when the file does.
    changed_ns : when it changed last; 0 where the facts hold a digest of all of it.
    """

    name: str
    path: Path
    ending: str
    id_prefix: str
    place: str
    facts: list[Any]
    notes: list[str] = field(default_factory=list)
    changed_ns: int = 0

    def fingerprint(self, *chosen: Any) -> str:
        """Of the facts, and of what was chosen to be read."""
        return hashlib.sha256(json.dumps([*self.facts, *chosen]).encode()).hexdigest()

    def stamp(self, *chosen: Any) -> str:
        """As `origins.stamp_of` has it."""
        return stamp_of(self.changed_ns, self.fingerprint(*chosen))

    def end_alike(self) -> None:
        """Put a copy in the file's place, no line of which ends with a carriage return.

        DuckDB can't read a table where only some do.
        """
        original, self.path = self.path, temporary()
        remove_later(self)
        with _open_bytes(original) as lines, self.path.open("wb") as copy:
            copy.writelines(re.sub(rb"\r\n$", b"\n", line) for line in lines)
        self.notes.append("some lines end with a carriage return and some without; read as alike")


def open_file(name: str, path: Path, given: FileFormat = FileFormat()) -> InputFile:
    """A file that is there; "-" is standard input.

    Raises
    ------
    InputError
        If it is not text in its encoding.
    """
    if name == STANDARD_INPUT:
        file = _standard_input(given)
    else:
        stat = path.stat()
        facts = [str(path.resolve()), stat.st_size, stat.st_mtime_ns]
        place, prefix = path.resolve().as_posix(), Path(os.path.normpath(path)).as_posix()
        file = InputFile(name, path, ending_of(path, given), prefix, place, facts)
        file.changed_ns = max(stat.st_mtime_ns, stat.st_ctime_ns)
    if path.suffix == ZSTANDARD:
        _unpack(file)
    if file.ending == ".parquet":
        return file
    head = _beginning(file.path)
    if given.encoding is None and (marked := _by_mark(head)):
        file.notes.append(f"read as {marked.upper()}, by its first bytes")
        _transcode(file, marked)
    elif given.encoding and codecs.lookup(given.encoding).name not in ("utf-8", "utf-8-sig"):
        _transcode(file, given.encoding)
    elif head.startswith(codecs.BOM_UTF8) and file.ending in JSON_ENDINGS:
        _transcode(file, "utf-8-sig")  # DuckDB reads CSV with such a mark, but no JSON
    return file


def open_text(path: Path) -> Any:
    """A file's lines in UTF-8, unpacked if its name ends with .gz."""
    opener = gzip.open if path.suffix == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig")


def bounded_lines(lines: IO[str], name: str, most: int = LARGEST_OBJECT) -> Iterator[str]:
    """Lines of an open file; no more of one is read than it may have.

    Raises
    ------
    InputError
        If one has over `most` characters.

    >>> import io
    >>> list(bounded_lines(io.StringIO("one\\ntwo"), "a.txt", 3))
    ['one\\n', 'two']
    >>> list(bounded_lines(io.StringIO("one\\ntwos"), "a.txt", 3))
    Traceback (most recent call last):
    slimdex.indexes.errors.InputError: a.txt, line 2: over 3 characters; expected a document a line
    """
    for number, line in enumerate(iter(partial(lines.readline, most + 1), ""), start=1):
        if len(line) > most and not line.endswith("\n"):
            raise InputError(
                f"{name}, line {number}: over {most:,} characters; expected a document a line"
            )
        yield line


def unreadable(path: Path, error: Exception) -> str:
    """Where and why a file can't be read as UTF-8, to be put after its name."""
    if isinstance(error, UnicodeDecodeError):
        try:
            for _ in _decoded(path, "utf-8"):
                pass
        except UndecodableError as found:
            return f", {found}; expected UTF-8, or encoding=latin-1, cp1252 or another"
        except UNREADABLE as other:
            error = other
    return f": can't be read ({error})"


class UndecodableError(ValueError):
    """Bytes that are nothing in the encoding."""


def layout(path: Path) -> tuple[int, str]:
    """Lines before the names of a file's columns, and what separates these.

    That is a tab, comma, semicolon or bar. Excel may say which in a line of its own, as "sep=;".
    """
    with open_text(path) as lines:
        header = lines.readline(LARGEST_OBJECT)
    if said := re.fullmatch(r"sep=(.)\s*", header, re.IGNORECASE):
        return 1, said[1]
    return 0, max(",\t;|", key=header.count)


def ends_in_two_ways(path: Path) -> bool:
    """Whether some lines end with a carriage return and some without, which DuckDB can't read."""
    try:
        with _open_bytes(path) as lines:
            ends = {line.endswith(b"\r\n") for line in lines if line.endswith(b"\n")}
    except UNREADABLE:
        return False
    return len(ends) > 1


def undecodable(path: Path) -> None:
    """Read a file through, which raises one of UNREADABLE if it can't be."""
    with open_text(path) as lines:
        for _ in lines:
            pass


def broken_line(path: Path) -> str | None:
    """Which line is no JSON, and why: DuckDB counts lines by its own buffers."""
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                if line.strip():
                    parsed(line)
            except json.JSONDecodeError as error:
                return f"line {number}: broken JSON ({error.msg} at column {error.colno})"
            except TooDeepError as error:
                return f"line {number}: JSON {error}"
            except ValueError as error:  # a number of thousands of digits
                return f"line {number}: {error}"
    return None


def broken_record(path: Path) -> str | None:
    """Which line of a CSV file has other columns than the first: DuckDB's sniffer does not say."""
    largest = csv.field_size_limit(LARGEST_OBJECT)
    try:
        skipped, delimiter = layout(path)
        with open_text(path) as lines:
            records = csv.reader(lines, delimiter=delimiter, strict=True)
            for _ in range(skipped):
                next(records)
            try:
                return _uneven(records)
            except csv.Error as error:
                return f"line {max(records.line_num, 1)}: broken CSV ({error})"
    finally:
        csv.field_size_limit(largest)


def _uneven(records: Any) -> str | None:
    width = len(next(records, []))
    for record in records:
        if record and len(record) != width:
            return f"line {records.line_num}: {len(record)} columns; expected {width}"
    return None


def ending_of(path: Path, given: FileFormat) -> str:
    """What kind of file it is by its name, or by what the user says."""
    if given.format is not None:
        return f".{given.format.removeprefix('.')}"
    return path.with_suffix("").suffix if path.suffix in (".gz", ZSTANDARD) else path.suffix


@contextmanager
def standard_input_from(path: str | None) -> Iterator[None]:
    """Take a file for standard input, in this thread, while the statement lasts; None: take none.

    It is a copy of what was piped into another process.
    """
    before = _GIVEN_FOR_IT.set(path)
    try:
        yield
    finally:
        _GIVEN_FOR_IT.reset(before)


def _standard_input(given: FileFormat) -> InputFile:
    """A copy of what is piped in, which is read more than once."""
    given_for_it = _GIVEN_FOR_IT.get()
    if sys.stdin is None and given_for_it is None:
        raise InputError("-: there is no standard input")
    file = InputFile("standard input", temporary(), "", "stdin", "", [])
    remove_later(file)
    digest = hashlib.sha256()
    with (
        nullcontext(sys.stdin.buffer) if given_for_it is None else open(given_for_it, "rb") as own,
        file.path.open("wb") as copy,
    ):
        while piece := own.read(PIECE):
            digest.update(piece)
            copy.write(piece)
    with file.path.open("rb") as copy:
        packed = copy.read(2) == b"\x1f\x8b"
    if packed:
        file.path = file.path.rename(file.path.with_name(file.path.name + ".gz"))
        remove_later(file)
    file.facts, file.place = [digest.hexdigest()], f"stdin {digest.hexdigest()}"
    file.ending = ending_of(file.path, given) if given.format else _guessed(_beginning(file.path))
    if given.format is None:
        kind = file.ending.removeprefix(".")
        file.notes.append(f"read as {kind}, by its first bytes; format=NAME names another")
    return file


def _guessed(head: bytes) -> str:
    """The kind of file that begins so: Parquet, JSON objects, or a document a line."""
    if head.startswith(b"PAR1"):
        return ".parquet"
    text = head.decode(_by_mark(head) or "utf-8-sig", "ignore")
    return ".jsonl" if text.lstrip().startswith("{") else ".txt"


def _by_mark(head: bytes) -> str | None:
    """The encoding that a file's first bytes tell; UTF-8 needs no telling."""
    return next((encoding for mark, encoding in MARKS.items() if head.startswith(mark)), None)


def _beginning(path: Path) -> bytes:
    try:
        with _open_bytes(path) as file:
            head: bytes = file.read(PIECE)
    except UNREADABLE:
        return b""  # whoever reads the file says so
    return head


def _unpack(file: InputFile) -> None:
    """Put a copy that is not packed in the place of a file that is, by Zstandard."""
    original, file.path = file.path, temporary()
    remove_later(file)
    try:
        with original.open("rb") as packed, file.path.open("wb") as copy:
            shutil.copyfileobj(opened(packed), copy, PIECE)
    except ModuleNotFoundError as error:
        raise InputError(f"{file.name}: needs zstandard: {install_command('files')}") from error
    except OSError as error:
        raise InputError(f"{file.name}: can't be read ({error})") from error


def _transcode(file: InputFile, encoding: str) -> None:
    """Put a copy in UTF-8 in the file's place."""
    original, file.path = file.path, temporary()
    remove_later(file)
    file.facts.append(encoding)
    try:
        with file.path.open("wb") as copy:
            for text in _decoded(original, encoding):
                copy.write(text.encode("utf-8", "surrogatepass"))
    except UndecodableError as error:
        raise InputError(f"{file.name}, {error}; expected another encoding") from error
    except UNREADABLE as error:
        raise InputError(f"{file.name}: can't be read ({error})") from error


def _decoded(path: Path, encoding: str) -> Iterator[str]:
    """A file's text, a piece at a time."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, offset = 1, 0
    with _open_bytes(path) as file:
        while True:
            piece, before = file.read(PIECE), decoder.getstate()
            try:
                text = decoder.decode(piece, final=not piece)
            except UnicodeError as error:
                start = getattr(error, "start", 0) - len(before[0])
                decoder.setstate(before)
                line += decoder.decode(piece[: max(start, 0)]).count("\n")
                raise UndecodableError(
                    f"line {line}: not {encoding.upper()} text ({error.args[-1]}, "
                    f"byte {offset + start + 1:,} of the file)"
                ) from error
            yield text
            if not piece:
                return
            line += text.count("\n")
            offset += len(piece)


def _open_bytes(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def temporary() -> Path:
    """A new file."""
    descriptor, name = tempfile.mkstemp(prefix="slimdex-")
    os.close(descriptor)
    return Path(name)


def remove_later(file: InputFile) -> None:
    """Remove the copy when the file is no longer needed, at the latest when the process ends."""
    weakref.finalize(file, file.path.unlink, missing_ok=True)
