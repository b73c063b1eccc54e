"""Engine: DuckDB in memory, which reads the columns of an index from Parquet.

It starts on first use: searches without filters need no DuckDB.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from threading import RLock

from slimdex.errors import InputError
from slimdex.system.duckdb_library import connect, duckdb, literal, one_file
from slimdex.system.forks import not_inherited

from .columns import read_parquet
from .state import ColumnFile
from .work_folder import new_work_folder

LIMITS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": os.environ.get("SLIMDEX_MEMORY", "1GB"),  # more spills to disk
}


class Engine:
    """DuckDB for an index's folder in this process, started if necessary.

    It can access no file outside of the folder, as filters must not read others.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_closed = False
        self._process = os.getpid()
        self._lock = RLock()  # held while DuckDB starts, and files are checked
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._columns = dict[ColumnFile, dict[str, str]]()  # of the files that were checked

    @property
    def is_inherited(self) -> bool:
        """True in a fork of the process that opened this, whose locks and threads it lacks."""
        return self._process != os.getpid()

    def ensure_here(self) -> None:
        """Raise `InputError` in a fork of the process that opened this."""
        if self.is_inherited:
            raise InputError(f"{self.folder} was opened in another process: open it again here")

    def ensure_open(self) -> None:
        """Raise `InputError` if this was closed, or opened in another process."""
        self.ensure_here()
        if self.is_closed:
            raise InputError(f"{self.folder} was closed; expected an open collection")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A new connection, with temporary tables and views of its own."""
        self.ensure_here()
        with self._lock:
            self.ensure_open()
            if self._connection is None:
                self._connection = self._start()
            return not_inherited(self._connection.cursor())

    def _start(self) -> duckdb.DuckDBPyConnection:
        """Start DuckDB, with access to the folder only."""
        # Spill to a folder of its own: DuckDB names its files by the process's number, which two
        # processes in containers may share.
        absolute = self.folder.absolute()
        spill = new_work_folder(absolute)
        connection = connect(LIMITS | {"temp_directory": str(spill)})
        names = f"{literal(f'{absolute}/')}, {one_file(f'{absolute}/')}"
        connection.execute(f"SET allowed_directories = [{names}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection

    def columns(self, files: Sequence[ColumnFile]) -> list[dict[str, str]]:
        """The columns of each file, name -> DuckDB type, once its bytes have been checked.

        Raises `CorruptError` if one is missing or damaged, and DuckDB's errors.
        """
        with closing(self.cursor()) as cursor, self._lock:
            columns = dict[ColumnFile, dict[str, str]]()
            for file in files:
                columns[file] = self._columns.get(file, {})
                if not columns[file]:
                    file.check(self.folder)
                    source = read_parquet([self.folder.absolute() / file.name])
                    described = cursor.execute(f"DESCRIBE FROM {source}").fetchall()
                    columns[file] = {name: type_ for name, type_, *_ in described}
            self._columns = columns
            return [*columns.values()]

    def restart(self) -> None:
        """Let the next `cursor` start DuckDB again; threads that read go on in the earlier one."""
        with self._lock:
            self._connection = None

    def close(self) -> None:
        """End DuckDB, once the last connection in use has ended; later calls raise `InputError`."""
        self.is_closed = True
        with self._lock:
            connection = self._connection
            self._connection = None
            if connection is not None:
                with suppress(duckdb.Error):  # it is in use: the last thread that uses it ends it
                    connection.close()


def disk_errors() -> tuple[type[duckdb.Error], ...]:
    """Errors of DuckDB if the disk or its memory limit fails."""
    return (
        duckdb.IOException,
        duckdb.FatalException,
        duckdb.TransactionException,  # of a commit
        duckdb.ConnectionException,  # after a commit of unknown outcome
        duckdb.OutOfMemoryException,
    )


def disk_error(path: Path, error: duckdb.Error) -> OSError:
    """Convert DuckDB's error if the disk or its memory limit fails."""
    return OSError(f"{path}: {one_line(error)}")


def one_line(error: Exception) -> str:
    """Shorten a DuckDB message to its reason, on one line."""
    return " ".join(re.split(r"\nLINE \d|Possible solutions", str(error))[0].split())
