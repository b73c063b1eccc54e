"""Tables of databases and workbooks, copied to JSON lines or CSV by a worker process.

DuckDB reads SQLite and Excel through extensions that it downloads. The worker's memory, time and
rows are limited: a workbook of a few kilobytes may claim 17 billion cells, and a view may be
endless.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import os
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from io import StringIO
from itertools import count
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any

from slimdex.errors import InputError
from slimdex.system.atomic_files import temporary_parent
from slimdex.system.duckdb_library import identifier
from slimdex.system.extras import install_command

from ..files.input_files import InputFile, remove_later, temporary
from ..files.limits import LARGEST_FILE, SECONDS, UnreadableError, size
from ..files.packed import ENCRYPTED, MOST_ENTRIES, why_broken
from ..files.reading_process import Worker

XLS = ".xls"
"""Ending of the only workbooks that are no archives."""
WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", XLS, ".ods")
COMMAS = "sep=,\n"
"""First line of CSV, so that a name with semicolons is one name."""
LARGEST_WORKBOOK = 1 << 30
"""Largest size of an unpacked workbook."""
LARGEST_ROWS = 1 << 30
ROWS_PER_BYTE = 64
"""Limits of characters of rows, absolute and per byte of the file; the larger counts."""
LARGEST_WHOLE = 1e21
"""Magnitude of whole numbers from which an exponent is written, as in JavaScript."""
ISO_DURATION = re.compile(r"PT(\d+)H(\d+)M(\d+(?:\.\d+)?)S")
"""A time or a duration, as OpenDocument has it."""
NO_RESULT = re.compile(
    rb'<c\b[^<>]*\bt="e"'
    rb'|<c\b(?![^<>]*\bt="str")[^<>]*>\s*+<f\b(?:[^<>]*/>|[^<>]*>[^<]*</f>)\s*+'
    rb"(?:<v\s*/>|<v></v>)?\s*</c>"
)
"""A cell with an error, or a formula without a result, in a sheet's XML; an empty text is one."""
LONGEST_CELL = 10_000
"""Bytes of such a cell: Excel limits formulas to 8,192 characters."""
MANIFEST = "META-INF/manifest.xml"
"""Entry of OpenDocument that says which others are encrypted."""
PIECE = 1 << 20
BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError)
SQLITE = (".sqlite", ".sqlite3", ".db")
ENDINGS = (*SQLITE, *WORKBOOKS)


def table_file(spec: str) -> InputFile | None:
    """Read a table of a database or workbook: ``notes.db``, or ``notes.db#letters`` to name it.

    Returns None for other files.

    Raises `InputError` if it can't be read, or has several tables and none is named.
    """
    path = Path(spec)
    table = ""
    if not path.exists() and "#" in spec:
        name, _, table = spec.rpartition("#")
        path = Path(name)
    if path.suffix.lower() not in ENDINGS or not path.is_file():
        return None

    # What is known without reading it.
    status = path.stat()
    place = f"{path.resolve().as_posix()}#{table}"
    facts = [place, status.st_size, status.st_mtime_ns]
    prefix = Path(os.path.normpath(spec)).as_posix()
    kind = ".csv" if path.suffix.lower() in WORKBOOKS else ".jsonl"
    file = InputFile(
        name=spec, path=temporary(), ending=kind, id_prefix=prefix, place=place, facts=facts
    )
    file.changed_ns = max(status.st_mtime_ns, status.st_ctime_ns)

    # A copy that DuckDB reads, made by another process.
    remove_later(file)
    seconds = SECONDS * (1 + status.st_size / LARGEST_FILE)  # a view may be endless
    try:
        with (
            TemporaryDirectory(prefix="slimdex-", dir=temporary_parent()) as folder,
            Worker(seconds, __name__) as worker,
        ):
            request = {"path": str(path), "table": table, "folder": folder, "to": str(file.path)}
            file.notes += worker.ask(request)["notes"]
    except UnreadableError as error:
        raise InputError(f"{path}: {error}") from error
    return file


