"""DuckDB: how a file is opened, with which limits, and what its errors mean."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import duckdb

from ..sql import literal

MEMORY = "SLIMDEX_MEMORY"
"""A variable of the environment: what DuckDB may take."""
LIMITS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": os.environ.get(MEMORY, "1GB"),  # more than that spills to disk
    "checkpoint_threshold": "1000TB",  # DuckDB's own checkpoints are not safe: see `journal`
}
LOCKED = LIMITS | {"enable_external_access": False, "lock_configuration": True}
"""A filter must not read files."""
NEW = ".new"
"""After the file's name: the file that is to take its place."""
SIDE_FILES = ("", ".wal", ".wal.checkpoint", ".wal.recovery")
"""What DuckDB writes beside a file of that name."""
DISK_ERRORS = (
    duckdb.IOException,
    duckdb.FatalException,
    duckdb.TransactionException,  # of a commit
    duckdb.ConnectionException,  # after one whose end is not known
    duckdb.OutOfMemoryException,
)
"""What DuckDB raises when the disk fails, or the memory that it may take."""
DISK_NUMBERS = (
    errno.EIO,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EMFILE,
)
"""What the system says then; a file that is damaged is opened without a word from it."""
FIRST_CAUSE = "Original error: "
"""What DuckDB puts before the error that made it refuse everything."""
DAMAGE = re.compile(r"(\w+ Error: |Failed to \w+: )*(Corrupt|Failure while replaying WAL)")


def connected(path: Path, read_only: bool) -> duckdb.DuckDBPyConnection:
    """A connection that can read and write no file but this one and what is to replace it."""
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
    """Whether DuckDB calls the file or the log damaged; values in messages don't count."""
    return bool(DAMAGE.match(str(error)))


def disk_error(path: Path, error: duckdb.Error) -> OSError:
    """What DuckDB says when reading or writing failed."""
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
    """The part of a DuckDB message that says what is wrong, on one line."""
    return " ".join(re.split(r"\n+LINE \d", str(error))[0].split())
