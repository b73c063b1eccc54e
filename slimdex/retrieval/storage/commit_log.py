"""Commit log: the committed state of an index's folder, and the only way to change it.

Every change has three steps: 1. append or write files and fsync them; 2. replace the manifest;
3. delete files that it no longer names. A crash before 2 leaves the old state, after 2 the new one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches, without
from slimdex.indexes.errors import CorruptError, InputError, SlimdexError, UnreadableError
from slimdex.indexes.execution.forks import renewed
from slimdex.indexes.execution.locks import ThreadLock
from slimdex.indexes.execution.workers import HERE, Workers
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import NO_ROWS
from slimdex.indexes.vectors.vector_file import BLOCK_BYTES, VectorFile, extended_digests

from ..atomic_files import (
    MANIFEST,
    OUR_FILES,
    check_folder,
    is_index,
    no_index,
    publish,
    publish_folder,
    remove,
    sync,
)
from ..catalog.database import ChangedOrigins, Contents, Database, write_origins
from ..catalog.document_ids import LastLooked
from ..catalog.draft import Draft, draft_of
from ..catalog.duckdb_connection import DISK_ERRORS, disk_error, refused
from ..catalog.engine import Engine
from ..catalog.passages_table import DocumentRows
from ..catalog.readings import ReadingFile, Readings
from ..catalog.segments import to_merge
from ..catalog.state import State
from ..catalog.store import DocumentStore
from ..duckdb_library import duckdb
from ..lexical.word_index import WordIndex
from ..locks import WAIT, FileLock, check_wait
from ..temporary_files import offer
from .manifest import Blocks, Manifest, Undo, mark
from .work_folder import remove_left_work


class BlockFile(Protocol):
    """An append-only file whose blocks have checksums in the manifest."""

    @property
    def path(self) -> Path:
        """Path of the file; its name is the one in the manifest."""

    @property
    def nbytes(self) -> int:
        """Committed size in bytes."""

    def blocks(self) -> Iterator[tuple[int, str]]:
        """(number, SHA-256) of each block."""


@dataclass(frozen=True)
class AppendedFile:
    """A file that a commit extends, and the number of bytes that it had before."""

    file: BlockFile
    before: int = 0


class CommitLog:
    """A folder and its committed state.

    After a failure the state may be outdated: see `read_again`.

    `workers` compute work that can be split.
    """

    def __init__(self, path: Path, wait: float = WAIT) -> None:
        self.path, self.wait = path, check_wait(wait)
        offer(path)
        self.workers: Workers = HERE
        self.drafts = path  # where the segments of transactions are written
        self._engine, self._looked = Engine(path), LastLooked()
        self._place = path.stat()
        self._turn = FileLock(path, "writer", is_signed=True)
        self._deleting = self._restoring = NO_ROWS
        self._tails = dict[str, tuple[int, Blocks]]()
        self._writer: int | None = None  # thread within `transaction`
        self._showing = ThreadLock()  # a thread that has read an older one must not show it
        self._mark = mark(path)
        manifest = _read(path)
        self.shown = manifest, self._store_of(manifest)
        renewed(self)

    def in_fork(self) -> None:
        """Leave the transaction of a thread to the process that has it."""
        self._writer = None

    @property
    def manifest(self) -> Manifest:
        """The committed one."""
        return self.shown[0]

    @property
    def committed(self) -> DocumentStore:
        """The committed documents."""
        return self.shown[1]

    @property
    def state(self) -> State:
        """The committed state; for the thread in a transaction, the one to be committed."""
        return self._next if self.in_transaction else self.manifest.state

    @property
    def store(self) -> DocumentStore:
        """The committed documents; for the thread in a transaction, also the new ones."""
        return self._draft if self.in_transaction else self.committed

    @property
    def in_transaction(self) -> bool:
        """True while this thread is in a transaction."""
        return self._writer == threading.get_ident()

    @classmethod
    def create(cls, path: Path, state: State) -> CommitLog:
        """Create a folder without documents, under a temporary name, then rename it.

        If the state names a lexical index, an empty one is created. Raises `InputError` if the
        folder exists; of several processes that create it at once, one succeeds.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        publish_folder(path, lambda new: _fill(new, state))
        return cls.open(path)

    @classmethod
    def open(cls, path: Path, wait: float = WAIT) -> CommitLog:
        """Open an existing folder; `wait` are the seconds to wait for other writers."""
        if not is_index(path):
            raise InputError(no_index(path))
        check_folder(path)
        return cls(path, wait)

    def close(self) -> None:
        """End: later calls raise `InputError`."""
        self._engine.close()

    def ensure_open(self) -> None:
        """Raise `InputError` if this was closed."""
        self._engine.ensure_open()

    @property
    def is_in_place(self) -> bool:
        """True unless the folder was moved or replaced."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return os.path.samestat(self._place, self.path.stat())
        return False

    def check_place(self) -> None:
        """Raise `InputError` if this is closed, or its folder was moved or replaced."""
        self.ensure_open()
        if not self.is_in_place:
            raise InputError(
                f"{self.path} was moved or replaced since it was opened; expected the same "
                "folder (open the index again where it is now)"
            )

    def follow(self) -> None:
        """Take over what other processes have committed; outside of `turn`.

        If another index has taken the folder's place, this is one of that from now on.
        """
        current = mark(self.path)
        if current == self._mark:
            return
        if self.is_in_place:
            self.read_again()
        elif current is not None:
            place = self.path.stat()
            check_folder(self.path)
            self.read_again()
            self._place = place

    def read_again(self) -> None:
        """Take over what is committed."""
        with self._showing:
            current = mark(self.path)
            manifest = _read(self.path)
            if manifest != self.manifest:
                self._show(manifest)
            self._mark = current

    def committed_now(self) -> Manifest:
        """Read the manifest; raises `UnreadableError` or `CorruptError` if that fails."""
        return _read(self.path)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the writers' turn, with the newest state; delete what a crash left.

        Raises `InUseError` if others have the turn for longer than `wait`.
        """
        with self._turn.held(self.wait):
            self.check_place()
            self.read_again()
            if self._strays():
                sync(self.path)  # the renaming of a manifest that names them no longer
            self.remove_strays()
            yield

    def _show(self, manifest: Manifest) -> None:
        if not manifest.follows(self.manifest):  # files of the same names may be others
            self._looked = LastLooked()
            self._engine.restart()
        self.shown = manifest, self._store_of(manifest)

    def _store_of(self, manifest: Manifest) -> DocumentStore:
        """The documents of a manifest; those of the present one if they are the same."""
        state, deleted = manifest.state, manifest.deleted
        is_later = hasattr(self, "shown") and manifest.follows(self.manifest)
        shown = self.committed if is_later else None
        origins = ChangedOrigins(self.path, state.files.get("origins"))
        if shown is not None and shown.database.contents.origins.record == origins.record:
            origins = shown.database.contents.origins  # which are read already
        contents = Contents(
            tuple(state.segments),
            manifest.columns,
            state.rows,
            deleted[manifest.document_rows.documents(deleted) == deleted],
            origins,
            state.epoch,
        )
        file = None
        if state.readings is not None:
            file = ReadingFile(self.path / state.readings, state.readings_count)
        readings, database = Readings(file), None
        if shown is not None:
            if shown.readings.file == file:
                readings = shown.readings
            if shown.database.contents.is_same(contents):
                database = shown.database
        return DocumentStore(database or Database(self._engine, contents), readings, self._looked)

    def vectors(self, rows: int | None = None) -> VectorFile:
        """The encoder's vectors on disk, by default of the committed rows."""
        rows = self.state.rows if rows is None else rows
        return self.state.vector_file(self.path, rows)

    def document_rows(self, stop: int | None = None) -> DocumentRows:
        """The documents of the rows 0 .. stop, by default the committed ones."""
        known, first = self.manifest.document_rows, self.manifest.state.rows
        if stop is None or stop <= first:
            return known
        return known.followed_by(self.store.passages.rows(stop, first))

    def textless(self) -> Rows:
        """Rows of documents without text, in order, including new ones."""
        known, first = self.manifest.textless, self.manifest.state.rows
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
        """Commit a state, delete rows and restore deleted ones with it.

        `grown` are the files with new blocks; `undo` is as for `transaction`.
        """
        with self.transaction(undo):
            self.delete(delete)
            self._restoring = np.union1d(self._restoring, restore)
            self._tails |= {each.file.path.name: self._tail(each) for each in grown}
            self.set_state(state)

    @contextmanager
    def transaction(self, undo: Undo = "alone") -> Iterator[None]:
        """One commit, at the end, within `turn`; or a part of the one that has begun.

        `undo` is how it can be undone: see `Manifest.remembered_by`.

        Raises `OSError` if the disk failed. The manifest shows whether it is committed.
        """
        if self.in_transaction:
            yield
            return
        self.check_place()
        self._next, self._tails = self.manifest.state, {}
        self._deleting, self._restoring = NO_ROWS, NO_ROWS
        self._checksums = self.manifest.checksums
        self._draft = self.committed.draft(self.drafts)
        self._writer, process = threading.get_ident(), os.getpid()
        try:
            yield
            if os.getpid() != process:
                raise InputError(f"{self.path}: a change of process {process}; expected no fork")
            manifest = self._following(undo)
            self._end_transaction()
            self._publish(manifest)
        except BaseException as error:
            self._end_transaction()
            self._engine.restart()  # the next attempt writes other files of the same names
            if isinstance(error, DISK_ERRORS):
                raise disk_error(self.path, error) from error
            if isinstance(error, duckdb.Error):
                raise refused(self.path, error) from error
            raise

    def _end_transaction(self) -> None:
        self._writer = None
        self._file.discard()

    def _following(self, undo: Undo) -> Manifest:
        """The manifest to commit, whose files are all written."""
        old = self.manifest
        generation = max(self._next.generation, old.state.generation)
        state = replace(self._next, version=old.state.version + 1, generation=generation)
        is_moved = len(self._deleting) + len(self._restoring) > 0
        state = old.remembered_by(state, self.path, undo, is_moved)
        first, textless, document_rows = old.state.rows, NO_ROWS, DocumentRows(NO_ROWS, NO_ROWS)
        if state.rows > first:
            textless = self._draft.readings.textless(first)
            document_rows = self._draft.passages.rows(state.rows, first)
        state = self._with_segment(self._with_origins(self._with_readings(state)))
        manifest = old.followed_by(
            state,
            dict(self._file.types),
            deleted=self._deleting,
            restored=self._restoring,
            textless=textless[textless < state.rows],
            document_rows=document_rows,
        )
        with suppress(OSError, SlimdexError):  # on a full disk: a later commit does it
            manifest = self._merged(manifest)
        checksums = self._checksums.followed_by(self._tails, manifest.state.file_names)
        return replace(manifest, checksums=checksums)

    @property
    def _file(self) -> Draft:
        return draft_of(self._draft.database)

    def _with_segment(self, state: State) -> State:
        kept = [*self._file.contents.segments]
        begin, generation = kept[-1].stop if kept else 0, self._next_generation(state)
        path = self.path / replace(state, generation=generation).new_name("segment")
        segment = self._file.finished(path, begin, state.rows)
        if segment is None:
            return replace(state, segments=kept)
        return replace(state, generation=generation, segments=[*kept, segment])

    def _with_origins(self, state: State) -> State:
        """The state with the origins that this transaction has changed."""
        if self._file.origins is None:
            return state
        state = replace(state, generation=self._next_generation(state))
        record = write_origins(self.path / state.new_name("origins"), self._file.origins)
        return replace(state, files=state.files | {"origins": record})

    def _next_generation(self, state: State) -> int:
        """A generation that no committed file has in its name."""
        return max(state.generation, self.manifest.state.generation + 1)

    def _with_readings(self, state: State) -> State:
        """The state with the file of readings, and those that this transaction has added to it."""
        added, file = self._draft.readings.added, self._draft.readings.file
        if added:
            if file is None:
                file = ReadingFile(self.path / state.new_name("readings"))
            before = file.nbytes
            file = file.followed_by(np.concatenate(added))
            self._tails[file.path.name] = self._tail(AppendedFile(file, before))
        if file is None:
            return replace(state, readings=None, readings_count=0)
        return replace(state, readings=file.path.name, readings_count=file.count)

    def _merged(self, manifest: Manifest) -> Manifest:
        """The manifest with fewer segments, if many have piled up."""
        state = manifest.state
        segments, first = state.segments, to_merge(state.segments)
        if len(segments) - first < 2:
            return manifest
        state = replace(state, generation=self._next_generation(state) + 1)
        store, path = self._store_of(manifest), self.path / state.new_name("segment")
        one = store.copied(path, segments[first].first, segments[-1].stop)
        return replace(manifest, state=replace(state, segments=[*segments[:first], one]))

    def delete(self, rows: Rows) -> None:
        """Delete rows with this transaction."""
        if len(rows):
            self._deleting = np.union1d(self._deleting, rows)

    def set_state(self, state: State) -> None:
        """Set the state that this transaction commits."""
        self._next = state

    def replace_block(self, file: str, block: int, sha256: str) -> None:
        """Give one block of a file another checksum with this transaction."""
        self._checksums = self._checksums.replaced(file, block, sha256)

    def before(self) -> Manifest | None:
        """The manifest before the last change; None if that can't be undone."""
        record = self.state.files.get("before")
        if record is not None:
            with suppress(OSError, CorruptError):
                return Manifest.read(self.path, record.name)
        return None

    def commit_compacted(self, manifest: Manifest) -> None:
        """Commit a manifest whose rows, in new files, are the live ones; within `turn`."""
        old = self.manifest
        state = replace(manifest.state, version=old.state.version + 1, epoch=old.state.epoch + 1)
        state = old.remembered_by(state, self.path, "never")
        self._publish(replace(manifest, state=state).named(old.commits))

    def _publish(self, manifest: Manifest) -> None:
        self.check_place()
        sync(self.path)  # names of the files that it names
        with self._showing:
            publish(self.path / MANIFEST, manifest.write)
            sync(self.path)
            self._show(manifest)
            self._mark = mark(self.path)
        self.remove_strays()

    def check(self, file: BlockFile) -> None:
        """Raise `CorruptError` if a block of a file is damaged."""
        if dict(file.blocks()) != self._known(file):
            raise CorruptError(f"{file.path}: damaged; see `slimdex verify`")

    def _tail(self, grown: AppendedFile) -> tuple[int, Blocks]:
        """The first of a file's new blocks, and all of them.

        Raises `CorruptError` if the block that was extended had been damaged before: its new
        checksum would cover that.
        """
        file = grown.file
        old, *new = extended_digests(file.path, grown.before, file.nbytes)
        first, digest = old
        if grown.before % BLOCK_BYTES and self._known(file).get(first) != digest:
            raise CorruptError(f"{file.path}: damaged in its last block; see `slimdex verify`")
        return first, new

    def _known(self, file: BlockFile) -> dict[int, str]:
        """The committed checksum of each block of a file, or that of this transaction."""
        name, checksums = file.path.name, self.manifest.checksums
        if self.in_transaction:
            checksums = self._checksums.followed_by(self._tails, {name, *self._checksums.digits})
        return checksums.of(name)

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
    publish(folder / MANIFEST, Manifest.empty(state).write)
    if state.words is not None:
        WordIndex.create(folder / state.words)


def _read(folder: Path) -> Manifest:
    """Read the manifest; raises `UnreadableError` if it can't be read at the moment."""
    try:
        return Manifest.read(folder)
    except OSError as error:
        raise UnreadableError(f"{folder / MANIFEST}: {error.strerror or error}") from error
