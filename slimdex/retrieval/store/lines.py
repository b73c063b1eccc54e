"""Lines: documents by row, each as one line of JSON, in an append-only file that is mapped.

Lines are compressed one by one, so that a hit decompresses no other document. What they share with
others is in the first lines of the file, which are the dictionary of all later ones: with 32 KiB of
these, a line takes no more bytes than in a block of 32 lines.

A line has everything that a segment has of its document, so each can be rebuilt from the other.

Numbers, texts, booleans, lists and null are JSON's own. Other values are objects of one item
that names the type: {"date": "2024-12-31"}. Infinity and NaN are written as Python's json does,
which other readers of JSON may refuse.
"""

from __future__ import annotations

import json
import mmap
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import Any, TypeVar
from uuid import UUID

import numpy as np

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import Rows
from slimdex.indexes.vectors.vector_file import check_length
from slimdex.system.append_only import appending, block_digests, sync_open
from slimdex.system.once import cached_property

from ..column_types import restore_values
from ..documents import Document, Part
from ..passages import Passage
from .passages import DocumentPassages, parts_read, parts_written
from .state import Lines

ENTRY = Struct("<QII")
"""Entry of a row in the offsets: start of its document's line, length in bytes, CRC-32, which for a
compressed line continues that of the dictionary. All rows of a document have the same entry."""
ENTRIES = np.dtype([("start", "<u8"), ("length", "<u4"), ("crc", "<u4")])
"""The same, for arrays."""
END = b"]\n"
NULL = b",null"
"""End of a line, and a column without value that is not its first."""
LONGEST_LINE = (1 << 32) - 1
"""Largest length in bytes that an entry can hold."""
DICTIONARY = 1 << 15
"""Bytes at the start of the lines, never compressed, that the compression of later ones refers to:
as many as deflate can."""
COMPRESSED = b"\0"
"""Byte before a compressed line; a plain one begins with "["."""
MOST_COMPRESSED = 1 << 24
"""Largest plain length of a compressed line, so that a forged one can't exhaust the memory."""
LONGEST_TRAILING = 1 << 14
"""Largest plain length of the line of a document that is in no segment: a query reads all such."""
LEVEL = 3
"""Compression level of zlib; the default, 6, saves 5% of a sentence's bytes in twice the time."""
RAW = -zlib.MAX_WBITS
"""Deflate without header and checksum."""


T = TypeVar("T")


class UnwritableError(InputError):
    """A value that a line can't restore exactly, and that no DuckDB returns."""


_PLAIN = {type(None), bool, int, float, str}
_KINDS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    date: ("date", date.isoformat, date.fromisoformat),
    datetime: ("datetime", lambda v: _with_offset(v).isoformat(), datetime.fromisoformat),
    time: ("time", lambda v: v.replace(fold=0).isoformat(), time.fromisoformat),
    timedelta: (
        "timedelta",
        lambda v: [v.days, v.seconds, v.microseconds],
        lambda v: timedelta(*v),
    ),
    Decimal: ("decimal", str, Decimal),
    UUID: ("uuid", str, UUID),
    bytes: ("bytes", lambda v: b64encode(v).decode(), b64decode),
    tuple: ("tuple", lambda v: [*map(_jsonable, v)], tuple),
    # Pairs, since the names of a struct could be those of our types.
    dict: ("struct", lambda v: [[*map(_jsonable, item)] for item in v.items()], dict),
}
"""Type -> its name, serialisation and parsing."""
_READ = {name: read for name, _, read in _KINDS.values()}


def line_of(values: Sequence[Any]) -> bytes:
    """Serialise values as a line of JSON in UTF-8, with its end.

    A moment in a zone is written by its offset from UTC. Raises `UnwritableError` for a value of
    another type than DuckDB's.

    >>> line_of([7, None, date(2024, 12, 31)])
    b'[7,null,{"date":"2024-12-31"}]\\n'
    """
    items = [value if type(value) in _PLAIN else _jsonable(value) for value in values]
    return f"{_ENCODER.encode(items)}\n".encode()


def line_and_rows(values: Sequence[Any]) -> tuple[bytes, int]:
    """Return the line of a document, and its number of rows.

    `values` are its id, title, `text_value` and the columns' values, as DuckDB returns them.
    """
    text = values[2] if len(values) > 2 else ""
    count = 1
    if isinstance(text, list):
        spans = text[1]  # of the passages, each of which is a row
        count = max(len(spans), 1)
    return line_of(values), count


