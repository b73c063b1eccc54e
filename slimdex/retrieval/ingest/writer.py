"""Changes of an index: each ends in one commit, and then searches get its snapshot.

Searches of an older snapshot are not disturbed: its arrays in memory never change, and its files
stay readable when they are removed from the folder.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import NO_ROWS, Rows, batches, without
from slimdex.indexes.codes.kinds import FLAT
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.vector_file import VectorFile

from ..index import Index
from ..sources.given_vectors import DocumentVectors
from ..store.derived_files import (
    with_blocks,
    with_columns_again,
    with_new_words,
    with_words,
)
from ..store.ids import IDS
from ..store.index_files import encode_rows, fit, save_codes, with_moments
from ..store.log import Log
from ..store.manifest import Undo
from ..store.next_commit import Change
from ..store.snapshot import IndexInMemory, Snapshot
from ..store.state import Certificate, State, center_text
from ..store.verification import damaged_columns
from .addition_report import AdditionReport
from .fitting import ROLES
from .preparing import PreparedBatch

MOST_UNCOUNTED = 1024
UNCOUNTED_SHARE = 64
"""An addition writes the moments again if more than `MOST_UNCOUNTED` rows, and one in
`UNCOUNTED_SHARE`, were added or deleted since. Until then, these rows are added and subtracted
whenever the moments are needed."""

FEWEST = 2
"""Fewest vectors of a fit while others follow: some reducers need two."""
APPENDED_AT_ONCE = 1024
"""Vectors appended at a time."""


def commit_deletion(change: Change, documents: Rows, undo: Undo = "alone") -> None:
    """Delete documents, given by their first rows, and commit."""
    if len(documents):
        rows = change.document_rows.all_rows(documents)
        change.commit(change.next_state(), delete=rows, undo=undo)


def delete(index: Index, ids: Sequence[str] | None, where: str | None) -> int:
    """Delete documents by id, or if `ids` is None, those that match `where`; return how many.

    Raises `InputError` if an id is unknown, or the condition is invalid.
    """
    with index.change() as change:
        if ids is not None:
            rows = change.base.store.live_rows(ids)
        else:
            rows = change.base.rows_where(where or "")
        commit_deletion(change, rows)
        return len(rows)


def add_prepared(
    change: Change,
    prepared: PreparedBatch,
    gone: Rows,
    undo: Undo = "alone",
    *,
    is_part: bool = False,
) -> AdditionReport:
    """Commit new documents; delete those that are gone, and older ones of the same ids.

    Parameters
    ----------
    gone : first rows of documents to delete.
    undo : see `Change.commit`.
    is_part : whether other batches follow, and then a fit of all documents.
    """
    # Rows of the documents that are replaced or gone.
    before = change.base
    old = before.state
    new = prepared.new
    change.new = new
    stop = old.rows + new.row_count
    documents = np.union1d(prepared.replaced, gone)
    replaced = change.document_rows.all_rows(documents)
    deletion_count = old.deletion_count + len(replaced)
    state = replace(change.next_state(), rows=stop, deletion_count=deletion_count)
    if not old.waits:
        state = replace(state, encoded_before=old.encoded, deletions_before=old.deletion_count)

    # Words: use those that were indexed beforehand, if nobody has committed since.
    is_same = before.manifest == prepared.snapshot.manifest
    state = with_words(change, state, prepared.words if is_same else None)

    # The log, and the vectors, unless others wait for theirs.
    state = with_blocks(Log(change.path, old.log, old.rows), state, new.blocks)
    if not prepared.has_given_vectors:
        textless = [row for row, text in enumerate(new.texts, old.rows) if not text]
        change.new_textless = np.array(textless, dtype=np.int64)
    encoded = AdditionReport()
    if prepared.vectors is not None and not old.waits:
        encoded = prepared.encoded
        coded = _with_vectors(change, state, prepared.vectors, replaced, is_part=is_part)
    else:
        coded = Coded(state)
    change.commit(coded.state, delete=replaced, undo=undo, loaded=coded.loaded)
    passages = new.counts[new.counts > 1]
    return encoded + AdditionReport(
        documents=len(new),
        replaced=len(prepared.replaced),
        unchanged=len(prepared.unchanged),
        deleted=len(gone),
        cut=len(passages),
        passages=int(passages.sum()),
        empty=len(change.new_textless),
        notes=coded.notes,
    )


def commit_vectors(change: Change, vectors: DocumentVectors) -> list[str]:
    """Commit the vectors of the next rows that wait; returns notes for the user."""
    old = change.base.state
    is_part = old.encoded + len(vectors) < old.rows
    coded = _with_vectors(change, change.next_state(), vectors, NO_ROWS, is_part=is_part)
    change.commit(coded.state, undo="with the last", loaded=coded.loaded)
    return coded.notes


@dataclass(frozen=True)
class Coded:
    """The next state with vectors and codes of more rows.

    Attributes
    ----------
    loaded : the index in memory; None if it has not changed.
    notes : for the user.
    """

    state: State
    loaded: IndexInMemory | None = None
    notes: list[str] = field(default_factory=list)


def _with_vectors(
    change: Change, state: State, vectors: DocumentVectors, gone: Rows, *, is_part: bool
) -> Coded:
    """Append the vectors of the next rows without one, and their codes, or fit again.

    `gone` are rows that the change deletes, and `is_part` says whether vectors of other new rows
    follow.
    """
    # The first vectors of an index set the center that is subtracted from int8 or int4 vectors;
    # rows that were deleted before they got one have zeros.
    base = change.base
    old = base.state
    if old.settings is None or not old.encoded:
        first_vectors = vectors.rows(0, min(len(vectors), APPENDED_AT_ONCE))
        first_vectors = first_vectors[np.flatnonzero(first_vectors.any(axis=1))]
        if len(first_vectors):
            state = replace(state, center=center_text(state.vectors, first_vectors))
    file = state.vector_file(change.path, old.encoded)
    for part in batches(len(vectors), APPENDED_AT_ONCE):
        file.append(vectors.rows(part.start, part.stop))
    state = replace(state, encoded=len(file))

    # The moments: their file stays if few rows have changed.
    settings = None
    notes = list[str]()
    late = state.encoded - old.moments_rows + state.deletion_count - old.moments_deletions
    are_few = late <= max(MOST_UNCOUNTED, old.moments_rows // UNCOUNTED_SHARE)
    if not (are_few and _keeps_fit(base, gone)):
        remaining = base.moments().subtract(base.moments_of(gone))
        new_rows = np.arange(old.encoded, len(file))
        live = without(without(new_rows, base.hidden), change.new_textless)
        parts = (file.take(live[part]) for part in batches(len(live), APPENDED_AT_ONCE))
        moments = Moments.of(parts, state.dim).merge(remaining)
        state = with_moments(change.path, state, moments)
        settings, notes = _outgrown(old, moments, remaining.n, is_part=is_part)

    # The codes, or a new fit. Without any text there is nothing to fit yet.
    if settings is not None:
        state = fit(change.path, state, file, moments, settings)
        if is_part:
            state = replace(state, fit=state.fit | {"provisional": 1})
        loaded, state = _encode(change, state)
    elif old.settings is not None:
        loaded, state = _extend(base, state, file)
    else:
        return Coded(state)
    return Coded(state, loaded, notes)


def keep_certificate(index: Index, certificate: Certificate) -> None:
    """Keep a proof about the settings in force."""
    with index.change() as change:
        change.commit(replace(change.state, certificate=certificate))


def index_lexical(index: Index, wanted: bool) -> None:
    """Index the words of all documents if `wanted`; otherwise drop their index.

    That also drops the fusion that labels chose for `hybrid="auto"`. Nothing changes if the index
    is already as wanted.
    """
    with index.change() as change:
        state = change.next_state()
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
        _rebuild(change, change.state.settings, fit_again)


def _rebuild(change: Change, settings: Settings | None, fit_again: bool) -> None:
    """Rebuild the derived files as `rebuild` does; `settings` are the current ones."""
    # Moments, columns and the lexical index.
    base = change.base
    path = change.path
    state = change.next_state()
    moments = base.moments_of(base.searchable_rows())
    keeps_origins = not fit_again and _are_whole(base, {"origins"})
    dropped = {IDS} if keeps_origins else {IDS, "origins"}  # the commit writes ids again
    files = {role: file for role, file in state.files.items() if role not in dropped}
    state = replace(state, files=files, id_rows=0)
    state = with_moments(change.path, state, moments)
    damaged = state.column_files if fit_again else damaged_columns(base)
    state = with_columns_again(base.store, state, damaged)
    if state.words is not None:
        state = with_new_words(base, state, path)
    if settings is None or not state.encoded:  # the next vectors are fitted
        files = {role: file for role, file in state.files.items() if role not in ROLES}
        state = replace(state, settings=None, norms=None, files=files, certificate=None, fit={})
        change.commit(state, undo="never")
        return

    # The fit, if it is damaged or made again, and the codes.
    if fit_again or not _are_whole(base, {"reducer", "rescorer"}):
        fitted = state.requested.fitted(moments)[0] if moments.n else settings
        if fit_again:
            settings = fitted
        elif fitted != settings or not moments.n:  # keep what the old fit was based on
            moments = base.moments_of(np.arange(state.encoded))
        state = fit(path, state, base.vectors(), moments, settings)
    loaded, state = _encode(change, state)
    change.commit(state, undo="never", loaded=loaded)


def _keeps_fit(before: Snapshot, replaced: Rows) -> bool:
    """True if an addition certainly requires no refit: see `_outgrown`."""
    state = before.state
    return (
        state.settings is not None
        and state.requested.matches(state.settings, state.dim)
        and before.searchable_count > len(replaced)
    )


def _outgrown(
    state: State, moments: Moments, remaining: int, *, is_part: bool
) -> tuple[Settings | None, list[str]]:
    """Return the settings for a new fit, or None if none is needed, and notes for the user.

    A fit is needed for the first documents, when a small corpus has grown, and when none of the
    documents that the reducer was fitted on is left. An index that was small before gets no notes.

    Parameters
    ----------
    state : the state before the addition.
    moments : of all documents after it.
    remaining : number of earlier vectors that are left.
    is_part : whether other batches follow.
    """
    # The first batch of several is searched exactly: it may have too few rows to train the kind.
    if state.settings is None:
        if moments.n < (FEWEST if is_part else 1):
            return None, []
        fitted, notes = state.requested.fitted(moments)
        return (replace(fitted, kind=FLAT.name), []) if is_part else (fitted, notes)

    # None of the vectors that were fitted is left.
    was_small = not state.requested.matches(state.settings, state.dim)
    if not remaining and moments.n:
        fitted, notes = state.requested.fitted(moments)
        return fitted, [] if was_small else notes

    # A small index may now have enough rows for the requested settings. A new one is fitted at the
    # end.
    if not was_small or is_part or state.is_provisional:
        return None, []
    try:
        fitted, _ = state.requested.fitted(moments)
    except InputError:  # deletions left fewer dimensions than were asked for
        return None, []
    return (fitted, []) if fitted != state.settings else (None, [])


CodedRows = tuple[IndexInMemory, State]
"""An index with the new rows, and the state with its files."""


def _extend(before: Snapshot, state: State, vectors: VectorFile) -> CodedRows:
    """Code the new rows of a file of vectors with the existing fit; `state` is the next state."""
    loaded = before.load()
    if len(loaded.index.index) > before.state.encoded:  # by an addition that failed later
        loaded = before.reload()
    index = loaded.index.with_rows_of(vectors)
    state, saved_rows = save_codes(before.path, state, index, loaded.saved_rows)
    return IndexInMemory(index, saved_rows), state


def _encode(change: Change, state: State) -> CodedRows:
    """Code all rows with the fit of the next state."""
    vectors = state.vector_file(change.path)
    index, state = encode_rows(change.path, state, vectors, change.workers)
    return IndexInMemory(index, len(index)), state


def _are_whole(snapshot: Snapshot, roles: Set[str]) -> bool:
    """True if the files of these roles, as far as the state names them, are undamaged."""
    files = snapshot.state.files
    try:
        for role in roles & files.keys():
            files[role].check(snapshot.path)
    except CorruptError:
        return False
    return True
