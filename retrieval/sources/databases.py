"""Databases: a table of SQLite, DuckDB or Excel, or a query's answer, as a file that is read then.

DuckDB would read SQLite's and Excel's tables by extensions that it has to download.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import sqlite3
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb

from slimdex.indexes.errors import InputError, shortened

from ..sql import identifier, literal
from .files.readers import INSTALL
from .text_files import InputFile, remove_later, temporary

SQL = "sql:"
"""What a source begins with that is a query."""
SQLITE = (".sqlite", ".sqlite3", ".db")
WORKBOOK = ".xlsx"
ENDINGS = (*SQLITE, ".duckdb", WORKBOOK)
LARGEST_WORKBOOK = 1 << 30
"""Bytes that an Excel file may become when it is unpacked."""
OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


def query_file(spec: str) -> InputFile:
    """The answer of a query that DuckDB runs over files: ``sql:SELECT * FROM 'notes/*.parquet'``.

    Raises
    ------
    InputError
        If it can't be run.
    """
    query = spec.removeprefix(SQL).strip().rstrip(";")
    path = temporary()
    file = InputFile(shortened(query, 60), path, ".parquet", "sql", f"sql {query}", [query])
    remove_later(file)
    with duckdb.connect(config=OFFLINE) as connection:
        _copy(connection, query, path, "sql")
    file.facts.append(hashlib.sha256(path.read_bytes()).hexdigest())
    return file


def table_file(spec: str) -> InputFile | None:
    """A table of a database or a workbook: ``notes.db``, or ``notes.db#letters`` if it has more.

    None if it is neither.

    Raises
    ------
    InputError
        If it can't be read, or has several tables of which none is named.
    """
    path, table = Path(spec), ""
    if not path.exists() and "#" in spec:
        name, _, table = spec.rpartition("#")
        path = Path(name)
    if path.suffix.lower() not in ENDINGS or not path.is_file():
        return None
    found = path.stat()
    place = f"{path.resolve().as_posix()}#{table}"
    facts = [place, found.st_size, found.st_mtime_ns]
    prefix = Path(os.path.normpath(spec)).as_posix()
    file = InputFile(spec, temporary(), ".jsonl", prefix, place, facts)
    file.changed_ns = max(found.st_mtime_ns, found.st_ctime_ns)
    remove_later(file)
    if path.suffix.lower() == WORKBOOK:
        _write(file.path, _rows_of_workbook(path, table))
    elif path.suffix == ".duckdb":
        file.ending = ".parquet"
        _copy_duckdb(path, table, file.path)
    else:
        _write(file.path, _rows_of_sqlite(path, table))
    return file


def _chosen(path: Path, kind: str, tables: list[str], table: str) -> str:
    if table and table not in tables:
        raise InputError(f"{path}: no {kind} {table!r}; it has {', '.join(tables) or 'none'}")
    if not table and len(tables) != 1:
        said = f"which {kind}? Name one as {path}#NAME: {', '.join(tables)}"
        raise InputError(f"{path}: " + (said if tables else f"no {kind} in it"))
    return table or tables[0]


def _copy_duckdb(path: Path, table: str, to: Path) -> None:
    with duckdb.connect(config=OFFLINE) as connection:
        try:
            connection.execute(f"ATTACH {literal(str(path))} AS given (READ_ONLY)")
            listed = connection.execute(
                "SELECT table_name FROM duckdb_tables() WHERE database_name = 'given' "
                "UNION ALL SELECT view_name FROM duckdb_views() "
                "WHERE database_name = 'given' AND NOT internal ORDER BY 1"
            ).fetchall()
        except duckdb.Error as error:
            raise InputError(f"{path}: {_first(error)}") from error
        name = _chosen(path, "table", [name for (name,) in listed], table)
        _copy(connection, f"SELECT * FROM given.{identifier(name)}", to, str(path))


def _copy(connection: duckdb.DuckDBPyConnection, query: str, to: Path, name: str) -> None:
    try:
        connection.execute(f"COPY ({query}) TO {literal(str(to))} (FORMAT parquet)")
    except duckdb.Error as error:
        raise InputError(f"{name}: {_first(error)}") from error


def _first(error: Exception) -> str:
    return " ".join(str(error).split("\n\n")[0].splitlines()[:2])


def _rows_of_sqlite(path: Path, table: str) -> Iterator[Mapping[str, Any]]:
    try:
        address = f"{path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            listed = connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
                "AND name NOT LIKE 'sqlite_%' ORDER BY name"
            ).fetchall()
            name = _chosen(path, "table", [name for (name,) in listed], table)
            cursor = connection.execute(f"SELECT * FROM {identifier(name)}")
            names = [column[0] for column in cursor.description]
            for row in cursor:
                yield dict(zip(names, row, strict=True))
    except sqlite3.Error as error:
        raise InputError(f"{path}: {error}; expected an SQLite database") from error


def _rows_of_workbook(path: Path, table: str) -> Iterator[Mapping[str, Any]]:
    try:
        import python_calamine
    except ModuleNotFoundError as error:
        raise InputError(f"{path}: needs python-calamine: {INSTALL}") from error
    try:
        with zipfile.ZipFile(path) as packed:
            unpacked = sum(entry.file_size for entry in packed.filelist)
        if unpacked > LARGEST_WORKBOOK:
            raise InputError(f"{path}: {unpacked:,} bytes unpacked; expected {LARGEST_WORKBOOK:,}")
        book = python_calamine.CalamineWorkbook.from_path(str(path))
        name = _chosen(path, "sheet", book.sheet_names, table)
        rows = iter(book.get_sheet_by_name(name).to_python())
    except (zipfile.BadZipFile, python_calamine.CalamineError, OSError) as error:
        raise InputError(f"{path}: {error}; expected an Excel workbook") from error
    names = [str(cell).strip() for cell in next(rows, [])]
    for row in rows:
        values = {name: cell for name, cell in zip(names, row, strict=False) if name}
        if any(value not in ("", None) for value in values.values()):
            yield {name: None if value == "" else value for name, value in values.items()}


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            values = {name: _plain(value) for name, value in row.items()}
            file.write(json.dumps(values, ensure_ascii=False) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return None  # no text, and nothing to filter by
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return int(value)  # Excel has no whole numbers
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value) if isinstance(value, dt.timedelta) else value