def answer(request: dict[str, Any], _: bytes) -> dict[str, Any]:
    """Write a table's rows to a file, in the worker; return notes for the user."""
    path = Path(request["path"])
    folder = Path(request["folder"])
    notes = list[str]()
    ending = path.suffix.lower()
    if ending in WORKBOOKS:
        lines = csv_of_workbook(path, request["table"], folder / f"unpacked{ending}", notes)
    else:
        lines = json_of_sqlite(path, request["table"], notes)
    most = max(LARGEST_ROWS, ROWS_PER_BYTE * path.stat().st_size)
    if not _write(Path(request["to"]), lines, most):
        raise UnreadableError(f"its rows take over {size(most)} as text; expected at most that")
    return {"notes": notes}


def choose_table(path: Path, kind: str, tables: list[str], table: str) -> str:
    """Return the named table, or the only one.

    Raises `UnreadableError` if the table does not exist, or there are several and none is named.
    """
    if table and table not in tables:
        raise UnreadableError(f"no {kind} {table!r}; it has {', '.join(tables) or 'none'}")
    if not table and len(tables) != 1:
        hint = f"which {kind}? Name one as {path}#NAME: {', '.join(tables)}"
        raise UnreadableError(hint if tables else f"no {kind} in it")
    return table or tables[0]


def json_of_sqlite(path: Path, table: str, notes: list[str]) -> Iterator[str]:
    """Yield rows of a table or view as JSON lines; note columns of bytes, which are left out."""
    try:
        address = f"{path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            listed = connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
                "AND name NOT LIKE 'sqlite_%' ORDER BY name"
            ).fetchall()
            chosen = choose_table(path, "table", [name for (name,) in listed], table)

            # Read its rows, without bytes.
            cursor = connection.execute(f"SELECT * FROM {identifier(chosen)}")
            names = unique_names([column[0] for column in cursor.description])
            binary = dict[str, None]()  # columns with bytes, in order
            for row in cursor:
                line = dict(zip(names, row, strict=True))
                for column, value in line.items():
                    if isinstance(value, bytes):
                        line[column] = None
                        binary[column] = None
                yield json.dumps(line, ensure_ascii=False) + "\n"
            notes += [f"bytes in column {column!r} are left out" for column in binary]
    except sqlite3.Error as error:
        raise UnreadableError(f"{error}; expected an SQLite database") from error


def csv_of_workbook(path: Path, table: str, copy: Path, notes: list[str]) -> Iterator[str]:
    """Yield a sheet as CSV, line by line: all of its rows and columns from the first ones.

    `copy` is a temporary file with the same ending, of at most `LARGEST_WORKBOOK` bytes.
    """
    sheet = _sheet(path, table, copy)
    if path.suffix.lower() != XLS and _lacks_results(copy):
        notes.append("cells with an error, or a formula without a stored result, are empty")
    _, left = sheet.start or (0, 0)  # columns before the first one with values

    # Numbers of the columns with times; a date in such a column gets the time 00:00.
    timed = set[int]()
    for row in sheet.iter_rows():
        for i, cell in enumerate(row):
            if isinstance(cell, dt.datetime):
                timed.add(i)

    # Write the rows as CSV. A date in the first row is a column's name, and gets no time.
    line = StringIO()
    is_named = False
    write = csv.writer(line, lineterminator="\n").writerow
    yield COMMAS
    for row in sheet.iter_rows():
        cells = [_text(cell, is_timed=is_named and i in timed) for i, cell in enumerate(row)]
        is_named = is_named or any(cell.strip() for cell in cells)
        write([""] * left + cells)
        yield line.getvalue()
        line.truncate(0)
        line.seek(0)


def _sheet(path: Path, table: str, copy: Path) -> Any:
    """Open the named sheet of a workbook, or its only one, from an unpacked `copy`."""
    try:
        import python_calamine  # an optional library
    except ModuleNotFoundError as error:
        raise UnreadableError(f"requires python-calamine: {install_command('files')}") from error
    is_packed = path.suffix.lower() != XLS
    if is_packed:
        _unpack(path, copy)
    try:
        book = python_calamine.CalamineWorkbook.from_path(str(copy if is_packed else path))
        tables = python_calamine.SheetTypeEnum.WorkSheet
        names = [sheet.name for sheet in book.sheets_metadata if sheet.typ == tables]
        return book.get_sheet_by_name(choose_table(path, "sheet", names, table))
    except python_calamine.PasswordError as error:
        raise UnreadableError(f"encrypted; expected {_expected_format(path)}") from error
    except (python_calamine.CalamineError, OSError) as error:
        raise UnreadableError(f"{error}; expected {_expected_format(path)}") from error


