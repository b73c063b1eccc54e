"""Adding and syncing: documents are prepared, then committed under the writer lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from hashlib import md5
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from slimdex.errors import InputError, SlimdexError
from slimdex.indexes.arrays import Rows
from slimdex.system.progress import note, progress_within

from ..index import Index
from ..sources.given_vectors import DocumentVectors, as_vectors
from ..sources.reading_progress import CountedDocuments
from ..sources.tabular.records import as_documents
from ..store.column_facts import widening_notes
from ..store.document_store import DocumentStore
from ..store.manifest import Undo
from ..store.next_commit import Change
from ..store.snapshot import Snapshot
from ..store.state import State
from ..store.work_folder import work_folder
from . import writer
from .addition import (
    Addition,
    ChangedOriginsError,
    Missing,
    NoDocumentsError,
    check_document_vectors,
)
from .addition_report import AdditionReport, Texts
from .batches import Batch, Batches
from .encoding import ENCODING, EncodingError
from .long_addition import LongAddition
from .preparing import Comparison, PreparedBatch, is_small, prepare
from .text_vectors import StoredTexts

if TYPE_CHECKING:
    from ..sources.files.input_files import Reading
    from ..sources.source import Source, Sources
    from .source_ids import SourceIds

    ChooseIds = Callable[[Sequence[Source], State, DocumentStore], SourceIds]
    """Choose the ids that documents lack: see `SourceIds.of`."""


def add_documents(
    index: Index, documents: Any, vectors: DocumentVectors | ArrayLike | None = None
) -> AdditionReport:
    """Add documents in any form that `Collection.add` takes; the caller reports the notes."""
    read = as_documents(documents)
    new = [index.snapshot.store.new_columns(types) for types in read.columns]
    document_vectors = None if vectors is None else as_vectors(vectors)
    counted = CountedDocuments(read.documents, documents)
    return add(index, Addition(counted, new, document_vectors, read_share=counted.read_share))


def add_sources(
    index: Index,
    sources: Sources,
    choose_ids: ChooseIds | None = None,
    *,
    deletes_missing: bool = False,
    withdraws: bool = True,
) -> AdditionReport:
    """Add the documents of sources; it starts over if others choose the same ids meanwhile.

    `choose_ids` chooses the ids that documents lack, by default `SourceIds.of`. Documents whose
    files are gone are deleted if `deletes_missing`; what became part of a folder always leaves its
    earlier ids. `withdraws`: whether bad input undoes the batches before it.
    """
    # Loads readers of files, without which given documents are added.
    from .source_ids import SourceIds

    while True:
        ids, columns = index.read(_ids_and_columns, sources, choose_ids or SourceIds.of)
        missing = partial(_gone_rows, sources, ids, only_parts=not deletes_missing)
        addition = Addition(
            documents=sources.documents(ids.readings),
            columns=columns,
            vectors=sources.vectors,
            known_origins=ids.known_origins,
            origins=ids.origins,
            moved=ids.moved,
            missing=missing if deletes_missing or ids.parts else None,
            read_share=sources.read_share,
            withdraws=withdraws,
            leave_out=sources.leave_out,
        )
        try:
            added = add(index, addition)
        except NoDocumentsError as error:
            why = ", ".join(sources.omissions() or [source.name for source in sources.opened])
            raise InputError(f"no documents ({why}); expected at least one") from error
        except ChangedOriginsError:
            note("others have added files of the same names meanwhile; the addition starts over")
            continue
        notes = [*ids.notes, *added.notes, *sources.omissions()]
        return replace(added, notes=notes, file_notes=sources.file_notes())


def _ids_and_columns(
    snapshot: Snapshot, sources: Sources, choose_ids: ChooseIds
) -> tuple[SourceIds, list[Mapping[str, str]]]:
    """The ids of sources' documents, and the types of the columns that sources state."""
    store = snapshot.store
    return choose_ids(sources.opened, snapshot.state, store), sources.columns(store)


def sync(index: Index, sources: Sources) -> AdditionReport:
    """Add what is new, replace what has changed, delete what is gone; other documents stay.

    Files with unchanged path, size and times are not read. A text that the index already has, in a
    document that is replaced or deleted, is not encoded again. Documents of a file that exists but
    can't be read stay.

    Raises `InputError` if a source is standard input, which can't be read again, or the index was
    built from given vectors; or as `Collection.add` does. Then nothing is changed.
    """
    # As in `add_sources`.
    from ..sources.files.input_files import STANDARD_INPUT
    from .source_ids import SourceIds

    if any(source.place.startswith("stdin ") for source in sources.opened):
        raise InputError(f"{STANDARD_INPUT}: standard input; expected files, folders or packages")
    if not index.has_encoder:
        raise InputError(f"{index.path}: built from given vectors; expected an encoder's")

    def ids_with_known(opened: Sequence[Source], state: State, store: DocumentStore) -> SourceIds:
        ids = SourceIds.of(opened, state, store)
        known = [replace(each, known=store.origins_of_place(each.place)) for each in ids.readings]
        return replace(ids, readings=known)

    return add_sources(index, sources, ids_with_known, deletes_missing=True)


