"""Changes of an index: each ends in one commit, and then searches get its snapshot.

Searches of an older snapshot are not disturbed: its arrays in memory never change, and its files
stay readable when they are removed from the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slimdex.indexes.arrays import Rows, batches
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.settings import Settings

from ..index import Index
from ..sources.given_vectors import DocumentVectors
from ..store.derived_files import (
    with_blocks,
    with_columns_again,
    with_new_words,
    with_words,
)
from ..store.ids import IDS
from ..store.index_files import encode_rows, save_codes, with_moments
from ..store.log import Log
from ..store.next_commit import Change, Undo
from ..store.snapshot import Snapshot
from ..store.state import Certificate, State, center_text
from ..store.verification import file_faults
from .addition_report import AdditionReport
from .fitting import FIT, ROLES, finish_fit
from .preparing import PreparedBatch

APPENDED_AT_ONCE = 1024
"""Vectors appended at a time."""


def delete(index: Index, ids: Sequence[str] | None, where: str | None) -> int:
    """Delete documents by id, or if `ids` is None, those that match `where`; return how many.

    Raises `InputError` if an id is unknown, or the condition is invalid.
    """
    with index.change() as change:
        if ids is not None:
            documents = np.unique(change.base.store.rows_of(ids))
        else:
            documents = change.base.rows_where(where or "")
        commit_deletion(change, documents)
        return len(documents)


def commit_deletion(change: Change, documents: Rows) -> None:
    """Delete documents, given by their first rows, and commit."""
    if len(documents):
        change.commit(delete=change.document_rows.all_rows(documents))


def add_prepared(
    change: Change, prepared: PreparedBatch, gone: Rows, undo: Undo = "alone"
) -> AdditionReport:
    """Commit new documents, if any; delete those that are gone, and older ones of the same ids.

    Parameters
    ----------
    gone : first rows of documents to delete.
    undo : see `Change.commit`.
    """
    # Rows of the documents that are replaced or gone.
    before = change.base
    old = before.state
    new = prepared.new
    change.new = new
    documents = np.union1d(prepared.replaced, gone)
    replaced = change.document_rows.all_rows(documents)
    state = replace(change.state, rows=old.rows + new.row_count)

    # Words: use those that were indexed beforehand, if nobody has committed since.
    is_same = before.manifest == prepared.snapshot.manifest
    state = with_words(change, state, prepared.words if is_same else None)

    # The log, and the vectors, unless others wait for theirs.
    state = with_blocks(Log(change.path, old.log, old.rows), state, new.blocks)
    if not prepared.has_given_vectors:
        textless = [row for row, text in enumerate(new.texts, old.rows) if not text]
        change.new_textless = np.array(textless, dtype=np.int64)
    encoded = AdditionReport()
    reduced = None
    if prepared.vectors is not None and not old.waits:
        encoded = prepared.encoded
        state, reduced = _with_vectors(before, state, prepared.vectors)
    change.commit(state, delete=replaced, undo=undo, index=reduced)
    passages = new.counts[new.counts > 1]
    return encoded + AdditionReport(
        documents=len(new),
        replaced=len(prepared.replaced),
        unchanged=len(prepared.unchanged),
        deleted=len(gone),
        cut=len(passages),
        passages=int(passages.sum()),
        empty=len(change.new_textless),
    )


def commit_vectors(change: Change, vectors: DocumentVectors) -> None:
    """Commit the vectors of the next rows that wait."""
    state, index = _with_vectors(change.base, change.state, vectors)
    change.commit(state, undo="with the last", index=index)


def commit_replacement(change: Change, vectors: DocumentVectors) -> None:
    """Commit the vectors of the next rows by the encoder that will replace the index's own."""
    replacement = change.state.replacement
    replaced = change.state.replaced()
    assert replacement is not None
    assert replaced is not None
    new = _append(change.path, replaced, vectors)
    replacement = replace(replacement, rows=new.encoded, center=new.center)
    change.commit(replace(change.state, replacement=replacement))


def _with_vectors(
    before: Snapshot, state: State, vectors: DocumentVectors
) -> tuple[State, ReducedIndex | None]:
    """Append the vectors of the next rows without one, and their codes if there is a fit.

    Returns the next state, and the index in memory.
    """
    state = _append(before.path, state, vectors)
    if state.fit is None:
        return state, None
    index = before.index
    if len(index.index) > before.state.encoded:  # by an addition that failed later
        index = before.load()
    index = index.with_rows_of(state.vector_file(before.path))
    return save_codes(before.path, state, index), index


def _append(folder: Path, state: State, vectors: DocumentVectors) -> State:
    """Append the vectors of the next rows to their file."""
    # The first ones set the center that is subtracted from vectors of int8 or int4.
    if not (state.encoded and state.center):
        first_vectors = vectors.rows(0, min(len(vectors), APPENDED_AT_ONCE))
        state = replace(state, center=center_text(state.vectors, first_vectors))
    file = state.vector_file(folder)
    for part in batches(len(vectors), APPENDED_AT_ONCE):
        file.append(vectors.rows(part.start, part.stop))
    return replace(state, encoded=len(file))


def keep_certificate(index: Index, certificate: Certificate, settings: Settings) -> None:
    """Keep a proof about these settings, if they are still those of the fit."""
    with index.change() as change:
        if change.state.settings == settings:
            change.commit(replace(change.state, certificate=certificate))


def index_lexical(index: Index, wanted: bool) -> None:
    """Index the words of all documents if `wanted`; otherwise drop their index.

    That also drops the fusion that labels chose for `hybrid="auto"`. Nothing changes if the index
    is already as wanted.
    """
    with index.change() as change:
        state = change.state
        if wanted == (state.words is not None):
            return
        state = replace(state, words=None, words_rows=None, hybrid=None)
        if wanted:
            state = with_new_words(change.base, state, change.path)
        change.commit(state)


def keep_fusion(index: Index, hybrid: str | None) -> None:
    """Set how `auto` fuses vectors and words."""
    with index.change() as change:
        change.commit(replace(change.state, hybrid=hybrid))


def rebuild(index: Index, fit_again: bool = False) -> None:
    """Rebuild the derived files; fit reducer and metric only if damaged, or if `fit_again`.

    In the same cases, the file of changed origins is dropped, so the next sync reads all files.

    This can't be undone, and neither can the change before it, whose files may be damaged.
    """
    with index.change() as change:
        # Columns and the lexical index; the commit writes ids again.
        base = change.base
        path = change.path
        state = change.state
        every_file = [*state.files.values(), *state.column_files]
        damaged = every_file if fit_again else file_faults(path, every_file)
        damaged_roles = {role for role, file in state.files.items() if file in damaged}
        dropped = {IDS} | damaged_roles & {"origins"}
        if not damaged_roles.isdisjoint(FIT) or state.fit is None or not state.encoded:
            dropped.update(ROLES)
            state = replace(state, fit=None, norms=None, certificate=None)
            state = replace(state, moments_rows=0, moments_deletions=0, code_rows=0)
        files = {role: file for role, file in state.files.items() if role not in dropped}
        state = replace(state, files=files, id_rows=0)
        state = with_columns_again(base.store, state, damaged)
        if state.words is not None:
            state = with_new_words(base, state, path)

        # Moments and codes of the fit that stays.
        reduced = None
        if state.fit is not None:
            moments = base.moments_of(base.searchable_rows())
            state = with_moments(path, state, moments)
            vectors = state.vector_file(path)
            reduced, state = encode_rows(path, state, vectors, change.workers)
        change.commit(state, undo="never", index=reduced)
    finish_fit(index)
