"""Database: one DuckDB file, a connection for the writer and cursors for reading threads."""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import CorruptError, InputError, InUseError, UnreadableError
from slimdex.indexes.execution.locks import SharedLock

from ..atomic_files import sync
from ..duckdb_library import duckdb
from ..sql import literal
from .checkpoint_journal import Journal
from .duckdb_connection import (
    DISK_ERRORS,
    DISK_NUMBERS,
    NEW,
    SIDE_FILES,
    connected,
    disk_error,
    is_damage,
    one_line,
)
from .folder_lock import FolderLock

NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
"""Errors of a reader without write permission."""
PATIENCE = 1.0
"""Seconds that a reader waits while another one recovers from a crash."""


class RenumberedError(Exception):
    """The requested rows were renumbered: search again."""


class Database:
    """A DuckDB file that either one process writes or any number of processes read.

    The folder is locked too: while the file is being replaced, DuckDB's lock on it excludes nobody.

    `epoch` is incremented when `replace_with` replaces the file.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path, self.epoch = path, 0
        self._process = os.getpid()
        self._journal = Journal(path)
        self.read_only = read_only
        self._replacing = SharedLock()
        self._writer: int | None = None
        self._failed: duckdb.DuckDBPyConnection | None = None  # rejects all statements
        self._idle = deque[duckdb.DuckDBPyConnection]()
        self._held = list[int]()  # a writer's descriptor of the file
        finalize(self, _close, self._held)  # if `close` is never called
        self._lock = FolderLock(path.parent, read_only=read_only)
        try:
            self._connect()
            self._checkpoint()
        except BaseException:
            self._lock.release()
            raise

    def _connect(self) -> None:
        self._enter()
        try:
            self._base = self._opened()
        except duckdb.Error as error:
            if "Could not set lock" in str(error):
                raise self._lock.in_use(self.path) from error
            if any(os.strerror(number) in str(error) for number in DISK_NUMBERS):
                raise disk_error(self.path, error) from error
            raise CorruptError(
                f"{self.path}: not a slimdex catalog, or damaged ({one_line(error)})"
            ) from error
        try:
            self._connection = self._base.cursor()
            if not self.read_only:
                self._held.append(os.open(self.path, os.O_RDONLY))
        except BaseException:
            self._base.close()
            raise
        self._open, self._failed = True, None
        with suppress(OSError):
            self._journal.remove()
        if not self.read_only:
            with suppress(duckdb.Error, OSError):
                self._save_journal()

    def _enter(self) -> None:
        """Lock the folder and restore the committed state of the file."""
        if not self.read_only:
            self._lock.acquire()
            self._restore()
            return
        end = monotonic() + PATIENCE
        while True:
            recovering = self._journal.path.exists() or self._journal.log.exists()
            if recovering and self._lock.is_alone():
                self._restore()
            try:
                return self._lock.acquire()
            except InUseError:  # another reader may be recovering
                if not recovering or monotonic() > end:
                    raise
                sleep(PATIENCE / 100)

    def _restore(self) -> None:
        """Undo uncommitted changes, and flush caches that later writes rely on."""
        if not self.path.exists():
            return
        for path in (self._journal.log, self.path, self.path.parent):
            with suppress(FileNotFoundError):
                sync(path)
        try:
            self._journal.restore()
        except OSError as error:  # DuckDB will report if it can't read the file as it is
            if not self.read_only or error.errno not in NOT_ALLOWED:
                raise

    def _opened(self) -> duckdb.DuckDBPyConnection:
        try:
            return connected(self.path, self.read_only)
        except duckdb.Error as error:
            if not is_damage(error) or not self._journal.restore_headers():
                raise
        return connected(self.path, self.read_only)

    def _disconnect(self) -> None:
        self._open = False
        try:
            while self._idle:
                self._idle.pop().close()
            self._connection.close()
            self._base.close()
        finally:
            _close(self._held)  # last: closing also releases DuckDB's lock

    def ensure_open(self) -> None:
        """Reopen the file after a disk failure; raises `OSError` if the disk still fails.

        Raises `InputError` if it was closed, or belongs to a writer in the process that this one
        was forked from.
        """
        if self._is_forked_writer:
            raise InputError(
                f"{self.path.parent}: opened for writing by process {self._process}, of which this "
                "is a fork; expected one that is opened here, or read_only=True"
            )
        if not self._lock.is_alive:
            raise InputError(f"{self.path.parent} was closed; expected an open collection")
        if not self.is_usable:
            with self._replacing.exclusive():
                if not self.is_usable and self._writer is None:  # the writer will find out
                    self._connect_again()

    @property
    def is_usable(self) -> bool:
        """True if the file is open and DuckDB has not invalidated it after an error."""
        return self._open and self._failed is not self._base

    @property
    def _is_forked_writer(self) -> bool:
        """True in a fork of the writer's process, which must not touch the file."""
        return not self.read_only and os.getpid() != self._process

    def close(self) -> None:
        """Close the file once all reads have ended."""
        if self._is_forked_writer:
            return
        with self._replacing.exclusive():
            if self._open:
                with suppress(duckdb.Error, OSError, InputError):
                    self.check_place()
                    self._checkpoint_alone()
                self._disconnect()
            self._lock.release()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit atomically and durably at the end; until then other threads see the old state.

        Raises
        ------
        InputError
            If the folder was moved or replaced.
        OSError
            If the disk failed. The file is then reopened if possible; the tables show whether the
            transaction had already reached the journal.
        """
        self.ensure_open()
        self.check_place()
        committing = False
        try:
            self._writer = threading.get_ident()
            self._connection.execute("BEGIN TRANSACTION")
            yield
            committing = True
            self._connection.execute("SELECT 1")  # after an error, COMMIT would silently undo all
            self._connection.execute("COMMIT")
            self._writer = None
            sync(self.path.parent)  # the log's name, which DuckDB does not sync
            self._save_journal()
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
        self._checkpoint()

    def _checkpoint(self) -> None:
        """Move committed changes from the log into the file, which has DuckDB's checksums.

        If another thread's query or a full disk prevents it, a later commit or `close` does it.
        """
        try:
            self._checkpoint_alone()
        except duckdb.FatalException:  # DuckDB rejects everything until the file is reopened,
            with suppress(Exception):  # and another checkpoint would fail too
                self._reopen()
        except (duckdb.Error, OSError):
            pass

    def _checkpoint_alone(self) -> None:
        if self._journal.is_of_log:
            self._connection.execute("CHECKPOINT")
            self._journal.remove()

    def _save_journal(self) -> None:
        """Save the blocks that a checkpoint will overwrite, and the committed length of the log."""
        if not self._journal.log.exists():
            return
        ((block_bytes,),) = self._connection.execute(
            "SELECT block_size FROM pragma_database_size()"
        ).fetchall()
        metadata = self._connection.execute("SELECT block_id FROM pragma_metadata_info()")
        self._journal.save(self._held[0], [block for (block,) in metadata.fetchall()], block_bytes)

    def _reopen(self) -> None:
        with self._replacing.exclusive():
            self._connect_again()

    def _connect_again(self) -> None:
        if self._open:
            self._disconnect()
        self.path.stat()  # DuckDB would create an empty file
        self._connect()

    def check_place(self) -> None:
        """Raise `InputError` if this is closed, or its folder was moved or replaced."""
        self.ensure_open()
        self._lock.check_place()

    @property
    def in_transaction(self) -> bool:
        """True while this thread's transaction is open."""
        return self._writer is not None

    def execute(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Execute a change as the writer; outside of a transaction it is not durable."""
        self._connection.execute(sql, list(values))

    @contextmanager
    def reading(self, epoch: int | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor for this thread, on the file of the given epoch.

        Raises
        ------
        RenumberedError
            If the file has been replaced.
        CorruptError
            If damaged data were read.
        UnreadableError
            If the disk or memory failed. The next call reopens the file if necessary.
        """
        base = self._base
        try:
            if self._writer == threading.get_ident():
                yield self._connection  # sees this transaction's changes
                return
            self.ensure_open()
            with self._replacing.shared():
                if epoch is not None and epoch != self.epoch:
                    raise RenumberedError
                base = self._base
                cursor = self._idle.pop() if self._idle else base.cursor()
                try:
                    yield cursor
                finally:
                    self._idle.append(cursor)
        except duckdb.Error as error:
            if isinstance(error, duckdb.FatalException):
                self._failed = base
            raise self._read_error(error) from error
        except OSError as error:  # reopening failed
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
            found: dict[str, NDArray[Any]] = cursor.execute(sql, list(values)).fetchnumpy()
        return found

    def fetch_rows(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        """The "row" column of a query."""
        rows: Rows = self.fetch_columns(sql, values)["row"].astype(np.int64)
        return rows

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
        """Atomically replace this file with another, while nobody reads."""
        self.check_place()
        sync(new)
        with self._replacing.exclusive():
            with suppress(duckdb.Error, OSError):
                self._checkpoint_alone()
            try:
                self._disconnect()
                if self._journal.log.exists():  # it would be applied to the new file
                    raise OSError(f"{self._journal.log}: DuckDB could not write it back")
                self._journal.remove()  # it belongs to this file
                sync(self.path.parent)
                os.replace(new, self.path)
                self.epoch += 1
                sync(self.path.parent)
            finally:
                self._connect()

    def _read_error(self, error: duckdb.Error) -> Exception:
        if isinstance(error, DISK_ERRORS):
            return UnreadableError(str(disk_error(self.path, error)))
        damaged = is_damage(error)
        return CorruptError(f"{self.path}: damaged ({one_line(error)})") if damaged else error


def _close(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