def add(index: Index, addition: Addition) -> AdditionReport:
    """Add documents in batches: each is prepared, placed and committed.

    Bad input undoes all batches. An interrupt loses only the current one: adding the same documents
    again continues from there.
    """
    if addition.vectors is None and not index.has_encoder:
        raise InputError(f"{index.path}: built from given vectors; expected vectors for these")
    index.check_writable()  # before texts are encoded, which takes long
    if addition.vectors is not None:
        check_document_vectors(addition.vectors, index.state.dim)
    writer.drop_deleted_words(index)

    # Add each batch; if one fails, the others stay or are undone.
    columns_before = index.snapshot.columns
    added = AdditionReport()
    texts = Texts()
    batches = Batches(index, addition.documents, addition.vectors)
    with LongAddition(index) as long:
        try:
            for batch in batches:
                addition = _with_moved(index, addition, batch)
                of_batch = _of(addition, batch, batches)
                added_by_batch, texts_of_batch = _add_batch(index, of_batch, batch, batches, long)
                added += added_by_batch
                texts += texts_of_batch
            fit_notes = long.finish()
        except SlimdexError as error:
            is_bad_input = isinstance(error, InputError) and not isinstance(error, EncodingError)
            long.stop(error, withdraws=is_bad_input and addition.withdraws)
            raise

    # Notes for the user about all batches.
    if fit_notes is not None:  # those of the first batch's fit do not hold any more
        added = replace(added, notes=fit_notes)
    text_notes = texts.notes() if addition.vectors is None else []
    column_notes = widening_notes(columns_before, index.snapshot.columns)
    return replace(added, notes=[*column_notes, *added.notes, *text_notes])


def _add_batch(
    index: Index, addition: Addition, batch: Batch, batches: Batches, long: LongAddition
) -> tuple[AdditionReport, Texts]:
    """Prepare the documents of a batch without the writer lock, then commit them under it.

    `addition` holds the documents of this batch only. Returns counts of these and of their texts.
    """
    share = 0.0 if batch.is_only else addition.read_share()
    needs_folder = not is_small(len(batch.documents), batch.to_encode)
    with _counting(batch, share, batches), ExitStack() as stack:
        folder = stack.enter_context(work_folder(index.path)) if needs_folder else None
        prepared = prepare(index, addition, folder=folder)

        # Under the lock. If others have changed the same documents, the columns or the encoder
        # meanwhile, prepare again, reusing the known vectors.
        stack.enter_context(index.turn())
        if not prepared.comparison.holds_for(index.snapshot):
            prepared = prepare(index, addition, before=prepared)
        with index.change() as change:
            undo = long.begin(change, batch, batches.estimate_count(share))
            is_part = not batch.is_only
            added, texts = _commit_prepared(change, addition, prepared, undo, is_part=is_part)
        batches.took(prepared.characters, prepared.seconds)
    long.note_commit(change, batch)
    return added, texts


def _commit_prepared(
    change: Change, addition: Addition, prepared: PreparedBatch, undo: Undo, *, is_part: bool
) -> tuple[AdditionReport, Texts]:
    """Commit prepared documents, and delete those that are missing.

    `is_part` says whether the addition has other batches. Returns counts of documents and texts.
    """
    # Record new origins of folders and files, whose places may have changed.
    store = change.base.store
    comparison = prepared.comparison
    change.columns = comparison.columns
    change.state = replace(change.state, origins=addition.origins_after(change.state.origins))
    for before, now in addition.moved.items():
        change.origins |= dict.fromkeys(store.rows_of_place(before), f"{now}/")
    _adopt_origins(change, comparison)

    # Documents that are gone or have a new id. Look them up again if others have committed.
    gone = comparison.gone
    if addition.missing is not None and comparison.snapshot.manifest != change.base.manifest:
        gone = addition.missing(store)
    moved = _count_moved(store, comparison, gone, addition.first_row)

    # Commit only what differs.
    if len(prepared.new):
        added, texts = writer.add_prepared(change, prepared, gone, undo, is_part=is_part)
        return replace(added, moved=moved), texts
    if len(gone):
        writer.commit_deletion(change, gone, undo)
    elif change.is_needed:
        change.commit(undo=undo)
    unchanged = len(comparison.unchanged)
    return AdditionReport(deleted=len(gone), unchanged=unchanged, moved=moved), Texts()


def _adopt_origins(change: Change, comparison: Comparison) -> None:
    """Give unchanged documents the origins that they have in this addition."""
    origins = {}
    for document in comparison.unchanged:
        if document.origin:
            origins[comparison.rows[document.id]] = document.origin
    if origins:
        known = {**change.base.store.origins_of([*origins]), **change.origins}
        change.origins |= {row: now for row, now in origins.items() if known[row] != now}


