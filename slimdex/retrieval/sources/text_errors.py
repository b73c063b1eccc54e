"""Places of errors in text files, which DuckDB does not report, and the layout of CSV."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from slimdex.indexes.json_text import TooDeepError, parsed

from .text_files import (
    LARGEST_OBJECT,
    PIECE,
    UNREADABLE,
    UndecodableError,
    decoded_pieces,
    open_bytes,
    open_text,
)


def unreadable(path: Path, error: Exception) -> str:
    """Describe where and why a file can't be read as UTF-8, to append to its name."""
    if isinstance(error, UnicodeDecodeError):
        try:
            for _ in decoded_pieces(path, "utf-8"):
                pass
        except UndecodableError as found:
            return f", {found}; expected UTF-8, or encoding=latin-1, cp1252 or another"
        except UNREADABLE as other:
            error = other
    return f": can't be read ({error})"


def layout(path: Path) -> tuple[int, str]:
    """Detect the number of lines before a CSV file's header, and its separator.

    The separator is a tab, comma, semicolon or bar. Excel may state it in a first line "sep=;".
    """
    with open_text(path) as lines:
        header = lines.readline(LARGEST_OBJECT)
    if stated := re.fullmatch(r"sep=(.)\s*", header, re.IGNORECASE):
        return 1, stated[1]
    return 0, max(",\t;|", key=header.count)


def header_width(path: Path) -> int:
    """Count the columns of a CSV file by its first line; 0 if it can't be read."""
    try:
        skipped, delimiter = layout(path)
        with open_text(path) as lines:
            for _ in range(skipped + 1):
                header = lines.readline(LARGEST_OBJECT)
        return len(next(csv.reader([header], delimiter=delimiter), []))
    except (csv.Error, *UNREADABLE):
        return 0


def has_mixed_line_endings(path: Path) -> bool:
    """Return whether only some lines end with a carriage return, which DuckDB can't read."""
    try:
        with open_bytes(path) as lines:
            ends, before = set[bool](), b""
            while line := lines.readline(PIECE):
                if line.endswith(b"\n"):
                    ends.add((before + line)[-2:] == b"\r\n")
                before = line[-1:]
    except UNREADABLE:
        return False
    return len(ends) > 1


def undecodable(path: Path) -> None:
    """Read a file to its end; raises one of UNREADABLE on failure."""
    with open_text(path) as text:
        while text.read(PIECE):
            pass


def broken_line(path: Path) -> str | None:
    """Describe the first line that is not JSON; DuckDB's own line numbers are per buffer."""
    with open_text(path) as lines:
        pieces = iter(partial(lines.readline, LARGEST_OBJECT + 1), "")
        for number, line in enumerate(pieces, start=1):
            if len(line) > LARGEST_OBJECT:
                return f"line {number}: over {LARGEST_OBJECT:,} characters; expected one document"
            try:
                if line.strip():
                    parsed(line)
            except json.JSONDecodeError as error:
                return f"line {number}: broken JSON ({error.msg} at column {error.colno})"
            except TooDeepError as error:
                return f"line {number}: JSON {error}"
            except ValueError as error:  # an integer of thousands of digits
                return f"line {number}: {error}"
    return None


def broken_record(path: Path) -> str | None:
    """Describe the first CSV line with another number of columns, which DuckDB does not report."""
    largest = csv.field_size_limit(LARGEST_OBJECT)
    try:
        skipped, delimiter = layout(path)
        with open_text(path) as lines:
            records = csv.reader(_bounded(lines), delimiter=delimiter, strict=True)
            for _ in range(skipped):
                next(records)
            try:
                return _uneven(records)
            except csv.Error as error:
                return f"line {max(records.line_num, 1)}: broken CSV ({error})"
    finally:
        csv.field_size_limit(largest)


def _bounded(lines: IO[str]) -> Iterator[str]:
    """Yield lines; raises `csv.Error` for one that is too long, before it is read whole."""
    for line in iter(partial(lines.readline, LARGEST_OBJECT + 1), ""):
        if len(line) > LARGEST_OBJECT:
            raise csv.Error(f"over {LARGEST_OBJECT:,} characters")
        yield line


def _uneven(records: Any) -> str | None:
    width = len(next(records, []))
    for record in records:
        if record and len(record) != width:
            return f"line {records.line_num}: {len(record)} columns; expected {width}"
    return None
