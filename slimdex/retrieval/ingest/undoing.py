"""Undoing: the documents, settings and words before the last change, in another commit.

Rows keep their numbers: those that the change added are marked as deleted, and those that it
deleted come back. Undoing is a change itself, so undoing it makes the change again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slimdex.errors import InputError, SlimdexError
from slimdex.indexes.arrays import union, without
from slimdex.system.progress import note

from ..index import Index
from ..store.derived_files import with_new_words
from ..store.next_commit import Change
from ..store.row_flags import changed_since
from .fitting import finish_fit, try_fit
from .writer import keep_fusion


@dataclass(frozen=True)
class Undone:
    """Result of undoing."""

    restored: int  # deleted or replaced documents that came back
    removed: int  # documents that are gone again


def undo(index: Index) -> Undone:
    """Return to the documents, settings and words before the last change.

    Reducer and codes are fitted again if they were since. Raises `InputError` if the last change
    can't be undone.
    """
    with index.change() as change:
        undone = _undo_documents(change)
    if undone is not None:
        # The documents are as before, even if the fit fails; the next addition repeats it.
        try:
            finish_fit(index)
        except (SlimdexError, OSError) as error:
            note(f"undone, but not fitted again: {error}; `slimdex encode {index.path}` goes on")
        return undone

    # Only the fit has changed: another one undoes it, in one commit.
    before = change.base.state.before
    assert before is not None
    if try_fit(index, before.requested) is None:
        return undo(index)  # others have changed the index meanwhile
    if index.state.hybrid != before.hybrid:
        keep_fusion(index, before.hybrid)
    return Undone(restored=0, removed=0)


def _undo_documents(change: Change) -> Undone | None:
    """Commit the documents and words before the last change.

    Returns None, and commits nothing, if only the fit has changed since.
    """
    base = change.base
    state = change.state
    before = state.before
    if before is None:
        raise InputError(
            f"{change.path}: nothing to undo; expected a change of documents, settings or words "
            "since the index was made, compacted, migrated or repaired"
        )

    # Delete the rows that the last change added or restored, and restore those that it deleted.
    deleted, came_back = changed_since(change.path, state, before.deletions)
    added = without(np.arange(before.rows, state.rows), base.deleted)
    removed = union(added, came_back)
    restored = deleted[deleted < before.rows]
    moved = union(restored, removed)

    # Before the first documents there were no words and no fit: then the present ones stay.
    is_refitted = state.fit is not None and before.reducer not in (None, state.reducer)
    has_other_settings = before.requested != state.requested
    if is_refitted and has_other_settings and not (len(moved) or state.waits):
        return None
    if state.fit is not None and is_refitted and (len(moved) or has_other_settings):
        state = replace(state, fit=replace(state.fit, is_provisional=True))
    if not before.lexical:
        state = replace(state, words=None, words_rows=None)
    elif state.words is None:
        state = with_new_words(base, state, change.path)
    state = replace(
        state,
        epoch=state.epoch + 1,
        requested=before.requested,
        hybrid=before.hybrid,
        building=False,
    )

    # Files of these rows have not changed, but a sync must read them again.
    change.origins |= base.store.without_stamps(moved)
    change.commit(state, delete=removed, restore=restored)
    rows = base.document_rows
    return Undone(len(rows.first_rows(restored)), len(rows.first_rows(removed)))
