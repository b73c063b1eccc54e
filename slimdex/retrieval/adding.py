"""Adding: documents are prepared, then staged and committed in the writers' turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import note

from .catalog.metadata_columns import widened
from .catalog.store import DocumentStore
from .ingest import writer
from .ingest.encoding import EncodingError, append_vectors
from .ingest.preparing import Prepared, prepared
from .ingest.staging import Addition, ChangedOriginsError, DuplicateKeyError, Staged
from .ingest.writer import Added
from .quality import refitting
from .sources.given_vectors import GivenVectors, as_given
from .sources.tabular.records import as_documents
from .storage.commit_log import CommitLog
from .storage.snapshot import Loaded, Snapshot

if TYPE_CHECKING:
    from .collection import Collection
    from .ingest.made_up_ids import MadeUpIds
    from .sources.source import Sources


def add_given(
    collection: Collection,
    documents: Any,
    *,
    vectors: GivenVectors | ArrayLike | None = None,
    refit: str = "auto",
) -> Added:
    """Add documents in any form that `Collection.add` takes; the caller reports the notes."""
    read = as_documents(documents)
    new = [collection.store.columns.new(types) for types in read.columns]
    given = None if vectors is None else as_given(vectors)
    return add(collection, Addition(read.documents, new, given), refit=refit)


def add(collection: Collection, addition: Addition, *, refit: str = "auto") -> Added:
    """Encode, stage and commit documents.

    Texts that an interrupted addition has encoded are not encoded again.

    `refit` is as for `Collection.add`.
    """
    refitting.check_refit(refit)
    if addition.vectors is None and not collection.has_encoder:
        raise InputError(f"{collection.path}: built from given vectors; expected vectors for these")
    collection.check_writable()  # before texts are encoded, which takes long
    start = perf_counter()
    with prepared(collection, addition) as ready, collection.change():
        before = collection.snapshot
        with ready.transaction() as (commit_log, staged):
            notes = widened(before.columns, commit_log.store.columns.types)
            encoded, added, loaded = _committed(commit_log, before, ready, staged)
        collection.show(None if loaded is None else Snapshot.of(collection.commit_log, loaded))
    added = replace(
        added,
        notes=[*notes, *added.notes],
        unchanged=staged.unchanged,
        moved=staged.moved,
        encoded=encoded + ready.encoded,
    )
    if not added.documents:
        return added
    seconds = perf_counter() - start
    notes, refitted = refitting.after_addition(collection, before.searchable_count, seconds, refit)
    return replace(added, notes=[*added.notes, *notes], refitted=refitted)


def _committed(
    commit_log: CommitLog, before: Snapshot, ready: Prepared, staged: Staged
) -> tuple[int, Added, Loaded | None]:
    """Commit staged documents at the end of the transaction.

    Returns the number of texts encoded, the result, and the index in memory if it has changed.
    """
    if staged.first == staged.stop:
        if len(staged.gone):
            writer.commit_deletion(commit_log, staged.gone)
        return 0, Added(0, 0, [], deleted=len(staged.gone)), None
    given = staged.vectors
    appended, encoded = append_vectors(
        commit_log, lambda: ready.encoder, staged.rows, staged.gone, ready.known, given
    )
    added, loaded = writer.add_staged(
        commit_log,
        before,
        staged,
        appended,
        ready.terms,
        ready.words,
        are_given=given is not None,
    )
    return encoded, added, loaded


def of_sources(
    collection: Collection,
    sources: Sources,
    ids: MadeUpIds,
    missing: Callable[[DocumentStore, int], Rows] | None = None,
) -> Addition:
    """The documents of sources with their ids; `missing` is as for `Addition`."""
    return Addition(
        sources.documents(ids.readings),
        sources.columns(collection.store),
        sources.vectors,
        ids.known_origins,
        ids.origins,
        missing,
    )


def with_new_ids(attempt: Callable[[], Added]) -> Added:
    """Add sources; start over if others choose the same ids for other files meanwhile."""
    while True:
        try:
            return attempt()
        except ChangedOriginsError:
            note("others have added files of the same names meanwhile; the addition starts over")


@contextmanager
def places_told(
    collection: Collection, sources: Sources, ids: MadeUpIds | None = None
) -> Iterator[None]:
    """Errors about documents name their files, too."""
    try:
        yield
    except DuplicateKeyError as error:
        readings = ids.readings if ids else ()
        raise InputError(
            f"id {error.id!r} occurs twice, in {sources.place(error.first, readings)} and "
            f"{sources.place(error.second, readings)}; expected each id once"
        ) from error
    except EncodingError as error:
        from .ingest.made_up_ids import MadeUpIds  # with the readers of all sources

        ids = MadeUpIds.of(sources.opened, collection.state, collection.store)
        place = sources.place_of(error.ids[0], ids.readings)
        raise InputError(str(error) if place is None else f"{place}: {error}") from error
