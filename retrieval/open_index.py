"""OpenIndex: an index's folder while it is open: commit log, snapshots, encoder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.json_text import parsed, written
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.settings import Settings

from .atomic_files import STORED_ENDINGS, file_name
from .catalog.folder_lock import waiting
from .catalog.state import State
from .catalog.store import DocumentStore
from .encoders.adapters import as_encoder
from .encoders.base import (
    AUTO,
    PLACE,
    Encoder,
    as_recorded,
    for_new_documents,
    is_same_encoder,
    passage_tokens,
)
from .encoders.given_encoder import GIVEN
from .encoders.opening import encoder_from_spec, is_loadable
from .search.request import Hits, SearchRequest
from .search.snapshot_reader import SnapshotReader
from .storage.commit_log import CommitLog
from .storage.snapshot import Snapshot
from .storage.snapshot_manager import SnapshotManager

if TYPE_CHECKING:
    from .trials.recall_trials import Pool

T = TypeVar("T")


class OpenIndex:
    """An open index, on which the modules of slimdex work; users work with `Collection`.

    Attributes
    ----------
    commit_log : the committed state, the catalog and the files.
    loaded_encoder : the encoder, once it is loaded.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        encoder: Encoder | None,
        *,
        model: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        self.commit_log, self.loaded_encoder = commit_log, encoder
        self._model, self._trusted = model, trust_remote_code
        self._snapshots, self._loading = SnapshotManager(commit_log), RLock()

    @classmethod
    def create(
        cls,
        path: str | Path,
        encoder: Encoder | Callable[[list[str]], Any] | None = None,
        settings: Settings | None = None,
        *,
        stored: str = "fp16",
        passages: str | int | None = AUTO,
        words: bool = True,
    ) -> OpenIndex:
        """Create an empty index; see `Collection.create`."""
        if stored not in STORED_ENDINGS:
            raise InputError(f"stored={stored!r}; expected {' or '.join(STORED_ENDINGS)}")
        path = Path(path).absolute()  # stays valid if the process changes its folder
        if path.exists():  # before a model is loaded, which takes seconds
            raise InputError(f"{path} exists; expected a new folder")
        if encoder is None:
            from .encoders.transformer import TransformerEncoder

            encoder = TransformerEncoder()
        made = as_encoder(encoder)
        requested = (settings or Settings()).checked(made.dim)
        made = for_new_documents(made)
        tokens = passage_tokens(passages, made)
        state = State(
            _plain(made.spec()),
            made.dim,
            requested,
            vectors=file_name("vectors", 1, STORED_ENDINGS[stored]),
            passages=tokens,
            words=file_name("words", 1) if words else None,
        )
        return cls(CommitLog.create(path, state), made)

    @classmethod
    def open(
        cls,
        path: str | Path,
        encoder: Encoder | Callable[[list[str]], Any] | None = None,
        *,
        read_only: bool = False,
        model: str | None = None,
        trust_remote_code: bool = False,
        wait: float = 0.0,
    ) -> OpenIndex:
        """Open an existing index; see `Collection.open`."""
        made = None if encoder is None else as_encoder(encoder)
        given = None if made is None else _plain(made.spec())
        where = Path(path).absolute()
        commit_log = waiting(wait, lambda: CommitLog.open(where, read_only=read_only))
        expected = commit_log.state.encoder
        try:
            if given is not None and not is_same_encoder(given, expected):
                raise InputError(f"encoder {given}; this index was built with {expected}")
            made = made and as_recorded(made, expected)
            return cls(commit_log, made, model=model, trust_remote_code=trust_remote_code)
        except BaseException:
            commit_log.store.database.close()
            raise

    def close(self) -> None:
        """Release the catalog for other processes."""
        self.store.database.close()

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.snapshot)

    @property
    def path(self) -> Path:
        """The folder."""
        return self.commit_log.path

    @property
    def state(self) -> State:
        """The committed state, including that of an unfinished addition."""
        return self.commit_log.state

    @property
    def store(self) -> DocumentStore:
        """The catalog."""
        return self.commit_log.store

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that searches get."""
        return self._snapshots.snapshot

    @property
    def is_empty(self) -> bool:
        """True if no documents were ever committed."""
        return self.snapshot.state.settings is None

    @property
    def reduced_index(self) -> ReducedIndex:
        """The vectors' index; raises `InputError` while there are no documents."""
        return self.read(lambda view: view.snapshot.index)

    @property
    def has_encoder(self) -> bool:
        """True if the index was built with an encoder, not from given vectors."""
        return self.state.encoder.get("type") != GIVEN

    @property
    def lacks_encoder(self) -> bool:
        """True if texts can't be encoded, for example by a function that `open` was not given."""
        return self.loaded_encoder is None and not is_loadable(self.state.encoder)

    @property
    def encoder(self) -> Encoder:
        """The encoder that the index was built with, loaded on first use."""
        with self._loading:
            if self.loaded_encoder is None:
                self.loaded_encoder = self._from_spec(self._model)
            return self.loaded_encoder

    @property
    def query_encoder(self) -> Encoder | None:
        """The encoder; None if vectors were given."""
        return self.encoder if self.has_encoder else None

    def _from_spec(self, model: str | None) -> Encoder:
        return encoder_from_spec(self.state.encoder, model=model, trust_remote_code=self._trusted)

    def move_model(self, model: str) -> None:
        """Record another place of the encoder's model; see `Collection.move_model`."""
        with self.change():
            moved, spec = self._from_spec(model), self.state.encoder
            place = {key: moved.spec()[key] for key in PLACE}
            self.commit_log.commit(replace(self.state, encoder=spec | place))
            self.loaded_encoder, self._model = moved, None

    def read(self, read: Callable[[SnapshotReader], T]) -> T:
        """Call a function with the newest snapshot, and again if its files are gone by then.

        Raises `InputError` if there are no documents yet.
        """
        return self._snapshots.read(lambda snapshot: read(self.view(snapshot)))

    def unchanged(self) -> AbstractContextManager[Snapshot]:
        """Hold off changes; gives the newest snapshot."""
        return self._snapshots.unchanged()

    def change(self) -> AbstractContextManager[None]:
        """Context of the only change at a time; if it fails, show what is committed.

        Raises `InputError` if the index is read-only, this thread is in a transaction, or the
        folder was moved.
        """
        return self._snapshots.change()

    def show(self, snapshot: Snapshot) -> None:
        """Give this snapshot to searches from now on; only within `change`."""
        self._snapshots.shown = snapshot

    def view(self, snapshot: Snapshot) -> SnapshotReader:
        """The documents and answers of a snapshot."""
        return SnapshotReader(self.store, snapshot)

    def found(self, request: SearchRequest) -> Hits:
        """The hits of each query, whatever they score."""

        def read(view: SnapshotReader) -> Hits:
            nonlocal request
            _ = view.snapshot.index  # a damaged folder is reported before a model is loaded
            view.fusion(request)  # so is a fusion that is impossible
            request = request.encoded(lambda: self.encoder)  # once, even if it reads again
            return view.shown(*view.nearest(request))

        return self.read(read)

    def nearest(
        self, queries: Matrix, k: int = 10, where: str | None = None
    ) -> tuple[Matrix, Rows]:
        """Scores and documents (q, k) for encoded queries; see
        `SnapshotReader.nearest_documents`."""
        request = SearchRequest(None, queries, k, where)
        return self.read(lambda view: view.nearest_documents(request))

    def ranked(
        self, text: str, vector: Matrix, k: int, where: str | None = None
    ) -> tuple[Matrix, Rows]:
        """Numbers that descend and documents (1, k) by a default search for an encoded text (1, d).

        If words are fused, the order is not that of the cosines.
        """
        request = SearchRequest([text], vector, k, where)
        _, rows = self.read(lambda view: view.nearest_documents(request))
        places = np.arange(rows.shape[1], dtype=np.float32)[None]
        return np.where(rows >= 0, -places, -np.inf).astype(np.float32), rows

    def pool(self, snapshot: Snapshot, count: int) -> Pool:
        """Queries made of a snapshot's documents, the same ones in every call."""
        from .trials.query_pools import document_pool

        rng = np.random.default_rng(0)
        return document_pool(snapshot, self.store, self.query_encoder, count, rng)


def _plain(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec as the catalog gives it back: JSON has no tuples."""
    try:
        plain: dict[str, Any] = parsed(written(spec))
    except (TypeError, ValueError) as error:
        raise InputError(f"an encoder's spec: {error}") from error
    return plain
