"""Collection: documents in, hits out. The facade of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.json_text import parsed, written
from slimdex.indexes.moments import Moments
from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.reduced_index import ReducedIndex
from slimdex.indexes.settings import Settings
from slimdex.indexes.vector_file import VectorFile

from ..catalog.database import RenumberedError
from ..catalog.folder_lock import waiting
from ..catalog.metadata_columns import widened
from ..catalog.state import State
from ..catalog.store import DocumentStore
from ..documents import Document, Hit
from ..encoders.base import PLACE, Encoder, checked_encoder, encode_queries, is_same_encoder
from ..encoders.transformer import TransformerEncoder, encoder_from_spec
from ..sources.given_vectors import GIVEN, GivenEncoder, GivenVectors, as_given
from . import reencoding
from . import staging as ingest
from . import writer as changes
from .ledger import Ledger
from .snapshot import Snapshot, first_snapshot
from .writer import Added

T = TypeVar("T")


class Collection:
    """Documents that can be searched by meaning.

    One process writes to a collection, or any number of processes read it. In one process any
    number of threads may search one `Collection` while others change it: each search sees one
    committed state from beginning to end, and changes wait for each other.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "notes.index"
    >>> notes = Collection.create(folder)
    >>> _ = notes.add([Document("1", "The cat sat on the mat."), Document("2", "Stocks fell.")])
    >>> [hit.id for hit in notes.search("a pet on a rug", k=1)[0]]
    ['1']
    >>> notes.close()
    """

    def __init__(
        self,
        ledger: Ledger,
        encoder: Encoder | None,
        *,
        model: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        self._ledger, self._encoder = ledger, encoder
        self._model, self._trusted = model, trust_remote_code
        self._snapshot = first_snapshot(ledger)
        self._in_doubt = False  # whether a change failed, so that another snapshot may be due
        self._writing, self._loading = RLock(), RLock()

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
        path = Path(path).absolute()  # it stays where it is when the process goes elsewhere
        if path.exists():  # before a model is loaded, which takes seconds
            raise InputError(f"{path} exists; expected a new folder")
        encoder = TransformerEncoder() if encoder is None else checked_encoder(encoder)
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
        model: str | None = None,
        trust_remote_code: bool = False,
        wait: float = 0.0,
    ) -> Collection:
        """An existing collection; the encoder is loaded when it is first needed.

        Many processes may read at a time (`read_only=True`), or one may write.

        Parameters
        ----------
        encoder : the one that the collection was built with, wherever its weights lie now; by
            default it is loaded from where they were.
        model : where they are now, if that has changed: a folder or a hub id.
        wait : seconds to wait for other processes that write, or, if this one is to write, read.
        trust_remote_code : run Python code that comes with the encoder's model, if it has any.

        Raises
        ------
        InputError
            If there is none, another process is writing, or the encoder is not the one that the
            collection was built with.
        CorruptError
            If the catalog is damaged.
        """
        given = None if encoder is None else _plain(checked_encoder(encoder).spec())
        where = Path(path).absolute()
        ledger = waiting(wait, lambda: Ledger.open(where, read_only=read_only))
        expected = ledger.state.encoder
        try:
            if given is not None and not is_same_encoder(given, expected):
                raise InputError(f"encoder {given}; this index was built with {expected}")
            return cls(ledger, encoder, model=model, trust_remote_code=trust_remote_code)
        except BaseException:
            ledger.store.close()
            raise

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
        self._settle_if_in_doubt()
        return len(self._snapshot)

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
        with self._loading:
            if self._encoder is None:
                self._encoder = (
                    GivenEncoder(self.state.dim)
                    if self._has_no_encoder
                    else encoder_from_spec(
                        self.state.encoder, model=self._model, trust_remote_code=self._trusted
                    )
                )
            return self._encoder

    def move_model(self, model: str) -> None:
        """Have the encoder loaded from another folder, or hub id, from now on.

        Raises
        ------
        InputError
            If its weights are not those that the collection was built with.
        """
        with self._changing():
            spec = self.state.encoder
            moved = encoder_from_spec(spec, model=model, trust_remote_code=self._trusted)
            place = {key: moved.spec()[key] for key in PLACE}
            self._ledger.commit(replace(self.state, encoder=spec | place))
            self._encoder, self._model = moved, None

    @property
    def _has_no_encoder(self) -> bool:
        return self.state.encoder.get("type") == GIVEN

    @property
    def index(self) -> ReducedIndex:
        """The vectors' index; raises `InputError` while there are no documents."""
        return self._with_snapshot(lambda snapshot: snapshot.index)

    @property
    def deleted(self) -> Rows:
        """Rows of deleted documents, in order."""
        self._settle_if_in_doubt()
        return self._snapshot.deleted

    @property
    def hidden(self) -> Rows:
        """Rows that no search finds, in order: of deleted documents, and of those without text."""
        self._settle_if_in_doubt()
        return self._snapshot.hidden

    def search(
        self,
        queries: str | Sequence[str] | None = None,
        k: int = 10,
        where: str | None = None,
        *,
        vectors: Matrix | None = None,
        candidates: int | None = None,
    ) -> list[list[Hit]]:
        """The k nearest documents of each query, best first.

        Parameters
        ----------
        queries : one text or several.
        where : a DuckDB expression on the documents' columns; the search is among the documents
            that it holds for.
        vectors : (q, dim), encoded elsewhere, in place of queries.
        candidates : rescored for each query, in place of what the index was built with; 0 takes
            the order of the codes.
        """
        if (queries is None) == (vectors is None):
            raise InputError("search: expected either queries or vectors")
        texts = [queries] if isinstance(queries, str) else list(queries or ())
        _ = self.index  # what is wrong with the folder should be said before a model is loaded
        encoded = encode_queries(self.encoder, texts) if vectors is None else vectors
        return self._with_snapshot(
            lambda snapshot: self._hits(snapshot, encoded, k, where, candidates)
        )

    def search_vectors(
        self, queries: Matrix, k: int = 10, where: str | None = None
    ) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k) for encoded queries (q, d), padded with -inf and -1.

        The rows are those of the moment: `compact` gives documents other numbers.
        """
        return self._with_snapshot(lambda snapshot: self._nearest(snapshot, queries, k, where))

    def _hits(
        self,
        snapshot: Snapshot,
        queries: Matrix,
        k: int,
        where: str | None,
        candidates: int | None,
    ) -> list[list[Hit]]:
        scores, rows = self._nearest(snapshot, queries, k, where, candidates)
        found = sorted({int(row) for row in rows.flat if row >= 0})
        documents = self.store.documents(found, snapshot.epoch)
        return [
            [_hit(documents[int(row)], score) for score, row in zip(s, r, strict=True) if row >= 0]
            for s, r in zip(scores, rows, strict=True)
        ]

    def _nearest(
        self,
        snapshot: Snapshot,
        queries: Matrix,
        k: int,
        where: str | None,
        candidates: int | None = None,
    ) -> tuple[Matrix, Rows]:
        if k < 1:
            raise InputError(f"k={k}; expected 1 or more results")
        allowed = None
        if where is not None:
            allowed = self.store.rows_where(where, snapshot.state.rows, snapshot.epoch)
        return snapshot.index.search(queries, k, allowed, snapshot.hidden, candidates)

    def _with_snapshot(self, read: Callable[[Snapshot], T]) -> T:
        """What `read` makes of the newest snapshot, if need be of one that comes after it."""
        while True:
            self._settle_if_in_doubt()
            snapshot = self._snapshot
            if snapshot.state.settings is None:
                unfinished = "; an unfinished build: run it again" if self.state.source else ""
                raise InputError(f"{self.path} holds no documents yet{unfinished}")
            try:
                return read(snapshot)
            except RenumberedError:  # a compaction is committed and about to show its snapshot
                if self._writing.acquire(timeout=0.001):
                    try:
                        self._settle()
                    finally:
                        self._writing.release()
            except (CorruptError, OSError):  # files may have gone while they were loaded
                with self._writing:
                    self._settle()
                    if snapshot is self._snapshot:
                        raise

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change the collection, alone. Should the disk fail, show what is then committed."""
        if self.store.read_only:
            raise InputError(
                f"{self.path}: opened with read_only=True; expected to be opened for changes"
            )
        with self._writing:
            self._settle()
            if self.store.in_transaction:  # of this thread: others wait
                raise InputError(f"{self.path}: a change is under way; expected one at a time")
            try:
                yield
            except BaseException:
                self._in_doubt = True
                self._settle_if_in_doubt()
                raise

    def _settle_if_in_doubt(self) -> None:
        """Or go on with what was committed before, while the disk still fails."""
        if self._in_doubt:
            with self._writing, suppress(OSError, CorruptError):
                self._settle()

    def _settle(self) -> None:
        """See what is committed, where a failure has left that in doubt."""
        self._ledger.settle()
        shown = self._snapshot
        now = (self.state.generation, self.store.epoch)
        if now != (shown.state.generation, shown.epoch):
            self._snapshot = first_snapshot(self._ledger)
        self._in_doubt = False

    def add(
        self,
        documents: Document | Iterable[Document],
        *,
        vectors: GivenVectors | NDArray[Any] | None = None,
        columns: Sequence[Mapping[str, str]] = (),
        source: str = "",
        origins: Mapping[str, str] | None = None,
        progress: Progress = silent,
    ) -> Added:
        """Add documents, or one; one with the id of an older one takes its place.

        What has not changed is not encoded again: where only metadata differ, the vector is kept,
        and a document that is the same in every column is left out.

        Either all of them are added or none is seen. What was encoded before an interruption is
        kept: see `resume`.

        Parameters
        ----------
        vectors : (documents, dim), encoded elsewhere; by default the encoder's.
        columns : name -> DuckDB type of metadata columns, a mapping for each source; others are
            typed by their values.
        source : a fingerprint of where the documents come from, for `resume`.
        origins : which files made-up ids are of, with those of these documents: see `origins`.

        Raises
        ------
        InputError
            If there are no documents, an id stands twice, or a value can't be stored; if the
            vectors are not one for each document, of the right dimensions, and finite.
        """
        documents = [documents] if isinstance(documents, Document) else documents
        given = None if vectors is None else as_given(vectors)
        if given is None and self._has_no_encoder:
            raise InputError(f"{self.path}: built from given vectors; expected vectors for these")
        with self._changing():
            before = self.store.columns
            unchanged = ingest.stage(self._ledger, documents, columns, source, given, origins)
            notes = widened(before, self.store.columns)
            if not self.state.unfinished:
                return Added(0, 0, notes, unchanged)
            added = self.resume(progress, given)
            return replace(added, notes=[*notes, *added.notes], unchanged=unchanged)

    def resume(
        self, progress: Progress = silent, vectors: GivenVectors | NDArray[Any] | None = None
    ) -> Added:
        """Finish an addition that was interrupted, from where its vectors end.

        If vectors were given for it, they are to be given again.
        """
        with self._changing():
            if not self.state.unfinished:
                raise InputError(f"{self.path}: nothing to resume; expected an unfinished addition")
            given = None if vectors is None else as_given(vectors)
            ingest.encode_pending(self._ledger, self.encoder, progress, given)
            self._snapshot, added = changes.add_pending(self._ledger, self._snapshot, progress)
            return added

    def request(self, settings: Settings) -> None:
        """Ask for other settings while no document is in yet; later on, `reduce` does it."""
        with self._changing():
            if self.state.settings is not None:
                raise InputError(f"{self.path} holds documents; expected an unfinished build")
            state = replace(self.state, requested=settings.checked(self.state.dim))
            if state.unfinished:
                state.requested.check_count(state.staged)
            self._ledger.commit(state)

    def delete(self, ids: str | Sequence[str] | None = None, *, where: str | None = None) -> int:
        """Delete documents by id, one or several, or by a condition; returns how many.

        Raises
        ------
        InputError
            If an id is unknown (then none is deleted) or the condition is no expression.
        """
        if (ids is None) == (where is None):
            raise InputError("delete: expected either ids or a condition")
        with self._changing():
            if where is None:
                rows = self.store.rows_of([ids] if isinstance(ids, str) else list(ids or []))
            else:
                found = self.store.rows_where(where, self._snapshot.state.rows)
                rows = np.setdiff1d(found, self.deleted, assume_unique=True)
            if len(rows):
                self._snapshot = changes.delete(self._ledger, self._snapshot, rows)
            return len(rows)

    def compact(self, *, progress: Progress = silent) -> int:
        """Free what deleted and replaced documents take on disk and in memory; returns how many.

        Answers stay the same, since codes are not trained again (but for graphs, kind hnsw,
        which are built anew). The folder needs room for the new files beside the old.

        Raises
        ------
        CorruptError
            If vectors are damaged.
        """
        with self._changing():
            gone = len(self.deleted)
            if gone:
                self._snapshot = changes.compact(self._ledger, self._snapshot, progress)
            return gone

    def reduce(self, settings: Settings, *, progress: Progress = silent) -> list[str]:
        """Reduce the vectors anew, without encoding; returns what the user should know."""
        with self._changing():
            if not len(self):
                raise InputError(f"{self.path} holds no documents; expected some to fit on")
            self._snapshot, notes = changes.refit(self._ledger, self._snapshot, settings, progress)
            return notes

    def rebuild(self, progress: Progress = silent, *, fit_anew: bool = False) -> None:
        """Make the derived files anew; the reducer and the metric only if they are at fault.

        Parameters
        ----------
        fit_anew : reducer and metric, too, whatever the files that there are.
        """
        with self._changing():
            self._snapshot = changes.rebuild(self._ledger, self._snapshot, progress, fit_anew)

    def encode_lost(self, progress: Progress = silent) -> None:
        """Encode the documents whose vectors are missing or damaged, then rebuild what is derived.

        Raises
        ------
        CorruptError
            If the vectors came from elsewhere: there is nothing to encode them with.
        """
        if self._has_no_encoder:
            raise CorruptError(
                f"{self.path / self.state.vectors}: vectors given from elsewhere can't be encoded "
                "anew; restore the file from a copy"
            )
        encoder = self.encoder
        with self._changing():
            reencoding.encode_lost(self._ledger, encoder, progress)
            self._snapshot = first_snapshot(self._ledger)
            self._snapshot = changes.rebuild(self._ledger, self._snapshot, progress)


def _plain(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec as the catalog gives it back: JSON has no tuples."""
    try:
        plain: dict[str, Any] = parsed(written(spec))
    except (TypeError, ValueError) as error:
        raise InputError(f"an encoder's spec: {error}") from error
    return plain


def _hit(document: Document, score: float) -> Hit:
    return Hit(document.id, float(score), document.text, document.title, document.metadata)