def values_of(line: bytes) -> list[Any]:
    """Parse a line of `line_of`; raises `ValueError` if it is invalid.

    >>> values_of(line_of([7, None, date(2024, 12, 31)]))
    [7, None, datetime.date(2024, 12, 31)]
    """
    try:
        values, _ = _DECODER.raw_decode(line.decode())
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"no line of a document ({error})") from error
    if not isinstance(values, list):
        raise ValueError("no line of a document (expected a list)")
    return values


def _jsonable(value: Any) -> Any:
    """Convert a value for JSON; raises `UnwritableError` if DuckDB has no such type."""
    type_ = type(value)
    if type_ in _PLAIN:
        return value
    if type_ is list:
        return [*map(_jsonable, value)]
    if type_ not in _KINDS:
        raise UnwritableError(f"a value of {type_.__name__}")
    name, written, _ = _KINDS[type_]
    return {name: written(value)}


def _with_offset(moment: datetime) -> datetime:
    """Return a moment with an offset that every machine knows, as names of zones are not."""
    if moment.tzinfo is None or isinstance(moment.tzinfo, timezone):
        return moment.replace(fold=0)
    return moment.astimezone(UTC)


def _restore(item: dict[str, Any]) -> Any:
    """Return the value that `_jsonable` wrote as an object of one item, {type: value}."""
    ((name, value),) = item.items()
    if name not in _READ:
        raise ValueError(f"a value of {name!r}")
    return _READ[name](value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(object_hook=_restore)


@dataclass(frozen=True)
class CompressedLines:
    """Lines compressed with a dictionary.

    Attributes
    ----------
    start : the dictionary, which is the start of the file of lines.
    stored : line -> its compressed bytes.
    """

    start: bytes = b""
    stored: Mapping[bytes, bytes] = field(default_factory=dict)


NONE_COMPRESSED = CompressedLines()


@dataclass(frozen=True)
class LineFile:
    """The file of the lines or that of their offsets, and its committed size."""

    path: Path
    nbytes: int

    def check(self) -> None:
        """Raise `CorruptError` if the file is too short."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size < self.nbytes:
            raise CorruptError(f"{self.path}: {size} bytes, expected {self.nbytes}{self.way_out}")

    def blocks(self) -> Iterator[tuple[int, str]]:
        """(number, SHA-256) of each block; the last may be short."""
        return block_digests(self.path, self.nbytes)

    def map(self) -> mmap.mmap | bytes:
        """Map the committed bytes; the map outlives the file's name."""
        self.check()
        if not self.nbytes:
            return b""  # which can't be mapped
        with self.path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), self.nbytes, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_RANDOM"):
            mapped.madvise(mmap.MADV_RANDOM)  # hits are scattered: avoid read-ahead of 128 KiB
        return mapped

    @property
    def way_out(self) -> str:
        """Advice if it is damaged, for the end of a message."""
        return f"; see `slimdex repair {self.path.parent}`"


def line_files(folder: Path, lines: Lines, rows: int) -> tuple[LineFile, LineFile]:
    """The files of the lines and of the offsets."""
    return (
        LineFile(folder / lines.documents, lines.bytes),
        LineFile(folder / lines.offsets, rows * ENTRY.size),
    )


