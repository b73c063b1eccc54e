"""DuckDB connections: opening a file, limits, and the meaning of errors."""

from __future__ import annotations

import errno
import logging
import os
import re
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from slimdex.indexes.errors import CorruptError, SlimdexError, StatementError

from ..duckdb_library import duckdb
from ..sql import literal

TRIED = ("2.0.0", "2.0.1")
"""Releases of DuckDB whose checkpoints the crash tests have tried (see `checkpoint_journal`)."""
MEMORY = "SLIMDEX_MEMORY"
"""Environment variable for DuckDB's memory limit."""
LIMITS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": os.environ.get(MEMORY, "1GB"),  # more spills to disk
    "checkpoint_threshold": "1000TB",  # automatic ones are unsafe: see `checkpoint_journal`
}
NAME = "slimdex"
"""Name of the file in SQL, which `cursor` makes the default."""
INVALIDATED = "has been invalidated"
"""Part of an error after which DuckDB rejects all statements on a file until it is reopened."""
NEW = ".new"
"""Ending of the file that will replace the current one."""
SIDE_FILES = ("", ".wal", ".wal.checkpoint", ".wal.recovery")
"""Endings of the files that DuckDB writes for a file."""
DISK_ERRORS = (
    duckdb.IOException,
    duckdb.FatalException,
    duckdb.TransactionException,  # of a commit
    duckdb.ConnectionException,  # after a commit of unknown outcome
    duckdb.OutOfMemoryException,
)
"""Errors of DuckDB if the disk or its memory limit fails."""
DISK_NUMBERS = (
    errno.EIO,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EMFILE,
)
"""Matching errors of the system; a damaged file raises none of them."""
NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
"""Errors of a reader without write permission."""
FIRST_CAUSE = "Original error: "
"""DuckDB's prefix of the error after which it rejected all statements."""
DAMAGE = re.compile(r"(\w+ Error: |Failed to \w+: )*(Corrupt|Failure while replaying WAL)")


class Engine:
    """DuckDB for one file: started on first use, and kept, because starting takes far longer than
    attaching the file.

    It can access no file but this one and its replacement, as filters must not read others.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path.absolute())
        self._connection: duckdb.DuckDBPyConnection | None = None

    def attach(self, *, read_only: bool) -> None:
        """Open the file."""
        if self._connection is None:
            tell_if_untried(duckdb.__version__)
            self._connection = started(self._path)
        mode = ", READ_ONLY" if read_only else ""
        self._connection.execute(f"ATTACH {literal(self._path)} AS {NAME} (TYPE duckdb{mode})")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection to the open file."""
        assert self._connection is not None
        cursor = self._connection.cursor()
        cursor.execute(f"USE {NAME}")
        return cursor

    def detach(self) -> None:
        """Close the file, once all cursors are closed."""
        if self._connection is not None:
            try:
                self._connection.execute(f"DETACH {NAME}")
            except duckdb.Error:  # after some errors it rejects all statements
                self.stop()

    def stop(self) -> None:
        """Close the file and end DuckDB's threads."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


@cache
def tell_if_untried(version: str) -> None:
    """Log a warning, once in a process, if the crash tests have not tried a release of DuckDB."""
    if version not in TRIED:
        logging.getLogger("slimdex").warning(
            "DuckDB %s has not been tried with this slimdex, which relies on how DuckDB writes its "
            "files; expected %s",
            version,
            " or ".join(TRIED),
        )


def started(path: str) -> duckdb.DuckDBPyConnection:
    """Start DuckDB for one file, without opening it."""
    connection = duckdb.connect(config=LIMITS | {"temp_directory": f"{path}.tmp"})
    connection.execute("PRAGMA disable_checkpoint_on_shutdown")
    files = (path + new + end for new in ("", NEW) for end in SIDE_FILES)
    connection.execute(f"SET allowed_paths = [{', '.join(map(literal, files))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def is_damage(error: duckdb.Error) -> bool:
    """True if DuckDB reports damage of the file or log; values quoted in messages don't count."""
    return bool(DAMAGE.match(str(error)))


def disk_error(path: Path, error: duckdb.Error) -> OSError:
    """Convert DuckDB's error to an `OSError` with its number."""
    if "memory_limit" in str(error):
        message = one_line(error).split(" Possible solutions")[0]
        return OSError(
            f"{path}: {message}; expected texts that fit into {LIMITS['memory_limit']}: the "
            f"environment's {MEMORY} allows DuckDB more"
        )
    message = one_line(error).rpartition(FIRST_CAUSE)[2].strip('"')
    number = next((number for number in DISK_NUMBERS if os.strerror(number) in message), None)
    if number is None:
        return OSError(f"{path}: {message}")
    os_error = OSError(f"{path}: {os.strerror(number)} ({message})")
    os_error.errno = number
    return os_error


def refused(path: Path, error: duckdb.Error) -> SlimdexError:
    """Convert DuckDB's error about a statement."""
    if is_damage(error):
        return CorruptError(f"{path}: damaged ({one_line(error)})")
    return StatementError(f"{path}: {one_line(error)}; nothing was changed")


def one_line(error: Exception) -> str:
    """Shorten a DuckDB message to its reason, on one line."""
    return " ".join(re.split(r"\n+LINE \d", str(error))[0].split())


@dataclass
class Session:
    """The file while it is open, and the lock on it.

    Attributes
    ----------
    users : threads that read at the moment.
    idle : cursors that no thread uses.
    descriptor : a writer's, for `Journal.save`; None on Windows.
    """

    engine: Engine
    read_only: bool
    locked: ExitStack
    descriptor: int | None = None
    users: int = 0
    has_failed: bool = False
    idle: deque[duckdb.DuckDBPyConnection] = field(default_factory=deque)

    @cached_property
    def writer(self) -> duckdb.DuckDBPyConnection:
        """The connection for changes."""
        return self.engine.cursor()

    def disconnect(self) -> None:
        """Close the connections; the lock stays."""
        try:
            if "writer" in self.__dict__:
                self.writer.close()
                del self.writer
            while self.idle:
                self.idle.pop().close()
            self.engine.detach()
        finally:  # last: closing also releases DuckDB's lock
            if self.descriptor is not None:
                os.close(self.descriptor)
                self.descriptor = None

    def close(self) -> None:
        """Close the connections and release the lock."""
        try:
            self.disconnect()
        finally:
            self.locked.close()
