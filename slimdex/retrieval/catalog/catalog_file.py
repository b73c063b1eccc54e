"""CatalogFile: one DuckDB file, open only while something reads or writes it.

DuckDB lets one process write to a file, or many read it. So no process keeps it open: a reader
opens it for a query and, unless a writer waits, for `REST_SECONDS` after it; a writer opens it for
one change.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any
from weakref import WeakSet

from slimdex.indexes.errors import CorruptError, InputError, InUseError, UnreadableError

from ..atomic_files import sync
from ..duckdb_library import duckdb
from ..locks import WAIT, FileLock
from .checkpoint_journal import Journal
from .duckdb_connection import (
    DISK_NUMBERS,
    INVALIDATED,
    NOT_ALLOWED,
    Engine,
    Session,
    disk_error,
    is_damage,
    one_line,
    refused,
)

REST_SECONDS = 0.05
"""Time for which a reader keeps the file open after a query, as the next one may follow."""
_ABANDONED, _OPEN = list[Any](), WeakSet[Any]()
"""Sessions that a forked process inherited and must not close; all files of this process."""


def _stop_resting() -> None:
    """Close idle files: a forked child could not close them, and DuckDB complains at exit."""
    for file in list(_OPEN):
        file.stop_resting()


atexit.register(_stop_resting)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_stop_resting)


class CatalogFile:
    """A DuckDB file that many processes read and write, one at a time.

    Parameters
    ----------
    check : called with a cursor when another file than before is opened; raises for a file that
        must not be used.
    creates : create the file when it is first opened; otherwise it must exist.
    """

    def __init__(
        self,
        path: Path,
        check: Callable[[duckdb.DuckDBPyConnection], None] = lambda _: None,
        *,
        creates: bool = False,
    ) -> None:
        self.path, self._check, self._creates = path, check, creates
        self._journal = Journal(path)
        self._lock = FileLock(path.parent, "database", is_signed=True)
        self._folder = path.parent.stat()
        self._is_closed = False
        self._checked: int | None = None  # inode
        self._begin_here()
        _OPEN.add(self)

    def _begin_here(self) -> None:
        """Start without a session, in this process."""
        self._process = os.getpid()
        self._engine = Engine(self.path)
        self._moments = threading.local()  # held: of a thread within `one_moment`
        self._changed = threading.Condition(threading.RLock())
        self._session: Session | None = None
        self._waiting_writer: int | None = None  # thread that waits for all reads to end
        self._changed_by: int | None = None  # thread within `writing`
        self._writer: int | None = None  # thread within `transaction`
        self._closing: threading.Timer | None = None
        self._rest_until = 0.0

    def close(self) -> None:
        """Close the file once all reads have ended; no later call opens it."""
        self._leave_fork()
        self._is_closed = True
        with self._changed:
            if self._session is not None and self._session.read_only:
                with self._alone():
                    pass
        self.stop_resting()

    def stop_resting(self) -> None:
        """Close the file if no thread is reading it."""
        closing, self._closing = self._closing, None
        if closing is not None:
            closing.cancel()
            closing.join()
        with self._changed:
            session = self._session
            if session is not None and session.read_only and not session.users:
                self._end_session()
            if self._session is None:
                self._engine.stop()

    def ensure_open(self) -> None:
        """Raise `InputError` if this was closed."""
        if self._is_closed:
            raise InputError(f"{self.path.parent} was closed; expected an open collection")

    @property
    def is_in_place(self) -> bool:
        """True unless the folder was moved or replaced."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return os.path.samestat(self._folder, self.path.parent.stat())
        return False

    def check_place(self) -> None:
        """Raise `InputError` if this is closed, or its folder was moved or replaced."""
        self.ensure_open()
        if self.is_in_place:
            return
        raise InputError(
            f"{self.path.parent} was moved or replaced since it was opened; expected the same "
            "folder (open the index again where it is now)"
        )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Open the file for changes, once other processes and threads have stopped reading.

        The caller has the writers' turn. Other threads of this process can still read. Within
        another `writing` of this thread, the file is open already.

        Raises `StatementError` instead of DuckDB's errors.
        """
        self._leave_fork()
        if self._changed_by == threading.get_ident():
            yield
            return
        with self._changed:
            self.check_place()
            with self._alone():
                self._session = self._opened(read_only=False)
                self._changed_by = threading.get_ident()
        try:
            with suppress(duckdb.Error, OSError):
                self._save_journal()
            self._checkpoint()
            yield
        except duckdb.Error as error:
            raise refused(self.path, error) from error
        finally:
            self._changed_by = None
            with self._changed, self._alone(closes=False):
                if os.getpid() == self._process:
                    self._checkpoint()
                    self._end_session()

    @contextmanager
    def _alone(self, *, closes: bool = True) -> Iterator[None]:
        """Keep other threads of this process away, by default without an open file."""
        before, self._waiting_writer = self._waiting_writer, threading.get_ident()
        try:
            while self._session is not None and self._session.users:
                self._changed.wait()
            if closes and self._session is not None:
                self._end_session()
            yield
        finally:
            self._waiting_writer = before
            self._changed.notify_all()

    @contextmanager
    def _reading_session(self) -> Iterator[Session]:
        self._leave_fork()
        with self._changed:
            self.ensure_open()
            while self._waiting_writer not in (None, threading.get_ident()):
                self._changed.wait()
            self._close_unusable()
            if self._session is None:
                self._session = self._opened(read_only=True)
            session = self._session
            session.users += 1
        try:
            yield session
        finally:
            with self._changed:
                session.users -= 1
                if not session.users:
                    self._changed.notify_all()
                    if session.read_only:
                        self._rest()

    def _close_unusable(self) -> None:
        """Close the file if a writer waits for it, or DuckDB has invalidated it after an error."""
        session = self._session
        if session is None or not session.read_only:
            return
        if session.has_failed or self._lock.is_wanted():
            with self._alone():
                if session.has_failed:
                    self._engine.stop()

    def _rest(self) -> None:
        """Close the file soon."""
        self._rest_until = monotonic() + REST_SECONDS
        if self._closing is None:
            self._closing = threading.Timer(REST_SECONDS, self._close_rested)
            self._closing.start()  # no daemon: at exit it may hold the last reference to DuckDB

    def _close_rested(self) -> None:
        with self._changed:
            self._closing = None
            session = self._session
            if session is None or not session.read_only or session.users:
                return
            if monotonic() < self._rest_until:
                self._rest()
            else:
                self._end_session()

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _leave_fork(self) -> None:
        """Forget the session of the process that this one was forked from."""
        if os.getpid() != self._process:
            _ABANDONED.append((self._session, self._engine))
            self._begin_here()

    def _opened(self, *, read_only: bool) -> Session:
        with ExitStack() as locked:
            if read_only:
                self._recover()
            locked.enter_context(self._lock.held(WAIT, shared=read_only))
            if not read_only:
                self._restore(read_only=False)
            self._check_there()
            self._attach(read_only)
            session = Session(self._engine, read_only, ExitStack())
            try:
                if not read_only:
                    with suppress(PermissionError):  # of Windows, where DuckDB writes alone
                        session.descriptor = os.open(self.path, os.O_RDONLY)
                self._check_new()
                with suppress(OSError):
                    self._journal.remove()
            except BaseException:
                session.disconnect()
                raise
            session.locked = locked.pop_all()
            return session

    def _check_there(self) -> None:
        """Raise `UnreadableError` if the file is missing: DuckDB would create an empty one."""
        if not self._creates and not self.path.exists():
            raise UnreadableError(f"{self.path}: missing; expected the catalog of an index")
        self._creates = False

    def _recover(self) -> None:
        """Restore the committed state after a crash, unless others have the file open."""
        if self.is_interrupted:
            with suppress(InUseError), self._lock.held(0):
                self._restore(read_only=True)

    def _restore(self, *, read_only: bool) -> None:
        """Undo uncommitted changes, and flush caches that a killed process left."""
        if not self.path.exists():
            return
        if self.is_interrupted:
            for path in (self._journal.log, self.path, self.path.parent):
                with suppress(FileNotFoundError):
                    sync(path)
        try:
            self._journal.restore()
        except OSError as error:  # DuckDB will report if it can't read the file as it is
            if not read_only or error.errno not in NOT_ALLOWED:
                raise

    def _attach(self, read_only: bool) -> None:
        try:
            try:
                self._engine.attach(read_only=read_only)
            except duckdb.Error as error:
                self._engine.stop()
                if not is_damage(error) or not self._journal.restore_headers():
                    raise
                self._engine.attach(read_only=read_only)
        except duckdb.Error as error:
            if "Could not set lock" in str(error):  # a program that is not ours
                raise InUseError(
                    f"{self.path}: another program has it open; expected slimdex alone"
                ) from error
            if any(os.strerror(number) in str(error) for number in DISK_NUMBERS):
                raise disk_error(self.path, error) from error
            raise self._damaged(error) from error

    def _check_new(self) -> None:
        """Check a file that was not open before."""
        inode = self.path.stat().st_ino
        if inode == self._checked:
            return
        try:
            with self._engine.cursor() as cursor:
                self._check(cursor)
        except duckdb.Error as error:
            raise self._damaged(error) from error
        self._checked = inode

    def _damaged(self, error: duckdb.Error) -> CorruptError:
        return CorruptError(f"{self.path}: not a slimdex catalog, or damaged ({one_line(error)})")

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._session is None:  # after an error
            raise OSError(f"{self.path}: can't be opened again")
        return self._session.writer

    @property
    def is_interrupted(self) -> bool:
        """True if a change has not ended, or a crash cut it short."""
        return self._journal.path.exists() or self._journal.log.exists()

    def _checkpoint(self) -> None:
        """Move committed changes from the log into the file, which has DuckDB's checksums.

        If another thread's query or a full disk prevents it, a later commit, or the end of
        `writing`, does it.
        """
        try:
            self._checkpoint_alone()
        except duckdb.Error as error:
            if isinstance(error, duckdb.FatalException) or INVALIDATED in str(error):
                # DuckDB rejects everything until the file is reopened, and another checkpoint
                with suppress(Exception):  # would fail too
                    self._reopen()
        except OSError:
            pass

    def _checkpoint_alone(self) -> None:
        if self._journal.is_of_log:
            self._connection.execute("CHECKPOINT")
            self._journal.remove()

    def _save_journal(self) -> None:
        """Save the blocks that a checkpoint will overwrite, and the committed length of the log."""
        if not self._journal.log.exists():
            return
        assert self._session is not None
        ((block_bytes,),) = self._connection.execute(
            "SELECT block_size FROM pragma_database_size() WHERE database_name = current_database()"
        ).fetchall()
        metadata = self._connection.execute("SELECT block_id FROM pragma_metadata_info()")
        blocks = [block for (block,) in metadata.fetchall()]
        if self._session.descriptor is not None:
            self._journal.save(self._session.descriptor, blocks, block_bytes)
            return
        with self._changed, self._alone(closes=False):
            self._session.disconnect()
            try:
                with self.path.open("rb") as file:
                    self._journal.save(file.fileno(), blocks, block_bytes)
            finally:
                self._attach(read_only=False)

    def _reopen(self) -> None:
        """Close the file and open it again, which undoes what the journal lacks."""
        with self._changed, self._alone():
            self._engine.stop()
            self._session = self._opened(read_only=False)
        with suppress(duckdb.Error, OSError):
            self._save_journal()
