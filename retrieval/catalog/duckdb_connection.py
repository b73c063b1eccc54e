"""DuckDB connections: opening a file, limits, and the meaning of errors."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from ..duckdb_library import duckdb
from ..sql import literal

MEMORY = "SLIMDEX_MEMORY"
"""Environment variable for DuckDB's memory limit."""
LIMITS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": os.environ.get(MEMORY, "1GB"),  # more spills to disk
    "checkpoint_threshold": "1000TB",  # automatic ones are unsafe: see `checkpoint_journal`
}
LOCKED = LIMITS | {"enable_external_access": False, "lock_configuration": True}
"""Configuration of readers: filters must not read files."""
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
FIRST_CAUSE = "Original error: "
"""DuckDB's prefix of the error after which it rejected all statements."""
DAMAGE = re.compile(r"(\w+ Error: |Failed to \w+: )*(Corrupt|Failure while replaying WAL)")


def connected(path: Path, read_only: bool) -> duckdb.DuckDBPyConnection:
    """Connect; the connection can access no file but this one and its replacement."""
    if read_only:
        return duckdb.connect(str(path), read_only=True, config=LOCKED)
    connection = duckdb.connect(str(path), config=LIMITS)
    connection.execute("PRAGMA disable_checkpoint_on_shutdown")
    new = str(path.absolute()) + NEW
    allowed = ", ".join(literal(new + end) for end in SIDE_FILES)
    connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def is_damage(error: duckdb.Error) -> bool:
    """True if DuckDB reports damage of the file or log; values quoted in messages don't count."""
    return bool(DAMAGE.match(str(error)))


def disk_error(path: Path, error: duckdb.Error) -> OSError:
    """Convert DuckDB's error to an `OSError` with its number."""
    if "memory_limit" in str(error):
        said = one_line(error).split(" Possible solutions")[0]
        return OSError(
            f"{path}: {said}; expected texts that fit into {LIMITS['memory_limit']}: the "
            f"environment's {MEMORY} allows DuckDB more"
        )
    said = one_line(error).rpartition(FIRST_CAUSE)[2].strip('"')
    number = next((number for number in DISK_NUMBERS if os.strerror(number) in said), None)
    if number is None:
        return OSError(f"{path}: {said}")
    found = OSError(f"{path}: {os.strerror(number)} ({said})")
    found.errno = number
    return found


def one_line(error: Exception) -> str:
    """Shorten a DuckDB message to its reason, on one line."""
    return " ".join(re.split(r"\n+LINE \d", str(error))[0].split())
