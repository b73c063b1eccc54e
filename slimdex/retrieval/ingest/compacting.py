"""Compacting: copies of an index's files without deleted rows.

They are made without the writer lock, and committed under it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Rows, batches, without

from ..index import Index
from ..store.derived_files import new_columns, with_blocks, with_new_words
from ..store.document_store import READ_AT_ONCE, DocumentStore
from ..store.index_files import NOT_INDEX, with_codes, with_moments
from ..store.log import Log, pack
from ..store.manifest import Manifest
from ..store.next_commit import Change, with_origins
from ..store.passages import DocumentRows
from ..store.row_flags import RowSets, flag_files
from ..store.snapshot import Snapshot
from ..store.state import LogFiles, State


def compact(index: Index) -> int:
    """Replace the files with copies without deleted rows; returns how many documents were deleted.

    The reducer, the metric and the codebooks are kept, and with them each row's code. Others read
    meanwhile, and wait to write.

    Raises `CorruptError` if a block of vectors or norms is damaged: its copy would get a valid
    checksum; and `InputError` while another encoder replaces the vectors.
    """
    with index.change() as change:
        if change.state.replacement is not None and len(change.base):
            raise InputError(
                f"{index.path}: a migration is under way; expected it to be finished or undone"
            )
        count = change.base.deleted_count
        if count:
            change.commit_copies(_copies(change))
        return count


def _copies(change: Change) -> Manifest:
    """Write copies of the live rows, numbered from 0 without gaps; return their manifest."""
    snapshot = change.base
    folder = change.path
    old = snapshot.state
    live = without(np.arange(old.rows), snapshot.deleted)
    state = change.state

    # Vectors. Fewer of the first rows, on which the reducer was fitted, may be left.
    encoded = snapshot.vectors()
    snapshot.manifest.check(encoded)
    coded = live[live < old.encoded]
    vectors = encoded.copy(folder / state.new_name("vectors"), coded)
    fit = old.fit
    if fit is not None:
        fit = replace(fit, rows=int(np.searchsorted(live, fit.rows)))
    state = replace(
        state,
        vectors=vectors.path.name,
        rows=len(live),
        encoded=len(coded),
        fit=fit,
        files={role: file for role, file in old.files.items() if role not in NOT_INDEX},
        column_files=[],
        replacement=None,
        flags=state.new_name("flags"),
        deletions=state.new_name("deletions"),
        deletion_count=0,
        id_rows=0,
    )

    # Documents.
    rows = snapshot.document_rows
    documents = rows.first_rows(live)
    counts = rows.counts_of(documents).tolist()
    log = LogFiles(state.new_name("documents"), state.new_name("offsets"))
    records = zip(_records(snapshot, documents), counts, strict=True)
    state = with_blocks(Log(folder, log, 0), state, pack(records))
    number_of = dict(zip(documents.tolist(), np.searchsorted(live, documents), strict=True))
    every_origin = snapshot.store.origins.items()
    origins = {int(number_of[row]): text for row, text in every_origin if row in number_of}
    state = with_origins(folder, state, origins)

    # Row sets, and the columns.
    is_live = np.isin(rows.firsts, live)
    row_sets = RowSets(
        textless=np.searchsorted(live, without(snapshot.manifest.textless, snapshot.deleted)),
        documents=DocumentRows(np.searchsorted(live, rows.firsts[is_live]), rows.counts[is_live]),
    )
    if state.rows:
        flags, _ = flag_files(folder, replace(state, rows=0))
        flags.append(row_sets.flags(0, state.rows))
        store = DocumentStore(snapshot.store.engine, Manifest(state, snapshot.columns, row_sets))
        columns = new_columns(store, folder / state.new_name("columns"), range(state.rows))
        state = replace(state, column_files=[columns])

    # What is derived from documents and vectors.
    if state.words is not None:
        state = with_new_words(snapshot, state, folder, live=True)
    state = with_moments(folder, state, snapshot.moments())
    if old.settings is not None:
        state = _with_codes(snapshot, state, folder, coded)
    return Manifest(state, snapshot.columns, row_sets)


def _with_codes(snapshot: Snapshot, state: State, folder: Path, coded: Rows) -> State:
    """Write the norms and codes of live rows; return the state that names them."""
    norms = None
    old_index = snapshot.index
    if old_index.metric is not None:
        snapshot.manifest.check(old_index.metric.norms)
        norms = old_index.metric.norms.copy(folder / state.new_name("norms"), coded)
        state = replace(state, norms=norms.path.name)
    index = old_index.without_rows(state.vector_file(folder), norms)
    index.extend()
    return with_codes(folder, state, index)


def _records(snapshot: Snapshot, documents: Rows) -> Iterator[bytes]:
    """Yield the records of documents, given by their first rows."""
    for part in batches(len(documents), READ_AT_ONCE):
        yield from snapshot.store.log.read(documents[part].tolist()).values()
