"""Collection: documents in, hits out; the class that users import.

Each method checks its arguments, and hands over to a function of an `Index` (to change) or of a
`Snapshot` (to read). It imports what only it needs, so that a search does not wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from slimdex.errors import InputError, shortened_repr
from slimdex.indexes.settings import as_settings
from slimdex.system.atomic_files import ExistsError, index_name
from slimdex.system.extras import require
from slimdex.system.locks import WAIT
from slimdex.system.suggestions import with_suggestions

from .base_collection import BaseCollection
from .documents import Document, Hit
from .encoders.adapters import as_encoder
from .encoders.base import AUTO, Encoder
from .encoders.opening import Encoders, default_encoder
from .index import Index, check_creatable
from .search.answer import find, related
from .search.request import Hits, SearchRequest
from .store.snapshot import Snapshot
from .store.state import State

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import ArrayLike

    from slimdex.indexes.settings import Settings

    from .ingest.added import Added
    from .ingest.replacing import Replaced
    from .ingest.undoing import Undone
    from .quality.migration import Migration
    from .quality.near_duplicates import DuplicateGroup
    from .quality.targets import Target, Tuning
    from .sources.given_vectors import GivenVectors

LOG = logging.getLogger("slimdex")


@with_suggestions
class Collection(BaseCollection):
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
    index : the open folder; no stable interface.
    """

    def __init__(self, index: Index) -> None:
        if not isinstance(index, Index):
            given = shortened_repr(index)
            name = type(self).__name__
            expected = f"{name}.open({given}), create or open_or_create"
            raise InputError(f"{name}({given}); expected {expected}")
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
        shared_filesystem : allow changes on a network file system: see `open`.

        Raises `InputError` if the folder exists, or the encoder does not allow the settings or the
        passages.
        """
        path = Path(path).absolute()  # stays valid if the process changes its folder
        check_creatable(path, shared_filesystem=shared_filesystem)  # before a model is loaded
        requested = as_settings(settings)
        made = default_encoder() if encoder is None else as_encoder(encoder)
        state = State.new(made, requested, vector_dtype, passages, lexical=lexical)
        index = Index.create(path, state, shared_filesystem=shared_filesystem)
        index.encoders = Encoders(made)
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

        Parameters
        ----------
        encoder : the one that the collection was built with, in any precision; by default it is
            loaded from where it was.
        model : folder, hub id or URL of the encoder's model, if it has moved.
        wait : seconds that a change waits for its turn while others write, in this process too.
        trust_remote_code : run Python code that comes with the encoder's model, if it has any.
        api_key_file : holds the key of the encoder's server; by default that of `HttpEncoder`.
        shared_filesystem : allow changes on a network file system (NFS, SMB, 9p), where locks must
            work between all machines that change the collection. It can be read there in any case.

        Raises `InputError` if there is no collection, or the encoder is another one, and
        `CorruptError` if the manifest is damaged.
        """
        given: Any = {"trust_remote_code": trust_remote_code, "api_key_file": api_key_file}

        def matching(state: State) -> Encoders:
            return Encoders.matching(state.encoder, encoder, model, **given)

        path = Path(path).absolute()
        shared = shared_filesystem
        return cls(Index.open(path, matching, wait=wait, shared_filesystem=shared))

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
        dtype = vector_dtype or "fp16"
        words = lexical is not False
        kept: Any = {"vector_dtype": dtype, "passages": passages, "lexical": words}
        if not Path(path).exists():
            with suppress(ExistsError):  # others have created it meanwhile
                return cls.create(path, encoder, settings, **kept)

        def matching(state: State) -> Encoders:
            state.check_same(path, settings, vector_dtype, passages, lexical)
            return Encoders.matching(state.encoder, encoder)

        return cls(Index.open(Path(path).absolute(), matching))

    def close(self) -> None:
        """End: later calls raise `InputError`."""
        self.index.close()

    def find(self, request: SearchRequest) -> Hits:
        """Search, without reranking; raises `InputError` for an unfinished build."""
        return self.index.read(find, request, self.index.encoder_of)

    def _related(self, id: str, limit: int, where: str | None) -> list[Hit]:
        return self.index.read(related, id, limit, where)

    def _of_ids(self, ids: list[str], vectors: bool) -> list[Document]:
        return self.index.read(lambda snapshot: snapshot.of_ids(ids, vectors=vectors))

    def _of_condition(self, where: str | None, part: slice, vectors: bool) -> list[Document]:
        return self.index.read(lambda each: each.of_condition(where, part, vectors=vectors))

    def _counted(self, where: str | None) -> int:
        return self.index.read(lambda snapshot: len(snapshot.rows_where(where)))

    def _has(self, id: str) -> bool:
        return bool(self.index.store.known_ids([id]))

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.index.snapshot)

    def __iter__(self) -> Iterator[Document]:
        """Iterate over all documents as they are now, in the order in which they were added."""
        return self.index.read(Snapshot.opened).every_document()

    def to_arrow(self, where: str | None = None) -> pyarrow.Table:
        """Get id, title, text and the columns of all documents, or of those of a condition.

        Values of JSON and UUID, and of types that Arrow lacks, are text. `slimdex.export` writes
        files with vectors.

        Raises `InputError` if `where` is invalid, or pyarrow missing.
        """
        require("to_arrow", "export", "pyarrow")
        return self.index.read(lambda snapshot: snapshot.arrow(snapshot.rows_where(where)))

    def __repr__(self) -> str:
        """Path, size and settings, for notebooks."""
        settings = self.index.state.settings
        kept = f", k={settings.k}, kind={settings.kind!r}" if settings else ""
        return f"Collection({str(self.path)!r}, {len(self):,} documents{kept})"

    def info(self) -> dict[str, Any]:
        """Report contents, settings and costs as JSON values."""
        from .quality.info import facts

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

    def chance_score(self, where: str | None = None) -> float | None:
        """Estimate the best score of the same number of random documents; lower hits mean nothing.

        It takes some milliseconds, and is the same for every query; see `random_baseline`. With
        `where`, only documents that it holds for count. It is a cosine; None for fewer than 100
        documents or passages, for an index that does not rescore, and for vectors that differ in
        few directions. Raises `InputError` if `where` is no expression.
        """
        from .search.random_baseline import chance_score

        return self.index.read(lambda snapshot: chance_score(snapshot, where))

    def _add(self, documents: Any, vectors: GivenVectors | ArrayLike | None, refit: str) -> Added:
        from .quality.refitting import add_documents_then_refit

        added = add_documents_then_refit(self.index, documents, vectors, refit)
        self._log(added.notes)
        return added

    def _delete(self, ids: list[str] | None, where: str | None) -> int:
        from .ingest.writer import delete

        return delete(self.index, ids, where)

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

        Parameters
        ----------
        sources : files, folders and packages, one or several, as `slimdex sync` takes; by default
            those of this user's last sync of the collection, or of its `slimdex build`.
        text, id, title : columns of tables; by default found by their names.
        follow_links : whether links that lead out of a folder are followed.
        exclude : patterns of files to leave out, as in a `.gitignore` of each folder.
        generated : read generated and minified files, lock files, dumps and libraries, too.
        refit : see `add`.

        Returns numbers of documents "added", "changed", "moved", "deleted", "unchanged" and of all
        "documents"; of texts "encoded"; and whether the collection was "refitted".

        Raises `InputError` if a source can't be read, or is missing. Then nothing is changed.
        """
        from .ingest.adding import counts
        from .quality.refitting import sync_then_refit
        from .sources.asked_sources import last_sources, named_sources

        if sources is None:
            asked = last_sources(self.path, self.index.state.origins)
        else:
            asked = named_sources(
                sources,
                text,
                id,
                title,
                follow_links=follow_links,
                exclude=exclude,
                generated=generated,
            )
        done = sync_then_refit(self.index, asked, refit)
        self._log(done.notes)
        return counts(done, len(self))

    def index_lexical(self, wanted: bool = True) -> None:
        """Index the documents' words, or (`wanted=False`) drop that index.

        Needed only for a collection created with `lexical=False`. Later changes update the index.
        """
        from .ingest.writer import index_lexical

        index_lexical(self.index, wanted)

    def compact(self) -> int:
        """Free the space of deleted and replaced documents; returns how many.

        Codes are not trained again: answers stay the same, except those of graphs (kind hnsw). The
        folder needs room for both files. Raises `CorruptError` if vectors are damaged.
        """
        from .ingest.compacting import compact

        return compact(self.index)

    def undo(self) -> Undone:
        """Return to the documents, settings and files before the last change; again, to the later.

        A change by any process counts: an addition with the fit after it, a deletion, `reduce`,
        `tune` or `index_lexical`. Columns that the change made stay, without values.

        Raises `InputError` if there is no such change since the collection was made, compacted,
        migrated or repaired.
        """
        from .ingest.undoing import undo

        return undo(self.index)

    def _reduce(self, settings: Settings) -> list[str]:
        from .ingest.fitting import refit

        return refit(self.index, settings)

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
        from .quality.labels import Asked
        from .quality.targets import Target
        from .quality.tuning import tune

        return tune(self.index, target or Target(), Asked.of(queries, labels), apply=apply)

    def health(self, *, sample: int = 2000) -> dict[str, Any]:
        """Measure how far the documents are from those of the fit; see `health.health`.

        Raises `InputError` for fewer than three documents, or if `sample` is less than 1.
        """
        from .quality.health import health

        return self.index.read(lambda snapshot: health(self.index, snapshot, sample))

    def near_duplicates(self, min_score: float = 0.95) -> list[DuplicateGroup]:
        """Find documents whose vectors are nearly equal, exactly; see `near_duplicates`.

        `min_score` is the least cosine of the encoder's vectors. Raises `InputError` unless
        ``0 < min_score <= 1``.
        """
        from .quality.near_duplicates import near_duplicates

        return self.index.read(lambda snapshot: near_duplicates(snapshot, min_score))

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
        queries, labels : see `tune`; by default, queries are made of the documents.
        sample : documents to encode besides those that queries ask for; by default 5%, from 2,000
            to 10,000.

        Raises `InputError` if there are too few documents.
        """
        from .quality.labels import Asked
        from .quality.migration import migrate

        made = as_encoder(encoder)
        asked = Asked.of(queries, labels)
        return self.index.read(lambda snapshot: migrate(self.index, snapshot, made, asked, sample))

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

        Raises `InputError` if there is no such encoder, or it is the index's own.
        """
        from .ingest.replacing import next_encoder, replace_vectors

        made = next_encoder(self.index) if encoder is None else as_encoder(encoder)
        return replace_vectors(self.index, made, None if minutes is None else 60 * minutes)

    def undo_migration(self) -> None:
        """Drop the new vectors of a `reencode` that is not finished."""
        from .ingest.replacing import undo

        undo(self.index)

    def verify(self) -> list[str]:
        """Read every byte; returns one line for each fault."""
        return self.index.faults()

    def copy_to(self, path: str | Path) -> int:
        """Copy the committed state to a new folder, and verify it; returns the state's version.

        Others may change the collection meanwhile: the copy is one of its states as a whole.

        Raises `InputError` if the path exists, and `CorruptError` if a file is damaged or missing.
        Then there is no copy.
        """
        from .store.verification import copy_index

        return copy_index(self.path, Path(path).absolute()).state.version

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
