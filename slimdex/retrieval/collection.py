"""Collection: documents in, hits out. What users do with an `OpenIndex`.

Methods import what only they need, so that a search does not wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload
from uuid import UUID

import numpy as np

from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import listening

from .documents import Document, Hit, id_text, id_texts, is_several
from .encoders.base import AUTO, Encoder, for_new_documents
from .extras import require
from .open_index import OpenIndex
from .storage.snapshot import Snapshot

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import ArrayLike

    from slimdex.indexes.settings import Settings

    from .catalog.state import Certificate
    from .ingest.migration.replacing import Replaced
    from .ingest.undoing import Undone
    from .ingest.writer import Added
    from .quality.migration.options import Migration
    from .quality.near_duplicates import DuplicateGroup
    from .quality.tuning.targets import Target, Tuning
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


class Collection(OpenIndex):
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
    """

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
        found = cls.open(path, encoder)
        try:
            found.check_same(settings, vector_dtype, passages, lexical)
        except InputError:
            found.close()
            raise
        return found

    @property
    def version(self) -> int:
        """Number that grows with each commit, by any process."""
        return self.snapshot.state.version

    def chance_score(self, where: str | None = None) -> float | None:
        """Estimate the best score of the same number of random documents; lower hits mean nothing.

        It takes some milliseconds, and is the same for every query; see `random_baseline`. With
        `where`, only documents that it holds for count.

        Returns a cosine; None for fewer than 100 documents or passages, for an index that does not
        rescore, and for vectors that differ in few directions. Raises `InputError` if there are no
        documents yet, or `where` is no expression.
        """
        from .search.random_baseline import chance_score

        return self.read(lambda snapshot: chance_score(snapshot, where))

    def related(self, id: Id, limit: int = 10, where: str | None = None) -> list[Hit]:
        """Find the documents nearest in meaning to a document, best first, without itself.

        Raises `InputError` if the id is unknown or the document has no text, or as `search` does.
        """
        from .search.related import related

        return self.read(lambda snapshot: related(snapshot, id_text(id), limit, where))

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
            found = self.read(
                lambda snapshot: snapshot.listed(snapshot.rows_of(wanted), vectors=vectors)
            )
            return found if is_several(ids) else found[0]
        part = page(where, limit, offset)
        if self.is_empty:
            return []
        return self.read(
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
        return self.read(lambda snapshot: snapshot.arrow(snapshot.rows_where(where)))

    def count(self, where: str | None = None) -> int:
        """Count all documents, or those that a condition holds for."""
        if where is None or self.is_empty:
            return len(self)
        return self.read(lambda snapshot: len(snapshot.rows_where(where)))

    def __contains__(self, id: object) -> bool:
        """True if a document has this id."""
        try:
            return not self.is_empty and bool(self.store.ids.known([id_text(id)]))
        except InputError:  # can't be an id
            return False

    def __iter__(self) -> Iterator[Document]:
        """Iterate over all documents as they are now, in the order in which they were added.

        If columns contain values that `document_lines` can't write, only the catalog has the
        documents; then a compaction during the iteration raises `InputError`.
        """
        if self.is_empty:
            return iter(())
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

    def verify(self) -> list[str]:
        """Read every byte; returns one line for each fault."""
        from .ingest.repair import faults

        return faults(self)

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

        added = add_given(self, documents, vectors=vectors, refit=refit)
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
        return self.state.fusion

    def index_lexical(self, wanted: bool = True) -> None:
        """Index the documents' words, or (`wanted=False`) drop that index.

        Needed only for a collection created with `lexical=False`. Later changes update the index.
        """
        from .ingest.writer import index_lexical

        index_lexical(self, wanted)

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
            asked = last_sources(self.path, self.state.origins)
        else:
            asked = named_sources(sources, text, id, title)
        notes = list[str]()
        with listening(note=notes.append):
            done = sync(self, asked.opened(), refit=refit)
        remember_sources(self.path, asked, self.state.origins)
        self._log([*notes, *done.notes])
        return counts(done, len(self))

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

    def certify(self) -> Certificate:
        """Measure the agreement of the current settings with queries made of documents; keep it.

        Raises `InputError` if there are too few documents, or the index does not rescore.
        """
        from .quality.tuning.tuner import certify

        return certify(self)

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

        Raises `InputError` if there are no documents yet, or ``0 < min_score <= 1`` is not true.
        """
        from .quality.near_duplicates import near_duplicates

        return self.read(lambda snapshot: near_duplicates(snapshot, min_score))

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

    def migrate(
        self,
        encoder: Encoder | Callable[[list[str]], Any],
        *,
        queries: Sequence[tuple[str, str]] | None = None,
        labels: Mapping[str, Mapping[str, int]] | None = None,
        sample: int | None = None,
        target: float | None = None,
        apply: bool = False,
    ) -> Migration:
        """Measure what another encoder would give: by a map of its queries, and by encoding again.

        Parameters
        ----------
        encoder : the new one.
        queries, labels : as for `tune`; by default, queries are made of the documents.
        sample : documents to encode for the map; by default 5%, from 2,000 to 10,000.
        target : with `apply`, the nDCG@10 that the map must reach, proved with 95% confidence.
        apply : map queries and new documents from now on; `undo_migration` undoes it. Documents
            keep their vectors.

        Raises
        ------
        InputError
            If there are too few documents, the encoder is mapped already, or the map misses the
            target.
        """
        from .encoders.adapters import as_encoder
        from .quality.migration.migrator import migrate
        from .quality.tuning.tuner import Asked

        asked, made = Asked.of(queries, labels), for_new_documents(as_encoder(encoder))
        return migrate(self, made, asked, sample=sample, target=target, apply=apply)

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
        encoder : the new one; by default that of the last run or of `migrate`.
        minutes : time after which a run ends, to be continued by another; by default it goes on to
            the end.

        Raises
        ------
        InputError
            If there is no such encoder, or it is the index's own.
        """
        from .encoders.adapters import as_encoder
        from .ingest.migration.replacing import next_encoder, replace_vectors

        made = next_encoder(self) if encoder is None else for_new_documents(as_encoder(encoder))
        return replace_vectors(self, made, None if minutes is None else 60 * minutes)

    def undo_migration(self) -> None:
        """Undo a `reencode` that is not finished, or else `migrate` with `apply`."""
        from .ingest.migration.mapping import undo

        undo(self)
