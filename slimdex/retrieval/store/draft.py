"""Draft: documents that a change adds, in a file that becomes a segment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import randbelow, token_hex
from typing import Any

from ..atomic_files import file_name
from ..documents import OWN_COLUMNS
from ..duckdb_library import duckdb
from ..sql import identifier
from .database import CHANGED, GONE, Database, Origins, views_of
from .schema import TABLES
from .segments import FEW_ROWS, attaching, published
from .state import Segment

COLUMNS_FOR_NEW_TABLE = 100
"""Number of new columns from which a new table is cheaper: adding one costs as much as all before
it."""


def draft_of(database: Database) -> Draft:
    """The database of a change."""
    assert isinstance(database, Draft)
    return database


class Draft(Database):
    """Documents of a commit, and those that the next one adds; for one thread.

    The file is made in `folder`, with the first columns or documents. Its tables in SQL are
    `documents` and `passages`.
    """

    def __init__(self, base: Database, folder: Path) -> None:
        super().__init__(base.engine, base.contents)
        self._base, self._process = base, os.getpid()
        self._name = f"draft_{token_hex(4)}"  # others may be made at the same time
        self.documents, self.passages = (f"{self._name}.{table}" for table in TABLES)
        # A name of its own: DuckDB may have the file of a change that failed open for a while.
        self._file = folder / f"{file_name('segment', randbelow(10**12))}.tmp"
        self.types: dict[str, str] = dict(base.contents.columns)  # of all documents
        self.columns = dict[str, str]()  # of the file
        self.origins: Origins | None = None  # that differ from the segments', once any is changed
        self._cursor: duckdb.DuckDBPyConnection | None = None
        self._rows = FEW_ROWS  # or more, unless `expect` says otherwise
        self._is_shown = False  # by views of all columns and origins

    def expect(self, rows: int) -> None:
        """Prepare for documents of at least so many rows."""
        self._rows = rows

    def execute(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Execute a change of the file's tables."""
        self._open().execute(sql, list(values))

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection, which sees the changes."""
        if self._cursor is None and self.origins is None:
            with self._base.reading() as cursor:
                yield cursor
            return
        try:
            cursor = self._open()
            if not self._is_shown:
                self._show(cursor)
            yield cursor
        except duckdb.Error as error:
            raise self._read_error(error) from error

    def _make_gone(self) -> None:
        if self._cursor is None:
            self._base.live()

    def add_columns(self, columns: Mapping[str, str]) -> None:
        """Give the file's documents those of some columns that they lack."""
        new = {name: type_ for name, type_ in columns.items() if name not in self.columns}
        if not new:
            return
        cursor, named = self._open(), {identifier(name): type_ for name, type_ in new.items()}
        if len(named) < COLUMNS_FOR_NEW_TABLE:
            for name, type_ in named.items():
                cursor.execute(f"ALTER TABLE {self.documents} ADD COLUMN {name} {type_}")
        else:
            empty = ", ".join(f"NULL::{type_} AS {name}" for name, type_ in named.items())
            copied = f"SELECT *, {empty} FROM {self.documents}"
            cursor.execute(f"CREATE OR REPLACE TABLE {self.documents} AS {copied}")
        self._read_types()

    def retype(self, column: str, type_: str) -> None:
        """Give a column another type, in which no value is lost."""
        self.types[column] = type_
        if column in self.columns:
            self.execute(
                f"ALTER TABLE {self.documents} ALTER COLUMN {identifier(column)} TYPE {type_}"
            )
            self._read_types()
        self._is_shown = False

    def _read_types(self) -> None:
        """Take over the names that DuckDB gives to the types of the file's columns."""
        self.columns = {
            name: type_
            for name, type_, *_ in self._open().execute(f"DESCRIBE {self.documents}").fetchall()
            if name not in OWN_COLUMNS
        }
        self.types |= self.columns
        self._is_shown = False

    def change_origins(self, origins: Origins) -> None:
        """Give documents other origins."""
        if origins:
            self.origins = {**self.changed, **origins}
            self._is_shown = False

    @property
    def changed(self) -> Origins:
        """All origins that differ from those in the segments."""
        return self.contents.origins.values if self.origins is None else self.origins

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._cursor is None:
            with self._base.session() as session:
                self._cursor = session.cursor()
            self._cursor.execute(attaching(self._file, self._name, self._rows))
            self._cursor.execute("BEGIN TRANSACTION")
            for table, columns in TABLES.items():
                self._cursor.execute(f"CREATE TABLE {self._name}.{table}({columns})")
            gone = self.contents.deleted.tolist()
            self._cursor.execute(f"CREATE TEMP TABLE gone AS FROM {GONE}", [gone])
        return self._cursor

    def _show(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Make the views that this connection sees."""
        changed = [[*self.changed], [*self.changed.values()]]
        cursor.execute(f"CREATE OR REPLACE TEMP TABLE changed AS FROM {CHANGED}", changed)
        with self._base.session() as session:
            tables = [(each.name, session.columns(each)) for each in self.contents.segments]
        views = views_of([*tables, (self._name, self.columns)], self.types, are_changed=True)
        for view, sql in views.items():
            cursor.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS {sql}")
        self._is_shown = True

    def finished(self, path: Path, first: int, stop: int) -> Segment | None:
        """Make the documents, of the rows first .. stop, a durable file; None if there are none.

        No query and no change may follow.
        """
        if self._cursor is None:
            return None
        ((count,),) = self._cursor.execute(f"SELECT count(*) FROM {self.documents}").fetchall()
        if not count:
            self.discard()
            return None
        self._cursor.execute("COMMIT")
        self._cursor.execute(f"CHECKPOINT {self._name}")
        self._cursor.execute(f"DETACH {self._name}")
        self._cursor.close()
        self._cursor = None
        return published(self._file, path, first, stop)

    def discard(self) -> None:
        """Drop the documents; in a forked process, leave them to the other."""
        if os.getpid() != self._process:
            return
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            for sql in ("ROLLBACK", f"DETACH {self._name}"):
                with suppress(duckdb.Error):
                    cursor.execute(sql)
            with suppress(duckdb.Error):
                cursor.close()
        for left in self._file.parent.glob(f"{self._file.name}*"):
            with suppress(OSError):
                left.unlink()
