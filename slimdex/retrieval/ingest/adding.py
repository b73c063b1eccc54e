"""Adding and syncing: documents are prepared, then staged and committed in the writers' turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
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
from .staging import (
    Addition,
    ChangedOriginsError,
    DuplicateKeyError,
    NoDocumentsError,
    Staged,
)
from .writer import Added

if TYPE_CHECKING:
    from ..sources.files.input_files import Reading
    from ..sources.source import Source, Sources
    from .source_ids import SourceIds


def add_documents(
    index: Index, documents: Any, vectors: GivenVectors | ArrayLike | None = None
) -> Added:
    """Add documents in any form that `Collection.add` takes; the caller reports the notes."""
    read = as_documents(documents)
    new = [index.snapshot.store.new_columns(types) for types in read.columns]
    given = None if vectors is None else as_given(vectors)
    return add(index, Addition(read.documents, new, given))


def add_sources(
    index: Index,
    sources: Sources,
    choose_ids: Callable[[DocumentStore], SourceIds] | None = None,
    *,
    deletes_missing: bool = False,
) -> Added:
    """Add the documents of sources; it starts over if others choose the same ids meanwhile.

    `choose_ids` chooses the ids that documents lack, by default `SourceIds.of`. Documents whose
    files are gone are deleted if `deletes_missing`; what became part of a folder always leaves its
    earlier ids.
    """
    from ..sources.tabular.column_agreement import agree_with
    from .source_ids import SourceIds

    while True:
        store = index.store
        notes = agree_with(columns_with_values(store), sources.opened)
        ids = choose_ids(store) if choose_ids else SourceIds.of(sources.opened, index.state, store)
        missing = partial(_gone_rows, sources, ids, only_parts=not deletes_missing)
        addition = Addition(
            sources.documents(ids.readings),
            sources.columns(store),
            sources.vectors,
            ids.known_origins,
            ids.origins,
            ids.moved,
            missing if deletes_missing or ids.parts else None,
        )
        try:
            with _places_named(sources, ids.readings):
                added = add(index, addition)
        except ChangedOriginsError:
            note("others have added files of the same names meanwhile; the addition starts over")
            continue
        notes = [*notes, *ids.notes, *added.notes, *sources.left_out()]
        return replace(added, notes=notes, file_notes=sources.file_notes())


def sync(index: Index, sources: Sources) -> Added:
    """Add what is new, replace what has changed, delete what is gone; other documents stay.

    Files with unchanged path, size and times are not read. A text that the index already has, in a
    document that is replaced or deleted, is not encoded again. Documents of a file that exists but
    can't be read stay.

    Raises `InputError` if a source is standard input, which can't be read again, or the index was
    built from given vectors; or as `Collection.add` does. Then nothing is changed.
    """
    from ..sources.files.input_files import STANDARD_INPUT
    from .source_ids import SourceIds

    if any(source.place.startswith("stdin ") for source in sources.opened):
        raise InputError(f"{STANDARD_INPUT}: standard input; expected files, folders or packages")
    if not index.has_encoder:
        raise InputError(f"{index.path}: built from given vectors; expected an encoder's")

    def ids_with_known(store: DocumentStore) -> SourceIds:
        ids = SourceIds.of(sources.opened, index.state, store)
        known = [replace(each, known=store.known_origins(each.place)) for each in ids.readings]
        return replace(ids, readings=known)

    return add_sources(index, sources, ids_with_known, deletes_missing=True)


def add(index: Index, addition: Addition) -> Added:
    """Encode, stage and commit documents.

    Texts that an interrupted addition has encoded are not encoded again.
    """
    if addition.vectors is None and not index.has_encoder:
        raise InputError(f"{index.path}: built from given vectors; expected vectors for these")
    index.check_writable()  # before texts are encoded, which takes long
    writer.drop_deleted_words(index)
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
def _places_named(sources: Sources, readings: Sequence[Reading]) -> Iterator[None]:
    """Name the files of documents in errors about them."""
    try:
        yield
    except DuplicateKeyError as error:
        raise InputError(
            f"id {error.id!r} occurs twice, in {sources.place(error.first, readings)} and "
            f"{sources.place(error.second, readings)}; expected each id once"
        ) from error
    except NoDocumentsError as error:
        why = ", ".join(sources.left_out() or [source.name for source in sources.opened])
        raise InputError(f"no documents ({why}); expected at least one") from error
    except EncodingError as error:
        place = sources.place_of(error.ids[0], readings)
        raise InputError(str(error) if place is None else f"{place}: {error}") from error


def _gone_rows(
    sources: Sources, ids: SourceIds, store: DocumentStore, first: int, *, only_parts: bool
) -> Rows:
    """Rows before `first` of documents whose files are gone, once the sources are read.

    With `only_parts`, only of documents that have other ids now, as parts of a folder.
    """
    # Documents whose origins have changed since are left to the next sync, which reads them.
    readings = ids.readings
    places = [each.place for each in readings if each.known <= store.known_origins(each.place)]
    # They may have their places from before a move yet.
    places += [before for before, now in ids.moved.items() if now in places]
    missing = store.gone_from(places, [*sources.origins(readings)], first)
    read = [*zip(sources.opened, readings, strict=True)]
    gone = list[int]()
    for row, id, place in missing:
        for source, reading in read:
            new_id = ids.new_id(id, reading.prefix or "")
            is_asked = new_id is not None or not only_parts
            if (
                ids.moved.get(place, place) == reading.place
                and is_asked
                and _may_go(source, reading, new_id or id)
            ):
                gone.append(row)
                break
    return np.array(gone, dtype=np.int64)


def _may_go(source: Source, reading: Reading, id: str) -> bool:
    """True unless a document's file is there and can't be read."""
    from ..sources.files.file_source import FileSource

    return not isinstance(source, FileSource) or source.may_go(id, reading.prefix or "")


def counts(added: Added, documents: int) -> dict[str, Any]:
    """Count what a sync did; `documents` is the number of documents after it."""
    return {
        "added": added.documents - added.replaced - added.moved,
        "changed": added.replaced,
        "moved": added.moved,
        "deleted": added.deleted - added.moved,
        "unchanged": documents - added.documents,
        "documents": documents,
        "encoded": added.encoded,
        "refitted": added.refitted,
    }