class DocumentFile:
    """Documents as lines of JSON, and the offset of each.

    Ten lines are read faster than DuckDB starts a query, which reads the segments. Bytes beyond the
    committed size, left by an interrupted append, are ignored and overwritten.

    Raises `CorruptError` if a file is missing or too short.

    >>> import tempfile
    >>> empty = DocumentFile(Path(tempfile.mkdtemp()), Lines("documents", "offsets"), 0)
    >>> lines = map(line_and_rows, [("7", "", "It rained.", 2001), ("8", "", "It snowed.")])
    >>> file = empty.append(lines, {"n": "INT"})
    >>> file.documents([0], {"n": "INT"})
    {0: Document(id='7', text='It rained.', title='', metadata={'n': 2001})}
    """

    def __init__(self, folder: Path, lines: Lines, rows: int) -> None:
        self.lines = lines
        self.rows = rows
        self._folder = folder
        self._documents, self._offsets = line_files(folder, lines, rows)
        self.files = (self._documents, self._offsets)
        for file in self.files:
            file.check()

    @cached_property
    def _maps(self) -> tuple[mmap.mmap | bytes, mmap.mmap | bytes]:
        return self._documents.map(), self._offsets.map()

    @cached_property
    def _dictionary(self) -> _Dictionary:
        lines, _ = self._maps
        _prefetch(lines, [(0, DICTIONARY)])
        return _Dictionary(lines[:DICTIONARY])

    def open(self) -> DocumentFile:
        """Map both files, so that they remain readable when deleted; return self."""
        _ = self._maps
        return self

    def append(
        self,
        lines: Iterable[tuple[bytes, int]],
        columns: Mapping[str, str],
        known: CompressedLines = NONE_COMPRESSED,
    ) -> DocumentFile:
        """Append documents durably; return the longer file, leaving this one unchanged.

        Parameters
        ----------
        lines : the line of each document, and its number of rows: see `line_and_rows`.
        columns : name -> DuckDB type of the values. Earlier lines may have fewer columns, but of
            the same types.
        known : lines that need not be compressed again.

        Raises `InputError` if a line is too long.
        """
        end = self.lines.bytes
        rows = self.rows
        files = [appending(file.path, file.nbytes) for file in self.files]
        with files[0] as texts, files[1] as offsets:
            texts.seek(0)
            dictionary = _Dictionary(texts.read(min(end, DICTIONARY)), known)

            # Lines, and an entry for each row; rows of one document have equal entries.
            texts.seek(end)
            for line, count in lines:
                stored = dictionary.compress(line)
                if len(stored) > LONGEST_LINE:
                    raise InputError(
                        f"a document of {len(line)} bytes; expected at most {LONGEST_LINE}"
                    )
                texts.write(stored)
                offsets.write(ENTRY.pack(end, len(stored), dictionary.checksum(stored)) * count)
                end += len(stored)
                rows += count
        longer = replace(self.lines, bytes=end, columns=dict(columns))
        return DocumentFile(self._folder, longer, rows)

    def compress(self, lines: Iterable[bytes]) -> CompressedLines:
        """Compress lines that `append` will write later, to this file or a longer one."""
        return self._dictionary.compress_all(lines)

    def documents(self, rows: Sequence[int], columns: Mapping[str, str]) -> dict[int, Document]:
        """Read documents by any of their rows.

        `columns` maps the current columns to DuckDB types; earlier lines may lack some. Raises
        `CorruptError` if a line is damaged.
        """
        has_json = "JSON" in columns.values()
        return self._read(rows, partial(_document, columns=columns, has_json=has_json))

    def size(self, rows: Iterable[int]) -> int:
        """Bytes that the lines of documents take, given one row of each."""
        _, offsets = self._maps
        check_length(offsets, self._offsets.path)
        return sum(ENTRY.unpack_from(offsets, row * ENTRY.size)[1] for row in rows)

    def records(self, rows: Sequence[int], longest: int = LONGEST_LINE) -> dict[int, Record]:
        """Read documents, given by their first rows, with all that their segments have.

        Raises `CorruptError` if a line is damaged, or longer than `longest` bytes.
        """
        count = len(self.lines.columns)
        return self._read(rows, partial(_record, count=count, longest=longest))

    def damaged_in_dictionary(self, documents: Rows) -> list[int]:
        """Return those of these documents whose lines begin in the dictionary and are damaged.

        Documents are given and returned by their first rows.
        """
        lines, offsets = self._maps
        entries = np.frombuffer(offsets, dtype=ENTRIES)[documents]
        is_inside = entries["start"] < DICTIONARY
        entry_by_row = zip(documents[is_inside].tolist(), entries[is_inside].tolist(), strict=True)
        damaged = []
        for row, (start, length, crc) in entry_by_row:
            if zlib.crc32(lines[start : start + length]) != crc:
                damaged.append(row)
        return damaged

    def others(self, values: Mapping[int, Sequence[Any]]) -> list[int]:
        """Return the rows of the documents whose lines differ from these values.

        Raises `CorruptError` if a line is damaged.
        """
        different = []
        for row, line in self._read([*values], bytes).items():
            if line not in self._forms(values[row], len(line)):
                different.append(row)
        return different

    def _forms(self, values: Sequence[Any], length: int) -> Iterator[bytes]:
        """Yield the lines that this file may have for these values: the current and an old form.

        Null columns at the end are left out if the line then has `length` bytes: it may have been
        written before these columns existed.
        """
        yield _shorten(line_of(values), length)

        # Earlier versions wrote no contexts and origins, and a list only for passages or parts.
        id, title, text, *rest = values
        if isinstance(text, list) and not self.lines.is_whole:
            characters, spans, parts, *_ = text
            text = [characters, spans, parts] if spans or parts else characters
            yield _shorten(line_of([id, title, text, *rest]), length)

    def restore(self, row: int, values: Sequence[Any]) -> bool:
        """Write the line of a document in the dictionary again, durably.

        False, and nothing is written, if these values make another line than the one appended.
        """
        # The entry still has the length and checksum of the line that was appended.
        _, offsets = self._maps
        start, length, crc = ENTRY.unpack_from(offsets, row * ENTRY.size)
        for line in self._forms(values, length):
            if len(line) == length and zlib.crc32(line) == crc:
                break
        else:
            return False

        # The bytes equal those that were appended, so no offset changes.
        with self._documents.path.open("r+b") as file:
            file.seek(start)
            file.write(line)
            file.flush()
            sync_open(file.fileno(), self._documents.path)
        return True

    def _read(self, rows: Sequence[int], parse: Callable[[bytes], T]) -> dict[int, T]:
        """Map rows to what `parse` makes of their documents' lines.

        Raises `CorruptError` if a line is damaged, or `parse` raises `ValueError` or `TypeError`.
        """
        lines, offsets = self._maps
        for file, mapped in zip(self.files, self._maps, strict=True):
            check_length(mapped, file.path)

        # All pages are requested before the first is read: a cold disk fetches them together.
        _prefetch(offsets, ((row * ENTRY.size, ENTRY.size) for row in rows))
        entries = [ENTRY.unpack_from(offsets, row * ENTRY.size) for row in rows]
        _prefetch(lines, ((start, length) for start, length, _ in entries))

        # Lines are compared with their checksums before they are parsed.
        read = dict[int, T]()
        for row, (start, length, crc) in zip(rows, entries, strict=True):
            stored = lines[start : start + length]
            try:
                if len(stored) != length or self._dictionary.checksum(stored) != crc:
                    raise ValueError("another checksum")
                read[row] = parse(self._dictionary.line(stored))
            except (ValueError, TypeError, zlib.error) as error:
                raise CorruptError(
                    f"{self._documents.path}: row {row} is damaged, at byte {start} ({error})"
                    f"{self._documents.way_out}"
                ) from error
        return read


