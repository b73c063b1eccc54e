"""Undoing: the documents, settings and files before the last change, in another commit.

Rows keep their numbers: those that the change added are marked as deleted, and those that it
deleted come back. Undoing is a change itself, so undoing it makes the change again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, repeat

import numpy as np

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import without
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile

from ..index import Index
from ..lexical.word_index import write_extended
from ..store.derived_files import rows_with_text, word_faults
from ..store.index_files import load_index, save_codes
from ..store.manifest import Manifest
from ..store.next_commit import Change
from ..store.state import State
from .fitting import ROLES


@dataclass(frozen=True)
class Undone:
    """Result of undoing."""

    restored: int  # deleted or replaced documents that came back
    removed: int  # documents that are gone again


def undo(index: Index) -> Undone:
    """Return to the documents, settings and files before the last change.

    Raises `InputError` if the last change can't be undone, and `CorruptError` if what it left is
    damaged; then nothing is changed.
    """
    with index.change() as change:
        return _undone(change)


def _undone(change: Change) -> Undone:
    """Commit the state before the last change, in which rows keep their numbers."""
    # Delete the rows that the last change added; those deleted before it stay deleted.
    head = change.base.manifest
    before = _before(change)
    added = np.arange(before.state.rows, head.state.rows)
    deleted = np.union1d(before.deleted, added)
    restored = without(head.deleted, deleted)
    removed = without(deleted, head.deleted)

    # Restore words, fit and codes.
    state = _words_as(change, change.next_state(), before)
    state = _restore_fit(change, state, before.state)
    state = replace(
        state,
        epoch=state.epoch + 1,
        hybrid=before.state.hybrid,
        requested=before.state.requested,
        building=False,
    )

    # Files of these rows have not changed, but a sync must read them again.
    change.origins |= change.base.store.without_stamps(np.union1d(restored, removed))
    change.commit(state, delete=removed, restore=restored)
    rows = head.document_rows
    return Undone(rows.number(restored), rows.number(removed))


def _before(change: Change) -> Manifest:
    """The manifest before the last change.

    Raises `InputError` if the last change can't be undone, and `CorruptError` if the file of this
    manifest is missing, damaged or of another index.
    """
    new = change.base.state
    path = change.path
    record = new.files.get("before")
    if record is None:
        raise InputError(
            f"{path}: nothing to undo; expected a change of documents, settings or words "
            "since the index was made, compacted, migrated or repaired"
        )
    try:
        before = Manifest.read(path, record.name)
    except (OSError, CorruptError) as error:
        raise CorruptError(f"{path / record.name}: missing or damaged; can't undo") from error
    old = before.state
    if (old.vectors, old.dim) != (new.vectors, new.dim) or old.rows > new.rows:
        raise CorruptError(f"{path / record.name}: of another index; can't undo")
    return before


def _words_as(change: Change, state: State, manifest: Manifest) -> State:
    """The state with the lexical index of an earlier manifest, blank for rows that came later.

    Before the first documents it was empty: then the present one stays.
    """
    before = manifest.state
    if not before.rows:
        return state
    if before.words in (None, state.words):
        return replace(state, words=before.words)
    path = change.path / str(before.words)
    start = before.lexical_rows
    faults = word_faults(path, start)
    if faults:
        raise CorruptError(f"{faults[0]}; can't undo")

    # Add the rows that it lacked at that time, then blank ones.
    name = before.words
    if state.rows > start:
        name = state.new_name("words")
        late = rows_with_text(change.base.store, start, before.rows, manifest.deleted)
        blank = repeat(("", ""), state.rows - before.rows)
        write_extended(path, start, change.path / name, chain(late, blank))
    return replace(state, words=name, words_rows=None)


def _restore_fit(change: Change, state: State, before: State) -> State:
    """The state with fit and codes of an earlier one.

    Before the first documents there was no fit: then the present one stays.
    """
    state = replace(state, certificate=before.certificate)
    if before.settings is None or _fit(state) == _fit(before):
        return state

    # There has been another fit since: restore the settings and files of the earlier one.
    files = {role: file for role, file in state.files.items() if role not in ROLES}
    files |= {role: before.files[role] for role in ROLES if role in before.files}
    state = replace(state, settings=before.settings, fit=before.fit, norms=None, files=files)

    # Its codes lack the rows that came later; the norms are made again.
    files = {role: file for role, file in before.files.items() if role != "before"}
    index = load_index(change.path, replace(before, files=files))
    saved_rows = len(index.index)
    if index.metric is not None:
        norms = state.new_name("norms")
        state = replace(state, norms=norms)
        new_file = VectorFile(change.path / norms, 1, format=FLOAT32)
        index.metric = replace(index.metric, norms=new_file)
    index = index.with_rows_of(state.vector_file(change.path))
    return save_codes(change.path, state, index, saved_rows)[0]


def _fit(state: State) -> tuple[object, ...]:
    """Return the settings and files that identify a fit.

    The codes do not: they grow with later rows.
    """
    return state.settings, state.norms, *map(state.files.get, ROLES[:2])
