"""Segments: immutable files of documents, written once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from ..atomic_files import sha256, sync
from ..duckdb_library import duckdb
from ..sql import literal
from .database import Database
from .duckdb_connection import DISK_ERRORS, disk_error
from .state import Segment

FEW_ROWS = 1024
SMALL_BLOCKS, BLOCKS = 16_384, 65_536
"""Bytes of a block in small segments, DuckDB's least, and in others: texts of a kilobyte and more
take half as many bytes in these, and a document alone four times as many."""
MOST_SMALL = 8
"""Small segments before they are merged."""
SHARE = 4
"""A segment is merged with the later ones once they have one row for so many of its own: so each
row is copied a few times, and a million rows added by thousands are in about a dozen segments."""


def attaching(new: Path, name: str, rows: int) -> str:
    """The statement that makes a file of so many rows."""
    block = SMALL_BLOCKS if rows < FEW_ROWS else BLOCKS
    place = literal(str(new.absolute()))
    return f"ATTACH {place} AS {name} (TYPE duckdb, BLOCK_SIZE {block})"


def written(
    database: Database, path: Path, rows: tuple[int, int], documents: str, passages: str
) -> Segment:
    """Write a segment of the rows first .. stop, given the queries of its two tables.

    Raises `OSError` if the disk fails.
    """
    new, name = path.with_name(path.name + ".tmp"), f"written_{token_hex(4)}"
    new.unlink(missing_ok=True)
    try:
        with database.reading() as connection:
            connection.execute(attaching(new, name, rows[1] - rows[0]))
            try:
                connection.execute(f"CREATE TABLE {name}.documents AS {documents}")
                connection.execute(f"CREATE TABLE {name}.passages AS {passages}")
                connection.execute(f"CHECKPOINT {name}")
            finally:
                with suppress(duckdb.Error):
                    connection.execute(f"DETACH {name}")
    except BaseException as error:
        for left in path.parent.glob(f"{new.name}*"):
            with suppress(OSError):
                left.unlink()
        if isinstance(error, DISK_ERRORS):
            raise disk_error(new, error) from error
        raise
    return published(new, path, *rows)


def published(new: Path, path: Path, first: int, stop: int) -> Segment:
    """Make a closed file durable, and rename it to a segment's path."""
    if (log := new.with_name(f"{new.name}.wal")).exists():  # it would be lost
        raise OSError(f"{log}: DuckDB has not written it back")
    sync(new)
    segment = Segment(path.name, new.stat().st_size, sha256(new), first, stop)
    os.replace(new, path)
    return segment


def to_merge(segments: Sequence[Segment]) -> int:
    """The first of the last segments that should become one; their number if none should.

    >>> to_merge([Segment("a", 1, "", 0, 5000), Segment("b", 1, "", 5000, 6000)])
    2
    >>> to_merge([Segment("a", 1, "", 0, 5000), Segment("b", 1, "", 5000, 6500)])
    0
    """
    first = len(segments)
    small = first
    while small and len(segments[small - 1]) < FEW_ROWS:
        small -= 1
    if first - small > MOST_SMALL:
        first = small
    later = sum(len(segment) for segment in segments[small:])
    for i in range(small - 1, -1, -1):
        if later * SHARE >= len(segments[i]):
            first = i
        later += len(segments[i])
    return first
