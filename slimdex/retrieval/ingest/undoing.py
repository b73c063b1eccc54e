"""Undoing: the documents, settings and files before the last change, in another commit.

Rows keep their numbers: those that the change added are marked as deleted, and those that it
deleted come back. Undoing is a change itself, so undoing it makes the change again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, repeat

import numpy as np

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import without
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.vectors.vector_file import VectorFile

from ..index import Index
from ..lexical.word_index import write_extended
from ..store.derived_files import rows_with_text, word_faults
from ..store.index_files import load_index, save_codes, with_moments
from ..store.manifest import Manifest
from ..store.next_commit import AppendedFile, Change
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

    # Restore words, moments, fit and codes.
    state = _words_as(change, change.next_state(), before)
    state, grown = _restore_fit(change, state, before.state)
    state = replace(
        state,
        epoch=state.epoch + 1,
        hybrid=before.state.hybrid,
        requested=before.state.requested,
        building=False,
    )

    # Files of these rows have not changed, but a sync must read them again.
    change.origins |= change.base.store.without_stamps(np.union1d(restored, removed))
    change.commit(state, delete=removed, restore=restored, grown=grown)
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


def _restore_fit(change: Change, state: State, before: State) -> tuple[State, list[AppendedFile]]:
    """The state with moments, fit and codes of an earlier one, and the files that have grown.

    Before the first documents there was no fit: then the present one stays.
    """
    # The moments.
    if before.settings is None:
        state = with_moments(change.path, replace(state, encoded=0), Moments(state.dim))
        return replace(state, encoded=change.base.state.encoded, certificate=None), []
    moments = before.files["moments"]
    moments.check(change.path)
    state = replace(
        state,
        files=state.files | {"moments": moments},
        moments_rows=before.moment_rows,
        moments_deleted=before.moments_deleted,
        certificate=before.certificate,
    )
    if _fit(state) == _fit(before):
        return state, []

    # There has been another fit since: restore the settings and files of the earlier one.
    files = dict(state.files)
    for role in ROLES:
        files.pop(role, None)
        if role in before.files:
            files[role] = before.files[role]
    state = replace(
        state, settings=before.settings, fit=before.fit, norms=before.norms, files=files
    )
    return _add_later_rows(change, state, before)


def _fit(state: State) -> tuple[object, ...]:
    """Return the settings and files that identify a fit.

    The codes do not: they grow with later rows.
    """
    return state.settings, state.norms, *map(state.files.get, ROLES[:2])


def _add_later_rows(
    change: Change, state: State, before: State
) -> tuple[State, list[AppendedFile]]:
    """Add the codes and norms of the rows that came later to those of an earlier state."""
    # Load the index as it was, without the manifest that it could be undone to.
    files = {role: file for role, file in before.files.items() if role != "before"}
    rows = _norm_rows(change, state, before)
    index = load_index(change.path, replace(before, files=files, rows=state.rows, encoded=rows))
    saved_rows = len(index.index)

    # Code the rows since then, which appends their norms.
    grown = list[AppendedFile]()
    norms_before = 0
    if index.metric is not None:
        norms_before = index.metric.norms.nbytes
    index = index.with_rows_of(state.vector_file(change.path))
    if index.metric is not None:
        grown.append(AppendedFile(index.metric.norms, norms_before))
    return save_codes(change.path, state, index, saved_rows)[0], grown


def _norm_rows(change: Change, state: State, before: State) -> int:
    """Number of rows that the norm file of an earlier state has by now.

    It may exceed that state's, since batches may have appended rows before another fit. Raises
    `CorruptError` if the norms are damaged.
    """
    norms = before.norm_file(change.path)
    if norms is None:
        return before.encoded

    # All rows in the file, if they agree with the checksums; otherwise those of the earlier state.
    with suppress(CorruptError, OSError):
        rows = norms.path.stat().st_size // norms.row_bytes
        change.base.manifest.check(VectorFile(norms.path, 1, rows, norms.format))
        return min(rows, state.encoded)
    change.base.manifest.check(norms)
    return before.encoded
