"""Collection: documents in, hits out. The facade of this package."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock
from time import perf_counter
from types import TracebackType
from typing import Any, Self, overload
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.json_text import parsed, written
from slimdex.indexes.moments import Moments
from slimdex.indexes.reduced_index import NO_ROWS, ReducedIndex
from slimdex.indexes.settings import Settings
from slimdex.indexes.vector_file import VectorFile

from ..atomic_files import STORED_ENDINGS, file_name
from ..catalog.database import RenumberedError
from ..catalog.folder_lock import waiting
from ..catalog.metadata_columns import widened
from ..catalog.state import Certificate, State
from ..catalog.store import DocumentStore
from ..documents import Document, id_text
from ..encoders.adapters import as_encoder
from ..encoders.base import (
    PLACE,
    Encoder,
    as_recorded,
    for_new_documents,
    is_same_encoder,
)
from ..encoders.opened import encoder_from_spec, is_loadable
from ..encoders.transformer import TransformerEncoder
from ..lexical.fusion import OFF
from ..search.request import Hits, SearchRequest
from ..search.searchable import Searchable
from ..sources.given_vectors import GIVEN, GivenEncoder, GivenVectors, as_given
from ..sources.records import as_documents
from . import encoding, health, reencoding, refitting, staging, tuning, writer
from .chance_scores import chance_score
from .current import Current
from .cutting import AUTO, passage_tokens
from .info import facts
from .ledger import Ledger
from .query_pools import document_pool
from .recall_trials import Pool
from .snapshot import Snapshot, first_snapshot
from .targets import Target, Tuning
from .tuning import Asked
from .verification import index_faults
from .view import View
from .writer import Added

LOG = logging.getLogger("slimdex")
Id = str | int | UUID
Several = list[str] | list[int] | list[Id] | tuple[Id, ...]
READ_AT_ONCE = 1024
"""Documents read at a time by who goes through all of them."""


class Collection(Searchable):
    """Documents that can be searched by meaning.

    One process writes to a collection, or any number of processes read it. In one process any
    number of threads may search one `Collection` while others change it: each search sees one
    committed state from beginning to end, and changes wait for each other.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "notes.index"
    >>> notes = Collection.create(folder)
    >>> _ = notes.add([{"id": 1, "text": "The cat sat on the mat."}, Document("2", "Stocks fell.")])
    >>> notes.search("a pet on a rug", limit=1)[0].id
    '1'
    >>> notes.get("2").text, notes.count("id = '1'"), "3" in notes
    ('Stocks fell.', 1, False)
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
        self._current, self._loading = Current(ledger), RLock()

    @classmethod
    def create(
        cls,
        path: str | Path,
        encoder: Encoder | Callable[[list[str]], Any] | None = None,
        settings: Settings | None = None,
        *,
        stored: str = "fp16",
        passages: str | int | None = AUTO,
    ) -> Collection:
        """A new, empty collection in a folder that does not exist yet.

        Parameters
        ----------
        path : a folder that does not exist yet.
        encoder : by default all-MiniLM-L6-v2. A `TransformerEncoder` for any other model (in its
            `fastest` precision, unless it was made with another), a
            `StaticEncoder` for word vectors, a `SentenceTransformer` as it is, or any function
            from a list of texts to their vectors (n, dim); `GivenEncoder(dim)` for vectors from
            elsewhere.
        settings : how vectors are reduced and compared; by default `Settings()`.
        stored : how the encoder's vectors are kept on disk: fp16, or int8 in half the bytes.
        passages : tokens that a passage may have: a longer text is cut, each passage has a vector,
            and a hit is a document with its best one. By default what the encoder reads of a text,
            if it reads no more and counts tokens; "off", and what goes beyond that is not found.

        Raises
        ------
        InputError
            If the folder exists, the settings can't suit the encoder, or vectors are not stored so;
            or if the encoder can't have such passages.
        """
        if stored not in STORED_ENDINGS:
            raise InputError(f"stored={stored!r}; expected {' or '.join(STORED_ENDINGS)}")
        path = Path(path).absolute()  # it stays where it is when the process goes elsewhere
        if path.exists():  # before a model is loaded, which takes seconds
            raise InputError(f"{path} exists; expected a new folder")
        made = TransformerEncoder() if encoder is None else as_encoder(encoder)
        requested = (settings or Settings()).checked(made.dim)
        made, tokens = for_new_documents(made), passage_tokens(passages, made)
        vectors = file_name("vectors", 1, STORED_ENDINGS[stored])
        state = State(_plain(made.spec()), made.dim, requested, vectors=vectors, passages=tokens)
        return cls(Ledger.create(path, state), made)

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
    ) -> Collection:
        """An existing collection; the encoder is loaded when it is first needed.

        Many processes may read at a time (`read_only=True`), or one may write.

        Parameters
        ----------
        encoder : the one that the collection was built with, wherever its weights lie now; by
            default it is loaded from where they were. One in another precision is taken for the
            same in the collection's own.
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
        made = None if encoder is None else as_encoder(encoder)
        given = None if made is None else _plain(made.spec())
        where = Path(path).absolute()
        ledger = waiting(wait, lambda: Ledger.open(where, read_only=read_only))
        expected = ledger.state.encoder
        try:
            if given is not None and not is_same_encoder(given, expected):
                raise InputError(f"encoder {given}; this index was built with {expected}")
            made = made and as_recorded(made, expected)
            return cls(ledger, made, model=model, trust_remote_code=trust_remote_code)
        except BaseException:
            ledger.store.database.close()
            raise

    @classmethod
    def open_or_create(
        cls,
        path: str | Path,
        encoder: Encoder | Callable[[list[str]], Any] | None = None,
        settings: Settings | None = None,
        *,
        stored: str = "fp16",
        passages: str | int | None = AUTO,
    ) -> Collection:
        """The collection of a folder, open for changes; a new, empty one if there is no folder.

        Parameters
        ----------
        encoder : as for `create`; of an existing collection by default its own.
        settings, stored, passages : of a new collection, as for `create`; an existing one keeps
            its own.

        Raises
        ------
        InputError
            As `open` and `create` do.
        CorruptError
            If the catalog is damaged.
        """
        if Path(path).exists():
            return cls.open(path, encoder)
        return cls.create(path, encoder, settings, stored=stored, passages=passages)

    def close(self) -> None:
        """Release the catalog for other processes."""
        self._ledger.store.database.close()

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
        return len(self._snapshot)

    @property
    def path(self) -> Path:
        """The collection's folder."""
        return self._ledger.path

    @property
    def _state(self) -> State:
        """What is committed."""
        return self._ledger.state

    @property
    def _snapshot(self) -> Snapshot:
        """What is committed, with its index."""
        return self._current.snapshot

    def _view(self, snapshot: Snapshot) -> View:
        """A snapshot, to be asked."""
        return View(self._store, snapshot)

    @property
    def _store(self) -> DocumentStore:
        """The catalog."""
        return self._ledger.store

    @property
    def _vectors(self) -> VectorFile:
        """The encoder's vectors on disk, deleted rows included."""
        return self._ledger.vectors()

    @property
    def _moments(self) -> Moments:
        """The moments of the live documents' vectors."""
        return self._ledger.moments()

    @property
    def encoder(self) -> Encoder:
        """The encoder that the collection was built with."""
        with self._loading:
            if self._encoder is None:
                self._encoder = (
                    GivenEncoder(self._state.dim)
                    if self._has_no_encoder
                    else encoder_from_spec(
                        self._state.encoder, model=self._model, trust_remote_code=self._trusted
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
        with self._current.change():
            spec = self._state.encoder
            moved = encoder_from_spec(spec, model=model, trust_remote_code=self._trusted)
            place = {key: moved.spec()[key] for key in PLACE}
            self._ledger.commit(replace(self._state, encoder=spec | place))
            self._encoder, self._model = moved, None

    @property
    def lacks_encoder(self) -> bool:
        """Whether texts can't be encoded: by a function, say, that `open` was not given."""
        spec_is_enough = self._has_no_encoder or is_loadable(self._state.encoder)
        return self._encoder is None and not spec_is_enough

    @property
    def _has_no_encoder(self) -> bool:
        return self._state.encoder.get("type") == GIVEN

    @property
    def _index(self) -> ReducedIndex:
        """The vectors' index; raises `InputError` while there are no documents."""
        return self._current.read(lambda snapshot: snapshot.index)

    @property
    def _hidden(self) -> Rows:
        """Rows that no search finds, in order: of deleted documents, and of those without text."""
        return self._snapshot.hidden

    def _found(self, request: SearchRequest) -> Hits:
        def read(snapshot: Snapshot) -> Hits:
            nonlocal request
            _ = snapshot.index  # a damaged folder is reported before a model is loaded
            view = self._view(snapshot)
            fusion = view.fusion(request)
            request = request.encoded(lambda: self.encoder)  # once, even if it reads again
            return view.shown(*view.nearest(request, fusion))

        return self._current.read(read)

    def chance_score(self, where: str | None = None) -> float | None:
        """What the best of as many random documents would score: a hit below it says nothing.

        A hit above it may still be by chance. It takes some milliseconds, and is the same for every
        query; see `chance_scores`.

        Parameters
        ----------
        where : as for `search`: the best of as many as the condition holds for.

        Returns
        -------
        A cosine, as hits have it; None where it is not known: of fewer than 100 documents or
        passages, of an index that does not rescore, and of vectors that differ in few directions.

        Raises
        ------
        InputError
            If there are no documents yet, or `where` is no expression.
        """

        def read(snapshot: Snapshot) -> float | None:
            if where is None:
                return chance_score(snapshot)
            found = self._view(snapshot).rows_where(where)
            return chance_score(snapshot, len(snapshot.document_rows.all_rows(found)))

        return self._current.read(read)

    @overload
    def get(self, ids: Id) -> Document: ...

    @overload
    def get(self, ids: Several) -> list[Document]: ...

    def get(self, ids: Id | Several) -> Document | list[Document]:
        """The document of an id, or those of several, in their order.

        Raises
        ------
        InputError
            If an id is unknown.
        """

        wanted = _ids(ids)
        documents = self._current.read(lambda snapshot: self._view(snapshot).by_id(wanted))
        return documents if _are_several(ids) else documents[0]

    def documents_where(self, where: str) -> list[Document]:
        """The documents that a condition holds for, as in `search`, in the order of their rows."""

        def read(snapshot: Snapshot) -> list[Document]:
            view = self._view(snapshot)
            rows = view.rows_where(where).tolist()
            found = view.documents(rows)
            return [found[row] for row in rows]

        return [] if self._is_empty else self._current.read(read)

    def count(self, where: str | None = None) -> int:
        """How many documents there are, or how many a condition holds for, as in `search`."""
        if where is None or self._is_empty:
            return len(self)
        return self._current.read(lambda snapshot: len(self._view(snapshot).rows_where(where)))

    def __contains__(self, id: object) -> bool:
        """Whether a document has this id."""
        try:
            return not self._is_empty and bool(self._store.ids.known([id_text(id)]))
        except InputError:  # what can be no id
            return False

    def __iter__(self) -> Iterator[Document]:
        """All documents, in the order in which they were added.

        Changes on the way are not seen. Where only the catalog has the documents, since their
        columns hold what `document_lines` can't, a compaction ends this with `InputError`.
        """
        if self._is_empty:
            return
        snapshot = self._current.read(Snapshot.with_documents)
        rows = snapshot.live_documents()
        for part in batches(len(rows), READ_AT_ONCE):
            try:
                found = self._view(snapshot).documents(rows[part].tolist())
            except RenumberedError as error:
                raise InputError(f"{self.path} was compacted meanwhile; begin again") from error
            yield from (found[int(row)] for row in rows[part])

    def __repr__(self) -> str:
        """For a notebook: where, how much, and how it is kept."""
        settings = self._state.settings
        kept = f", k={settings.k}, kind={settings.kind!r}" if settings else ""
        return f"Collection({str(self.path)!r}, {len(self._snapshot):,} documents{kept})"

    def info(self) -> dict[str, Any]:
        """What the index holds, how it was made and what it costs, as JSON can hold it."""
        return self._current.read(lambda snapshot: facts(self._ledger, snapshot))

    def verify(self) -> list[str]:
        """Read every byte; one line for each fault, so that an empty list means all is well."""
        with self._current.unchanged() as snapshot:
            return index_faults(self._ledger, snapshot)

    def _search_vectors(
        self, queries: Matrix, k: int = 10, where: str | None = None
    ) -> tuple[Matrix, Rows]:
        """As `_nearest`, for encoded queries (q, d)."""
        return self._nearest(SearchRequest(vectors=queries, limit=k, where=where))

    def _nearest(self, request: SearchRequest) -> tuple[Matrix, Rows]:
        """Scores and documents (q, k) for encoded queries, padded with -inf and -1.

        Documents are called by their first rows, which are those of the moment: `compact` gives
        them other numbers.
        """

        def read(snapshot: Snapshot) -> tuple[Matrix, Rows]:
            scores, rows = self._view(snapshot).nearest(request)
            return scores, snapshot.document_rows.documents(rows)

        return self._current.read(read)

    @property
    def _is_empty(self) -> bool:
        return self._snapshot.state.settings is None

    def add(
        self,
        documents: Any,
        *,
        vectors: GivenVectors | NDArray[Any] | None = None,
        refit: str = "auto",
    ) -> Added:
        """Add documents, or one; one with the id of an older one takes its place.

        What has not changed is not encoded again: where only metadata differ, the vector is kept,
        and a document that is the same in every column is left out.

        Either all of them are added or none is seen. What the user should know, `Added.notes`, is
        logged, too, as warnings of the logger "slimdex".

        Parameters
        ----------
        documents : `Document`s or dicts with "id", "text" and perhaps "title" (other keys are
            metadata), or one of them; a dataframe of pandas or polars, an Arrow table or whatever
            has the Arrow stream protocol, or a relation of DuckDB's, with such columns.
        vectors : (documents, dim), encoded elsewhere; by default the encoder's.
        refit : what is done when the reducer and the codes have grown old, see `health`: "auto"
            fits them anew if that takes less than the addition did, and else advises it; "never"
            advises it; "always" fits them anew after any addition. The documents are committed
            before, and searched meanwhile.

        Raises
        ------
        InputError
            If there are no documents, one lacks an id or text, an id stands twice, or a value can't
            be stored; if the vectors are not one for each document, of the right dimensions, and
            finite.
        """
        added = self._add_given(documents, vectors=vectors, refit=refit)
        for note in added.notes:
            LOG.warning("%s: %s", self.path.name, note)
        return added

    def _add_given(
        self,
        documents: Any,
        *,
        vectors: GivenVectors | NDArray[Any] | None = None,
        refit: str = "auto",
    ) -> Added:
        """As `add`, whose notes the caller reports in a way of its own."""
        read, columns = as_documents(documents)
        new = [self._store.columns.new(types) for types in columns]
        return self._add(read, new, vectors=vectors, refit=refit)

    def _add(
        self,
        documents: Iterable[Document],
        columns: Sequence[Mapping[str, str]] = (),
        *,
        vectors: GivenVectors | NDArray[Any] | None = None,
        source: str = "",
        origins: Mapping[str, str] | None = None,
        refit: str = "auto",
        missing: staging.Missing | None = None,
    ) -> Added:
        """Add documents whose columns' types and source are known.

        Parameters
        ----------
        columns : name -> DuckDB type of metadata columns, a mapping for each source; others are
            typed by their values.
        source : a fingerprint of where the documents come from, for `_resume`.
        origins : which files made-up ids are of, with those of these documents: see `made_up_ids`.
        missing : as for `staging.stage`: those go in the same commit.
        """
        given = None if vectors is None else as_given(vectors)
        refitting.check_refit(refit)
        if given is None and self._has_no_encoder:
            raise InputError(f"{self.path}: built from given vectors; expected vectors for these")
        start = perf_counter()
        with self._current.change():
            before = self._store.columns.committed
            staged = staging.stage(
                self._ledger,
                documents,
                columns,
                source,
                given,
                origins,
                lambda: self.encoder,
                missing=missing,
            )
            notes = widened(before, self._store.columns.committed)
            self._current.shown = self._snapshot.with_columns(self._store.columns.committed)
            if self._state.unfinished:
                added = self._resume(given, refit=refit, start=start, gone=staged.gone)
            else:
                self._delete_rows(staged.gone)
                added = Added(0, 0, [], deleted=len(staged.gone))
            notes += added.notes
            return replace(added, notes=notes, unchanged=staged.unchanged, moved=staged.moved)

    def _resume(
        self,
        vectors: GivenVectors | NDArray[Any] | None = None,
        *,
        refit: str = "auto",
        start: float | None = None,
        gone: Rows = NO_ROWS,
    ) -> Added:
        """Finish an addition that was interrupted, from where its vectors end.

        If vectors were given for it, they are to be given again.

        Parameters
        ----------
        refit : as for `add`.
        start : when the addition began, by `perf_counter`; by default now.
        gone : first rows of documents that go in the same commit.
        """
        refitting.check_refit(refit)
        start = perf_counter() if start is None else start
        with self._current.change():
            if not self._state.unfinished:
                raise InputError(f"{self.path}: nothing to resume; expected an unfinished addition")
            given = None if vectors is None else as_given(vectors)
            encoded = encoding.encode_pending(self._ledger, self.encoder, given, gone)
            self._current.shown, added = writer.add_pending(self._ledger, self._snapshot, gone)
            settled = refitting.after_addition(
                self._ledger, self._snapshot, self._pool, perf_counter() - start, refit
            )
            self._current.shown = settled.snapshot
            notes = [*added.notes, *settled.notes]
            return replace(added, notes=notes, refitted=settled.refitted, encoded=encoded)

    def health(self, *, sample: int = health.QUERIES) -> dict[str, Any]:
        """How far today's documents are from those that the index was fitted on, and what it costs.

        Agreement with exact search in the metric that the index approximates is measured by queries
        made of the documents, each with its own held out; that takes a pass over all vectors,
        and a fit of today, which tells what `reduce` would restore, another. Nothing is changed.

        Parameters
        ----------
        sample : how many queries are made, 1 or more.

        Returns
        -------
        ``documents``, ``documents_since_fit``, ``fitted_documents`` : counts;
            where texts are cut, of passages.
        ``variance_kept`` : the share, 0 to 1, of the vectors' variance that the reducer's axes
            keep: ``at_fit``, ``now``, and ``refitted``; None for reducers without axes.
        ``code_error`` : mean squared error of the codes of unit vectors: ``at_fit``, and now of
            ``old_documents`` and ``new_documents``.
        ``agreement`` : ``estimate`` of agreement@10, and ``bound``, below which it is not, but with
            probability ``error``; by how many ``queries``, and of what ``pool``.
        ``certified`` : the agreement that was certified, None if none was; ``verdict`` : whether it
            "holds", is "not proved" any more, or "broken"; None where it was certified by queries
            that were given, with which those made of documents can't be compared.
        ``refit`` : ``estimate`` and ``bound`` after a fit of today, the ``seconds`` it takes, and
            ``found_of_its_order``, the share of its exact ten that the index finds as it is; None
            if no documents came after the fit, or the reducer is trained.
        ``advice`` : lines for people, none if there is nothing to gain.

        Raises
        ------
        InputError
            If there are fewer than three documents to find, or `sample` is less than 1.
        """
        return self._current.read(
            lambda snapshot: health.health(self._ledger, snapshot, self._pool, sample)
        )

    def _pool(self, snapshot: Snapshot, count: int) -> Pool:
        """Queries made of a snapshot's documents, the same ones whenever it is asked for them."""
        encoder = None if self._has_no_encoder else self.encoder
        rng = np.random.default_rng(0)
        return document_pool(snapshot, self._store, encoder, count, rng)

    @property
    def hybrid(self) -> str:
        """How a search with `hybrid="auto"` fuses meaning and words: "off", "rrf", or a weight."""
        return self._state.hybrid or OFF

    def index_words(self, wanted: bool = True) -> None:
        """Index the documents' words, for `hybrid` searches, or (`wanted=False`) no longer.

        From then on it is kept in step with every change.

        Raises
        ------
        InputError
            If there are no documents yet.
        """
        with self._current.change():
            if self._is_empty:
                raise InputError(f"{self.path} holds no documents; expected some to index words of")
            self._current.shown = writer.index_words(self._ledger, self._snapshot, wanted)

    def _request(self, settings: Settings) -> None:
        """Ask for other settings while no document is in yet; later on, `reduce` does it."""
        with self._current.change():
            if self._state.settings is not None:
                raise InputError(f"{self.path} holds documents; expected an unfinished build")
            state = replace(self._state, requested=settings.checked(self._state.dim))
            if state.unfinished:
                state.requested.check_count(state.staged)
            self._ledger.commit(state)

    def delete(self, ids: Id | Sequence[Id] | None = None, *, where: str | None = None) -> int:
        """Delete documents by id, one or several, or by a condition; returns how many.

        Raises
        ------
        InputError
            If an id is unknown (then none is deleted) or the condition is no expression.
        """
        if (ids is None) == (where is None):
            raise InputError("delete: expected either ids or a condition")
        with self._current.change():
            if where is None:
                rows = self._store.ids.rows(_ids(ids))
            else:
                rows = self._view(self._snapshot).rows_where(where)
            self._delete_rows(rows)
            return len(rows)

    def _delete_rows(self, documents: Rows) -> None:
        """Delete documents by their first rows."""
        if len(documents):
            every = self._snapshot.document_rows.all_rows(documents)
            self._current.shown = writer.delete(self._ledger, self._snapshot, every)

    def compact(self) -> int:
        """Free what deleted and replaced documents take on disk and in memory; returns how many.

        Answers stay the same, since codes are not trained again (but for graphs, kind hnsw,
        which are built anew). The folder needs room for the new files beside the old.

        Raises
        ------
        CorruptError
            If vectors are damaged.
        """
        with self._current.change():
            gone = self._snapshot.deleted_count
            if gone:
                self._current.shown = writer.compact(self._ledger, self._snapshot)
            return gone

    def reduce(self, settings: Settings) -> list[str]:
        """Reduce the vectors anew, without encoding; returns what the user should know."""
        with self._current.change():
            if not len(self):
                raise InputError(f"{self.path} holds no documents; expected some to fit on")
            self._current.shown, notes = writer.refit(self._ledger, self._snapshot, settings)
            return notes

    def tune(
        self,
        target: Target | None = None,
        *,
        queries: Sequence[str] | Sequence[tuple[str, str]] | None = None,
        labels: Mapping[str, Mapping[str, int]] | None = None,
        apply: bool = False,
    ) -> Tuning:
        """Find the cheapest settings that agree with exact search, and prove it; see `tuning`.

        Parameters
        ----------
        target : by default an agreement of .99, as cheap as can be.
        queries : such as are really asked, as texts or (id, text); by default some are made of the
            documents.
        labels : query id -> document id -> relevance, for (beta, gamma); and, where there is a
            words' index, for `hybrid="auto"`.
        apply : whether the index gets the settings, as by `reduce`, and keeps the certificate.

        Raises
        ------
        InputError
            If there are no documents, the queries have no labels and are too few to prove the
            target, or, with `apply`, nothing reaches it.
        """
        wanted, encoder = target or Target(), self._for_queries
        asked = None
        if queries is not None:
            pairs = [(q, q) if isinstance(q, str) else (str(q[0]), str(q[1])) for q in queries]
            asked = Asked(pairs, labels and _by_ids(labels))
        elif labels is not None:
            raise InputError("labels without queries; expected both")

        def tune(snapshot: Snapshot) -> Tuning:
            if not len(self):
                raise InputError(f"{self.path} holds no documents; expected some to tune by")
            return tuning.tune(self._ledger, snapshot, encoder, wanted, asked)

        def with_words(found: Tuning) -> Tuning:
            choice = self._current.read(
                lambda snapshot: tuning.chosen_hybrid(self._ledger, snapshot, encoder, asked)
            )
            if choice is None:
                return found
            chosen = choice.hybrid if choice.is_told else self._state.hybrid
            return replace(found, words=choice.why, hybrid=chosen)

        if not apply:
            return with_words(self._current.read(tune))
        with self._current.change():
            found = self._current.read(tune)
            if found.chosen is None or found.certificate is None:
                raise InputError(found.lacking or "nothing reaches the target")
            if found.chosen.settings != self._state.settings:
                self.reduce(found.chosen.settings)
            self._certify(found.certificate)
            found = with_words(found)
            if found.words and found.hybrid != self._state.hybrid:
                self._current.shown = writer.fuse(self._ledger, self._snapshot, found.hybrid)
            return replace(found, applied=True)

    def certify(self) -> Certificate:
        """Measure the agreement of the settings in force, by queries made of documents; keep it.

        Raises
        ------
        InputError
            If there are too few documents to ask by, or the index does not rescore.
        """
        encoder = self._for_queries
        with self._current.change():
            certificate = self._current.read(
                lambda snapshot: tuning.certify(self._ledger, snapshot, encoder)
            )
            self._certify(certificate)
            return certificate

    def _certify(self, certificate: Certificate) -> None:
        self._current.shown = writer.certify(self._ledger, self._snapshot, certificate)

    @property
    def _for_queries(self) -> Encoder | None:
        """The encoder, None where vectors were given."""
        return None if self._has_no_encoder else self.encoder

    def _rebuild(self, *, fit_anew: bool = False) -> None:
        """Make the derived files anew; the reducer and the metric only if they are at fault.

        Parameters
        ----------
        fit_anew : reducer and metric, too, whatever the files that there are.
        """
        with self._current.change():
            self._current.shown = writer.rebuild(self._ledger, self._snapshot, fit_anew)

    def encode_lost(self) -> None:
        """Encode the documents whose vectors are missing or damaged, then rebuild what is derived.

        Raises
        ------
        CorruptError
            If the vectors came from elsewhere: there is nothing to encode them with.
        """
        if self._has_no_encoder:
            raise CorruptError(
                f"{self.path / self._state.vectors}: vectors given from elsewhere can't be encoded "
                "anew; restore the file from a copy"
            )
        encoder = self.encoder
        with self._current.change():
            reencoding.encode_lost(self._ledger, encoder)
            self._current.shown = first_snapshot(self._ledger)
            self._current.shown = writer.rebuild(self._ledger, self._snapshot)


def _by_ids(labels: Mapping[Any, Mapping[Any, int]]) -> dict[str, dict[str, int]]:
    return {
        str(query): {id_text(id): relevance for id, relevance in own.items()}
        for query, own in labels.items()
    }


def _are_several(ids: Any) -> bool:
    return isinstance(ids, Iterable) and not isinstance(ids, str | bytes)


def _ids(ids: Any) -> list[str]:
    """One id, or several, as documents have them."""
    return [id_text(id) for id in (ids if _are_several(ids) else [ids])]


def _plain(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec as the catalog gives it back: JSON has no tuples."""
    try:
        plain: dict[str, Any] = parsed(written(spec))
    except (TypeError, ValueError) as error:
        raise InputError(f"an encoder's spec: {error}") from error
    return plain
