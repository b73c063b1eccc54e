"""Commit log: the committed state of an index's folder, and the only way to change it.

Every change has three steps: 1. append or write files and fsync them; 2. commit one DuckDB
transaction; 3. delete files that are no longer named. A crash before 2 leaves the old state, after
2 the new one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches, without
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.execution.workers import HERE, Workers
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import NO_ROWS
from slimdex.indexes.vectors.vector_file import BLOCK_BYTES, VectorFile

from ..atomic_files import CATALOG, OUR_FILES, check_folder, publish, remove, sync
from ..catalog.passages_table import DocumentRows
from ..catalog.state import State
from ..catalog.store import DocumentStore
from ..lexical.word_index import WordIndex


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


class CommitLog:
    """A folder, its catalog and the committed state.

    After a failure the state may be outdated: see `read_again`.

    `workers` compute work that can be split.
    """

    def __init__(self, path: Path, store: DocumentStore) -> None:
        self.path, self.store = path, store
        self.workers: Workers = HERE
        self.state = self._next = store.state()

    @classmethod
    def create(cls, path: Path, state: State) -> CommitLog:
        """Create a folder with an empty catalog, under a temporary name, then rename it.

        If the state names a lexical index, an empty one is created.
        """
        if path.exists():
            raise InputError(f"{path} exists; expected a new folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        shutil.rmtree(new, ignore_errors=True)  # left by a killed process
        new.mkdir()
        try:
            DocumentStore.create(new / CATALOG, state).database.close()
            if state.words is not None:
                WordIndex.create(new / state.words)
            sync(new)
            os.rename(new, path)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        sync(path.parent)
        return cls.open(path, read_only=False)

    @classmethod
    def open(cls, path: Path, *, read_only: bool) -> CommitLog:
        """Open an existing folder; a writer also deletes what a crash left."""
        if not (path / CATALOG).is_file():
            raise InputError(f"{path}: no slimdex index there (no {CATALOG})")
        check_folder(path)
        if not read_only:
            with suppress(PermissionError):
                sync(path.absolute().parent)  # its creator may have been killed before this
        store = DocumentStore.open(path / CATALOG, read_only=read_only)
        try:
            commit_log = cls(path, store)
            if not read_only:
                commit_log.remove_strays()
        except BaseException:
            store.database.close()
            raise
        return commit_log

    def vectors(self, rows: int | None = None) -> VectorFile:
        """The encoder's vectors on disk, by default of the committed rows."""
        rows = self.state.rows if rows is None else rows
        return self.state.vector_file(self.path, rows)

    def deleted(self) -> Rows:
        """Rows of deleted documents, in order."""
        documents = self.store.documents.deleted()
        documents = documents[documents < self.state.rows]
        return self.document_rows().all_rows(documents)

    def document_rows(self, stop: int | None = None) -> DocumentRows:
        """The documents of the rows 0 .. stop, by default the committed ones.

        Raises `CorruptError` if two documents share a committed row, or one extends beyond these.
        """
        if stop is not None:
            return self.store.passages.rows(stop)
        rows = self.store.passages.rows(self.state.rows)
        next_ones = np.append(rows.firsts[1:], self.state.rows)
        if (rows.firsts < 0).any() or (rows.counts > next_ones - rows.firsts).any():
            raise CorruptError(
                f"{self.path / CATALOG}: passages in rows that others have; expected each once"
            )
        return rows

    def textless(self) -> Rows:
        """Rows of documents without text, in order, including staged ones."""
        return self.store.readings.textless()

    def moments(self) -> Moments:
        """The moments of the live documents' vectors, without those of empty texts."""
        record = self.state.files.get("moments")
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
            there = textless[slice(*np.searchsorted(textless, [start, start + len(chunk)]))]
            yield np.delete(chunk, there - start, axis=0) if len(there) else chunk
            start += len(chunk)

    def live_rows(self) -> Rows:
        """Rows of documents that are not deleted."""
        return np.delete(np.arange(self.state.rows), self.deleted())

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
        grown: Sequence[AppendedFile] = (),
    ) -> None:
        """Commit a state.

        Parameters
        ----------
        delete : rows to delete with it.
        grown : files with new blocks.
        """
        with self.transaction():
            if len(delete):
                self.store.documents.delete(delete)
            for file, first_block in ((each.file, each.first_block) for each in grown):
                blocks = list(file.blocks(first_block))
                self.store.blocks.replace_from(file.path.name, first_block, blocks)
            self.store.blocks.keep(state.file_names)
            self.set_state(state)
        self.remove_strays()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction of the store, for `set_state`."""
        self._next = self.state
        with self.store.transaction():
            yield
        self.state = self._next

    def set_state(self, state: State) -> None:
        """Set the state that this transaction commits."""
        self.store.set_state(state)
        self._next = state

    def commit_compacted(self, state: State, files: Sequence[BlockFile]) -> None:
        """Commit a state whose rows, in new files, are the live ones."""
        self.store.compact(state, {file.path.name: list(file.blocks()) for file in files})
        self.state = state
        self.remove_strays()

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
            first_block = kept.nbytes // BLOCK_BYTES
            self.store.discard_from(self.state.rows)
            self.store.blocks.replace_from(
                self.state.vectors, first_block, list(kept.blocks(first_block))
            )

    def read_again(self) -> None:
        """Reload the committed state from the catalog."""
        self.store.columns.read_again()
        self.state = self.store.state()

    def remove_strays(self) -> None:
        """Delete files of ours that the state does not name, as left by a crash.

        Files that can't be deleted are harmless and left to the next commit.
        """
        named = self.state.file_names
        with suppress(OSError):
            for path in self.path.iterdir():
                if OUR_FILES.fullmatch(path.name) and path.name not in named:
                    remove(path)
