"""Adding: documents are staged, encoded and committed; an interrupted addition is finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InputError

from .catalog.metadata_columns import widened
from .ingest import writer
from .ingest.encoding import EncodingError, encode_pending
from .ingest.preparing import Prepared
from .ingest.staging import Addition, DuplicateKeyError, stage
from .ingest.writer import Added, Finished
from .quality import refitting
from .sources.given_vectors import GivenVectors, as_given
from .sources.tabular.records import as_documents
from .storage.snapshot import Snapshot

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
    """Encode, stage and commit documents, or finish an interrupted addition.

    `refit` is as for `Collection.add`.
    """
    refitting.check_refit(refit)
    if addition.vectors is None and not collection.has_encoder and addition.documents is not None:
        raise InputError(f"{collection.path}: built from given vectors; expected vectors for these")
    collection.check_writable()  # before texts are encoded, which takes long
    start, commit_log = perf_counter(), collection.commit_log
    prepared = Prepared(collection, addition)
    with collection.change():
        # What another addition left is dropped by a commit, before its vectors are overwritten.
        is_one_commit = prepared.is_small and not commit_log.state.unfinished
        with commit_log.transaction() if is_one_commit else nullcontext():
            before = collection.snapshot.columns
            staged = stage(commit_log, prepared.addition, lambda: prepared.encoder)
            notes = widened(before, collection.store.columns.types)
            if commit_log.state.unfinished:
                encoded = encode_pending(
                    commit_log, prepared.encoder, addition.vectors, staged.gone
                )
                finished = writer.add_pending(collection, staged.gone, prepared.terms)
            else:
                encoded = 0
                if len(staged.gone):
                    writer.commit_deletion(commit_log, staged.gone)
                finished = Finished(Added(0, 0, [], deleted=len(staged.gone)))
        _show(collection, finished)
    added = replace(
        finished.added,
        notes=[*notes, *finished.added.notes],
        unchanged=staged.unchanged,
        moved=staged.moved,
        encoded=encoded,
    )
    return _settled(collection, added, start, refit) if added.documents else added


def resume(
    collection: Collection,
    vectors: GivenVectors | None = None,
    *,
    refit: str = "auto",
) -> Added:
    """Finish an interrupted addition from where its vectors end.

    Parameters
    ----------
    vectors : the given vectors of the whole addition, if it had some.
    refit : as for `Collection.add`.
    """
    return add(collection, Addition(None, vectors=vectors), refit=refit)


def _show(collection: Collection, finished: Finished) -> None:
    """Give a committed addition to searches."""
    if finished.loaded is None:
        collection.show()
    else:
        collection.show(Snapshot.of(collection.commit_log, finished.loaded))


def _settled(collection: Collection, added: Added, start: float, refit: str) -> Added:
    """Check the fit after an addition that began at `start`; refit if necessary."""
    settled = refitting.after_addition(collection, perf_counter() - start, refit)
    return replace(added, notes=[*added.notes, *settled.notes], refitted=settled.refitted)


def of_sources(
    collection: Collection,
    sources: Sources,
    ids: MadeUpIds,
    missing: Callable[[int], Rows] | None = None,
) -> Addition:
    """The documents of sources with their ids; `missing` is as for `Addition`."""
    return Addition(
        sources.documents(ids.readings),
        sources.columns(collection.store),
        sources.vectors,
        sources.fingerprint(),
        ids.origins,
        missing,
    )


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