def _expected_format(path: Path) -> str:
    return "an OpenDocument sheet" if path.suffix.lower() == ".ods" else "an Excel workbook"


def _lacks_results(book: Path) -> bool:
    """Return whether an .xlsx or .xlsm file has cells that are read as empty, but are not."""
    with zipfile.ZipFile(book) as unpacked:
        for name in unpacked.namelist():
            if not re.search(r"worksheets/[^/]+\.xml$", name):
                continue
            with unpacked.open(name) as sheet:
                end_before = b""  # a cell may begin in the previous piece
                while piece := sheet.read(PIECE):
                    if NO_RESULT.search(end_before + piece):
                        return True
                    end_before = piece[-LONGEST_CELL:]
    return False


def _unpack(path: Path, to: Path) -> None:
    """Copy an archive uncompressed, each entry up to its declared size.

    The declared sizes thus bound what a reader of the copy unpacks; in the original, an entry may
    unpack to more than it declares.
    """
    try:
        with zipfile.ZipFile(path) as packed, zipfile.ZipFile(to, "w") as copy:
            # Of several entries with one name, the last counts.
            entries = list({entry.filename: entry for entry in packed.infolist()}.values())
            unpacked = sum(entry.file_size for entry in entries)
            if unpacked > LARGEST_WORKBOOK or len(entries) > MOST_ENTRIES:
                raise UnreadableError(
                    f"{unpacked:,} bytes unpacked in {len(entries):,} entries; expected at "
                    f"most {LARGEST_WORKBOOK:,} in {MOST_ENTRIES:,}"
                )
            if any(entry.flag_bits & ENCRYPTED for entry in entries) or _has_key(packed):
                raise UnreadableError(f"encrypted; expected {_expected_format(path)}")
            for entry in entries:
                with packed.open(entry) as file, copy.open(entry.filename, "w") as unpacked_file:
                    copyfileobj(file, unpacked_file, PIECE)
    except BROKEN_ARCHIVE as error:
        with path.open("rb") as file:
            why = why_broken(file.read(LARGEST_WORKBOOK), error)
        raise UnreadableError(f"{why}; expected {_expected_format(path)}") from error


def _has_key(packed: zipfile.ZipFile) -> bool:
    """Return whether an archive of OpenDocument has encrypted entries."""
    if MANIFEST not in packed.namelist():
        return False
    with packed.open(MANIFEST) as file:
        return b"encryption-data" in file.read(PIECE)


def _write(path: Path, lines: Iterable[str], most: int) -> bool:
    """Write lines; return False if they exceed the limit of characters."""
    with path.open("w", encoding="utf-8", newline="") as file:
        for line in lines:
            most -= len(line)
            if most < 0:
                return False
            file.write(line)
    return True


def _text(value: Any, *, is_timed: bool) -> str:
    """Text of a cell in CSV; a date of a column with times has a time, too."""
    if isinstance(value, bool):
        return str(value).upper()  # as Excel shows it
    if isinstance(value, float) and value.is_integer() and abs(value) < LARGEST_WHOLE:
        return str(int(value))  # a workbook has no integers
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    if isinstance(value, dt.date):
        return f"{value} 00:00:00" if is_timed else str(value)
    if isinstance(value, dt.timedelta):
        return _clock(value)
    text = str(value)
    if clock := ISO_DURATION.fullmatch(text):
        return ":".join(clock.groups())
    return text


def _clock(value: dt.timedelta) -> str:
    """Hours, minutes and seconds of a duration, which may be days."""
    seconds, rest = divmod(abs(value), dt.timedelta(seconds=1))
    fraction = f".{rest.microseconds:06}" if rest else ""
    sign = "-" if value < dt.timedelta(0) else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def unique_names(names: Iterable[object]) -> list[str]:
    """Names of columns as texts, unique ignoring case, as DuckDB makes them for CSV.

    >>> unique_names(["id", "ID", 2023, ""])
    ['id', 'ID_1', '2023', 'column3']
    """
    unique = list[str]()
    taken = set[str]()
    for number, value in enumerate(names):
        name = str(value) or f"column{number}"
        numbers = count(1)
        candidate = name
        while candidate.lower() in taken:
            candidate = f"{name}_{next(numbers)}"
        unique.append(candidate)
        taken.add(candidate.lower())
    return unique
