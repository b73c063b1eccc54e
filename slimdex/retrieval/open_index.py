"""OpenIndex: an index's folder while it is open: commit log, snapshots, encoder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self, TypeVar, TypeVarTuple

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import CorruptError, InputError, shortened_repr
from slimdex.indexes.json_text import parsed, written
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.settings import Settings, as_settings

from .atomic_files import STORED_ENDINGS, FileRecord, file_name
from .catalog.database import RenumberedError
from .catalog.state import State
from .catalog.store import DocumentStore
from .encoders.adapters import MappedEncoder, as_encoder, source_spec, space_spec
from .encoders.base import (
    AUTO,
    OFF,
    PLACE,
    Encoder,
    as_recorded,
    for_new_documents,
    is_same_encoder,
    passage_tokens,
)
from .encoders.given_encoder import GIVEN
from .encoders.opening import encoder_from_spec, is_loadable
from .locks import WAIT
from .search.hits import hits
from .search.nearest import nearest, nearest_documents, searches_of
from .search.request import Hits, SearchRequest
from .search.searchable import Searchable
from .storage.commit_log import CommitLog
from .storage.network_filesystems import check_local
from .storage.snapshot import Snapshot
from .storage.snapshot_manager import SnapshotManager

if TYPE_CHECKING:
    from .trials.recall_trials import Pool

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class OpenIndex(Searchable):
    """An open index, on which the modules of slimdex work; users work with `Collection`.

    What only this class adds to `Searchable` is no stable interface.

    Attributes
    ----------
    commit_log : the committed state, the catalog and the files.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        encoder: Encoder | None = None,
        *,
        model: str | None = None,
        trust_remote_code: bool = False,
        api_key_file: str | Path | None = None,
        shared_filesystem: bool = False,
    ) -> None:
        if not isinstance(commit_log, CommitLog):
            given, name = shortened_repr(commit_log), type(self).__name__
            expected = f"{name}.open({given}), create or open_or_create"
            raise InputError(f"{name}({given}); expected {expected}")
        self.commit_log = commit_log
        self._given = [] if encoder is None else [encoder]
        self._loaded: tuple[tuple[FileRecord | None, dict[str, Any]], Encoder] | None = None
        self._moved = None if model is None else (source_spec(commit_log.state.encoder), model)
        self._trusted, self._key_file = trust_remote_code, api_key_file
        self._shared_filesystem = shared_filesystem
        self._snapshots, self._loading = SnapshotManager(commit_log), RLock()

    @classmethod
    def create(
        cls,
        path: str | Path,
        encoder: Encoder | Callable[[list[str]], Any] | None = None,
        settings: Settings | None = None,
        *,
        vector_dtype: str = "fp16",
        passages: str | int | None = AUTO,
        lexical: bool = True,
        shared_filesystem: bool = False,
    ) -> Self:
        """Create an empty collection in a new folder.

        Parameters
        ----------
        encoder : by default all-MiniLM-L6-v2. A `TransformerEncoder` for another model (in its
            `fastest` precision, unless it was made with another one), a `StaticEncoder`, an
            `HttpEncoder`, a `SentenceTransformer`, or a function from a list of texts to their
            vectors (n, dim); `GivenEncoder(dim)` for vectors from elsewhere.
        settings : how vectors are reduced and compared; by default `Settings()`.
        vector_dtype : type of the vectors on disk: "fp16", or "int8" in half the bytes.
        passages : maximum tokens of a passage. A longer text is cut, each passage has a vector, and
            a hit is a document with its best passage. By default the number that the encoder reads,
            if it counts tokens; with "off", the rest of a text stays unread.
        lexical : index the documents' words too, so that searches also find exact words and names.
        shared_filesystem : as for `open`.

        Raises
        ------
        InputError
            If the folder exists, or the encoder does not allow the settings or the passages.
        """
        if vector_dtype not in STORED_ENDINGS:
            raise InputError(
                f"vector_dtype={vector_dtype!r}; expected {' or '.join(STORED_ENDINGS)}"
            )
        path = Path(path).absolute()  # stays valid if the process changes its folder
        if path.exists():  # before a model is loaded, which takes seconds
            raise InputError(f"{path} exists; expected a new folder")
        settings = as_settings(settings)
        if not shared_filesystem:
            check_local(path)
        if encoder is None:
            from .encoders.transformer import TransformerEncoder

            encoder = TransformerEncoder()
        made = as_encoder(encoder)
        requested = settings.checked(made.dim)
        made = for_new_documents(made)
        tokens = passage_tokens(passages, made)
        state = State(
            plain(made.spec()),
            made.dim,
            requested,
            vectors=file_name("vectors", 1, STORED_ENDINGS[vector_dtype]),
            passages=tokens,
            words=file_name("words", 1) if lexical else None,
        )
        return cls(CommitLog.create(path, state), made, shared_filesystem=shared_filesystem)

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
    ) -> Self:
        """Open an existing collection; its encoder is loaded on first use.

        Parameters
        ----------
        encoder : the one that the collection was built with, in any precision; by default it is
            loaded from where it was.
        model : folder, hub id or URL of the encoder's model, if it has moved.
        wait : seconds that a change waits for its turn while other processes write.
        trust_remote_code : run Python code that comes with the encoder's model, if it has any.
        api_key_file : holds the key of the encoder's server; by default as for `HttpEncoder`.
        shared_filesystem : allow changes on a network file system (NFS, SMB, 9p), where locks must
            work between all machines that change the collection. It can be read there in any case.

        Raises
        ------
        InputError
            If there is no collection, or the encoder is another one.
        CorruptError
            If the catalog is damaged.
        """
        made = None if encoder is None else as_encoder(encoder)
        given = None if made is None else plain(made.spec())
        commit_log = CommitLog.open(Path(path).absolute(), wait)
        expected = source_spec(commit_log.state.encoder)
        try:
            if given is not None and not is_same_encoder(given, expected):
                raise InputError(f"encoder {given}; this index was built with {expected}")
            made = made and as_recorded(made, expected)
            return cls(
                commit_log,
                made,
                model=model,
                trust_remote_code=trust_remote_code,
                api_key_file=api_key_file,
                shared_filesystem=shared_filesystem,
            )
        except BaseException:
            commit_log.store.database.close()
            raise

    def check_same(
        self,
        settings: Settings | None,
        vector_dtype: str | None,
        passages: str | int | None,
        lexical: bool | None,
    ) -> None:
        """Raise `InputError` if the index differs from what a caller would create.

        None, and "auto" for `passages`, stand for anything.
        """
        state, asked = self.state, dict[str, Any]()
        has = {
            "vector_dtype": state.stored,
            "passages": state.passages or OFF,
            "lexical": bool(state.words),
        }
        has |= state.requested.as_dict()
        if settings is not None:
            asked = as_settings(settings).checked(state.dim).as_dict()
        asked |= {"vector_dtype": vector_dtype} if vector_dtype is not None else {}
        asked |= {"passages": passages or OFF} if passages != AUTO else {}
        asked |= {"lexical": lexical} if lexical is not None else {}
        if other := [name for name, value in asked.items() if value != has[name]]:
            given, own = (
                ", ".join(f"{name}={values[name]!r}" for name in other) for values in (asked, has)
            )
            raise InputError(f"{given}: {self.path} has {own}; expected the same, or none")

    def close(self) -> None:
        """End: later calls raise `InputError`."""
        self.store.database.close()

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.snapshot)

    @property
    def path(self) -> Path:
        """The folder."""
        return self.commit_log.path

    @property
    def is_in_place(self) -> bool:
        """True unless the folder was moved or replaced since it was opened."""
        return self.store.database.is_in_place

    @property
    def state(self) -> State:
        """The committed state, including that of an unfinished addition."""
        _ = self.snapshot  # follows other processes
        return self.commit_log.state

    @property
    def store(self) -> DocumentStore:
        """The catalog."""
        return self.commit_log.store

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that searches get, with the newest commit of any process."""
        return self._snapshots.snapshot

    @property
    def is_empty(self) -> bool:
        """True if no documents were ever committed."""
        return self.snapshot.state.settings is None

    @property
    def reduced_index(self) -> ReducedIndex:
        """The vectors' index; raises `InputError` while there are no documents."""
        return self.read(lambda snapshot: snapshot.index)

    @property
    def has_encoder(self) -> bool:
        """True if the index was built with an encoder, not from given vectors."""
        return self.state.encoder.get("type") != GIVEN

    @property
    def lacks_encoder(self) -> bool:
        """True if texts can't be encoded: vectors were given, or `open` lacks the function."""
        is_passed = bool(self._given) or is_loadable(self.state.encoder)
        return not (self.has_encoder and is_passed)

    @property
    def encoder(self) -> Encoder:
        """The encoder of queries and new documents, loaded on first use."""
        return self.encoder_of(self.commit_log.state)

    def encoder_of(self, state: State) -> Encoder:
        """The encoder of a state, mapped if it has a map."""
        with self._loading:
            key = state.files.get("map"), state.encoder
            if self._loaded is None or self._loaded[0] != key:
                self._loaded = key, self._opened(state)
            return self._loaded[1]

    def _opened(self, state: State) -> Encoder:
        record, spec = state.files.get("map"), source_spec(state.encoder)
        source = self.encoder_from(spec)
        if record is None:
            return source
        record.check(self.path)
        from slimdex.indexes.maps.affine_map import AffineMap

        made = AffineMap.load(self.path / record.name, (source.dim, state.dim))
        return MappedEncoder(source, made, space_spec(state.encoder))

    def _given_for(self, spec: dict[str, Any]) -> Encoder | None:
        """An encoder that a caller gave and that has this spec."""
        return next((e for e in self._given if is_same_encoder(plain(e.spec()), spec)), None)

    def give(self, encoder: Encoder) -> None:
        """Use an encoder of the caller for the state whose spec it has."""
        with self._loading:
            self._given.append(encoder)

    @property
    def query_encoder(self) -> Encoder | None:
        """The encoder; None if texts can't be encoded."""
        return None if self.lacks_encoder else self.encoder

    def encoder_from(self, spec: dict[str, Any]) -> Encoder:
        """The encoder of a spec: one that a caller gave, or else loaded from where it is.

        The place of a moved model is that of the encoder at opening only: another process may
        have changed the encoder since.
        """
        model = None
        if self._moved is not None and is_same_encoder(spec, self._moved[0]):
            model = self._moved[1]
        return self._given_for(spec) or self._from_spec(spec, model)

    def _from_spec(self, spec: dict[str, Any], model: str | None) -> Encoder:
        return encoder_from_spec(
            spec, model=model, trust_remote_code=self._trusted, api_key_file=self._key_file
        )

    def move_model(self, model: str) -> None:
        """Record another folder, or hub id, of the encoder's model.

        Raises `InputError` if its weights are not those that the collection was built with.
        """
        with self.change():
            spec = self.state.encoder
            source = source_spec(spec)
            moved = self._from_spec(source, model)
            place = {key: value for key, value in moved.spec().items() if key in PLACE}
            is_mapped = source is not spec
            spec = spec | {"source": source | place} if is_mapped else spec | place
            self.commit_log.commit(replace(self.state, encoder=spec))
            self._given, self._loaded, self._moved = [moved], None, None

    def read(self, read: Callable[[Snapshot, *Ts], T], *args: *Ts) -> T:
        """Call `read` with the newest snapshot, and again if that is replaced meanwhile.

        Raises `InputError` if there are no documents yet.
        """
        while True:
            snapshot = self.snapshot
            if snapshot.state.settings is None:
                unfinished = "; an unfinished build: run it again" if snapshot.state.source else ""
                raise InputError(f"{self.path} holds no documents yet{unfinished}")
            try:
                return read(snapshot, *args)
            except RenumberedError:  # a compaction is committed and may not be in the head yet
                self._snapshots.follow_compaction(snapshot)
            except (CorruptError, OSError):  # files may have been deleted during loading
                if self._snapshots.is_newest(snapshot):
                    raise

    def check_files(self) -> None:
        """Raise `CorruptError` if a file of the newest commit is missing or too short."""
        if not self.is_empty:
            self.read(Snapshot.check_files)

    def unchanged(self) -> AbstractContextManager[Snapshot]:
        """Hold off changes; gives the newest snapshot."""
        return self._snapshots.unchanged()

    def change(self) -> AbstractContextManager[None]:
        """Context of a change in the writers' turn; if it fails, show what is committed.

        Raises `InputError` if this thread is in a transaction, or the folder was moved or is on a
        network file system.
        """
        self.check_writable()
        return self._snapshots.change()

    def check_writable(self) -> None:
        """Raise `InputError` on a network file system, unless it was opened to be changed there."""
        if not self._shared_filesystem:
            check_local(self.path)

    def show(self, snapshot: Snapshot | None = None) -> None:
        """Give the committed state to searches from now on; only within `change`."""
        self._snapshots.show(snapshot)

    def answer(self, request: SearchRequest) -> Hits:
        """The hits of each query of a request."""
        first = request.first_stage

        def found(snapshot: Snapshot) -> Hits:
            nonlocal first
            searches = searches_of(snapshot, first)  # reports errors before a model is loaded
            state = snapshot.state  # if it reads again, encoded again for another epoch only
            first = first.encoded(lambda: self.encoder_of(state), state.epoch)
            return hits(snapshot, *nearest(searches, first))

        return request.finished(self.read(found))

    def nearest(
        self, queries: Matrix, k: int = 10, where: str | None = None
    ) -> tuple[Matrix, Rows]:
        """Scores and documents (q, k) for encoded queries, by their first rows."""
        request = SearchRequest(vectors=queries, limit=k, where=where)
        return self.read(nearest_documents, request)

    def ranked(
        self, text: str, vector: Matrix, k: int, where: str | None = None
    ) -> tuple[Matrix, Rows]:
        """Numbers that descend and documents (1, k) by a default search for an encoded text (1, d).

        If words are fused, the order is not that of the cosines.
        """
        request = SearchRequest(texts=[text], vectors=vector, limit=k, where=where)
        _, rows = self.read(nearest_documents, request)
        places = np.arange(rows.shape[1], dtype=np.float32)[None]
        return np.where(rows >= 0, -places, -np.inf).astype(np.float32), rows

    def pool(self, snapshot: Snapshot, count: int) -> Pool:
        """Queries made of a snapshot's documents, the same ones in every call."""
        from .trials.query_pools import document_pool

        rng = np.random.default_rng(0)
        return document_pool(snapshot, self.store, self.query_encoder, count, rng)


def plain(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec as the catalog gives it back: JSON has no tuples."""
    try:
        plain: dict[str, Any] = parsed(written(spec))
    except (TypeError, ValueError) as error:
        raise InputError(f"an encoder's spec: {error}") from error
    return plain