def _count_moved(
    store: DocumentStore, comparison: Comparison, gone: Rows, first_row: int | None
) -> int:
    """Number of the documents to delete whose content this addition has under another id.

    `first_row` is that of its first batch.
    """
    if not len(gone):
        return 0

    # Digests of what this addition added under new ids, in earlier batches and in this one.
    start = store.rows if first_row is None else first_row
    digests = store.content_digests(store.rows_of_new_ids(start)) if start < store.rows else []
    for document in comparison.new:
        old_row = comparison.rows.get(document.id, -1)  # -1 for a new id
        is_replacement = 0 <= old_row < start
        if not is_replacement:
            content = f"{document.title}\n{document.text}".encode()
            digests.append(md5(content, usedforsecurity=False).hexdigest())

    # Repeated content is counted as often as both sides have it.
    old = Counter(store.content_digests(gone))
    return (old & Counter(digests)).total()


def _of(addition: Addition, batch: Batch, batches: Batches) -> Addition:
    """Restrict an addition to one of its batches.

    Only the last batch can determine missing documents, and only the first one has moves.
    """
    missing = addition.missing if batch.is_last else None
    if missing is not None:
        missing = partial(batches.missing_in_all, missing)
    return replace(
        addition,
        documents=batch.documents,
        vectors=batch.vectors,
        missing=missing,
        moved={} if batch.first else addition.moved,
    )


def _with_moved(index: Index, addition: Addition, batch: Batch) -> Addition:
    """Return the addition with the stored texts of documents that have not been read so far.

    Such documents may turn out to have moved, so that their texts need not be encoded again.
    """
    if addition.missing is None or batch.is_only:
        return addition
    known = addition.stored_texts
    if known is not None and known.epoch == index.state.epoch:
        return addition

    # Look up the texts before the first batch, and again if others have renumbered the rows since.
    # In that case, the rows that this addition has added are no longer known.
    texts, rows = index.read(_texts_of_missing, addition.missing)
    return replace(addition, stored_texts=texts, first_row=None if known is not None else rows)


def _texts_of_missing(snapshot: Snapshot, missing: Missing) -> tuple[StoredTexts, int]:
    """The texts of documents that have not been read so far, and the number of rows."""
    store = snapshot.store
    return StoredTexts.of(store, missing(store)), store.rows


@contextmanager
def _counting(batch: Batch, share: float, batches: Batches) -> Iterator[None]:
    """Report the progress of a batch as progress of the whole addition.

    The numbers are characters, since the lengths of documents differ. `share` is the part of all
    documents that has been read; 0 if unknown.
    """
    if batch.is_only:
        yield
        return
    estimated = batches.characters / share if share else 0
    expected = max(int(estimated), batch.characters, 1)

    def of_all(stage: str, done: int, total: int) -> tuple[int, int] | None:
        """Convert progress within the batch to that of all documents; None for other stages."""
        if stage not in (ENCODING, writer.TAKING):
            return None
        if batch.is_last and done == total:
            return expected, expected

        # `batch.characters` counts everything up to the end of this batch. The total is an
        # estimate, so completion is reported only after the last batch.
        remaining = batch.to_encode * (1 - done / max(total, 1))
        return min(int(batch.characters - remaining), expected - 1), expected

    with progress_within(of_all):
        yield


def _gone_rows(sources: Sources, ids: SourceIds, store: DocumentStore, *, only_parts: bool) -> Rows:
    """Rows of documents whose files are gone, once the sources are read.

    With `only_parts`, only of documents that have other ids now, as parts of a folder.
    """
    # Documents whose origins have changed since are left to the next sync, which reads them.
    readings = ids.readings
    places = [each.place for each in readings if each.known <= store.origins_of_place(each.place)]

    # Documents of a folder that has moved may still have its earlier place.
    places += [before for before, now in ids.moved.items() if now in places]
    missing = store.gone_from(places, [*sources.origins(readings)])

    # A document is gone if one of its sources no longer has it.
    read_sources = [*zip(sources.opened, readings, strict=True)]
    gone = list[int]()
    for row, id, place in missing:
        for source, reading in read_sources:
            new_id = ids.new_id(id, reading.prefix or "")
            is_of_source = ids.moved.get(place, place) == reading.place
            is_requested = new_id is not None or not only_parts
            if is_of_source and is_requested and _may_go(source, reading, new_id or id):
                gone.append(row)
                break
    return np.array(gone, dtype=np.int64)


def _may_go(source: Source, reading: Reading, id: str) -> bool:
    """True unless a document's file exists but can't be read; the document then stays."""
    from ..sources.files.file_source import FileSource  # loaded if the source is one

    return not isinstance(source, FileSource) or source.may_go(id, reading.prefix or "")


def counts(added: AdditionReport, documents: int) -> dict[str, Any]:
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
