"""Collection: documents in, hits out; an index's folder while it is open.

Methods import what only they need, so that a search does not wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, TypeVarTuple, overload
from uuid import UUID

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import CorruptError, EncoderError, InputError, shortened_repr
from slimdex.indexes.execution.locks import ThreadLock
from slimdex.indexes.execution.progress import listening
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.settings import Settings, as_settings
from slimdex.indexes.unicode_text import check_unicode

from .atomic_files import STORED_ENDINGS, file_name
from .catalog.state import State
from .catalog.store import DocumentStore
from .documents import Document, Hit, id_text, id_texts, is_several
from .encoders.adapters import as_encoder, plain_spec
from .encoders.base import (
    AUTO,
    OFF,
    PLACE,
    Encoder,
    as_recorded,
    is_same_encoder,
    passage_tokens,
)
from .encoders.given_encoder import GIVEN
from .encoders.opening import encoder_from_spec, is_loadable
from .extras import require
from .locks import WAIT
from .search.answer import answer, nearest_documents, related
from .search.request import Hits, SearchRequest
from .search.searchable import Searchable
from .storage.commit_log import CommitLog
from .storage.network_filesystems import check_local
from .storage.snapshot import Snapshot
from .storage.snapshot_manager import SnapshotManager

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import ArrayLike

    from slimdex.indexes.settings import Settings

    from .ingest.replacing import Replaced
    from .ingest.undoing import Undone
    from .ingest.writer import Added
    from .quality.migration import Migration
    from .quality.near_duplicates import DuplicateGroup
    from .quality.tuning.targets import Target, Tuning
    from .sources.given_vectors import GivenVectors
    from .trials.recall_trials import Pool


LOG = logging.getLogger("slimdex")
Id = str | int | UUID
Several = list[str] | list[int] | list[Id] | tuple[Id, ...]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def check_either(where: str | None, limit: int | None, offset: int) -> None:
    """Raise `InputError` if ids come with what chooses documents otherwise."""
    if where is not None or limit is not None or offset:
        raise InputError("get: ids with where, limit or offset; expected one or the other")


def page(where: str | None, limit: int | None, offset: int) -> slice:
    """The part to get of the documents that match a condition.

    Raises `InputError` if a number is negative, or nothing is given, as with an id that is None.

    >>> page(None, 10, 20)
    slice(20, 30, None)
    """
    if where is None and limit is None and not offset:
        raise InputError("get: no ids, where, limit or offset; expected one of them")
    for name, value in {"limit": limit, "offset": offset}.items():
        if value is not None and (not isinstance(value, int | np.integer) or value < 0):
            raise InputError(f"{name}={value!r}; expected 0 or more")
    return slice(offset, None if limit is None else offset + limit)


class Collection(Searchable):
    """Documents that can be searched by meaning.

    Any number of processes and threads may search a collection and change it. Each search sees
    one committed state from beginning to end, with every commit that ended before it; changes
    take turns.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "notes.index"
    >>> notes = Collection.create(folder)
    >>> _ = notes.add([{"id": 1, "text": "The cat sat on the mat."}, Document("2", "Stocks fell.")])
    >>> notes.search("a pet on a rug", limit=1)[0].id
    '1'
    >>> notes.get("2").text, notes.count("id = '1'"), "3" in notes
    ('Stocks fell.', 1, False)
    >>> notes.close()

    Attributes
    ----------
    commit_log : the committed state and the files; no stable interface.
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
        self._loaded: tuple[dict[str, Any], Encoder] | None = None
        self._moved = None if model is None else (commit_log.state.encoder, model)
        self._trusted, self._key_file = trust_remote_code, api_key_file
        self._shared_filesystem = shared_filesystem
        self._snapshots, self._loading = SnapshotManager(commit_log), ThreadLock()

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
        check_unicode(str(path), "path")
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
        tokens = passage_tokens(passages, made)
        state = State(
            plain_spec(made.spec()),
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
            If the manifest is damaged.
        """
        made = None if encoder is None else as_encoder(encoder)
        given = None if made is None else plain_spec(made.spec())
        commit_log = CommitLog.open(Path(path).absolute(), wait)
        expected = commit_log.state.encoder
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
            commit_log.close()
            raise

    @classmethod
    def open_or_create(
        cls,
        path: str | Path,
        encoder: Encoder | Callable[[list[str]], Any] | None = None,
        settings: Settings | None = None,
        *,
        vector_dtype: str | None = None,
        passages: str | int | None = AUTO,
        lexical: bool | None = None,
    ) -> Self:
        """Open the collection of a folder, or create it if there is no folder.

        The parameters are those of `create`. What is left out is the default for a new collection,
        and whatever an existing one has. If several processes or threads call this at once, one
        creates the collection and all open it.

        Raises
        ------
        InputError
            As `open` and `create` do, and if an existing collection differs from what is given.
        """
        if not Path(path).exists():
            try:
                return cls.create(
                    path,
                    encoder,
                    settings,
                    vector_dtype="fp16" if vector_dtype is None else vector_dtype,
                    passages=passages,
                    lexical=lexical is not False,
                )
            except InputError:
                if not Path(path).exists():  # else another one has created it meanwhile
                    raise
        collection = cls.open(path, encoder)
        try:
            collection.check_same(settings, vector_dtype, passages, lexical)
        except InputError:
            collection.close()
            raise
        return collection

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
        state, requested = self.state, dict[str, Any]()
        has = {
            "vector_dtype": state.stored,
            "passages": state.passages or OFF,
            "lexical": bool(state.words),
        }
        has |= state.requested.as_dict()
        if settings is not None:
            requested = as_settings(settings).checked(state.dim).as_dict()
        requested |= {"vector_dtype": vector_dtype} if vector_dtype is not None else {}
        requested |= {"passages": passages or OFF} if passages != AUTO else {}
        requested |= {"lexical": lexical} if lexical is not None else {}
        if other := [name for name, value in requested.items() if value != has[name]]:
            given, existing = (
                ", ".join(f"{name}={values[name]!r}" for name in other)
                for values in (requested, has)
            )
            raise InputError(f"{given}: {self.path} has {existing}; expected the same, or none")

    def close(self) -> None:
        """End: later calls raise `InputError`."""
        self.commit_log.close()

    def answer(self, request: SearchRequest) -> Hits:
        """The hits of each query of a request; raises `InputError` for an unfinished build."""
        return self.read(answer, request, self.encoder_of)

    def related(self, id: Id, limit: int = 10, where: str | None = None) -> list[Hit]:
        """Find the documents nearest in meaning to a document, best first, without itself.

        Raises `InputError` if the id is unknown or the document has no text, or as `search` does.
        """
        return self.read(related, id_text(id), limit, where)

    @overload
    def get(self, ids: Id, *, vectors: bool = False) -> Document: ...

    @overload
    def get(
        self,
        ids: Several | None = None,
        *,
        where: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        vectors: bool = False,
    ) -> list[Document]: ...

    def get(
        self,
        ids: Id | Several | None = None,
        *,
        where: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        vectors: bool = False,
    ) -> Document | list[Document]:
        """Get the document of an id, documents of several ids in their order, or of a condition.

        Parameters
        ----------
        ids : one or several.
        where : a DuckDB expression on the documents' columns; its documents come in the order in
            which they were added.
        limit, offset : the number of documents, and of those to skip before them.
        vectors : give each document its `Document.vectors`.

        Raises `InputError` if an id is unknown, the condition is invalid, or neither is given, or
        both.
        """
        if ids is not None:
            check_either(where, limit, offset)
            requested = id_texts(ids)
            documents = self.read(
                lambda snapshot: snapshot.listed(snapshot.rows_of(requested), vectors=vectors)
            )
            return documents if is_several(ids) else documents[0]
        part = page(where, limit, offset)
        return self.read(
            lambda snapshot: snapshot.listed(
                snapshot.rows_where(where)[part].tolist(), vectors=vectors
            )
        )

    def to_arrow(self, where: str | None = None) -> pyarrow.Table:
        """Get id, title, text and the columns of all documents, or of those of a condition.

        Values of JSON and UUID, and of types that Arrow lacks, are text. `slimdex.export` writes
        files with vectors.

        Raises `InputError` if `where` is invalid, or pyarrow missing.
        """
        require("to_arrow", "export", "pyarrow")
        return self.read(lambda snapshot: snapshot.arrow(snapshot.rows_where(where)))

    def count(self, where: str | None = None) -> int:
        """Count all documents, or those that a condition holds for."""
        if where is None:
            return len(self)
        return self.read(lambda snapshot: len(snapshot.rows_where(where)))

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.snapshot)

    def __contains__(self, id: object) -> bool:
        """True if a document has this id."""
        try:
            return bool(self.store.ids.known([id_text(id)]))
        except InputError:  # can't be an id
            return False

    def __iter__(self) -> Iterator[Document]:
        """Iterate over all documents as they are now, in the order in which they were added."""
        return self.read(Snapshot.opened).every_document()

    def __repr__(self) -> str:
        """Path, size and settings, for notebooks."""
        settings = self.state.settings
        kept = f", k={settings.k}, kind={settings.kind!r}" if settings else ""
        return f"Collection({str(self.path)!r}, {len(self):,} documents{kept})"

    def info(self) -> dict[str, Any]:
        """Report contents, settings and costs as JSON values."""
        from .quality.info import facts

        return self.read(facts)

    @property
    def version(self) -> int:
        """Number that grows with each commit, by any process."""
        return self.snapshot.state.version

    @property
    def hybrid(self) -> str:
        """Fusion of a search with `hybrid="auto"`.

        Labels chose it (`tune`): "off", "rrf" or the weight of words; else it is "auto", by rule.
        """
        return self.state.fusion

    def chance_score(self, where: str | None = None) -> float | None:
        """Estimate the best score of the same number of random documents; lower hits mean nothing.

        It takes some milliseconds, and is the same for every query; see `random_baseline`. With
        `where`, only documents that it holds for count.

        Returns a cosine; None for fewer than 100 documents or passages, for an index that does not
        rescore, and for vectors that differ in few directions. Raises `InputError` if `where` is no
        expression.
        """
        from .search.random_baseline import chance_score

        return self.read(lambda snapshot: chance_score(snapshot, where))

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

    def add(
        self,
        documents: Any,
        *,
        vectors: GivenVectors | ArrayLike | None = None,
        refit: str = "auto",
    ) -> Added:
        """Add documents, or one; each replaces the document of the same id.

        All of them are added or none. Unchanged documents are left out, and unchanged texts are not
        encoded again. `Added.notes` are logged as warnings of the logger "slimdex", too.

        Parameters
        ----------
        documents : `Document`s or dicts with "id", "text" and perhaps "title" (other keys are
            metadata), or one of them; or, with such columns, a dataframe of pandas or polars, an
            Arrow table or stream, or a DuckDB relation.
        vectors : (documents, dim), encoded elsewhere: lists, an array or a tensor of torch; by
            default the encoder's. A document is unchanged if its vector is, as it is stored.
        refit : what to do when the fit is outdated, see `health`: "auto" refits if that takes less
            than ten times as long as the addition, and otherwise advises it; "never" advises it;
            "always" refits. The documents are committed before a refit, and can be searched during
            it.

        Raises `InputError` if there are no documents, one lacks an id or text, an id occurs twice,
        a value can't be stored, or the vectors don't fit the documents or are not finite.
        """
        from .adding import add_given

        added = add_given(self, documents, vectors=vectors, refit=refit)
        self._log(added.notes)
        return added

    def delete(self, ids: Id | Sequence[Id] | None = None, *, where: str | None = None) -> int:
        """Delete documents by id, one or several, or by a condition; returns how many.

        Raises `InputError` if an id is unknown (then nothing is deleted), or the condition is
        invalid.
        """
        if (ids is None) == (where is None):
            raise InputError("delete: expected either ids or a condition")
        from .ingest.writer import delete_found

        return delete_found(self, None if ids is None else id_texts(ids), where)

    def sync(
        self,
        sources: str | Path | Sequence[str | Path] | None = None,
        *,
        text: str | None = None,
        id: str | None = None,
        title: str | None = None,
        follow_links: bool = False,
        refit: str = "auto",
    ) -> dict[str, Any]:
        """Bring the collection up to date with files: add, replace and delete their documents.

        What is described in `syncing.sync` holds. Notes are logged as those of `add`.

        Parameters
        ----------
        sources : files, folders and packages, one or several, as for `slimdex sync`; by default
            those of this user's last sync of the collection, or of its `slimdex build`.
        text, id, title : columns of tables; by default found by their names.
        follow_links : whether links that lead out of a folder are followed.
        refit : as for `add`.

        Returns
        -------
        Numbers of documents "added", "changed", "moved", "deleted", "unchanged" and of all
        "documents"; of texts "encoded"; and whether the collection was "refitted".

        Raises
        ------
        InputError
            If a source can't be read, or is missing. Then nothing is changed.
        """
        from .asked_sources import last_sources, named_sources, remember_sources
        from .syncing import counts, sync

        if sources is None:
            requested = last_sources(self.path, self.state.origins)
        else:
            requested = named_sources(sources, text, id, title, follow_links=follow_links)
        notes = list[str]()
        with listening(note=notes.append):
            done = sync(self, requested.opened(), refit=refit)
        remember_sources(self.path, requested, self.state.origins)
        self._log([*notes, *done.notes])
        return counts(done, len(self))

    def index_lexical(self, wanted: bool = True) -> None:
        """Index the documents' words, or (`wanted=False`) drop that index.

        Needed only for a collection created with `lexical=False`. Later changes update the index.
        """
        from .ingest.writer import index_lexical

        index_lexical(self, wanted)

    def compact(self) -> int:
        """Free the space of deleted and replaced documents; returns how many.

        Codes are not trained again, so answers stay the same, except those of graphs (kind hnsw).
        The folder needs room for both files. Raises `CorruptError` if vectors are damaged.
        """
        from .ingest.rewriting.compacting import compact

        return compact(self)

    def undo(self) -> Undone:
        """Return to the documents, settings and files before the last change; again, to the later.

        A change by any process counts: an addition with the fit after it, a deletion, `reduce`,
        `tune` or `index_lexical`. Columns that the change made stay, without values.

        Raises `InputError` if there is no such change since the collection was made, compacted,
        migrated or repaired.
        """
        from .ingest.undoing import undo

        return undo(self)

    def reduce(self, settings: Settings) -> list[str]:
        """Reduce the vectors with other settings, without encoding; returns notes for the user."""
        from slimdex.indexes.settings import as_settings

        from .ingest.rewriting.fitting import refit

        return refit(self, as_settings(settings))

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
        target : by default an agreement of .99, at the lowest cost.
        queries : real queries, as texts or (id, text); by default some are made of the documents.
        labels : query id -> document id -> relevance, to choose (beta, gamma) and, with a words'
            index, the fusion of `hybrid="auto"`.
        apply : give the settings to the index, as `reduce` does, and keep the certificate.

        Raises `InputError` if there are no documents, if the queries have no labels and are too few
        to prove the target or, with `apply`, if nothing reaches it.
        """
        from .quality.tuning.targets import Target
        from .quality.tuning.tuner import Asked, tune

        return tune(self, target or Target(), Asked.of(queries, labels), apply=apply)

    def health(self, *, sample: int = 2000) -> dict[str, Any]:
        """Measure how far the documents are from those of the fit; see `health.health`.

        Raises `InputError` for fewer than three documents, or if `sample` is less than 1.
        """
        from .quality.health import health

        return self.read(lambda snapshot: health(self, snapshot, sample))

    def near_duplicates(self, min_score: float = 0.95) -> list[DuplicateGroup]:
        """Find documents whose vectors are nearly equal, exactly; see `near_duplicates`.

        Parameters
        ----------
        min_score : least cosine of the encoder's vectors.

        Raises `InputError` unless ``0 < min_score <= 1``.
        """
        from .quality.near_duplicates import near_duplicates

        return self.read(lambda snapshot: near_duplicates(snapshot, min_score))

    def migrate(
        self,
        encoder: Encoder | Callable[[list[str]], Any],
        *,
        queries: Sequence[tuple[str, str]] | None = None,
        labels: Mapping[str, Mapping[str, int]] | None = None,
        sample: int | None = None,
    ) -> Migration:
        """Measure what it would gain to encode all documents again, by another encoder.

        Parameters
        ----------
        encoder : the new one.
        queries, labels : as for `tune`; by default, queries are made of the documents.
        sample : documents to encode besides those that queries ask for; by default 5%, from 2,000
            to 10,000.

        Raises
        ------
        InputError
            If there are too few documents.
        """
        from .quality.migration import migrate
        from .quality.tuning.tuner import Asked

        made, asked = as_encoder(encoder), Asked.of(queries, labels)
        return self.read(lambda snapshot: migrate(self, snapshot, made, asked, sample))

    def reencode(
        self,
        encoder: Encoder | Callable[[list[str]], Any] | None = None,
        *,
        minutes: float | None = None,
    ) -> Replaced:
        """Encode all documents again by another encoder, or go on with it.

        Searches are answered by the old vectors until all documents have new ones; then one commit
        replaces vectors, encoder, and fit. A kill loses the last 256 passages at most. Documents
        can be added meanwhile.

        Parameters
        ----------
        encoder : the new one; by default that of the last run.
        minutes : time after which a run ends, to be continued by another; by default it goes on to
            the end.

        Raises
        ------
        InputError
            If there is no such encoder, or it is the index's own.
        """
        from .ingest.replacing import next_encoder, replace_vectors

        made = next_encoder(self) if encoder is None else as_encoder(encoder)
        return replace_vectors(self, made, None if minutes is None else 60 * minutes)

    def undo_migration(self) -> None:
        """Drop the new vectors of a `reencode` that is not finished."""
        from .ingest.replacing import undo

        undo(self)

    def verify(self) -> list[str]:
        """Read every byte; returns one line for each fault."""
        from .encoders.opening import weights_faults
        from .storage.verification import index_faults

        while True:  # again if another process commits meanwhile
            with self.unchanged() as snapshot:
                faults = index_faults(self.commit_log, snapshot)
            with self.unchanged() as newest:
                if not faults or newest.manifest == snapshot.manifest:
                    return [*faults, *weights_faults(snapshot.state.encoder)]

    def copy_to(self, path: str | Path) -> int:
        """Copy the committed state to a new folder, and verify it; returns the state's version.

        Others may change the collection meanwhile: the copy is one of its states as a whole.

        Raises
        ------
        InputError
            If the path exists.
        CorruptError
            If a file is damaged or missing. Then there is no copy.
        """
        from .storage.copying import copy_index

        return copy_index(self.commit_log, Path(path).absolute()).state.version

    def move_model(self, model: str) -> None:
        """Record another folder, or hub id, of the encoder's model.

        Raises `InputError` if its weights are not those that the collection was built with.
        """
        with self.change():
            spec = self.state.encoder
            moved = self._from_spec(spec, model)
            place = {key: value for key, value in moved.spec().items() if key in PLACE}
            self.commit_log.commit(replace(self.state, encoder=spec | place))
            self._given, self._loaded, self._moved = [moved], None, None

    def _log(self, notes: Sequence[str]) -> None:
        for note in notes:
            LOG.warning("%s: %s", self.path.name, note)

    @property
    def path(self) -> Path:
        """The folder."""
        return self.commit_log.path

    @property
    def state(self) -> State:
        """The committed state."""
        _ = self.snapshot  # follows other processes
        return self.commit_log.state

    @property
    def store(self) -> DocumentStore:
        """The committed documents, open; within a transaction, also the new ones."""
        log = self.commit_log
        return log.store if log.in_transaction else self.opened_snapshot().store

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
        """The vectors' index, empty before the first documents."""
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

    @property
    def query_encoder(self) -> Encoder | None:
        """The encoder; None if texts can't be encoded."""
        return None if self.lacks_encoder else self.encoder

    def encoder_of(self, state: State) -> Encoder:
        """The encoder of a state."""
        with self._loading:
            if self._loaded is None or self._loaded[0] != state.encoder:
                self._loaded = state.encoder, self.encoder_from(state.encoder)
            return self._loaded[1]

    def encoder_from(self, spec: dict[str, Any]) -> Encoder:
        """The encoder of a spec: one that a caller gave, or else loaded from where it is.

        The place of a moved model is that of the encoder at opening only: another process may
        have changed the encoder since.
        """
        for given in self._given:
            if is_same_encoder(plain_spec(given.spec()), spec):
                return given
        moved = self._moved and is_same_encoder(spec, self._moved[0])
        return self._from_spec(spec, self._moved[1] if self._moved and moved else None)

    def _from_spec(self, spec: dict[str, Any], model: str | None) -> Encoder:
        try:
            return encoder_from_spec(
                spec, model=model, trust_remote_code=self._trusted, api_key_file=self._key_file
            )
        except (InputError, OSError) as error:
            if not is_loadable(spec):
                raise
            why = f"model {model or spec.get('model')!r}: {getattr(error, 'strerror', error)}"
            raise EncoderError(str(error) if isinstance(error, InputError) else why) from error

    def give(self, encoder: Encoder) -> None:
        """Use an encoder of the caller for the state whose spec it has."""
        with self._loading:
            self._given.append(encoder)

    def read(self, read: Callable[[Snapshot, *Ts], T], *args: *Ts) -> T:
        """Call `read` with the newest snapshot, and again if that is replaced meanwhile."""
        while True:
            snapshot = self.snapshot
            try:
                result = read(snapshot, *args)
            except (CorruptError, OSError):  # files may have been deleted during loading
                if self._snapshots.is_newest(snapshot):
                    raise
            else:
                if not self.snapshot.manifest.replaces(snapshot.manifest):
                    return result

    def opened_snapshot(self) -> Snapshot:
        """The newest snapshot with its documents open, which stay readable."""
        return self._snapshots.opened()

    def unchanged(self) -> AbstractContextManager[Snapshot]:
        """Prevent changes; yields the newest snapshot."""
        return self._snapshots.unchanged()

    def change(self) -> AbstractContextManager[None]:
        """Context of a change in the writers' turn; if it fails, show what is committed.

        Raises `InputError` if this thread is in a transaction, or the folder was moved or is on a
        network file system.
        """
        self.check_writable()
        return self._snapshots.change()

    def check_writable(self) -> None:
        """Raise `InputError` if this is closed, its folder was moved, or on a network file system.

        On such a system it may have been opened to be changed there.
        """
        if not self._shared_filesystem:
            check_local(self.path)
        _ = self.snapshot  # follows an index that has replaced the folder
        self.commit_log.check_place()

    def check_files(self) -> None:
        """Raise `CorruptError` if a file of the newest commit is missing or too short."""
        if not self.is_empty:
            self.read(Snapshot.check_files)

    def show(self, snapshot: Snapshot | None = None) -> None:
        """Give the committed state to searches from now on; only within `change`."""
        self._snapshots.show(snapshot)

    def pool(self, snapshot: Snapshot, count: int) -> Pool:
        """Queries made of a snapshot's documents, the same ones in every call."""
        from .trials.query_pools import document_pool

        rng = np.random.default_rng(0)
        return document_pool(snapshot, self.store, self.query_encoder, count, rng)