def _shorten(line: bytes, length: int) -> bytes:
    """Shorten a line to `length` bytes by leaving out null columns at its end.

    Lines that were written before these columns existed lack them. A line that can't be shortened
    to this length is returned unchanged.

    >>> _shorten(line_of(["7", "", "Rain", None, None]), 21)
    b'["7","","Rain",null]\\n'
    """
    head = line[: length - len(END)]
    rest = line[length - len(END) :]
    return head + END if rest.replace(NULL, b"") == END else line


class _Dictionary:
    """The start of a file of lines, by which the later ones are compressed."""

    def __init__(self, start: bytes, known: CompressedLines = NONE_COMPRESSED) -> None:
        self._start = start
        self._known = known.stored if known.start == start else {}

    def compress_all(self, lines: Iterable[bytes]) -> CompressedLines:
        """Compress lines, unless the dictionary is incomplete."""
        if len(self._start) < DICTIONARY:
            return NONE_COMPRESSED
        return CompressedLines(self._start, {line: self.compress(line) for line in lines})

    def compress(self, line: bytes) -> bytes:
        """Return the bytes to store: the line itself while the dictionary is incomplete."""
        if len(self._start) < DICTIONARY:
            self._start += line[: DICTIONARY - len(self._start)]
            return line
        known = self._known.get(line)
        if known is not None:
            return known
        if len(line) > MOST_COMPRESSED:
            return line
        stream = self._stream.copy()  # a new stream takes four times as long
        stored: bytes = COMPRESSED + stream.compress(line) + stream.flush()
        return stored

    def line(self, stored: bytes) -> bytes:
        """Return a line from its stored bytes, compressed or plain.

        Raises `ValueError` or `zlib.error` if `compress` can't have made them.
        """
        if stored[:1] != COMPRESSED:
            return stored
        stream = zlib.decompressobj(wbits=RAW, zdict=self._start)
        line = stream.decompress(memoryview(stored)[1:], MOST_COMPRESSED + 1)
        if not stream.eof:
            raise ValueError("not compressed by slimdex")
        return line

    def checksum(self, stored: bytes) -> int:
        """CRC-32 of the stored bytes; for a compressed line, it continues the dictionary's.

        This reveals a damaged dictionary in every line that depends on it.
        """
        return zlib.crc32(stored, self._checksum if stored[:1] == COMPRESSED else 0)

    @cached_property
    def _stream(self) -> Any:
        return zlib.compressobj(LEVEL, wbits=RAW, zdict=self._start)

    @cached_property
    def _checksum(self) -> int:
        return zlib.crc32(self._start)


