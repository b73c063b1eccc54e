"""Tables of databases and workbooks, copied to JSON lines by a worker process.

DuckDB reads SQLite and Excel through extensions that it downloads. The worker's memory, time and
rows are limited: a workbook of a few kilobytes may claim 17 billion cells, and a view may be
endless.
"""

from __future__ import annotations

import io
import json
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from slimdex.errors import InputError
from slimdex.system.duckdb_library import identifier
from slimdex.system.extras import install_command

from ..files.input_files import InputFile
from ..files.limits import LARGEST_FILE, SECONDS, UnreadableError, size
from ..files.packed import why_broken
from ..files.reading_process import Worker
from .columns import unique_names

WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
LARGEST_WORKBOOK = 1 << 30
"""Largest size of an unpacked workbook."""
LARGEST_ROWS = 1 << 30
ROWS_PER_BYTE = 64
"""Limits of characters of rows, absolute and per byte of the file; the larger counts."""
LARGEST_WHOLE = 1e21
"""Magnitude of whole numbers from which an exponent is written, as in JavaScript."""
UNREADABLE_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
"""Errors of archives that the library of workbooks reports."""
RAISED = re.compile(
    rb'(<vertAlign val="superscript"/>(?:<\w[^<>]*/>)*</rPr><t[^<>]*>)(?=[-+\d]|\xe2\x88\x92)'
)
"""Beginning of raised digits in the text of a workbook."""
ENDINGS = (".sqlite", ".sqlite3", ".db", *WORKBOOKS)


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

    file = InputFile.of(spec, path, ".jsonl", f"#{table}")
    # A copy that DuckDB reads, made by another process.
    file.use_copy()
    seconds = SECONDS * (1 + path.stat().st_size / LARGEST_FILE)  # a view may be endless
    try:
        with Worker(seconds, __name__) as worker:
            request = {"path": str(path), "table": table, "to": str(file.path)}
            file.notes += worker.ask(request)["notes"]
    except UnreadableError as error:
        raise InputError(f"{path}: {error}") from error
    return file


def answer(request: dict[str, Any], _: bytes) -> dict[str, Any]:
    """Write a table's rows to a file, in the worker; return notes for the user."""
    path = Path(request["path"])
    notes = list[str]()
    if path.suffix.lower() in WORKBOOKS:
        lines = _json_of_workbook(path, request["table"])
    else:
        lines = _json_of_sqlite(path, request["table"], notes)

    most = max(LARGEST_ROWS, ROWS_PER_BYTE * path.stat().st_size)
    written = 0
    with Path(request["to"]).open("w", encoding="utf-8") as file:
        for line in lines:
            written += len(line)
            if written > most:
                raise UnreadableError(f"its rows take over {size(most)} as text")
            file.write(line)
    return {"notes": notes}


def _choose_table(path: Path, kind: str, tables: list[str], table: str) -> str:
    """Return the named table, or the only one.

    Raises `UnreadableError` if the table does not exist, or there are several and none is named.
    """
    if table in tables:
        return table
    if table or len(tables) != 1:
        names = ", ".join(tables) or "it has none"
        unknown = f"{table!r} is none. " if table else ""
        raise UnreadableError(f"which {kind}? {unknown}Name one as {path}#NAME: {names}")
    return tables[0]


def _json_of_sqlite(path: Path, table: str, notes: list[str]) -> Iterator[str]:
    """Yield rows of a table or view as JSON lines; note columns of bytes, which are left out."""
    try:
        address = f"{path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            listed = connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
                "AND name NOT LIKE 'sqlite_%' ORDER BY name"
            ).fetchall()
            chosen = _choose_table(path, "table", [name for (name,) in listed], table)

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


def _json_of_workbook(path: Path, table: str) -> Iterator[str]:
    """Yield rows of a sheet as JSON lines; the first row with a value has the columns' names.

    Merged cells have their value in each row, or as the name of each column.
    """
    sheet = _sheet(path, table)
    merged = dict[tuple[int, int], tuple[int, int]]()  # first row and column -> the last ones
    _, first = sheet.start or (0, 0)
    for (top, left), (bottom, right) in sheet.merged_cell_ranges or ():
        merged[top, left - first] = (bottom, right - first)

    names = list[str]()
    covered = dict[int, tuple[int, Any]]()  # column -> last row and value of merged cells
    for number, row in enumerate(sheet.iter_rows()):
        if not any(cell != "" for cell in row):
            continue
        for column, cell in enumerate(row if merged else ()):
            bottom, right = merged.get((number, column), (0, column))
            if not names:
                row[column : right + 1] = [cell] * len(row[column : right + 1])
            elif bottom > number:
                covered[column] = (bottom, cell)
        for column, (bottom, value) in covered.items():
            row[column] = value if number <= bottom else row[column]
        if not names:
            names = unique_names(_value(cell) or "" for cell in row)
            continue
        yield json.dumps(dict(zip(names, map(_value, row), strict=True))) + "\n"


def _sheet(path: Path, table: str) -> Any:
    """Open the named sheet of a workbook, or its only one."""
    try:
        import python_calamine  # an optional library
    except ModuleNotFoundError as error:
        raise UnreadableError(f"requires python-calamine: {install_command('files')}") from error
    file: Any = str(path)
    with suppress(*UNREADABLE_ZIP), zipfile.ZipFile(path) as packed:
        unpacked = sum(entry.file_size for entry in packed.infolist())
        if unpacked > LARGEST_WORKBOOK:
            most = size(LARGEST_WORKBOOK)
            raise UnreadableError(f"{size(unpacked)} unpacked; expected at most {most}")
        if unpacked <= LARGEST_FILE:
            file = _with_superscripts(packed) or file
    try:
        book = python_calamine.CalamineWorkbook.from_object(file)
        tables = python_calamine.SheetTypeEnum.WorkSheet
        names = [sheet.name for sheet in book.sheets_metadata if sheet.typ == tables]
        return book.get_sheet_by_name(_choose_table(path, "sheet", names, table))
    except python_calamine.CalamineError as error:
        raise UnreadableError(why_broken(path.read_bytes(), error)) from error


def _with_superscripts(packed: zipfile.ZipFile) -> io.BytesIO | None:
    """Copy a small workbook with a `^` before raised digits in its texts; None if it has none."""
    files = {name: packed.read(name) for name in packed.namelist()}
    raised = {name: RAISED.sub(rb"\1^", data) for name, data in files.items()}
    if raised == files:
        return None
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as target:
        for name, data in raised.items():
            target.writestr(name, data)
    copy.seek(0)
    return copy


def _value(cell: Any) -> Any:
    """Value of a cell in JSON."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < LARGEST_WHOLE:
        return int(cell)  # a workbook has no integers
    if isinstance(cell, bool | float):
        return cell
    return str(cell) or None
