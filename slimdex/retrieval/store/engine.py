"""Engine: DuckDB in memory, which reads the columns of an index from Parquet.

It starts on first use: searches without filters need no DuckDB.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import RLock
from typing import Any

from slimdex.errors import CorruptError, InputError
from slimdex.system.duckdb_library import connect, duckdb, literal, one_file

from .columns import file_columns
from .state import ColumnFile
from .work_folder import new_work_folder

LIMITS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": os.environ.get("SLIMDEX_MEMORY", "1GB"),  # more spills to disk
}


class Session:
    """A running DuckDB: schemas with views of files of columns, and connections.

    It can access no file outside of the index's folder, as filters must not read others.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

        # Spill to a folder of its own: DuckDB names its files by the process's number, which two
        # processes in containers may share.
        absolute = folder.absolute()
        spill = new_work_folder(absolute)
        self._connection = connect(LIMITS | {"temp_directory": str(spill)})
        names = f"{literal(f'{absolute}/')}, {one_file(f'{absolute}/')}"
        self._connection.execute(f"SET allowed_directories = [{names}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

        self.has_failed = False  # DuckDB rejects all statements
        self._columns = dict[ColumnFile, dict[str, str]]()  # of the files that were checked
        self._ended = deque[str]()  # schemas
        self._numbers = count()  # of schemas

    def cursor(self, schema: str = "main") -> duckdb.DuckDBPyConnection:
        """A new connection, which uses a schema."""
        cursor = self._connection.cursor()
        cursor.execute(f"USE memory.{schema}")
        return cursor

    def schema(self) -> str:
        """Make an empty schema; return its name."""
        name = f"commit{next(self._numbers)}"
        self._connection.execute(f"CREATE SCHEMA {name}")
        return name

    def create(self, kind: str, name: str, sql: str, values: Sequence[Any] = ()) -> None:
        """Create a table or view of a query; its name is SCHEMA.NAME."""
        self._connection.execute(f"CREATE {kind} memory.{name} AS {sql}", list(values))

    def columns(self, files: Sequence[ColumnFile]) -> list[dict[str, str]]:
        """The columns of each file, name -> DuckDB type, once its bytes have been checked.

        Raises `CorruptError` if one is missing or damaged, and `OSError` if the disk failed.
        """
        self._columns = {file: self._columns.get(file) or self._read(file) for file in files}
        return [*self._columns.values()]

    def _read(self, file: ColumnFile) -> dict[str, str]:
        """Check a file, and read its columns."""
        file.check(self._folder)
        path = self._folder.absolute() / file.name
        try:
            return file_columns(self._connection, path)
        except duckdb.Error as error:
            if isinstance(error, disk_errors()):
                raise disk_error(path, error) from error
            raise CorruptError(f"{path}: no file of columns ({one_line(error)})") from error

    def end(self, schema: str) -> None:
        """Let `drop_ended` drop a schema, once no other thread uses the session.

        The garbage collector may call this at any moment, so it must not run statements itself.
        """
        self._ended.append(schema)

    def drop_ended(self) -> None:
        """Drop the schemas that have ended."""
        while self._ended:
            with suppress(duckdb.Error):
                self._connection.execute(f"DROP SCHEMA {self._ended.popleft()} CASCADE")

    def close(self) -> None:
        """End DuckDB, once the last connection in use has ended."""
        with suppress(duckdb.Error):  # it is in use: the last thread that uses it ends it
            self._connection.close()


class Engine:
    """The session of an index's folder in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_closed = False
        self._session: Session | None = None
        self._process = os.getpid()
        self.lock = RLock()  # held while files are checked and schemas made

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

    def restart(self) -> None:
        """Let the next `working` start another session; threads that read in this one go on."""
        with self.lock:
            self._session = None

    @contextmanager
    def working(self) -> Iterator[Session]:
        """The session, for one thread at a time; started if necessary."""
        self.ensure_here()
        with self.lock:
            self.ensure_open()
            if self._session is None:
                self._session = Session(self.folder)
            self._session.drop_ended()
            yield self._session

    def close(self) -> None:
        """End DuckDB; later calls raise `InputError`."""
        self.is_closed = True
        with self.lock:
            session = self._session
            self._session = None
            if session is not None:
                session.close()


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
