"""Collection: documents in, hits out. The public face of an `OpenIndex`.

Methods import what only they need, so that a search does not wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload
from uuid import UUID

import numpy as np

from slimdex.indexes.errors import InputError, shortened_repr
from slimdex.indexes.execution.progress import listening

from .documents import Document, Hit, id_text, id_texts, is_several
from .encoders.base import AUTO, Encoder
from .extras import require
from .locks import WAIT
from .open_index import OpenIndex
from .quality.measurable import Measurable
from .search.request import Hits, SearchRequest
from .search.searchable import Searchable
from .storage.snapshot import Snapshot

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import ArrayLike

    from slimdex.indexes.settings import Settings

    from .catalog.state import Certificate
    from .ingest.undoing import Undone
    from .ingest.writer import Added
    from .sources.given_vectors import GivenVectors

LOG = logging.getLogger("slimdex")
Id = str | int | UUID
Several = list[str] | list[int] | list[Id] | tuple[Id, ...]


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


class Collection(Searchable, Measurable):
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
    core : the `OpenIndex` behind it, for functions of `slimdex.retrieval`; not a stable interface.
    """

    def __init__(self, core: OpenIndex) -> None:
        if not isinstance(core, OpenIndex):
            expected = f"Collection.open({shortened_repr(core)}), create or open_or_create"
            raise InputError(f"Collection({shortened_repr(core)}); expected {expected}")
        self.core = core

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
    ) -> Collection:
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
        return cls(
            OpenIndex.create(
                path,
                encoder,
                settings,
                vector_dtype=vector_dtype,
                passages=passages,
                lexical=lexical,
                shared_filesystem=shared_filesystem,
            )
        )

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
    ) -> Collection:
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
        return cls(
            OpenIndex.open(
                path,
                encoder,
                model=model,
                trust_remote_code=trust_remote_code,
                api_key_file=api_key_file,
                wait=wait,
                shared_filesystem=shared_filesystem,
            )
        )

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
    ) -> Collection:
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
        found = cls.open(path, encoder)
        try:
            found.core.check_same(settings, vector_dtype, passages, lexical)
        except InputError:
            found.close()
            raise
        return found

    def close(self) -> None:
        """End: later calls raise `InputError`."""
        self.core.close()

    def __len__(self) -> int:
        return len(self.core)

    @property
    def path(self) -> Path:
        """The collection's folder."""
        return self.core.path

    @property
    def version(self) -> int:
        """Number that grows with each commit, by any process."""
        return self.core.snapshot.state.version

    @property
    def encoder(self) -> Encoder:
        """The encoder that the collection was built with."""
        return self.core.encoder

    def move_model(self, model: str) -> None:
        """Record another folder, or hub id, of the encoder's model.

        Raises `InputError` if its weights are not those that the collection was built with.
        """
        self.core.move_model(model)

    def answer(self, request: SearchRequest) -> Hits:
        """The hits of each query of a request."""
        return self.core.answer(request)

    def chance_score(self, where: str | None = None) -> float | None:
        """Estimate the best score of the same number of random documents; lower hits mean nothing.

        It takes some milliseconds, and is the same for every query; see `random_baseline`. With
        `where`, only documents that it holds for count.

        Returns a cosine; None for fewer than 100 documents or passages, for an index that does not
        rescore, and for vectors that differ in few directions. Raises `InputError` if there are no
        documents yet, or `where` is no expression.
        """
        from .search.random_baseline import chance_score

        return self.core.read(lambda snapshot: chance_score(snapshot, where))

    def related(self, id: Id, limit: int = 10, where: str | None = None) -> list[Hit]:
        """Find the documents nearest in meaning to a document, best first, without itself.

        Raises `InputError` if the id is unknown or the document has no text, or as `search` does.
        """
        from .search.related import related

        return self.core.read(lambda snapshot: related(snapshot, id_text(id), limit, where))

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
            wanted = id_texts(ids)
            found = self.core.read(
                lambda snapshot: snapshot.listed(snapshot.rows_of(wanted), vectors=vectors)
            )
            return found if is_several(ids) else found[0]
        part = page(where, limit, offset)
        if self.core.is_empty:
            return []
        return self.core.read(
            lambda snapshot: snapshot.listed(
                snapshot.rows_where(where)[part].tolist(), vectors=vectors
            )
        )

    def to_arrow(self, where: str | None = None) -> pyarrow.Table:
        """Get id, title, text and the columns of all documents, or of those of a condition.

        Values of JSON and UUID, and of types that Arrow lacks, are text. `slimdex.export` writes
        files with vectors.

        Raises `InputError` if there are no documents yet, `where` is invalid, or pyarrow missing.
        """
        require("to_arrow", "export", "pyarrow")
        return self.core.read(lambda snapshot: snapshot.arrow(snapshot.rows_where(where)))

    def count(self, where: str | None = None) -> int:
        """Count all documents, or those that a condition holds for."""
        if where is None or self.core.is_empty:
            return len(self)
        return self.core.read(lambda snapshot: len(snapshot.rows_where(where)))

    def __contains__(self, id: object) -> bool:
        """True if a document has this id."""
        try:
            return not self.core.is_empty and bool(self.core.store.ids.known([id_text(id)]))
        except InputError:  # can't be an id
            return False

    def __iter__(self) -> Iterator[Document]:
        """Iterate over all documents as they are now, in the order in which they were added.

        If columns contain values that `document_lines` can't write, only the catalog has the
        documents; then a compaction during the iteration raises `InputError`.
        """
        if self.core.is_empty:
            return iter(())
        return self.core.read(Snapshot.opened).every_document()

    def __repr__(self) -> str:
        """Path, size and settings, for notebooks."""
        settings = self.core.state.settings
        kept = f", k={settings.k}, kind={settings.kind!r}" if settings else ""
        return f"Collection({str(self.path)!r}, {len(self):,} documents{kept})"

    def info(self) -> dict[str, Any]:
        """Report contents, settings and costs as JSON values."""
        from .quality.info import facts

        return self.core.read(facts)

    def verify(self) -> list[str]:
        """Read every byte; returns one line for each fault."""
        from .ingest.repair import faults

        return faults(self.core)

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
            default the encoder's.
        refit : what to do when the fit is outdated, see `health`: "auto" refits if that takes less
            time than the addition did, and otherwise advises it; "never" advises it; "always"
            refits. The documents are committed before a refit, and can be searched during it.

        Raises `InputError` if there are no documents, one lacks an id or text, an id occurs twice,
        a value can't be stored, or the vectors don't fit the documents or are not finite.
        """
        from .adding import add_given

        added = add_given(self.core, documents, vectors=vectors, refit=refit)
        self._log(added.notes)
        return added

    def _log(self, notes: Sequence[str]) -> None:
        for note in notes:
            LOG.warning("%s: %s", self.path.name, note)

    @property
    def hybrid(self) -> str:
        """Fusion of a search with `hybrid="auto"`.

        Labels chose it (`tune`): "off", "rrf" or the weight of words; else it is "auto", by rule.
        """
        return self.core.state.fusion

    def index_lexical(self, wanted: bool = True) -> None:
        """Index the documents' words, or (`wanted=False`) drop that index.

        Needed only for a collection created with `lexical=False`. Later changes update the index.
        """
        from .ingest.writer import index_lexical

        index_lexical(self.core, wanted)

    def delete(self, ids: Id | Sequence[Id] | None = None, *, where: str | None = None) -> int:
        """Delete documents by id, one or several, or by a condition; returns how many.

        Raises `InputError` if an id is unknown (then nothing is deleted), or the condition is
        invalid.
        """
        if (ids is None) == (where is None):
            raise InputError("delete: expected either ids or a condition")
        from .ingest.writer import delete_found

        return delete_found(self.core, None if ids is None else id_texts(ids), where)

    def sync(
        self,
        sources: str | Path | Sequence[str | Path] | None = None,
        *,
        text: str | None = None,
        id: str | None = None,
        title: str | None = None,
        refit: str = "auto",
    ) -> dict[str, Any]:
        """Bring the collection up to date with files: add, replace and delete their documents.

        What is described in `syncing.sync` holds. Notes are logged as those of `add`.

        Parameters
        ----------
        sources : files, folders and packages, one or several, as for `slimdex sync`; by default
            those of this user's last sync of the collection.
        text, id, title : columns of tables; by default found by their names.
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
            asked = last_sources(self.path, self.core.state.origins)
        else:
            asked = named_sources(sources, text, id, title)
        notes = list[str]()
        with listening(note=notes.append):
            done = sync(self.core, asked.opened(), refit=refit)
        remember_sources(self.path, asked, self.core.state.origins)
        self._log([*notes, *done.notes])
        return counts(done, len(self))

    def compact(self) -> int:
        """Free the space of deleted and replaced documents; returns how many.

        Codes are not trained again, so answers stay the same, except those of graphs (kind hnsw).
        The folder needs room for both files. Raises `CorruptError` if vectors are damaged.
        """
        from .ingest.rewriting.compacting import compact

        return compact(self.core)

    def undo(self) -> Undone:
        """Return to the documents, settings and files before the last change; again, to the later.

        A change by any process counts: an addition with the fit after it, a deletion, `reduce`,
        `tune` or `index_lexical`. Columns that the change made stay, without values.

        Raises `InputError` if there is no such change since the collection was made, compacted,
        migrated or repaired.
        """
        from .ingest.undoing import undo

        return undo(self.core)

    def reduce(self, settings: Settings) -> list[str]:
        """Reduce the vectors with other settings, without encoding; returns notes for the user."""
        from slimdex.indexes.settings import as_settings

        from .ingest.rewriting.fitting import refit

        return refit(self.core, as_settings(settings))

    def certify(self) -> Certificate:
        """Measure the agreement of the current settings with queries made of documents; keep it.

        Raises `InputError` if there are too few documents, or the index does not rescore.
        """
        from .quality.tuning.tuner import certify

        return certify(self.core)
