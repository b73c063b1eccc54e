"""Collection: documents in, hits out. The facade of this package."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from numpy.typing import NDArray

from indexes.arrays import Matrix, Rows
from indexes.errors import CorruptError, InputError
from indexes.moments import Moments
from indexes.progress import Progress, silent
from indexes.reduced_index import NO_ROWS, ReducedIndex
from indexes.settings import Settings
from indexes.vector_file import BLOCK_BYTES, VectorFile

from . import ingest
from .derived import encode_rows, fit, load_index, save_codes
from .documents import Document, Hit
from .encoder import Encoder, TransformerEncoder, encode_queries, encoder_from_spec
from .given import GIVEN, GivenEncoder, GivenVectors, as_given
from .ledger import Ledger
from .state import State
from .store import DocumentStore


@dataclass(frozen=True)
class Added:
    """What an addition did: documents added, how many of them took the place of an older one."""

    documents: int
    replaced: int
    notes: list[str]


class Collection:
    """Documents that can be searched by meaning.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "notes.index"
    >>> notes = Collection.create(folder)
    >>> _ = notes.add([Document("1", "The cat sat on the mat."), Document("2", "Stocks fell.")])
    >>> [hit.id for hit in notes.search("a pet on a rug", k=1)[0]]
    ['1']
    >>> notes.close()
    """

    def __init__(
        self, ledger: Ledger, encoder: Encoder | None, *, trust_remote_code: bool = False
    ) -> None:
        self._ledger, self._encoder, self._trusted = ledger, encoder, trust_remote_code
        self._index: ReducedIndex | None = None
        self._saved_rows = 0  # rows in the file of codes; the index in memory may have more
        self._deleted: Rows | None = None

    @classmethod
    def create(
        cls,
        path: str | Path,
        encoder: Encoder | None = None,
        settings: Settings | None = None,
    ) -> Collection:
        """A new, empty collection in a folder that does not exist yet.

        Parameters
        ----------
        encoder : by default all-MiniLM-L6-v2; `GivenEncoder(dim)` for vectors from elsewhere.

        Raises
        ------
        InputError
            If the folder exists, or the settings can't suit the encoder.
        """
        path = Path(path)
        if path.exists():  # before a model is loaded, which takes seconds
            raise InputError(f"{path} exists; expected a new folder")
        encoder = encoder or TransformerEncoder()
        requested = (settings or Settings()).checked(encoder.dim)
        state = State(encoder=_plain(encoder.spec()), dim=encoder.dim, requested=requested)
        return cls(Ledger.create(path, state), encoder)

    @classmethod
    def open(
        cls,
        path: str | Path,
        encoder: Encoder | None = None,
        *,
        read_only: bool = False,
        trust_remote_code: bool = False,
    ) -> Collection:
        """An existing collection; the encoder is loaded when it is first needed.

        Many processes may read at a time, or one may write.

        Parameters
        ----------
        trust_remote_code : run Python code that comes with the encoder's model, if it has any.

        Raises
        ------
        InputError
            If there is none, another process is writing, or the encoder is not the one that the
            collection was built with.
        CorruptError
            If the catalog is damaged.
        """
        ledger = Ledger.open(Path(path), read_only=read_only)
        expected = ledger.state.encoder
        if encoder is not None and (given := _plain(encoder.spec())) != expected:
            ledger.store.close()
            raise InputError(f"encoder {given}; this index was built with {expected}")
        return cls(ledger, encoder, trust_remote_code=trust_remote_code)

    def close(self) -> None:
        """Release the catalog for other processes."""
        self._ledger.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self.state.rows - len(self.deleted)

    @property
    def path(self) -> Path:
        """The collection's folder."""
        return self._ledger.path

    @property
    def state(self) -> State:
        """What is committed."""
        return self._ledger.state

    @property
    def store(self) -> DocumentStore:
        """The catalog."""
        return self._ledger.store

    @property
    def vectors(self) -> VectorFile:
        """The encoder's vectors on disk, deleted rows included."""
        return self._ledger.vectors()

    @property
    def moments(self) -> Moments:
        """The moments of the live documents' vectors."""
        return self._ledger.moments()

    @property
    def encoder(self) -> Encoder:
        """The encoder that the collection was built with."""
        if self._encoder is None:
            self._encoder = (
                GivenEncoder(self.state.dim)
                if self._has_no_encoder
                else encoder_from_spec(self.state.encoder, trust_remote_code=self._trusted)
            )
        return self._encoder

    @property
    def _has_no_encoder(self) -> bool:
        return self.state.encoder.get("type") == GIVEN

    @property
    def index(self) -> ReducedIndex:
        """The vectors' index; raises `InputError` while there are no documents."""
        if self._index is None:
            if self.state.settings is None:
                unfinished = "; an unfinished build: run it again" if self.state.source else ""
                raise InputError(f"{self.path} holds no documents yet{unfinished}")
            index = load_index(self.path, self.state, self.vectors)
            self._saved_rows = len(index)
            index.extend()
            self._index = index
        return self._index

    @property
    def deleted(self) -> Rows:
        """Rows of deleted documents, in order."""
        if self._deleted is None:
            self._deleted = self._ledger.deleted()
        return self._deleted

    def search(
        self,
        queries: str | Sequence[str] | None = None,
        k: int = 10,
        where: str | None = None,
        *,
        vectors: Matrix | None = None,
    ) -> list[list[Hit]]:
        """The k nearest documents of each query, best first.

        Parameters
        ----------
        queries : one text or several.
        where : a DuckDB expression on the documents' columns; the search is among the documents
            that it holds for.
        vectors : (q, dim), encoded elsewhere, in place of queries.
        """
        if (queries is None) == (vectors is None):
            raise InputError("search: expected either queries or vectors")
        texts = [queries] if isinstance(queries, str) else list(queries or ())
        index = self.index  # what is wrong with the folder should be said before a model is loaded
        allowed = self._allowed(k, where)
        if vectors is None:
            vectors = encode_queries(self.encoder, texts)
        scores, rows = index.search(vectors, k, allowed, self.deleted)
        documents = self.store.documents(sorted({int(row) for row in rows.flat if row >= 0}))
        return [
            [_hit(documents[int(row)], score) for score, row in zip(s, r, strict=True) if row >= 0]
            for s, r in zip(scores, rows, strict=True)
        ]

    def search_vectors(
        self, queries: Matrix, k: int = 10, where: str | None = None
    ) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k) for encoded queries (q, d), padded with -inf and -1."""
        return self.index.search(queries, k, self._allowed(k, where), self.deleted)

    def add(
        self,
        documents: Iterable[Document],
        *,
        vectors: GivenVectors | NDArray[Any] | None = None,
        columns: Sequence[Mapping[str, str]] = (),
        source: str = "",
        progress: Progress = silent,
    ) -> Added:
        """Add documents; one with the id of an older one takes its place.

        Either all of them are added or none is seen. What was encoded before an interruption is
        kept: see `resume`.

        Parameters
        ----------
        vectors : (documents, dim), encoded elsewhere; by default the encoder's.
        columns : name -> DuckDB type of metadata columns, a mapping for each source; others are
            typed by their values.
        source : a fingerprint of where the documents come from, for `resume`.

        Raises
        ------
        InputError
            If there are no documents, an id stands twice, or a value can't be stored; if the
            vectors are not one for each document, of the right dimensions, and finite.
        """
        given = None if vectors is None else as_given(vectors)
        if given is None and self._has_no_encoder:
            raise InputError(f"{self.path}: built from given vectors; expected vectors for these")
        ingest.stage(self._ledger, documents, columns, source, given)
        return self.resume(progress, given)

    def resume(
        self, progress: Progress = silent, vectors: GivenVectors | NDArray[Any] | None = None
    ) -> Added:
        """Finish an addition that was interrupted, from where its vectors end.

        If vectors were given for it, they are to be given again.
        """
        if not self.state.unfinished:
            raise InputError(f"{self.path}: nothing to resume; expected an unfinished addition")
        given = None if vectors is None else as_given(vectors)
        ingest.encode_pending(self._ledger, self.encoder, progress, given)
        return self._commit_pending(progress)

    def request(self, settings: Settings) -> None:
        """Ask for other settings while no document is in yet; later on, `reduce` does it."""
        if self.state.settings is not None:
            raise InputError(f"{self.path} holds documents; expected an unfinished build")
        state = replace(self.state, requested=settings.checked(self.state.dim))
        if state.unfinished:
            state.requested.check_count(state.staged)
        self._ledger.commit(state)

    def delete(self, ids: Sequence[str] | None = None, *, where: str | None = None) -> int:
        """Delete documents by id or by a condition; returns how many.

        Raises
        ------
        InputError
            If an id is unknown (then none is deleted) or the condition is no expression.
        """
        if (ids is None) == (where is None):
            raise InputError("delete: expected either ids or a condition")
        store, ledger = self.store, self._ledger
        rows = store.rows_where(where) if where is not None else store.rows_of(list(ids or []))
        if len(rows):
            moments = ledger.moments().subtract(ledger.moments_of(rows))
            ledger.commit(ledger.with_moments(ledger.next_state(), moments), delete=rows)
            self._deleted = None
        return len(rows)

    def reduce(self, settings: Settings, *, progress: Progress = silent) -> list[str]:
        """Reduce the vectors anew, without encoding; returns what the user should know."""
        if not len(self):
            raise InputError(f"{self.path} holds no documents; expected some to fit a reducer on")
        requested, moments = settings.checked(self.state.dim), self.moments
        fitted, notes = requested.fitted(moments)
        state = replace(self._ledger.next_state(), requested=requested)
        self._encode_and_commit(
            fit(self.path, state, self.vectors, moments, fitted, progress), progress
        )
        return notes

    def rebuild(self, progress: Progress = silent) -> None:
        """Make the derived files anew; the reducer and the metric only if they are at fault."""
        ledger, settings = self._ledger, self.state.settings
        if settings is None:
            return
        moments = ledger.moments_of(ledger.live_rows())
        state = ledger.with_moments(ledger.next_state(), moments)
        if not self._fitted_files_are_whole():
            try:
                settings, _ = state.requested.fitted(moments)
            except InputError:  # too few are left: what they were fitted on is still there
                moments = Moments.of(self.vectors.scan(), state.dim)
            state = fit(self.path, state, self.vectors, moments, settings, progress)
        self._encode_and_commit(state, progress)

    def _allowed(self, k: int, where: str | None) -> Rows | None:
        if k < 1:
            raise InputError(f"k={k}; expected 1 or more results")
        return None if where is None else self.store.rows_where(where)

    def _commit_pending(self, progress: Progress) -> Added:
        """Bring moments, codes and norms up to date, then let readers see it all at once."""
        ledger, old = self._ledger, self.state
        vectors, replaced = ledger.vectors(old.staged), self.store.replaced_rows(old.rows)
        moments = Moments.of(vectors.scan(old.rows), old.dim).merge(ledger.moments())
        moments.subtract(ledger.moments_of(replaced))
        settings, notes = self._outgrown(moments)
        state = replace(ledger.next_state(), rows=old.staged, source=None)
        state = ledger.with_moments(state, moments)
        if settings is None:
            self._extend_and_commit(state, vectors, replaced, progress)
        else:
            state = fit(self.path, state, vectors, moments, settings, progress)
            self._encode_and_commit(state, progress, replaced)
        if empty := self.store.count_empty(old.rows):
            notes.append(f"{empty} of {old.staged - old.rows} documents have no text")
        return Added(old.staged - old.rows, len(replaced), notes)

    def _outgrown(self, moments: Moments) -> tuple[Settings | None, list[str]]:
        """Settings to derive anew with: at first, or when a small corpus has grown; and notes."""
        state = self.state
        if state.settings is None:
            return state.requested.fitted(moments)
        if state.settings == state.requested.resolved(state.dim):
            return None, []
        try:
            fitted, notes = state.requested.fitted(moments)
        except InputError:  # deletions left fewer dimensions than were asked for
            return None, []
        return (fitted, notes) if fitted != state.settings else (None, [])

    def _extend_and_commit(
        self, state: State, vectors: VectorFile, replaced: Rows, progress: Progress
    ) -> None:
        """Add the new rows to the codes and norms that there are."""
        index, self._index = self._on(vectors), None  # loaded again should anything fail
        norms = index.metric.norms if index.metric else None
        first_block = norms.nbytes // BLOCK_BYTES if norms else 0
        if norms is not None:
            self._ledger.check_tail(norms)
        index.extend(progress)
        state, saved_rows = save_codes(self.path, state, index, self._saved_rows)
        self._ledger.commit(state, delete=replaced, appended=norms, first_block=first_block)
        self._index, self._saved_rows, self._deleted = index, saved_rows, None

    def _on(self, vectors: VectorFile) -> ReducedIndex:
        """The index over a vector file that has grown."""
        index = self.index
        index.vectors = vectors
        if index.metric is not None:
            index.metric = replace(index.metric, vectors=vectors)
        return index

    def _encode_and_commit(
        self, state: State, progress: Progress, replaced: Rows = NO_ROWS
    ) -> None:
        """Code all rows by the fitted files that the state names."""
        vectors = self._ledger.vectors(state.rows)
        index, state = encode_rows(self.path, state, vectors, progress)
        norms = index.metric.norms if index.metric else None
        self._ledger.commit(state, delete=replaced, appended=norms)
        self._index, self._saved_rows, self._deleted = index, len(index), None

    def _fitted_files_are_whole(self) -> bool:
        files = self.state.files
        try:
            for role in {"reducer", "rescorer"} & files.keys():
                files[role].check(self.path)
        except CorruptError:
            return False
        return True


def _plain(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec as the catalog gives it back: JSON has no tuples."""
    plain: dict[str, Any] = json.loads(json.dumps(spec))
    return plain


def _hit(document: Document, score: float) -> Hit:
    return Hit(document.id, float(score), document.text, document.title, document.metadata)
