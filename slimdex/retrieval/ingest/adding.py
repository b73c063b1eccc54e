"""Adding: documents are prepared, then staged and committed in the writers' turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import note

from ..index import Index
from ..sources.given_vectors import GivenVectors, as_given
from ..sources.tabular.records import as_documents
from ..store.change import Change
from ..store.columns import columns_with_values, widened
from ..store.document_store import DocumentStore
from . import writer
from .encoding import EncodingError, append_vectors
from .preparing import Prepared, prepared
from .staging import Addition, ChangedOriginsError, DuplicateKeyError, Staged
from .writer import Added

if TYPE_CHECKING:
    from ..sources.source import Sources
    from .made_up_ids import MadeUpIds

Missing = Callable[[DocumentStore, int], Rows]
"""The field of `Addition`."""


def add_documents(
    index: Index, documents: Any, vectors: GivenVectors | ArrayLike | None = None
) -> Added:
    """Add documents in any form that `Collection.add` takes; the caller reports the notes."""
    read = as_documents(documents)
    new = [index.store.new_columns(types) for types in read.columns]
    given = None if vectors is None else as_given(vectors)
    return add(index, Addition(read.documents, new, given))


def add_sources(
    index: Index,
    sources: Sources,
    choose_ids: Callable[[DocumentStore], MadeUpIds] | None = None,
    missing: Callable[[MadeUpIds], Missing] | None = None,
) -> Added:
    """Add the documents of sources; it starts over if others choose the same ids meanwhile.

    Parameters
    ----------
    choose_ids : choose the ids that documents lack; by default `MadeUpIds.of`.
    missing : find the documents to delete, given these ids.
    """
    from ..sources.tabular.column_agreement import agree_with
    from .made_up_ids import MadeUpIds

    while True:
        store = index.store
        notes = agree_with(columns_with_values(store), sources.opened)
        ids = choose_ids(store) if choose_ids else MadeUpIds.of(sources.opened, index.state, store)
        addition = Addition(
            sources.documents(ids.readings),
            sources.columns(store),
            sources.vectors,
            ids.known_origins,
            ids.origins,
            missing(ids) if missing else None,
        )
        try:
            with _places_named(index, sources, ids):
                added = add(index, addition)
        except ChangedOriginsError:
            note("others have added files of the same names meanwhile; the addition starts over")
            continue
        notes = [*notes, *ids.notes, *added.notes, *sources.left_out()]
        return replace(added, notes=notes, file_notes=sources.file_notes())


def add(index: Index, addition: Addition) -> Added:
    """Encode, stage and commit documents.

    Texts that an interrupted addition has encoded are not encoded again.
    """
    if addition.vectors is None and not index.has_encoder:
        raise InputError(f"{index.path}: built from given vectors; expected vectors for these")
    index.check_writable()  # before texts are encoded, which takes long
    with prepared(index, addition) as ready, ready.staged() as (change, staged):
        notes = widened(change.base.columns, change.store.columns)
        encoded, added = _committed(change, ready, staged)
    return replace(
        added,
        notes=[*notes, *added.notes],
        unchanged=staged.unchanged,
        moved=staged.moved,
        encoded=encoded + ready.encoded,
    )


def _committed(change: Change, ready: Prepared, staged: Staged) -> tuple[int, Added]:
    """Commit staged documents; returns the number of texts encoded, and the result."""
    if staged.first == staged.stop:
        if len(staged.gone):
            writer.commit_deletion(change, staged.gone)
        else:
            change.commit()
        return 0, Added(0, 0, [], deleted=len(staged.gone))
    given, known = staged.vectors, ready.known_to(change)
    appended, encoded = append_vectors(
        change, ready.encoder, staged.rows, staged.gone, known, given
    )
    are_given = given is not None
    added = writer.add_staged(
        change, staged, appended, ready.terms, ready.words, are_given=are_given
    )
    return encoded, added


@contextmanager
def _places_named(index: Index, sources: Sources, ids: MadeUpIds) -> Iterator[None]:
    """Name the files of documents in errors about them."""
    try:
        yield
    except DuplicateKeyError as error:
        raise InputError(
            f"id {error.id!r} occurs twice, in {sources.place(error.first, ids.readings)} and "
            f"{sources.place(error.second, ids.readings)}; expected each id once"
        ) from error
    except EncodingError as error:
        from .made_up_ids import MadeUpIds  # whose origins may be known by now

        again = MadeUpIds.of(sources.opened, index.state, index.store)
        place = sources.place_of(error.ids[0], again.readings)
        raise InputError(str(error) if place is None else f"{place}: {error}") from error