def text_value(text: str, cut: DocumentPassages | None, origin: str | None) -> Any:
    """Return the stored form of a text: itself, or a list with its passages, parts and origin.

    >>> cut = DocumentPassages([Passage(0, 5), Passage(6, 11, "Weather")])
    >>> text_value("Rain. Snow.", cut, None)
    ['Rain. Snow.', [[0, 5], [6, 11]], [], ['', 'Weather'], None]
    """
    if cut is None and origin is None:
        return text
    cut = cut or DocumentPassages()
    spans = [[passage.start, passage.end] for passage in cut.passages]
    contexts = [passage.context for passage in cut.passages]
    parts = parts_written(cut.parts)
    return [text, spans, json.loads(parts) if parts else [], contexts, origin]


@dataclass(frozen=True)
class Record:
    """A document as its line and its segment have it.

    Attributes
    ----------
    document : id, title, text and origin.
    cut : its passages and parts; None for a text of one passage without parts.
    values : of the user's columns.
    """

    document: Document
    cut: DocumentPassages | None
    values: Sequence[Any]

    @property
    def contents(self) -> list[str]:
        """Texts to encode, one for each row of the document."""
        if self.cut is None:
            return [self.document.content]
        return self.cut.contents(self.document.text)


def _record(line: bytes, count: int, longest: int) -> Record:
    """Parse a line of up to `count` columns; raises `ValueError` or `TypeError` if it is invalid.

    A line of more than `longest` bytes is also invalid.
    """
    # The line is untrusted.
    if len(line) > longest:
        raise ValueError(f"a line of {len(line)} bytes; expected at most {longest}")
    id, title, value, *values = values_of(line)
    text, spans, parts, contexts, origin = _text_parts(id, title, value)
    if len(values) > count or len(contexts) != len(spans):
        raise ValueError("other values than expected")
    if not all(isinstance(each, str) for each in [*contexts, origin or ""]):
        raise ValueError("expected texts before passages, and an origin")

    # Lines of earlier commits lack the columns that came later.
    passages = [Passage(*span, each) for span, each in zip(spans, contexts, strict=True)]
    return Record(
        document=Document(id=id, text=text, title=title, origin=origin or ""),
        cut=DocumentPassages(passages, parts) if passages or parts else None,
        values=values + [None] * (count - len(values)),
    )


def _document(line: bytes, columns: Mapping[str, str], has_json: bool) -> Document:
    """Parse a line; `has_json` says whether any column is JSON, whose texts are parsed, too."""
    # Lines of earlier commits lack the columns that came later.
    id, title, value, *values = values_of(line)
    text, spans, parts, _, _ = _text_parts(id, title, value)
    values += [None] * (len(columns) - len(values))
    if has_json:
        metadata = restore_values(columns, values)
    else:  # the same result, faster
        metadata = dict(zip(columns, values, strict=True))
    return Document(id=id, text=text, title=title, metadata=metadata, parts=parts, passages=spans)


Spans = tuple[tuple[int, int], ...]
"""Where passages begin and end."""


def _text_parts(
    id: Any, title: Any, value: Any
) -> tuple[str, Spans, tuple[Part, ...], Sequence[Any], Any]:
    """Read what `text_value` has written: text, spans, parts, contexts and origin.

    Earlier versions wrote no contexts and origins. Raises `ValueError` if it is invalid.
    """
    contexts: Sequence[Any] = ()
    spans: Spans = ()
    parts: tuple[Part, ...] = ()
    origin = None
    text = value
    if type(value) is list:
        text, passages, written, *later = value
        spans = tuple((start, end) for start, end in passages)
        parts = parts_read(written)
        if not all(type(edge) is int and edge >= 0 for edge in chain.from_iterable(spans)):
            raise ValueError("expected where passages begin and end")
        contexts, origin = later or ([""] * len(spans), None)
    if not type(id) is type(title) is type(text) is str:
        raise ValueError("expected an id, a title and a text")
    return text, spans, parts, contexts, origin


def _prefetch(mapped: mmap.mmap | bytes, spans: Iterable[tuple[int, int]]) -> None:
    """Ask the system to prefetch parts of a map, (start, length) each."""
    if not hasattr(mmap, "MADV_WILLNEED") or not isinstance(mapped, mmap.mmap):
        return

    # Bounds of the pages that were requested last: a span inside them needs no call.
    requested_start = -1  # none so far
    requested_end = -1
    with suppress(OSError, ValueError, OverflowError):  # only advice
        for start, length in spans:
            page_start = start - start % mmap.PAGESIZE
            stop = start + length
            if page_start != requested_start or stop > requested_end:
                mapped.madvise(mmap.MADV_WILLNEED, page_start, stop - page_start)
                requested_start = page_start
                requested_end = stop + -stop % mmap.PAGESIZE  # rounded up to whole pages
