"""Engine: DuckDB in memory, to which the segments of an index are attached read-only.

It starts on first use: searches without filters need no DuckDB.
"""

from __future__ import annotations

import errno
import os
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from secrets import token_hex
from threading import RLock
from typing import Any

from slimdex.errors import CorruptError, InputError, SlimdexError, StatementError
from slimdex.system.duckdb_library import connect, duckdb, identifier, literal

from .segments import read_columns
from .state import Segment

MEMORY_VARIABLE = "SLIMDEX_MEMORY"
"""Environment variable for DuckDB's memory limit."""
LIMITS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": os.environ.get(MEMORY_VARIABLE, "1GB"),  # more spills to disk
    "checkpoint_threshold": "1000TB",  # a file is written back once, when it is complete
    "fsync_mode": "NONE",  # a complete file is synced once, when it gets its name
}
DISK_NUMBERS = (
    errno.EIO,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EMFILE,
)
"""Errors of the system behind `disk_errors`; a damaged file raises none of them."""
FIRST_CAUSE = "Original error: "
"""DuckDB's prefix of the error after which it rejected all statements."""
DAMAGE = re.compile(r"(\w+ Error: |Failed to \w+: )*(Corrupt|Failure while replaying WAL)")


def start(folder: Path) -> duckdb.DuckDBPyConnection:
    """Start DuckDB in memory, with access to one folder."""
    # A folder of its own: DuckDB names its files by the process's number, which two processes in
    # containers may share.
    spill = folder / f"spill-{token_hex(4)}.tmp"
    connection = connect(LIMITS | {"temp_directory": str(spill)})
    connection.execute(f"SET allowed_directories = [{literal(f'{folder}/')}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


class Session:
    """A running DuckDB: attached segments, schemas with views of them, and connections.

    It can access no file outside of the index's folder, as filters must not read others.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection = start(folder.absolute())
        self.has_failed = False  # DuckDB rejects all statements
        self._columns = dict[str, dict[str, str]]()  # attached segment -> its columns
        self._shared = set[str]()  # tables that several schemas read
        self._users = Counter[str]()  # segment or shared table -> number of schemas that read it
        self._idle = deque[tuple[duckdb.DuckDBPyConnection, str]]()  # and the schema it uses
        self._ended = deque[tuple[str, Sequence[str]]]()  # schemas, and what they read
        self._numbers = count()  # of schemas

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A new connection."""
        return self._connection.cursor()

    def schema(self, used: Sequence[str]) -> str:
        """Make an empty schema for views of segments and shared tables; return its name.

        `used` names these: they stay attached until `end` is called for the schema.
        """
        name = f"commit{next(self._numbers)}"
        self._connection.execute(f"CREATE SCHEMA {name}")
        self._users.update(used)
        return name

    def shared_table(self, name: str, sql: str, values: Sequence[Any]) -> str:
        """Make a table of a query, unless it exists; return its full name."""
        table = f"memory.main.{identifier(name)}"
        if name not in self._shared:
            self._connection.execute(f"CREATE TABLE {table} AS {sql}", list(values))
            self._shared.add(name)
        return table

    def fill(
        self, schema: str, tables: Mapping[str, tuple[str, Sequence[Any]]], views: Mapping[str, str]
    ) -> None:
        """Create tables and views in a schema: name -> query, with its parameters for a table."""
        cursor = self.take(schema)
        for name, (sql, values) in tables.items():
            cursor.execute(f"CREATE TABLE {name} AS {sql}", list(values))
        for name, sql in views.items():
            cursor.execute(f"CREATE VIEW {name} AS {sql}")
        self.give_back(cursor, schema)

    def columns(self, segments: Sequence[Segment]) -> list[dict[str, str]]:
        """The columns of each segment's documents, name -> type; new ones are attached.

        Raises `CorruptError` if one is missing, damaged, or not made by slimdex.
        """
        new = [each for each in segments if each.name not in self._columns]
        with ExitStack() as on_error:  # detaches them if one can't be read
            for segment in new:
                self._attach(segment)
                on_error.callback(self._detach, segment.name)
            if new:
                files = {each.name: self._folder / each.name for each in new}
                try:
                    self._columns |= read_columns(self._connection, files)
                except duckdb.Error as error:
                    raise CorruptError(f"{self._folder}: damaged ({one_line(error)})") from error
            on_error.pop_all()  # all can be read: they stay attached
        return [self._columns[segment.name] for segment in segments]

    def _attach(self, segment: Segment) -> None:
        """Attach a segment; raises `CorruptError` if damaged, and `OSError` if the disk failed."""
        path = self._folder / segment.name
        segment.check_size(self._folder)
        try:
            self._connection.execute(
                f"ATTACH {literal(str(path.absolute()))} AS {identifier(segment.name)} "
                "(TYPE duckdb, READ_ONLY)"
            )
        except duckdb.Error as error:
            if any(os.strerror(number) in str(error) for number in DISK_NUMBERS):
                raise disk_error(path, error) from error
            raise CorruptError(f"{path}: damaged ({one_line(error)})") from error

    def _detach(self, name: str) -> None:
        with suppress(duckdb.Error):  # after some errors it rejects all statements
            self._connection.execute(f"DETACH {identifier(name)}")

    def end(self, schema: str, used: Sequence[str]) -> None:
        """Let `drop_ended` drop a schema, once no other thread uses the session.

        The garbage collector may call this at any moment, so it must not run statements itself.
        """
        self._ended.append((schema, used))

    def drop_ended(self) -> None:
        """Drop the schemas that have ended."""
        while self._ended:
            schema, used = self._ended.popleft()
            with suppress(duckdb.Error):
                self._connection.execute(f"DROP SCHEMA {schema} CASCADE")
            self._users.subtract(used)

    def detach_unused(self) -> None:
        """Detach the segments that no schema reads, once a new one has been made.

        Shared tables that none reads are dropped.
        """
        for name in [*self._columns]:
            if self._users[name] > 0:
                continue
            del self._users[name], self._columns[name]
            self._detach(name)
        for name in [*self._shared]:
            if self._users[name] > 0:
                continue
            del self._users[name]
            self._shared.remove(name)
            with suppress(duckdb.Error):
                self._connection.execute(f"DROP TABLE memory.main.{identifier(name)}")

    def take(self, schema: str) -> duckdb.DuckDBPyConnection:
        """A connection that uses a schema."""
        cursor, current = self._idle.pop() if self._idle else (self.cursor(), "")
        if current != schema:
            cursor.execute(f"USE memory.{schema}")
        return cursor

    def give_back(self, cursor: duckdb.DuckDBPyConnection, schema: str) -> None:
        """Take a connection back."""
        self._idle.append((cursor, schema))

    def close(self) -> None:
        """End DuckDB, once the last connection in use has ended."""
        with suppress(duckdb.Error):  # it is in use: the last thread that uses it ends it
            while self._idle:
                self._idle.pop()[0].close()
            self._connection.close()


class Engine:
    """The session of an index's folder in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_closed = False
        self._session: Session | None = None
        self._process = os.getpid()
        self.lock = RLock()  # held while segments are attached and schemas made

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


def is_damage(error: duckdb.Error) -> bool:
    """True if DuckDB reports damage of the file or log; values quoted in messages don't count."""
    return bool(DAMAGE.match(str(error)))


def disk_error(path: Path, error: duckdb.Error) -> OSError:
    """Convert DuckDB's error to an `OSError` with its number."""
    if "memory_limit" in str(error):
        message = one_line(error).split(" Possible solutions")[0]
        return OSError(
            f"{path}: {message}; expected texts that fit into {LIMITS['memory_limit']}: the "
            f"environment's {MEMORY_VARIABLE} allows DuckDB more"
        )

    # DuckDB quotes the system's message, which identifies the error number.
    message = one_line(error).rpartition(FIRST_CAUSE)[2].strip('"')
    number = next((number for number in DISK_NUMBERS if os.strerror(number) in message), None)
    if number is None:
        return OSError(f"{path}: {message}")
    os_error = OSError(f"{path}: {os.strerror(number)} ({message})")
    os_error.errno = number
    return os_error


def statement_error(path: Path, error: duckdb.Error) -> SlimdexError:
    """Convert DuckDB's error about a statement."""
    if is_damage(error):
        return CorruptError(f"{path}: damaged ({one_line(error)})")
    return StatementError(f"{path}: {one_line(error)}; nothing was changed")


def one_line(error: Exception) -> str:
    """Shorten a DuckDB message to its reason, on one line."""
    return " ".join(re.split(r"\nLINE \d", str(error))[0].split())
