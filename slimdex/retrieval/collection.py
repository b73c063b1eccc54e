"""Collection: documents in, hits out; the class that users import.

Each method checks its arguments, and hands over to a function of an `Index` (to change) or of a
`Snapshot` (to read). What is slow to import is imported by the methods that need it, so that a
program that only searches starts a tenth of a second sooner.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from slimdex.errors import InputError, short_repr
from slimdex.indexes.settings import as_settings
from slimdex.system.atomic_files import ExistsError
from slimdex.system.extras import require
from slimdex.system.index_names import index_name
from slimdex.system.locks import WAIT

from .documents import (
    Document,
    Hit,
    Id,
    Several,
    id_text,
    id_texts,
    ids_to_delete,
    is_several,
    page_start,
)
from .encoders.adapters import as_encoder
from .encoders.base import AUTO, Encoder
from .index import Index, create_index
from .ingest.compacting import compact
from .ingest.fitting import reduce
from .ingest.replacing import next_encoder, replace_vectors
from .ingest.replacing import undo as drop_new_vectors
from .ingest.undoing import undo
from .lexical.fusion import OFF
from .quality.info import facts
from .search.answer import related
from .search.options import SearchKeywords, SearchOptions, takes_options
from .search.request import Hits, SearchRequest, answer, many_queries, one_query
from .store.snapshot import Snapshot
from .store.state import State
from .store.verification import copy_index

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import ArrayLike

    from slimdex.indexes.settings import Settings

    from .ingest.addition_report import AdditionReport
    from .ingest.replacing import ReplacementReport
    from .ingest.undoing import Undone
    from .quality.migration import Migration
    from .quality.near_duplicates import DuplicateGroup
    from .quality.tuning_targets import Target, Tuning
    from .sources.given_vectors import DocumentVectors
    from .sources.source_request import AnySources

LOG = logging.getLogger("slimdex")


class Collection:
    """Documents that can be searched by meaning.

    Any number of processes and threads may search a collection and change it. Each search sees
    one committed state from beginning to end, with every commit that ended before it; changes
    take turns.

    Attributes
    ----------
    index
        the open folder; no stable interface.

    Examples
    --------
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

    def __init__(self, index: Index) -> None:
        if not isinstance(index, Index):
            shown = short_repr(index)
            name = type(self).__name__
            expected = f"{name}.open({shown}), create or open_or_create"
            raise InputError(f"{name}({shown}); expected {expected}")
        self.index = index

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

        Raises `InputError` if the folder exists, or the encoder does not allow the settings or the
        passages.

        Parameters
        ----------
        encoder
            by default all-MiniLM-L6-v2. A `TransformerEncoder` for another model (in its `fastest`
            precision, unless it was made with another one), a `StaticEncoder`, an `HttpEncoder`, a
            `SentenceTransformer`, or a function from a list of texts to their vectors (n, dim);
            `GivenEncoder(dim)` for vectors from elsewhere.
        settings
            how vectors are reduced and compared; by default `Settings()`.
        vector_dtype
            type of the vectors on disk: "fp16", "int8" in 53% of the bytes, or "int4" in 28%.
        passages
            maximum tokens of a passage. A longer text is cut, each passage has a vector, and a hit
            is a document with its best passage. By default the number that the encoder reads, if it
            counts tokens; with "off", the rest of a text stays unread.
        lexical
            index the documents' words too, so that searches also find exact words and names.
        shared_filesystem
            allow changes on a network file system: see `open`.
        """
        index = create_index(
            path,
            encoder,
            settings,
            vector_dtype=vector_dtype,
            passages=passages,
            lexical=lexical,
            shared_filesystem=shared_filesystem,
        )
        return cls(index)

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

        Raises `InputError` if there is no collection, or the encoder is another one, and
        `CorruptError` if the manifest is damaged.

        Parameters
        ----------
        encoder
            the one that the collection was built with, in any precision; by default it is loaded
            from where it was.
        model
            folder, hub id or URL of the encoder's model, if it has moved.
        wait
            seconds that a change waits for its turn while others write, in this process too.
        trust_remote_code
            run Python code that comes with the encoder's model, if it has any.
        api_key_file
            holds the key of the encoder's server; by default that of `HttpEncoder`.
        shared_filesystem
            allow changes on a network file system (NFS, SMB, 9p), where locks must work between all
            machines that change the collection. It can be read there in any case.
        """
        index = Index.open(
            path,
            encoder,
            model=model,
            trust_remote_code=trust_remote_code,
            api_key_file=api_key_file,
            wait=wait,
            shared_filesystem=shared_filesystem,
        )
        return cls(index)

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

        Raises `InputError` as `open` and `create` do, and if an existing collection differs from
        what is given.
        """
        # Options of a new collection, in which None means the default.
        options: Any = {
            "vector_dtype": vector_dtype or "fp16",
            "passages": passages,
            "lexical": lexical is not False,
        }
        if not Path(path).exists():
            with suppress(ExistsError):  # others have created it meanwhile
                return cls.create(path, encoder, settings, **options)

        def check(state: State) -> None:
            """Raise `InputError` if the existing collection has different options."""
            _check_same(state, path, settings, vector_dtype, passages, lexical)

        return cls(Index.open(path, encoder, check=check))

    def close(self) -> None:
        """End: later calls raise `InputError`."""
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @takes_options
    def search(
        self,
        query: str | ArrayLike,
        limit: int = SearchOptions.limit,
        where: str | None = None,
        **options: Unpack[SearchKeywords],
    ) -> list[Hit]:
        """Search the documents closest in meaning to a query, best first.

        Each document occurs once, with its closest passage; with group_by="passage" there are
        `limit` passages, several of which may be of one document.

        A condition is exact: up to `EXACT_ROWS` passages that match are all compared; among more,
        codes choose. Their order is that of a search without it. Scores are cosines, also with
        lexical search; those of a reranker are its own, and it requires a text.

        Parameters
        ----------
        query
            a text, or a vector (dim,) encoded elsewhere: a list, an array or a tensor of torch.
        limit
            see the options of a search.
        where
            see the options of a search.
        options
            see the options of a search.

        Raises
        ------
        InputError
            If the query or an option is invalid.
        """
        return answer(one_query(query, limit, where, options), self.index.find)[0]

    @takes_options
    def search_many(
        self,
        queries: str | Sequence[str] | ArrayLike,
        limit: int = SearchOptions.limit,
        where: str | None = None,
        **options: Unpack[SearchKeywords],
    ) -> Hits:
        """Search with many queries, which are encoded and searched together.

        Parameters
        ----------
        queries
            texts, or vectors (q, dim) encoded elsewhere; a str is one text.
        limit
            see `search`.
        where
            see `search`.
        options
            see `search`.
        """
        return answer(many_queries(queries, limit, where, options), self.index.find)

    def answer(self, request: SearchRequest) -> Hits:
        """The hits of each query of a request."""
        return answer(request, self.index.find)

    def related(self, id: Id, limit: int = 10, where: str | None = None) -> list[Hit]:
        """Find the documents nearest in meaning to a document, best first, without itself.

        Raises `InputError` if the id is unknown or the document has no text, or as `search` does.
        """
        return self.index.read(related, id_text(id), limit, where)

    @overload
    def get(self, ids: Id, *, vectors: bool = False) -> Document: ...

    @overload
    def get(
        self,
        ids: Several | None = None,
        *,
        where: str | None = None,
        limit: int | None = None,
        after: Id = "",
        vectors: bool = False,
    ) -> list[Document]: ...

    def get(
        self,
        ids: Id | Several | None = None,
        *,
        where: str | None = None,
        limit: int | None = None,
        after: Id = "",
        vectors: bool = False,
    ) -> Document | list[Document]:
        """Get the document of an id, documents of several ids in their order, or of a condition.

        Raises `InputError` if an id is unknown, the condition is invalid, or neither is given, or
        both.

        Parameters
        ----------
        ids
            one or several.
        where
            a DuckDB expression on the documents' columns; its documents come in the order in which
            they were added, or with `limit` or `after` in the order of their ids.
        limit
            the number of documents.
        after
            the last id of the page before, which may have been deleted since: each document that
            stays unchanged is on one page.
        vectors
            give each document its `Document.vectors`.
        """
        start = page_start(ids, where, limit, after)
        if ids is None:
            return self.index.read(
                lambda snapshot: snapshot.of_condition(where, limit, start, vectors=vectors)
            )
        texts = id_texts(ids)
        documents = self.index.read(lambda snapshot: snapshot.of_ids(texts, vectors=vectors))
        return documents if is_several(ids) else documents[0]

    def count(self, where: str | None = None) -> int:
        """Count all documents, or those that a condition holds for."""
        if where is None:
            return len(self)
        return self.index.read(lambda snapshot: len(snapshot.rows_where(where)))

    def __contains__(self, id: object) -> bool:
        """True if a document has this id."""
        try:
            text = id_text(id)
        except InputError:  # can't be an id
            return False
        return bool(self.index.read(lambda snapshot: snapshot.store.rows_of_ids([text])))

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.index.snapshot)

    def __iter__(self) -> Iterator[Document]:
        """Iterate over all documents as they are now, in the order in which they were added."""
        return self.index.read(Snapshot.open).every_document()

    def to_arrow(self, where: str | None = None) -> pyarrow.Table:
        """Get id, title, text and the columns of all documents, or of those of a condition.

        Values of JSON and UUID, and of types that Arrow lacks, are text. `slimdex.export` writes
        files with vectors.

        Raises `InputError` if `where` is invalid, or pyarrow missing.
        """
        require("to_arrow", "export", "pyarrow")
        return self.index.read(lambda snapshot: snapshot.store.arrow(snapshot.rows_where(where)))

    def __repr__(self) -> str:
        """Path, size and settings, for notebooks."""
        settings = self.index.state.settings
        shown = f", k={settings.k}, kind={settings.kind!r}" if settings else ""
        return f"Collection({str(self.path)!r}, {len(self):,} documents{shown})"

    def info(self) -> dict[str, Any]:
        """Report contents, settings and costs as JSON values."""
        return self.index.read(facts)

    @property
    def version(self) -> int:
        """Number that grows with each commit, by any process."""
        return self.index.state.version

    @property
    def hybrid(self) -> str:
        """Fusion of a search with `hybrid="auto"`.

        Labels chose it (`tune`): "off", "rrf" or the weight of words; else it is "auto", by rule.
        """
        return self.index.state.fusion

    def add(
        self,
        documents: Any,
        *,
        vectors: DocumentVectors | ArrayLike | None = None,
        refit: str = "auto",
        encode: bool = True,
    ) -> AdditionReport:
        """Add documents, or one; each replaces the document of the same id.

        They are entered first, and found by their words; then they are encoded, some seconds of
        work at a time, and found by meaning. What is entered stays after an interrupt or bad input:
        the same call, or `encode`, goes on from there. Unchanged documents are left out, and
        unchanged texts are not encoded again. `Added.notes` are logged as warnings of the logger
        "slimdex", too.

        Raises `InputError` if there are no documents, one lacks an id or text, an id occurs twice,
        a value can't be stored, or the vectors don't fit the documents or are not finite.

        Parameters
        ----------
        documents
            `Document`s or dicts with "id", "text" and perhaps "title" (other keys are metadata), or
            one of them; or, with such columns, a dataframe of pandas or polars, an Arrow table or
            stream, or a DuckDB relation.
        vectors
            (documents, dim), encoded elsewhere: lists, an array or a tensor of torch; by default
            the encoder's. A document is unchanged if its stored vector is.
        refit
            what to do when the fit is outdated, see `health`: "auto" refits if that takes less than
            ten times as long as the addition, and otherwise advises it; "never" advises it;
            "always" refits. The documents are committed before a refit, and can be searched during
            it.
        encode
            False returns once all documents are entered.
        """
        # Loads the readers of files and the code that cuts, encodes and fits.
        from .quality.refitting import add_documents_then_refit

        added = add_documents_then_refit(self.index, documents, vectors, refit, encode=encode)
        self._log(added.notes)
        return added

    def encode(self) -> int:
        """Encode the documents that wait for their vectors; returns how many texts were encoded.

        They are of any addition, of any process, that was stopped or added with `encode=False`.
        """
        from .quality.refitting import encode_then_refit  # loads what encodes and fits

        encoded = encode_then_refit(self.index)
        self._log(encoded.notes)
        return encoded.encoded

    def delete(self, ids: Id | Sequence[Id] | None = None, *, where: str | None = None) -> int:
        """Delete documents by id, one or several, or by a condition; returns how many.

        Raises `InputError` if an id is unknown (then nothing is deleted), or the condition is
        invalid.
        """
        from .ingest.writer import delete  # loads what cuts and encodes

        return delete(self.index, ids_to_delete(ids, where), where)

    def sync(
        self,
        sources: str | Path | Sequence[str | Path] | None = None,
        *,
        text: str | None = None,
        id: str | None = None,
        title: str | None = None,
        follow_links: bool = False,
        exclude: Sequence[str] = (),
        generated: bool = False,
        refit: str = "auto",
    ) -> dict[str, Any]:
        """Bring the collection up to date with files: add, replace and delete their documents.

        What is described in `ingest.adding.sync` holds. Notes are logged as those of `add`.

        Returns numbers of documents "added", "changed", "deleted", "unchanged" and of all
        "documents"; of texts "encoded"; and whether the collection was "refitted".

        Raises `InputError` if a source can't be read, or is missing. Then nothing is changed.

        Parameters
        ----------
        sources
            files, folders and packages, one or several, as `slimdex sync` takes; by default those
            that this user has built, added or synced, by commands or `sync`.
        text
            column of tables; by default found by its name.
        id
            as `text`.
        title
            as `text`.
        follow_links
            whether links that lead out of a folder are followed.
        exclude
            patterns of files to leave out, as in a `.gitignore` of each folder.
        generated
            read generated and minified files, lock files, dumps and libraries, too.
        refit
            see `add`.
        """
        # Loads the readers of files and the code that cuts, encodes and fits.
        from .ingest.adding import counts
        from .quality.refitting import sync_and_remember
        from .sources.source_request import SourceRequest, added_sources, specs_of

        requested: AnySources = added_sources(self.path, self.index.state.origins)
        if sources is not None:
            requested = SourceRequest(
                specs_of(sources),
                text=text,
                id=id,
                title=title,
                follow_links=follow_links,
                exclude=exclude,
                generated=generated,
            )
        report = sync_and_remember(self.index, requested, refit)
        self._log(report.notes)
        return counts(report, len(self))

    def index_lexical(self, wanted: bool = True) -> None:
        """Index the documents' words, or (`wanted=False`) drop that index.

        Needed only for a collection created with `lexical=False`. Later changes update the index.
        """
        from .ingest.writer import index_lexical  # loads what cuts and encodes

        index_lexical(self.index, wanted)

    def compact(self) -> int:
        """Free the space of deleted and replaced documents; returns how many.

        Codes are not trained again: answers stay the same, except those of graphs (kind hnsw). The
        folder needs room for both files. Raises `CorruptError` if vectors are damaged.
        """
        return compact(self.index)

    def undo(self) -> Undone:
        """Undo the last change of documents, settings or files; called again, redo it.

        A change by any process counts: an addition with the fit after it, a deletion, `reduce`,
        `tune` or `index_lexical`. Columns that the change made stay, without values.

        Raises `InputError` if there is no such change since the collection was made, compacted,
        migrated or repaired.
        """
        return undo(self.index)

    def reduce(self, settings: Settings) -> list[str]:
        """Reduce the vectors with other settings, without encoding; returns notes for the user."""
        return reduce(self.index, as_settings(settings))

    def tune(
        self,
        target: Target | None = None,
        *,
        queries: Sequence[str] | Sequence[tuple[str, str]] | None = None,
        labels: Mapping[str, Mapping[str, int]] | None = None,
        apply: bool = False,
    ) -> Tuning:
        """Find the cheapest settings that agree with exact search, and prove it; see `tuning`.

        Raises `InputError` if there are no documents, if the queries have no labels and are too few
        to prove the target or, with `apply`, if nothing reaches it.

        Parameters
        ----------
        target
            by default an agreement of .99, at the lowest cost.
        queries
            real queries, as texts or (id, text); by default some are made of the documents.
        labels
            query id -> document id -> relevance, to choose (beta, gamma) and, with a words' index,
            the fusion of `hybrid="auto"`.
        apply
            give the settings to the index, as `reduce` does, and keep the certificate.
        """
        # Loads what measures an index, tries settings and changes it.
        from .quality.labels import UserQueries
        from .quality.tuning import tune
        from .quality.tuning_targets import Target

        return tune(self.index, target or Target(), UserQueries.of(queries, labels), apply=apply)

    def health(self, *, sample: int = 2000) -> dict[str, Any]:
        """Measure how far the documents are from those of the fit; see `health.health`.

        Raises `InputError` for fewer than three documents, or if `sample` is less than 1.
        """
        from .quality.health import health  # loads what measures an index

        return health(self.index, sample)

    def near_duplicates(self, min_score: float = 0.95) -> list[DuplicateGroup]:
        """Find documents whose vectors are nearly equal, exactly; see `near_duplicates`.

        `min_score` is the least cosine of the encoder's vectors. Raises `InputError` unless
        ``0 < min_score <= 1``.
        """
        from .quality.near_duplicates import near_duplicates  # loads what deletes them

        return self.index.read(near_duplicates, min_score)

    def migrate(
        self,
        encoder: Encoder | Callable[[list[str]], Any],
        *,
        queries: Sequence[tuple[str, str]],
        labels: Mapping[str, Mapping[str, int]],
        sample: int | None = None,
    ) -> Migration:
        """Measure what it would gain to encode all documents again, by another encoder.

        Raises `InputError` if there are too few documents, or no queries with labels.

        Parameters
        ----------
        encoder
            the new one.
        queries
            see `tune`.
        labels
            see `tune`.
        sample
            documents to encode besides those that queries ask for; by default 5,000.
        """
        # Loads what measures encoders and encodes.
        from .quality.labels import UserQueries
        from .quality.migration import migrate

        return migrate(self.index, as_encoder(encoder), UserQueries.of(queries, labels), sample)

    def reencode(
        self,
        encoder: Encoder | Callable[[list[str]], Any] | None = None,
        *,
        minutes: float | None = None,
    ) -> ReplacementReport:
        """Encode all documents again by another encoder, or go on with it.

        Searches are answered by the old vectors until all documents have new ones; then one commit
        replaces vectors, encoder, and fit. A kill loses some seconds of work. Documents can be
        added meanwhile.

        Raises `InputError` if there is no such encoder, or it is the index's own.

        Parameters
        ----------
        encoder
            the new one; by default that of the last run.
        minutes
            time after which a run ends, to be continued by another; by default it goes on to the
            end.
        """
        new_encoder = next_encoder(self.index) if encoder is None else as_encoder(encoder)
        seconds = inf if minutes is None else 60 * minutes
        return replace_vectors(self.index, new_encoder, seconds)

    def undo_migration(self) -> None:
        """Drop the new vectors of a `reencode` that is not finished."""
        drop_new_vectors(self.index)

    def verify(self) -> list[str]:
        """Read every byte; returns one line for each fault."""
        return self.index.faults()

    def copy_to(self, path: str | Path) -> int:
        """Copy the committed state to a new folder, and verify it; returns the state's version.

        Others may change the collection meanwhile: the copy is of a single commit.

        Raises `InputError` if the path exists, and `CorruptError` if a file is damaged or missing.
        Then there is no copy.
        """
        return copy_index(self.index.snapshot.path, Path(path).absolute()).state.version

    def move_model(self, model: str) -> None:
        """Record another folder, or hub id, of the encoder's model.

        Raises `InputError` if its weights are not those that the collection was built with.
        """
        self.index.move_model(model)

    def _log(self, notes: Sequence[str]) -> None:
        for note in notes:
            LOG.warning("%s: %s", index_name(self.path), note)

    @property
    def path(self) -> Path:
        """The folder."""
        return self.index.path

    @property
    def encoder(self) -> Encoder:
        """The encoder of queries and new documents, loaded on first use."""
        return self.index.encoder


def _check_same(
    state: State,
    path: str | Path,
    settings: Settings | None,
    vector_dtype: str | None,
    passages: str | int | None,
    lexical: bool | None,
) -> None:
    """Raise `InputError` if the index differs from what a caller would create.

    None, and "auto" for `passages`, stand for anything.
    """
    # What the index has, and what is requested.
    existing = {
        "vector_dtype": state.stored,
        "passages": state.passages or OFF,
        "lexical": bool(state.words),
    }
    existing |= state.requested.as_dict()
    tokens = None if passages == AUTO else passages or OFF
    given = {"vector_dtype": vector_dtype, "passages": tokens, "lexical": lexical}
    requested = {name: value for name, value in given.items() if value is not None}
    if settings is not None:
        requested |= as_settings(settings).checked(state.dim).as_dict()
    differing = [name for name, value in requested.items() if value != existing[name]]
    if differing:
        wanted = ", ".join(f"{name}={requested[name]!r}" for name in differing)
        actual = ", ".join(f"{name}={existing[name]!r}" for name in differing)
        raise InputError(f"{wanted}: {path} has {actual}; expected the same, or none")
