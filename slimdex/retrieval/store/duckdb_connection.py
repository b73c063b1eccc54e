"""DuckDB: limits, and the meaning of errors."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from slimdex.indexes.errors import CorruptError, SlimdexError, StatementError

from ..duckdb_library import duckdb

MEMORY = "SLIMDEX_MEMORY"
"""Environment variable for DuckDB's memory limit."""
LIMITS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": os.environ.get(MEMORY, "1GB"),  # more spills to disk
    "checkpoint_threshold": "1000TB",  # a file is written back once, when it is complete
}
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
    return " ".join(re.split(r"\nLINE \d", str(error))[0].split())
