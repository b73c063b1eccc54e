"""Database: transactions and queries of one DuckDB file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InUseError, UnreadableError

from ..atomic_files import sync
from ..duckdb_library import duckdb
from ..sql import literal
from .catalog_file import CatalogFile
from .duckdb_connection import (
    DISK_ERRORS,
    NEW,
    SIDE_FILES,
    Session,
    disk_error,
    refused,
)

COLUMNS_AT_ONCE = 500
"""Columns per query: DuckDB holds 2,048 values of each in memory, several times."""


class RenumberedError(Exception):
    """The requested rows were renumbered: search again."""


class Database(CatalogFile):
    """A DuckDB file that many processes read and write, one writer at a time."""

    @contextmanager
    def transaction(self, committed: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Commit atomically and durably at the end; until then other threads see the old state.

        `committed` is called once the commit is durable. If a crash prevents that, it leaves a
        journal: see `is_interrupted`.

        Raises
        ------
        InputError
            If the folder was moved or replaced.
        OSError
            If the disk failed. The file is then reopened if possible; the tables show whether the
            transaction had already reached the journal.
        """
        self.check_place()
        with self.writing():
            yield from self._transaction(committed)
            self._checkpoint()

    def _transaction(self, committed: Callable[[], None]) -> Iterator[None]:
        committing = False
        try:
            self._writer = threading.get_ident()
            self._connection.execute("BEGIN TRANSACTION")
            yield
            committing = True
            self._connection.execute("SELECT 1")  # after an error, COMMIT would silently undo all
            self._connection.execute("COMMIT")
            self._writer = None
            sync(self.path.parent)  # names: of the log, and of the files that this commits
            self._save_journal()
            self._check_same()
            committed()
        except BaseException as error:
            with suppress(duckdb.Error):  # the original error says more
                self._connection.execute("ROLLBACK")
            self._writer = None
            if committing or isinstance(error, (*DISK_ERRORS, OSError)):
                with suppress(Exception):  # undo what the journal lacks; also, after some errors
                    self._reopen()  # DuckDB rejects all further statements
            if isinstance(error, DISK_ERRORS):
                raise disk_error(self.path, error) from error
            raise

    def _check_same(self) -> None:
        """Raise `UnreadableError` if the open file was deleted or replaced, and will be lost."""
        assert self._session is not None
        if (descriptor := self._session.descriptor) is None:
            return  # Windows keeps open files
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(self.path)):
                return
        raise UnreadableError(f"{self.path}: deleted or replaced while it was open")

    @property
    def in_transaction(self) -> bool:
        """True while this thread is in a transaction."""
        return self._writer == threading.get_ident()

    def execute(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Execute a change within `writing`; outside of a transaction it is not durable."""
        self._connection.execute(sql, list(values))

    @contextmanager
    def attached(self, name: str) -> Iterator[Path]:
        """Attach a new, empty file beside this one, under a name for SQL; durable at the end."""
        new = self.path.with_name(self.path.name + NEW)
        for end in SIDE_FILES:
            new.with_name(new.name + end).unlink(missing_ok=True)  # left by a crash
        try:
            self.execute(f"ATTACH {literal(str(new.absolute()))} AS {name}")
            yield new
            self.execute(f"CHECKPOINT {name}")
            self.execute(f"DETACH {name}")
        except BaseException as error:
            with suppress(Exception):
                self._reopen()  # which also detaches it
            with suppress(OSError):
                new.unlink(missing_ok=True)
            if isinstance(error, DISK_ERRORS):
                raise disk_error(self.path, error) from error
            raise

    def replace_with(self, new: Path) -> None:
        """Atomically replace this file with another, while no thread reads it."""
        self.check_place()
        sync(new)
        with self._changed, self._alone(closes=False):
            assert self._session is not None
            with suppress(duckdb.Error, OSError):
                self._checkpoint_alone()
            try:
                self._session.disconnect()
                if self._journal.log.exists():  # it would be applied to the new file
                    raise OSError(f"{self._journal.log}: DuckDB could not write it back")
                self._journal.remove()  # it belongs to this file
                sync(self.path.parent)
                os.replace(new, self.path)
                sync(self.path.parent)
            finally:
                self._reopen()

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """Let all reads of this thread see the file as it is now, and keep others from changing it.

        Other threads of this process can still change it.
        """
        if self.in_transaction or self._held() is not None:
            yield
            return
        with self.reading() as cursor:
            cursor.execute("BEGIN TRANSACTION")
            self._moments.held = self._session, cursor
            try:
                yield
            finally:
                self._moments.held = None
                with suppress(duckdb.Error):  # after an error there is no transaction
                    cursor.execute("ROLLBACK")

    def _held(self) -> tuple[Session, duckdb.DuckDBPyConnection] | None:
        """Session and cursor of this thread's `one_moment`."""
        return getattr(self._moments, "held", None)

    @contextmanager
    def reading(self, epoch: int | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor for this thread, on a file of the given epoch: see `State.epoch`.

        Raises
        ------
        RenumberedError
            If the rows have been renumbered.
        CorruptError
            If damaged data were read.
        UnreadableError
            If the disk or memory failed. The next call reopens the file if necessary.
        StatementError
            If DuckDB refused a statement.
        """
        session = None
        try:
            if self.in_transaction:
                yield self._connection  # sees this transaction's changes
                return
            if (held := self._held()) is not None:
                session, cursor = held
                _check_epoch(cursor, epoch)
                yield cursor
                return
            with self._reading_session() as session:
                cursor = session.idle.pop() if session.idle else session.engine.cursor()
                try:
                    _check_epoch(cursor, epoch)
                    yield cursor
                finally:
                    session.idle.append(cursor)
        except duckdb.Error as error:
            if isinstance(error, duckdb.FatalException) and session is not None:
                session.has_failed = True
            raise self._read_error(error) from error
        except (InUseError, UnreadableError):
            raise
        except OSError as error:  # opening failed
            raise UnreadableError(str(error)) from error

    def fetch(self, sql: str, values: Sequence[Any] = (), epoch: int | None = None) -> list[Any]:
        """All rows of a query; DuckDB verifies checksums as it reads."""
        with self.reading(epoch) as cursor:
            return cursor.execute(sql, list(values)).fetchall()

    def fetch_table(self, sql: str, values: Sequence[Any] = (), epoch: int | None = None) -> Any:
        """All rows of a query as a `pyarrow.Table`; requires pyarrow."""
        import_module("duckdb")  # the package adds relations to the connections of its extension
        with self.reading(epoch) as cursor:
            return cursor.sql(sql, params=list(values)).to_arrow_table()

    def fetch_columns(self, sql: str, values: Sequence[Any] = ()) -> dict[str, NDArray[Any]]:
        """Columns of a query by name, each (n,)."""
        with self.reading() as cursor:
            columns: dict[str, NDArray[Any]] = cursor.execute(sql, list(values)).fetchnumpy()
        return columns

    def fetch_rows(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        """The "row" column of a query."""
        rows: Rows = self.fetch_columns(sql, values)["row"].astype(np.int64)
        return rows

    def _read_error(self, error: duckdb.Error) -> Exception:
        if isinstance(error, DISK_ERRORS):
            return UnreadableError(str(disk_error(self.path, error)))
        return refused(self.path, error)


def _check_epoch(cursor: duckdb.DuckDBPyConnection, epoch: int | None) -> None:
    if epoch is not None:
        ((current,),) = cursor.execute("SELECT epoch FROM state").fetchall()
        if current != epoch:
            raise RenumberedError
