"""Undoing: the documents, settings and words before the last change, in another commit.

Rows keep their numbers: those that the change added are marked as deleted, and those that it
deleted come back. Undoing is a change itself, so undoing it makes the change again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from slimdex.errors import InputError, SlimdexError
from slimdex.indexes.arrays import union, without

from ..index import Index
from ..store.derived_files import with_new_words
from ..store.next_commit import Change
from ..store.row_flags import changed_since
from ..store.state import Before
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
        before = change.state.before
        if before is None:
            raise InputError(
                f"{change.path}: nothing to undo; expected a change of documents, settings or "
                "words since the index was made, compacted, migrated or repaired"
            )
        undone = _undo_documents(change, before)
    if undone is not None:
        with suppress(SlimdexError, OSError):  # it is undone; the next addition repeats the fit
            finish_fit(index)
        return undone

    # Only the fit has changed: another one undoes it, in one commit.
    if try_fit(index, before.requested) is None:
        return undo(index)  # others have changed the index meanwhile
    if index.state.hybrid != before.hybrid:
        keep_fusion(index, before.hybrid)
    return Undone(restored=0, removed=0)


def _undo_documents(change: Change, before: Before) -> Undone | None:
    """Commit the documents and words before the last change.

    Returns None, and commits nothing, if only the fit has changed since.
    """
    base = change.base
    state = change.state

    # Delete the rows that the last change added or restored, and restore those that it deleted.
    deleted, came_back = changed_since(change.path, state, before.deletions)
    added = without(np.arange(before.rows, state.rows), base.deleted)
    removed = union(added, came_back)
    restored = deleted[deleted < before.rows]
    moved = union(restored, removed)

    # Before the first documents there were no words and no fit: then the present ones stay.
    is_other = len(moved) > 0 or before.requested != state.requested
    if state.fit is not None and is_other and before.reducer not in (None, state.reducer):
        if not (len(moved) or state.waits):
            return None
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
