"""Database: the documents of one commit, as views of its segments that DuckDB queries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows, without
from slimdex.indexes.errors import CorruptError, UnreadableError
from slimdex.indexes.execution.forks import cached_property
from slimdex.indexes.json_text import parsed

from ..atomic_files import FileRecord, publish
from ..duckdb_library import connected, duckdb
from ..sql import identifier
from .duckdb_connection import DISK_ERRORS, disk_error, refused
from .engine import Engine, Session
from .schema import TABLES
from .state import Segment

COLUMNS_AT_ONCE = 500
"""Columns per query: DuckDB holds 2,048 values of each in memory, several times."""
GONE = '(SELECT unnest(?::BIGINT[]) AS "row")'
CHANGED = '(SELECT unnest(?::BIGINT[]) AS "row", unnest(?::VARCHAR[]) AS slimdex_origin)'
Origins = Mapping[int, str | None]
"""Document -> its origin, if that differs from the one in its segment."""


class ChangedOrigins:
    """A file of origins, read when they are needed.

    Without it, or if it is damaged, those of the segments hold: files are read again by a sync.
    """

    def __init__(self, folder: Path, record: FileRecord | None = None) -> None:
        self._folder, self.record = folder, record

    @cached_property
    def values(self) -> Origins:
        """The origins."""
        if self.record is not None:
            self.record.check_size(self._folder)  # an older state's may be gone
            with suppress(CorruptError, ValueError, AttributeError):
                self.record.check(self._folder)
                read = parsed((self._folder / self.record.name).read_text())
                return {int(row): str(origin) for row, origin in read.items()}
        return {}


def write_origins(path: Path, origins: Origins) -> FileRecord:
    """Write origins to a file."""
    text = json.dumps({str(row): origin for row, origin in origins.items()})
    return publish(path, lambda new: new.write_text(text))


@dataclass(frozen=True)
class Contents:
    """The documents of a commit: those before row `rows`, but the deleted ones.

    The columns are the user's: name -> DuckDB type. For `epoch`, see `State`.
    """

    segments: Sequence[Segment]
    columns: Mapping[str, str]
    rows: int
    deleted: Rows
    origins: ChangedOrigins
    epoch: int

    def is_same(self, other: Contents) -> bool:
        """True if the documents are the same."""
        return (
            (self.segments, self.rows, self.epoch, self.origins.record)
            == (other.segments, other.rows, other.epoch, other.origins.record)
            and dict(self.columns) == dict(other.columns)
            and np.array_equal(self.deleted, other.deleted)
        )

    def live(self, rows: Sequence[int]) -> set[int]:
        """Those of some documents that searches see."""
        given = np.unique(np.array(rows, dtype=np.int64))
        return set(without(given[given < self.rows], self.deleted).tolist())


class Database:
    """Tables of the documents of one commit, which never change.

    Queries read `documents` and `passages`: all rows of the segments, also deleted ones and those
    of a running addition. `origins` has the row, id and origin of each document.
    """

    def __init__(self, engine: Engine, contents: Contents) -> None:
        self.engine, self.contents = engine, contents
        self.types = contents.columns
        self._made: tuple[Session, str] | None = None
        self._has_gone = False

    @property
    def path(self) -> Path:
        """Folder of the index."""
        return self.engine.folder

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for this thread.

        Raises `CorruptError` if damaged data were read, or a segment is missing, `UnreadableError`
        if the disk or memory failed, and `StatementError` if DuckDB refused a statement.
        """
        session = None
        try:
            with self.session() as session:
                schema = self._schema(session)
                cursor = session.taken(schema)
            try:
                yield cursor
            finally:
                session.give_back(cursor, schema)
        except duckdb.Error as error:
            if isinstance(error, duckdb.FatalException) and session is not None:
                session.has_failed = True
                self.engine.restart()
            raise self._read_error(error) from error

    def open(self) -> None:
        """Open the segments: they stay readable after they are removed from the folder."""
        with self.reading():
            pass

    @contextmanager
    def session(self) -> Iterator[Session]:
        """The session that has the segments, for one thread at a time.

        It stays the same, whatever others begin, but for a failure and in a forked process.
        """
        with self.engine.working() as current:
            usable = self._made is not None and self._made[0].is_usable
            session = self._made[0] if usable and self._made is not None else current
            self._schema(session)
            yield session

    def _schema(self, session: Session) -> str:
        if self._made is None or self._made[0] is not session:
            segments, changed = self.contents.segments, self.contents.origins.values
            tables = [(each.name, session.columns(each)) for each in segments]
            views = views_of(tables, self.types, are_changed=bool(changed))
            schema = session.schema(segments)
            finalize(self, session.end, schema, [segment.name for segment in segments])
            values = [[*changed], [*changed.values()]]
            session.fill(schema, {"changed": (f"FROM {CHANGED}", values)}, views)
            session.detach_unused()
            self._made, self._has_gone = (session, schema), False
        return self._made[1]

    def live(self, columns: str = "*", table: str = "documents") -> str:
        """The part of a table that searches see, for the next query of this thread."""
        stop = self.contents.rows
        if not len(self.contents.deleted):
            return f'(SELECT {columns} FROM {table} WHERE "row" < {stop})'
        self._make_gone()
        return f'(SELECT {columns} FROM {table} ANTI JOIN gone USING ("row") WHERE "row" < {stop})'

    def _make_gone(self) -> None:
        with self.session() as session:
            schema = self._schema(session)
            if not self._has_gone:
                gone = f"FROM {GONE}", [self.contents.deleted.tolist()]
                session.fill(schema, {"gone": gone}, {})
                self._has_gone = True

    def fetch(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query; DuckDB verifies checksums as it reads."""
        with self.reading() as cursor:
            return cursor.execute(sql, list(values)).fetchall()

    def fetch_table(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """All rows of a query as a `pyarrow.Table`; requires pyarrow."""
        import_module("duckdb")  # the package adds relations to the connections of its extension
        with self.reading() as cursor:
            return cursor.sql(sql, params=list(values)).to_arrow_table()

    def fetch_columns(self, sql: str, values: Sequence[Any] = ()) -> dict[str, NDArray[Any]]:
        """Columns of a query by name, each (n,)."""
        with self.reading() as cursor:
            columns: dict[str, NDArray[Any]] = cursor.execute(sql, list(values)).fetchnumpy()
        return columns

    def _read_error(self, error: duckdb.Error) -> Exception:
        if isinstance(error, DISK_ERRORS):
            return UnreadableError(str(disk_error(self.path, error)))
        return refused(self.path, error)


def views_of(
    tables: Sequence[tuple[str, Mapping[str, str]]],
    columns: Mapping[str, str],
    *,
    are_changed: bool,
) -> dict[str, str]:
    """Views and their queries, given attached files with their columns, and all columns."""
    passages = [f"FROM {identifier(name)}.main.passages" for name, _ in tables]
    return {
        "documents": _union(tables, columns),
        "passages": " UNION ALL ".join(passages) or _empty(_own("passages")),
        "origins": _origins(are_changed),
    }


def _union(tables: Sequence[tuple[str, Mapping[str, str]]], columns: Mapping[str, str]) -> str:
    """All documents; columns that a file lacks are NULL, and others have the committed types."""
    parts, missing = list[str](), dict(columns)
    for name, types in tables:
        cast = [
            f"CAST({identifier(column)} AS {_type(columns[column])}) AS {identifier(column)}"
            for column, type_ in types.items()
            if columns.get(column, type_) != type_
        ]
        for column in types:
            missing.pop(column, None)
        replaced = f" REPLACE ({', '.join(cast)})" if cast else ""
        parts.append(f"SELECT *{replaced} FROM {identifier(name)}.main.documents")
    if empty := [*([] if tables else _own("documents")), *missing.items()]:
        parts.append(_empty(empty))
    return " UNION ALL BY NAME ".join(parts)


def _own(table: str) -> list[tuple[str, str]]:
    """Names and types of the columns that every file has."""
    columns = TABLES[table].replace('"', "").split(",")
    return [(name, type_) for name, type_ in map(str.split, columns)]


def _empty(columns: Sequence[tuple[str, str]]) -> str:
    nulls = ", ".join(f"NULL::{_type(type_)} AS {identifier(name)}" for name, type_ in columns)
    return f"SELECT {nulls} WHERE false"


@cache
def _type(text: str) -> str:
    """DuckDB's text of a type; raises `CorruptError` for anything else in a manifest."""
    with connected() as scratch:
        try:
            return str(scratch.sqltype(text))
        except duckdb.Error as error:
            raise CorruptError(f"{text!r} in the manifest; expected a type of DuckDB") from error


def _origins(are_changed: bool) -> str:
    if not are_changed:
        return 'SELECT "row", id, slimdex_origin FROM documents'
    return """SELECT "row", id, CASE WHEN changed."row" IS NULL THEN documents.slimdex_origin
        ELSE changed.slimdex_origin END AS slimdex_origin
        FROM (SELECT "row", id, slimdex_origin FROM documents) documents
        LEFT JOIN changed USING ("row")"""
