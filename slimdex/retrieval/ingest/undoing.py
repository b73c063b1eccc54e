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
from ..store.row_flags import changed_since
from .fitting import finish_fit


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
        base = change.base
        state = change.state
        before = state.before
        if before is None:
            raise InputError(
                f"{change.path}: nothing to undo; expected a change of documents, settings or "
                "words since the index was made, compacted, migrated or repaired"
            )

        # Delete the rows that the last change added or restored; those that it deleted come back.
        deleted, came_back = changed_since(change.path, state, before.deletions)
        added = without(np.arange(before.rows, state.rows), base.deleted)
        removed = union(added, came_back)
        restored = deleted[deleted < before.rows]

        # Before the first documents there were no words and no fit: then the present ones stay.
        state = replace(
            state,
            epoch=state.epoch + 1,
            requested=before.requested,
            hybrid=before.hybrid,
            building=False,
        )
        moved = union(restored, removed)
        is_other = len(moved) > 0 or state.requested != base.state.requested
        if state.fit and is_other and before.reducer not in (None, state.reducer):
            state = replace(state, fit=replace(state.fit, is_provisional=True))
        if not before.lexical:
            state = replace(state, words=None, words_rows=None)
        elif state.words is None:
            state = with_new_words(base, state, change.path)

        # Files of these rows have not changed, but a sync must read them again.
        change.origins |= base.store.without_stamps(moved)
        change.commit(state, delete=removed, restore=restored)

    # It is undone, whatever happens now; a later fit is made by any command that adds.
    try:
        finish_fit(index)
    except (SlimdexError, OSError) as error:
        note(f"undone, but not fitted again: {error}; `slimdex encode {index.path}` goes on")
    rows = base.document_rows
    return Undone(len(rows.first_rows(restored)), len(rows.first_rows(removed)))
