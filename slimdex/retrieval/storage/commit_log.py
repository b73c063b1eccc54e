"""Commit log: the committed state of an index's folder, and the only way to change it.

Every change has three steps: 1. append or write files and fsync them; 2. commit one DuckDB
transaction; 3. delete files that are no longer named. A crash before 2 leaves the old state, after
2 the new one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches, without
from slimdex.indexes.errors import CorruptError, InputError, InUseError
from slimdex.indexes.execution.workers import HERE, Workers
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import NO_ROWS
from slimdex.indexes.vectors.vector_file import BLOCK_BYTES, VectorFile

from ..atomic_files import (
    CATALOG,
    HEAD,
    OUR_FILES,
    check_folder,
    publish,
    publish_folder,
    remove,
    sync,
)
from ..catalog.passages_table import DocumentRows
from ..catalog.state import State
from ..catalog.store import Blocks, DocumentStore
from ..lexical.word_index import WordIndex
from ..locks import WAIT, FileLock, check_wait
from .head import Head, Undo, mark
from .work_folder import remove_left_work


class BlockFile(Protocol):
    """An append-only file whose blocks have checksums in the catalog."""

    @property
    def path(self) -> Path:
        """Path of the file; its name is the one in the catalog."""

    @property
    def nbytes(self) -> int:
        """Committed size in bytes."""

    def blocks(self, first: int = 0) -> Iterator[tuple[int, str]]:
        """(number, SHA-256) of each block from `first` on."""


@dataclass(frozen=True)
class AppendedFile:
    """A file that a commit extends, and the first of its new blocks."""

    file: BlockFile
    first_block: int = 0

    def tail(self) -> tuple[int, Blocks]:
        """The first of the new blocks, and all of them."""
        return self.first_block, list(self.file.blocks(self.first_block))


class CommitLog:
    """A folder, its catalog and the committed state.

    After a failure the state may be outdated: see `read_again`.

    `workers` compute work that can be split.
    """

    def __init__(self, path: Path, store: DocumentStore, wait: float = WAIT) -> None:
        self.path, self.store, self.wait = path, store, check_wait(wait)
        self.workers: Workers = HERE
        self._turn = FileLock(path, "writer", is_signed=True)
        self._deleting = self._restoring = NO_ROWS
        self._tails = dict[str, tuple[int, Blocks]]()
        self._mark = mark(path)
        was_killed = store.database.is_interrupted and not self._turn.is_held()
        self._show((None if was_killed else Head.read(path)) or self._from_catalog())
        if was_killed and os.access(path, os.W_OK):  # others must not see an older commit
            with suppress(OSError, CorruptError, InUseError), self._turn.held(0):
                self.read_again()

    @property
    def state(self) -> State:
        """The committed state; for the thread in a transaction, the one to be committed."""
        return self._next if self.store.database.in_transaction else self.head.state

    @classmethod
    def create(cls, path: Path, state: State) -> CommitLog:
        """Create a folder with an empty catalog, under a temporary name, then rename it.

        If the state names a lexical index, an empty one is created. Raises `InputError` if the
        folder exists; of several processes that create it at once, one succeeds.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        publish_folder(path, lambda new: _fill(new, state))
        return cls.open(path)

    @classmethod
    def open(cls, path: Path, wait: float = WAIT) -> CommitLog:
        """Open an existing folder; `wait` are the seconds to wait for other writers."""
        if not (path / CATALOG).is_file():
            raise InputError(f"{path}: no slimdex index there (no {CATALOG})")
        check_folder(path)
        return cls(path, DocumentStore(path / CATALOG), wait)

    def follow(self) -> None:
        """Take over what other processes have committed; outside of `turn`."""
        current = mark(self.path)
        if (current != self._mark or current is None) and self.store.database.is_in_place:
            self._mark = current
            head = Head.read(self.path)
            # A crash may have kept a commit that `follow_catalog` took over from the head.
            if head is None or head.state.version < self.head.state.version:
                head = self._from_catalog()
            self._show(head)

    def follow_catalog(self) -> None:
        """Take over what is committed, even if a crash kept it from the head."""
        self._show(self._from_catalog())

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the writers' turn, with the newest state.

        Ends what a crash interrupted, and deletes what it left. Raises `InUseError` if others have
        the turn for longer than `wait`.
        """
        with self._turn.held(self.wait):
            if self.store.database.is_interrupted or mark(self.path) is None:
                self.read_again()
            else:
                self.follow()
            if self._strays():
                sync(self.path)  # the renaming of a catalog that names them no longer
            self.remove_strays()
            yield

    def _from_catalog(self) -> Head:
        with self.store.database.one_moment():
            self.store.columns.read_again()
            return Head.of(self.store)

    def _show(self, head: Head) -> None:
        self.head = head
        self._next = head.state
        self.store.columns.show(head.columns)

    def vectors(self, rows: int | None = None) -> VectorFile:
        """The encoder's vectors on disk, by default of the committed rows."""
        rows = self.state.rows if rows is None else rows
        return self.state.vector_file(self.path, rows)

    def document_rows(self, stop: int | None = None) -> DocumentRows:
        """The documents of the rows 0 .. stop, by default the committed ones."""
        known, first = self.head.document_rows, self.head.state.rows
        if stop is None or stop <= first:
            return known
        return known.followed_by(self.store.passages.rows(stop, first))

    def textless(self) -> Rows:
        """Rows of documents without text, in order, including staged ones."""
        known, first = self.head.textless, self.head.state.rows
        return np.append(known, self.store.readings.textless(first))

    def moments(self, state: State | None = None) -> Moments:
        """The moments of the live documents' vectors, without those of empty texts.

        By default those of the newest state.
        """
        record = (state or self.state).files.get("moments")
        if record is None:
            return Moments(self.state.dim)
        record.check(self.path)
        moments = Moments.load(self.path / record.name)
        if moments.dim != self.state.dim:
            raise CorruptError(
                f"{self.path / record.name}: {moments.dim} dimensions; expected {self.state.dim}"
            )
        return moments

    def moments_of(self, rows: Rows) -> Moments:
        """The moments of some rows' vectors, read from disk."""
        if not len(rows):
            return Moments(self.state.dim)
        vectors, rows = self.vectors(), without(rows, self.textless())
        chunks = (vectors.take(rows[part]) for part in batches(len(rows)))
        return Moments.of(chunks, self.state.dim)

    def moments_from(self, start: int, vectors: VectorFile) -> Moments:
        """The moments of the vectors of a file's rows from `start` on."""
        chunks, moments = self._with_text(start, vectors), Moments(self.state.dim)
        for _, part in self.workers.map(Moments.of_rows, chunks):
            moments.merge(part)
        return moments

    def _with_text(self, start: int, vectors: VectorFile) -> Iterator[Matrix]:
        """Chunks of a file's vectors from row `start` on, without documents that have no text."""
        textless = self.textless()
        for chunk in vectors.scan(start):
            blank = textless[slice(*np.searchsorted(textless, [start, start + len(chunk)]))]
            yield np.delete(chunk, blank - start, axis=0) if len(blank) else chunk
            start += len(chunk)

    def live_rows(self) -> Rows:
        """Rows of documents that are not deleted."""
        return np.delete(np.arange(self.state.rows), self.head.deleted)

    def next_state(self) -> State:
        """The state to commit next, with a new generation."""
        return replace(self.state, generation=self.state.generation + 1)

    def with_moments(self, state: State, moments: Moments) -> State:
        """Write the moments; return the state that names them."""
        record = publish(self.path / state.new_name("moments"), moments.save)
        return replace(state, files=state.files | {"moments": record})

    def commit(
        self,
        state: State,
        *,
        delete: Rows = NO_ROWS,
        restore: Rows = NO_ROWS,
        grown: Sequence[AppendedFile] = (),
        undo: Undo = "alone",
    ) -> None:
        """Commit a state.

        Parameters
        ----------
        delete : rows to delete with it.
        restore : deleted rows that come back with it.
        grown : files with new blocks.
        undo : as for `transaction`.
        """
        with self.transaction(undo):
            self.delete(delete)
            self._restore(restore)
            self._tails |= {each.file.path.name: each.tail() for each in grown}
            self.set_state(state)

    @contextmanager
    def transaction(self, undo: Undo = "alone") -> Iterator[None]:
        """A transaction of the store, within `turn`, or a part of the one that has begun.

        `undo` is how it can be undone: see `Head.remembered_by`.
        """
        if self.store.database.in_transaction:
            yield
            return
        self._next, self._tails = self.head.state, {}
        self._deleting, self._restoring = NO_ROWS, NO_ROWS
        with self.store.transaction(lambda: self._publish(lambda: following)):
            self._check_version()
            yield
            state = replace(self._next, version=self.head.state.version + 1)
            is_moved = len(self._deleting) + len(self._restoring) > 0
            self._next = self.head.remembered_by(state, self.path, undo, is_moved)
            self.store.blocks.replace_from(self._tails, self._next.file_names)
            self.store.set_state(self._next)
            following = self.head.followed_by(
                self.store, self._next, self._deleting, self._restoring
            )
        self.remove_strays()

    def delete(self, rows: Rows) -> None:
        """Delete rows with this transaction."""
        if len(rows):
            self.store.documents.delete(rows)
            self._deleting = np.union1d(self._deleting, rows)

    def _restore(self, rows: Rows) -> None:
        if len(rows):
            self.store.documents.restore(rows)
            self._restoring = rows

    def set_state(self, state: State) -> None:
        """Set the state that this transaction commits."""
        self._next = state

    def before(self) -> Head | None:
        """The head before the last change; None if that can't be undone."""
        record = self.state.files.get("before")
        return Head.read(self.path, record.name) if record else None

    def commit_compacted(self, state: State, blocks: Mapping[str, Blocks]) -> None:
        """Commit a state whose rows, in new files with these blocks, are the live ones."""
        state = replace(state, version=self.state.version + 1, epoch=self.state.epoch + 1)
        state = self.head.remembered_by(state, self.path, "never")
        with self.store.database.writing():
            self._check_version()
            Head.remove(self.path)  # a crash must not leave an older one
            self.store.compact(state, blocks)
            self._publish(lambda: Head.of(self.store))
        self.remove_strays()

    def _publish(self, head: Callable[[], Head]) -> None:
        """Show the committed state to this process and others."""
        try:
            self._show(head())
            self.head.write(self.path)
        except BaseException:
            with suppress(OSError):  # without it, the catalog tells what is committed
                Head.remove(self.path)
            raise
        self._mark = mark(self.path)

    def _check_version(self) -> None:
        """Raise `OSError` if a failing disk has kept the last commit from the head."""
        if self.store.version() != self.head.state.version:
            Head.remove(self.path)
            raise OSError(f"{self.path / HEAD}: out of date, and removed; run it again")

    def check(self, file: BlockFile, first: int = 0, where: str = "") -> None:
        """Raise `CorruptError` if a block of a file, from `first` on, is damaged.

        Required before a block gets a new checksum, which would otherwise cover old damage.
        """
        known = self.store.blocks.of(file.path.name)
        if dict(file.blocks(first)) != {b: digest for b, digest in known.items() if b >= first}:
            raise CorruptError(f"{file.path}: damaged{where}; see `slimdex verify`")

    def check_tail(self, file: BlockFile) -> None:
        """Raise `CorruptError` if the block that an append will change is damaged."""
        self.check(file, file.nbytes // BLOCK_BYTES, " in its last block")

    def forget_pending(self) -> None:
        """Discard an unfinished addition, within the transaction of another one."""
        if self.state.unfinished:
            self.check_tail(self.vectors(self.state.encoded))
            kept = self.vectors()
            self.store.discard_from(self.state.rows)
            tail = AppendedFile(kept, kept.nbytes // BLOCK_BYTES).tail()
            self.store.blocks.replace_from({self.state.vectors: tail}, self.state.file_names)

    def read_again(self) -> None:
        """Reload the committed state from the catalog and show it to others; within `turn`."""
        if self.store.database.is_interrupted:
            # DuckDB may end the checkpoint when it opens the file, and another crash would then
            # leave an old head without a sign of it.
            Head.remove(self.path)
        with self.store.database.writing():
            self._show(self._from_catalog())
            if (head := Head.read(self.path)) is None or head.state != self.state:
                self.head.write(self.path)
        self._mark = mark(self.path)

    def remove_strays(self) -> None:
        """Delete files of ours that the state does not name, as left by a crash.

        Files that can't be deleted are harmless and left to the next commit.
        """
        with suppress(OSError):
            for path in self._strays():
                with suppress(PermissionError):  # Windows deletes no file that others read
                    remove(path)
            remove_left_work(self.path)

    def _strays(self) -> list[Path]:
        named = self.state.file_names
        ours = (path for path in self.path.iterdir() if OUR_FILES.fullmatch(path.name))
        return [path for path in ours if path.name not in named]


def _fill(folder: Path, state: State) -> None:
    """Write the files of an index without documents."""
    store = DocumentStore.create(folder / CATALOG, state)
    try:
        Head.of(store).write(folder)
    finally:
        store.database.close()
    if state.words is not None:
        WordIndex.create(folder / state.words)
