"""Worker process that reads a table of SQLite or Excel and writes its rows as JSON lines.

Its memory, time and rows are limited: a workbook of a few kilobytes may claim 17 billion cells, and
a view may be endless. It reads a request as a line of JSON and answers ``{"error": message}``, with
an empty message on success.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import sqlite3
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from shutil import copyfileobj
from typing import Any

from slimdex.indexes.errors import InputError

from ...extras import install_command
from ...sql import identifier
from ..files.archives import ENCRYPTED, MOST_ENTRIES
from ..files.limits import MEMORY, size
from ..files.worker import limit_memory, limit_time

WORKBOOK = ".xlsx"
ROWS = "rows.jsonl"
"""Name of the output file in the given folder."""
LARGEST_WORKBOOK = 1 << 30
"""Largest size of an unpacked Excel file."""
LARGEST_ROWS = 1 << 30
ROWS_PER_BYTE = 64
"""Limits of characters of rows as JSON, absolute and per byte of the file; the larger counts."""
PIECE = 1 << 20
BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError)


def main() -> None:
    """Read the table named on standard input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep libraries' output apart from the answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    limit_memory()
    request = json.loads(sys.stdin.buffer.read())
    limit_time(request["seconds"])
    error = _error(Path(request["path"]), request["table"], Path(request["folder"]))
    answers.write(json.dumps({"error": error}))
    answers.flush()


def _error(path: Path, table: str, folder: Path) -> str:
    """Write the table's rows; return an error message, or ""."""
    if path.suffix.lower() == WORKBOOK:
        rows = rows_of_workbook(path, table, folder / f"unpacked{WORKBOOK}")
    else:
        rows = rows_of_sqlite(path, table)
    try:
        most = max(LARGEST_ROWS, ROWS_PER_BYTE * path.stat().st_size)
        if not _write(folder / ROWS, rows, most):
            return f"{path}: its rows take over {size(most)} as JSON; expected at most that"
    except InputError as error:
        return str(error)
    except MemoryError:
        return f"{path}: needs over {size(MEMORY)} of memory"
    except BaseException as error:  # a Rust panic is not an Exception
        first = next(iter(str(error).splitlines()), "")
        return f"{path}: broken: {type(error).__name__} {first[:100]}".strip()
    return ""


def chosen(path: Path, kind: str, tables: list[str], table: str) -> str:
    """Return the named table, or the only one.

    Raises `InputError` if the table does not exist, or there are several and none is named.
    """
    if table and table not in tables:
        raise InputError(f"{path}: no {kind} {table!r}; it has {', '.join(tables) or 'none'}")
    if not table and len(tables) != 1:
        hint = f"which {kind}? Name one as {path}#NAME: {', '.join(tables)}"
        raise InputError(f"{path}: " + (hint if tables else f"no {kind} in it"))
    return table or tables[0]


def rows_of_sqlite(path: Path, table: str) -> Iterator[Mapping[str, Any]]:
    """Yield rows of a table or view: column -> value."""
    try:
        address = f"{path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            listed = connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
                "AND name NOT LIKE 'sqlite_%' ORDER BY name"
            ).fetchall()
            name = chosen(path, "table", [name for (name,) in listed], table)
            cursor = connection.execute(f"SELECT * FROM {identifier(name)}")
            names = [column[0] for column in cursor.description]
            for row in cursor:
                yield dict(zip(names, row, strict=True))
    except sqlite3.Error as error:
        raise InputError(f"{path}: {error}; expected an SQLite database") from error


def rows_of_workbook(path: Path, table: str, copy: Path) -> Iterator[Mapping[str, Any]]:
    """Yield rows of a sheet: column -> value; its first nonempty row has the columns' names.

    `copy` is a temporary file with the same ending, of at most `LARGEST_WORKBOOK` bytes.
    """
    try:
        import python_calamine
    except ModuleNotFoundError as error:
        raise InputError(f"{path}: requires python-calamine: {install_command('files')}") from error
    _unpack(path, copy)
    try:
        book = python_calamine.CalamineWorkbook.from_path(str(copy))
        name = chosen(path, "sheet", book.sheet_names, table)
        rows = book.get_sheet_by_name(name).iter_rows()
    except (python_calamine.CalamineError, OSError) as error:
        raise InputError(f"{path}: {error}; expected an Excel workbook") from error
    head = next((row for row in rows if any(cell != "" for cell in row)), list[Any]())
    names = [str(cell).strip() for cell in head]
    for row in rows:
        values = {name: cell for name, cell in zip(names, row, strict=False) if name}
        if any(value not in ("", None) for value in values.values()):
            yield {name: None if value == "" else value for name, value in values.items()}


def _unpack(path: Path, to: Path) -> None:
    """Copy an archive uncompressed, each entry up to its declared size.

    The declared sizes thus bound what a reader of the copy unpacks; in the original, an entry may
    unpack to more than it declares.
    """
    try:
        with zipfile.ZipFile(path) as packed, zipfile.ZipFile(to, "w") as copy:
            entries = list({entry.filename: entry for entry in packed.infolist()}.values())
            unpacked = sum(entry.file_size for entry in entries)
            if unpacked > LARGEST_WORKBOOK or len(entries) > MOST_ENTRIES:
                raise InputError(
                    f"{path}: {unpacked:,} bytes unpacked in {len(entries):,} entries; expected at "
                    f"most {LARGEST_WORKBOOK:,} in {MOST_ENTRIES:,}"
                )
            if any(entry.flag_bits & ENCRYPTED for entry in entries):
                raise InputError(f"{path}: encrypted; expected an Excel workbook")
            for entry in entries:
                with packed.open(entry) as file, copy.open(entry.filename, "w") as own:
                    copyfileobj(file, own, PIECE)
    except BROKEN_ARCHIVE as error:
        raise InputError(f"{path}: {error}; expected an Excel workbook") from error


def _write(path: Path, rows: Iterable[Mapping[str, Any]], most: int) -> bool:
    """Write rows as JSON lines; return False if they exceed the limit of characters."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            values = {name: _plain(value) for name, value in row.items()}
            line = json.dumps(values, ensure_ascii=False) + "\n"
            most -= len(line)
            if most < 0:
                return False
            file.write(line)
    return True


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return None  # not text, and not filterable
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return int(value)  # Excel has no integers
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value) if isinstance(value, dt.timedelta) else value
