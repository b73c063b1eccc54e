"""Adding and syncing: documents are prepared and committed, then encoded."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slimdex.errors import InputError, SlimdexError
from slimdex.indexes.arrays import Rows
from slimdex.system.progress import note, progress

from ..index import Index
from ..sources.given_vectors import check_vectors
from ..store.next_commit import Change, Undo
from ..store.snapshot import Snapshot
from ..store.state import Before
from . import writer
from .addition import Addition
from .addition_report import AdditionReport
from .encode import encode_until, encode_waiting
from .preparing import PreparedBatch, prepare

if TYPE_CHECKING:
    from ..sources.source import Sources
    from .source_ids import SourceIds

MOST_ENCODED_FIRST = 1 << 14
"""Most characters of documents that are encoded before they are committed, in about a second."""


def add_sources(
    index: Index,
    sources: Sources,
    *,
    has_ids: bool = False,
    deletes_missing: bool = False,
    encode: bool = True,
) -> AdditionReport:
    """Add the documents of sources; it starts over if others add sources meanwhile.

    Without `has_ids`, the ids that documents lack are chosen. With `deletes_missing`, documents
    whose files are gone are deleted, and known files are not read; what became part of a folder
    always leaves its earlier ids. `encode`: see `add`.
    """
    # Loads readers of files, without which given documents are added.
    from .source_ids import ChangedOriginsError, SourceIds

    def chosen(snapshot: Snapshot) -> SourceIds:
        return SourceIds.of(sources, snapshot, deletes_missing=deletes_missing)

    while True:
        ids = SourceIds(sources) if has_ids else index.read(chosen)
        documents = sources.documents(ids.readings)
        addition = Addition(documents, sources.vectors, ids, missing=ids.gone_rows)
        try:
            added = add(index, addition, encode=encode)
        except ChangedOriginsError:
            note("others have added sources meanwhile; the addition starts over")
            continue
        notes = [*ids.notes, *added.notes, *sources.omissions()]
        return replace(added, notes=notes, file_notes=sources.file_notes())


def sync(index: Index, sources: Sources, *, encode: bool = True) -> AdditionReport:
    """Add what is new, replace what has changed, delete what is gone; other documents stay.

    Files with unchanged path, size and times are not read. A text that the index already has, in a
    document that is replaced or deleted, is not encoded again. Documents of a file that exists but
    can't be read stay. `encode`: see `add`.

    Raises `InputError` if a source is standard input, which can't be read again, or the index was
    built from given vectors; or as `Collection.add` does. Then nothing is changed.
    """
    if any(source.place.startswith("stdin ") for source in sources.opened):
        raise InputError("-: standard input; expected files, folders or packages")
    return add_sources(index, sources, deletes_missing=True, encode=encode)


def add(index: Index, addition: Addition, *, encode: bool = True) -> AdditionReport:
    """Enter documents in batches, each of which is committed; then encode them, if `encode`.

    What is entered stays, is found by its words, and gets its vectors by any later call, even if
    bad input or an interrupt ends this one. Adding the same documents again goes on from there.
    """
    vectors = addition.vectors
    if vectors is None and not index.has_encoder:
        raise InputError(f"{index.path}: built from given vectors; expected vectors for these")
    index.check_writable()
    if vectors is not None:
        dim = index.state.dim
        if vectors.dim != dim:
            raise InputError(f"{vectors.name}: {vectors.dim} dimensions; expected {dim}")
        check_vectors(vectors)
        encode_waiting(index)  # vectors are in the order of the rows

    # Enter each batch; if one fails, the others stay.
    added = AdditionReport()
    before: Before | None = None  # what undoing the first batch restores
    try:
        for batch in addition.batches():
            report, before = _add_batch(index, batch, before, encodes=encode)
            added += report
            if vectors is not None:
                progress("taking vectors", added.documents + added.unchanged, len(vectors))
    except SlimdexError as error:
        if entered := added.documents + added.unchanged:
            error.add_note(f"{entered:,} documents are in: run it again to continue")
        raise

    # Encode what waits.
    if encode or vectors is not None:
        added += encode_waiting(index)

    # Notes for the user about all batches.
    text_notes = added.text_notes() if vectors is None else []
    return replace(added, notes=[*added.notes, *text_notes])


def _add_batch(
    index: Index, batch: Addition, before: Before | None, *, encodes: bool
) -> tuple[AdditionReport, Before | None]:
    """Prepare the documents of a batch without the writer lock, then commit them under it.

    If they are the last and few, they are encoded first, if `encodes`: one commit has both. All
    batches are undone together, unless others have changed the index in between, so that undoing
    does not restore `before`.

    Returns counts of documents, and what undoing restores now.
    """
    characters = sum(len(each.title) + len(each.text) for each in batch.documents)
    encodes_now = encodes and batch.is_last and characters <= MOST_ENCODED_FIRST
    with ExitStack() as stack:
        prepared = prepare(index, batch, stack, encodes=encodes_now)

        # Under the lock. If others have changed the same documents, the columns or the encoder
        # meanwhile, prepare again. Vectors too: documents that are replaced must stay findable.
        stack.enter_context(index.turn())
        if batch.vectors is not None and index.state.waits:
            encode_until(index, index.state.rows)  # what others have entered meanwhile
        if not prepared.holds_for(index.snapshot):
            prepared = prepare(index, batch, stack, encodes=encodes_now)
        with index.change() as change:
            is_ours = before is not None and before == change.base.state.before
            undo: Undo = "with the last" if is_ours else "alone"

            # Documents that are gone or have a new id. Look them up again if others have committed.
            gone = prepared.gone
            if prepared.snapshot.manifest != change.base.manifest:
                gone = batch.gone(change.base.store)
            added = _commit_prepared(change, batch, prepared, gone, undo)
            if change.state.before != change.base.state.before:
                before = change.state.before
        return added, before


def _commit_prepared(
    change: Change, addition: Addition, prepared: PreparedBatch, gone: Rows, undo: Undo
) -> AdditionReport:
    """Commit prepared documents, and delete those that are gone."""
    # Record new origins of folders and files, whose places may have changed.
    store = change.base.store
    change.columns = prepared.columns
    if addition.ids is not None:
        origins = addition.ids.origins_after(change.state.origins)
        change.state = replace(change.state, origins=origins)
        for before, now in addition.ids.moved.items():
            for row, *_ in store.of_place(before, deleted=True):
                change.origins[row] = f"{now}/"

    # Give unchanged documents the origins that they have in this addition.
    with_origin = [document for document in prepared.unchanged if document.origin]
    new_origins = {prepared.rows[document.id]: document.origin for document in with_origin}
    if new_origins:
        known = {**store.origins_of([*new_origins]), **change.origins}
        change.origins |= {row: now for row, now in new_origins.items() if known[row] != now}

    # Commit only what differs.
    if len(prepared.new) or len(gone) or change.is_needed:
        return writer.add_prepared(change, prepared, gone, undo)
    return AdditionReport(unchanged=len(prepared.unchanged))


def counts(added: AdditionReport, documents: int) -> dict[str, Any]:
    """Count what a sync did; `documents` is the number of documents after it."""
    return {
        "added": added.documents - added.replaced,
        "changed": added.replaced,
        "deleted": added.deleted,
        "unchanged": documents - added.documents,
        "documents": documents,
        "encoded": added.encoded,
        "refitted": added.refitted,
    }
