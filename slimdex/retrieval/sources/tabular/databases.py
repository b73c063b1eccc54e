"""Tables of databases or workbooks, and results of queries, copied to a temporary file.

DuckDB reads SQLite and Excel through extensions that it downloads; instead, a separate process
reads them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from slimdex.indexes.errors import InputError, shortened

from ...atomic_files import temporary_parent
from ...duckdb_library import connected, identifier, literal
from ..files.limits import LARGEST_FILE, MEMORY, SECONDS, size
from ..files.worker import PROGRAM
from ..text_files import InputFile, remove_later, temporary
from .duckdb_readers import ANSWER, TABLE
from .table_worker import ROWS, WORKBOOKS

SQL = "sql:"
"""Prefix of a source that is a query."""
SQLITE = (".sqlite", ".sqlite3", ".db")
ENDINGS = (*SQLITE, *WORKBOOKS)
OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


def query_file(spec: str) -> InputFile:
    """Run a DuckDB query over files: ``sql:SELECT * FROM 'notes/*.parquet'``.

    Raises `InputError` if the query fails.
    """
    query = spec.removeprefix(SQL).strip().rstrip(";")
    path = temporary()
    file = InputFile(shortened(query, 60), path, ANSWER, "sql", f"sql {query}", [query])
    remove_later(file)
    path.unlink()  # DuckDB makes its files itself
    try:
        with connected(OFFLINE) as connection:
            connection.execute(f"ATTACH {literal(str(path))} AS made")
            connection.execute(f"CREATE TABLE made.{TABLE} AS (\n{query}\n)")
            file.facts.append(_digest(connection))
    except duckdb.Error as error:
        reason = " ".join(str(error).split("\n\n")[0].splitlines()[:2])
        raise InputError(f"sql {shortened(query)}: {reason}") from error
    return file


def _digest(connection: duckdb.DuckDBPyConnection) -> str:
    """Digest of a result, whose sums become BIGINT if they fit: DuckDB makes them HUGEINT."""
    types = connection.execute(f"DESCRIBE made.{TABLE}").fetchall()
    for name in [name for name, type_, *_ in types if type_ == "HUGEINT"]:
        with suppress(duckdb.Error):  # a number is larger
            connection.execute(f"ALTER TABLE made.{TABLE} ALTER {identifier(name)} TYPE BIGINT")
    rows = f"SELECT count(*), sum(hash(t, rowid)) FROM made.{TABLE} t"
    return str([types, *connection.execute(rows).fetchall()])


def table_file(spec: str) -> InputFile | None:
    """Read a table of a database or workbook: ``notes.db``, or ``notes.db#letters`` to name it.

    Returns None for other files.

    Raises `InputError` if it can't be read, or has several tables and none is named.
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
    kind = ".csv" if path.suffix.lower() in WORKBOOKS else ".jsonl"
    file = InputFile(spec, temporary(), kind, prefix, place, facts)
    file.changed_ns = max(found.st_mtime_ns, found.st_ctime_ns)
    remove_later(file)
    file.notes += _read_apart(path, table, file.path)
    return file


def _seconds(path: Path) -> float:
    """Time limit for reading a table, by file size; a view may be endless."""
    return SECONDS * (1 + path.stat().st_size / LARGEST_FILE)


def _too_long(path: Path, seconds: float) -> InputError:
    return InputError(
        f"{path}: reading takes over {seconds:.0f} s; expected at most {SECONDS:.0f} s, plus the "
        f"same for each {size(LARGEST_FILE)} of the file"
    )


def _read_apart(path: Path, table: str, to: Path) -> list[str]:
    """Read a table in another process, which may run out of memory or time; return notes."""
    seconds = _seconds(path)
    request = {"path": str(path), "table": table, "seconds": seconds}
    program = PROGRAM.format(f"{__package__}.table_worker")
    with TemporaryDirectory(prefix="slimdex-", dir=temporary_parent()) as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-c", program, *sys.path],
                input=json.dumps({**request, "folder": folder}).encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise _too_long(path, seconds) from error
        if done.returncode or not done.stdout:
            reason = f"its reader died; it may need over {size(MEMORY)} of memory"
            raise InputError(f"{path}: {reason}")
        answer = json.loads(done.stdout)
        if answer["error"]:
            raise InputError(answer["error"])
        shutil.move(Path(folder) / ROWS, to)
    notes: list[str] = answer["notes"]
    return notes
