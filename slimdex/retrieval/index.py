"""Index: the folder of an index while it is open, for readers and writers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import TIMEOUT_MAX, RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from slimdex.errors import CorruptError, InputError, InUseError
from slimdex.indexes.options import TABLE
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.settings import as_settings
from slimdex.system.append_only import sync, sync_now, syncing_later
from slimdex.system.atomic_files import (
    OUR_FILES,
    STORED_ENDINGS,
    check_folder,
    check_free,
    file_name,
    offer,
    publish,
    publish_folder,
    remove,
)
from slimdex.system.duckdb_library import duckdb
from slimdex.system.index_names import MANIFEST, is_index, no_index
from slimdex.system.locks import WAIT, FileLock, check_local, check_wait
from slimdex.system.unicode_text import check_unicode
from slimdex.system.workers import IN_THIS_PROCESS, Workers

from .encoders.adapters import VECTORS_ONLY, as_encoder, plain_spec
from .encoders.base import AUTO, Encoder, check_tokenizer, passage_tokens
from .encoders.opening import Encoders, default_encoder, weights_faults
from .lexical.word_index import WordIndex
from .search.answer import find
from .search.request import Hits, SearchRequest
from .store.document_store import DocumentStore
from .store.engine import Engine, disk_error, disk_errors, one_line
from .store.manifest import Manifest, mark
from .store.next_commit import Change
from .store.snapshot import Snapshot
from .store.state import State
from .store.verification import index_faults
from .store.work_folder import remove_left_work

if TYPE_CHECKING:
    from slimdex.indexes.settings import Settings

UNKNOWN = (0, 0, 0)
"""The `mark` of a manifest that may have been replaced, which no file has."""
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Index:
    """An open index: its newest snapshot, its encoder, and changes of it.

    Any number of threads may use it. It follows the commits of other processes. After a change that
    failed, the manifest tells the outcome; if it can't be read, it is read again before the next
    operation.

    Parameters
    ----------
    path : the folder.
    wait : seconds that a change waits for its turn while other threads or processes write.
    shared_filesystem : allow changes on a network file system.

    Attributes
    ----------
    wait : see the parameter.
    encoders : load the encoder, by default from where it was.
    workers : compute work that can be split, by default in this process.
    """

    def __init__(
        self,
        path: Path,
        *,
        wait: float = WAIT,
        shared_filesystem: bool = False,
    ) -> None:
        self.path = path
        self.wait = check_wait(wait)
        offer(path)
        self.encoders = Encoders()
        self.workers: Workers = IN_THIS_PROCESS
        self._shared_filesystem = shared_filesystem
        self._engine = Engine(path)
        self._turn = FileLock(path, "writer")
        self._encoding = FileLock(path, "encoder")
        self._folder_status = path.stat()
        self._mark = mark(path)
        self._newest = Snapshot(DocumentStore(self._engine, Manifest.read_current(path)))
        self._has_turn = False  # while this process alone commits
        self._is_changing = False
        self._changing = RLock()
        self._following = RLock()

    @classmethod
    def open(
        cls,
        path: str | Path,
        encoder: Encoder | Callable[[list[str]], Any] | None = None,
        *,
        model: str | None = None,
        trust_remote_code: bool = False,
        api_key_file: str | Path | None = None,
        wait: float = WAIT,
        shared_filesystem: bool = False,
        check: Callable[[State], None] = lambda state: None,
    ) -> Index:
        """Open an existing folder, whose state is checked before its encoder.

        For the other parameters and errors, see `Collection.open`.
        """
        path = Path(path).absolute()  # stays valid if the process changes its folder
        if not is_index(path):
            raise InputError(no_index(path))
        check_folder(path)
        index = cls(path, wait=wait, shared_filesystem=shared_filesystem)
        try:
            check(index.state)
            index.encoders = Encoders.matching(
                index.state.encoder,
                encoder,
                model,
                trust_remote_code=trust_remote_code,
                api_key_file=api_key_file,
            )
        except BaseException:
            index.close()
            raise
        return index

    @classmethod
    def create(cls, path: Path, state: State, *, shared_filesystem: bool = False) -> Index:
        """Create a folder without documents, under a temporary name, then rename it.

        If the state names a lexical index, an empty one is created. Raises `InputError` if the
        folder exists; of several processes that create it at once, one succeeds.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        publish_folder(path, lambda new: _fill(new, state))
        return cls.open(path, shared_filesystem=shared_filesystem)

    def close(self) -> None:
        """End: later calls raise `InputError`.

        Files are released once running reads have ended. In a fork, they are the parent's.
        """
        if self._engine.is_inherited:
            return
        self._engine.close()
        with self._following:
            # Reopen the same commit with nothing loaded, to release the old snapshot's files.
            self._newest = Snapshot(DocumentStore(self._engine, self._newest.manifest))

    @property
    def snapshot(self) -> Snapshot:
        """The newest commit of any process; while the disk fails, the one before.

        Raises `InputError` if this is closed, or a fork's.
        """
        self._engine.ensure_open()
        with suppress(OSError, CorruptError):
            self._follow()
        return self._newest

    @property
    def state(self) -> State:
        """The newest committed state."""
        return self.snapshot.state

    @property
    def store(self) -> DocumentStore:
        """The newest committed documents, open."""
        return self.open_snapshot().store

    @property
    def has_encoder(self) -> bool:
        """True if the index was built with an encoder, not from given vectors."""
        return self.state.encoder.get("type") != VECTORS_ONLY

    @property
    def can_encode(self) -> bool:
        """False for an index of given vectors, and without the function that encoded it."""
        return self.encoders.can_open(self.state.encoder)

    @property
    def encoder(self) -> Encoder:
        """The encoder of queries and new documents."""
        return self.encoder_of(self.state)

    @property
    def encoder_if_any(self) -> Encoder | None:
        """The encoder; None if texts can't be encoded."""
        return self.encoder if self.can_encode else None

    def encoder_of(self, state: State) -> Encoder:
        """The encoder of a state."""
        return self.encoders.of(state.encoder)

    def move_model(self, model: str) -> None:
        """Record another place of the encoder's model: see `Collection.move_model`."""
        with self.change() as change:
            spec = self.encoders.move(change.state.encoder, model)
            change.commit(replace(change.state, encoder=spec))

    def read(self, read: Callable[[Snapshot, *Ts], T], *args: *Ts) -> T:
        """Return the result of `read` for the newest snapshot.

        `read` is called again if a newer commit has removed files that it needs, or if another
        index has replaced this one meanwhile, such as a restored copy.
        """
        while True:
            snapshot = self.snapshot
            try:
                result = read(snapshot, *args)
            except (CorruptError, OSError):  # files may have been deleted during loading
                if self._is_newest(snapshot):
                    raise
            else:
                if not self.snapshot.manifest.replaces(snapshot.manifest):
                    return result

    def find(self, request: SearchRequest) -> Hits:
        """The nearest hits of each query of a request, before any are cut or reranked.

        Raises `InputError` for an unfinished build.
        """
        return self.read(find, request, self.encoder_of)

    def open_snapshot(self) -> Snapshot:
        """The newest snapshot with its documents open, which stay readable.

        Until then, other processes may remove the files of an older state.
        """
        return self.read(Snapshot.open)

    def _is_newest(self, snapshot: Snapshot) -> bool:
        return self.snapshot.manifest == snapshot.manifest

    def faults(self) -> list[str]:
        """Faults of the newest commit, a line each; reads every byte, and all weights.

        Writers go on meanwhile, and may remove files: what is found then must be found again.
        """
        previous: list[str] | None = None
        while True:
            self._follow()  # raises an error if the manifest can't be read
            snapshot, faults = self.read(lambda snapshot: (snapshot, index_faults(snapshot)))
            if not faults or faults == previous or self._is_newest(snapshot):
                return [*faults, *weights_faults(snapshot.state.encoder)]
            previous = faults

    def check_writable(self) -> None:
        """Raise `InputError` if this is closed, or its folder was moved or is on a network.

        A folder on a network file system can be changed if it was opened with `shared_filesystem`.
        """
        if not self._shared_filesystem:
            check_local(self.path)
        _ = self.snapshot  # follows an index that has replaced the folder
        self._check_place()

    def _check_place(self) -> None:
        """Raise `InputError` if this is closed, or the folder was moved or replaced."""
        self._engine.ensure_open()
        with suppress(FileNotFoundError, NotADirectoryError):
            if os.path.samestat(self._folder_status, self.path.stat()):
                return
        raise InputError(
            f"{self.path} was moved or replaced since it was opened; expected the same folder "
            "(open the index again where it is now)"
        )

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the writer lock and read the newest state; a thread that holds it may do so again.

        Files that a crash left are deleted. Raises `InputError` as `check_writable`, or in a change
        of this thread, `InUseError` if other writers keep the lock for longer than `wait`, and
        `OSError` if the disk failed.
        """
        self.check_writable()
        end = monotonic() + self.wait
        with ExitStack() as stack:
            # Exclude other threads of this process, unless this one has the turn already.
            if not self._changing.acquire(timeout=min(self.wait, TIMEOUT_MAX)):
                raise InUseError(f"{self.path}: another thread is writing to it; expected none")
            stack.callback(self._changing.release)
            if self._is_changing:  # by this thread: others wait
                raise InputError(f"{self.path}: a change is under way; expected one at a time")
            if self._has_turn:
                yield
                return

            # Exclude other processes.
            before = self._newest
            stack.enter_context(self._turn.hold(max(end - monotonic(), 0)))
            try:
                self._begin_turn()
                yield
            except BaseException as error:
                self._fail(error)
                raise
            finally:
                self._has_turn = False
        del before  # only now: freeing it takes milliseconds

    def _begin_turn(self) -> None:
        """Read the newest state, and delete files that it does not name, as left by a crash."""
        with self._following:
            self._has_turn = True
            self._check_place()
            self._read_again()
        if self._strays():
            sync(self.path)  # first make the manifest that no longer names them durable
        self._remove_strays()

    def _fail(self, error: BaseException) -> None:
        """After a failed turn, read the manifest: only it shows whether a commit took effect.

        Converts errors of the disk and of DuckDB to slimdex's own.
        """
        self._mark = UNKNOWN
        if self._engine.is_inherited:  # the turn is the parent's
            return
        self._engine.restart()  # the next attempt writes other files of the same names
        with suppress(OSError, CorruptError), self._following:  # the error says more
            self._read_again()
        if isinstance(error, disk_errors()):
            raise disk_error(self.path, error) from error
        if isinstance(error, duckdb.Error):
            raise CorruptError(f"{self.path}: {one_line(error)}") from error

    @contextmanager
    def encoding(self) -> Iterator[None]:
        """Be the only one that encodes rows that wait; others may commit.

        Raises `InUseError` if others encode for longer than `wait`, or a second.
        """
        self.check_writable()
        with self._encoding.hold(min(self.wait, 1.0)):
            yield

    @contextmanager
    def change(self) -> Iterator[Change]:
        """Begin a change under the writer lock; it has no effect unless it is committed.

        For errors, see `turn`.
        """
        with self.turn():
            self._is_changing = True
            try:
                with syncing_later():
                    yield Change(self._newest, self._publish, self.workers)
            finally:
                self._is_changing = False

    def _publish(self, manifest: Manifest, index: ReducedIndex | None) -> None:
        """Make a manifest the committed one, which searches see from now on."""
        self._check_place()
        sync(self.path)  # the names of new files
        sync_now()  # those names, and all files that the change has deferred
        with self._following:
            publish(self.path / MANIFEST, manifest.write)
            sync(self.path)
            self._show(manifest, index)
            self._mark = mark(self.path)
        self._remove_strays()

    def _follow(self) -> None:
        """Show what other processes have committed.

        If another index has taken the folder's place, this object shows that one from now on.
        Raises `InputError` in a fork of the process that opened this.
        """
        self._engine.ensure_here()
        if self._has_turn:
            return
        with self._following:
            # The turn may have come meanwhile.
            if self._has_turn or mark(self.path) == self._mark:
                return
            status = self.path.stat()
            if not os.path.samestat(status, self._folder_status):
                check_folder(self.path)
            self._read_again()
            self._folder_status = status

    def _read_again(self) -> None:
        """Read the committed manifest and show its state."""
        current = mark(self.path)  # first, so that `_follow` sees a later manifest
        manifest = Manifest.read_current(self.path, self._newest.manifest)
        if manifest != self._newest.manifest:
            self._show(manifest)
        self._mark = current

    def _show(self, manifest: Manifest, index: ReducedIndex | None = None) -> None:
        """Make the commit of a manifest the newest; `index` is its index, if in memory."""
        if manifest.follows(self._newest.manifest):
            self._newest = self._newest.at_commit(manifest, index)
        else:  # files of the same names may be others
            self._engine.restart()
            self._newest = Snapshot(DocumentStore(self._engine, manifest))

    def _remove_strays(self) -> None:
        """Delete files of ours that the newest state does not name, as left by a crash.

        Files that can't be deleted are harmless and left to the next commit.
        """
        with suppress(OSError):
            for path in self._strays():
                with suppress(PermissionError):  # Windows deletes no file that others read
                    remove(path)
            remove_left_work(self.path)

    def _strays(self) -> list[Path]:
        """Return the files of slimdex that the newest state does not name."""
        names = self._newest.state.file_names
        paths = self.path.iterdir()
        return [path for path in paths if OUR_FILES.fullmatch(path.name) and path.name not in names]


def create_index(
    path: str | Path,
    encoder: Encoder | Callable[[list[str]], Any] | None = None,
    settings: Settings | None = None,
    *,
    vector_dtype: str = "fp16",
    passages: str | int | None = AUTO,
    lexical: bool = True,
    shared_filesystem: bool = False,
) -> Index:
    """Create a new folder without documents; for the parameters, see `Collection.create`."""
    folder = Path(path).absolute()
    # Before a model is loaded, check that an index can be created there, with its parents.
    check_unicode(str(folder), "path")
    check_free(folder)
    if not shared_filesystem:
        check_local(folder)
    if vector_dtype not in STORED_ENDINGS:
        raise InputError(f"vector_dtype={vector_dtype!r}; expected {', '.join(STORED_ENDINGS)}")
    requested = as_settings(settings)

    its_encoder = default_encoder() if encoder is None else as_encoder(encoder)
    if requested.query_encoder == TABLE:
        check_tokenizer(its_encoder)
    state = State(
        plain_spec(its_encoder.spec()),
        its_encoder.dim,
        requested.checked(its_encoder.dim),
        vectors=file_name("vectors", 1, STORED_ENDINGS[vector_dtype]),
        passages=passage_tokens(passages, its_encoder),
        words=file_name("words", 1) if lexical else None,
    )
    index = Index.create(folder, state, shared_filesystem=shared_filesystem)
    index.encoders = Encoders(its_encoder)
    return index


def _fill(folder: Path, state: State) -> None:
    """Write the manifest of an empty index, and an empty lexical index if the state names one."""
    publish(folder / MANIFEST, Manifest(state, {}).with_new_name().write)
    if state.words is not None:
        WordIndex.create(folder / state.words)
