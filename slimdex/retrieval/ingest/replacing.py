"""Replacing: all documents are encoded again by another encoder, in one run or several.

The new vectors are written beside the old ones, a window and a commit at a time, while searches are
answered from the old ones. Once all rows have a new vector, reducer, metric and codes are fitted to
them, and one commit replaces vectors, encoder and fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from time import monotonic

import numpy as np

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import Matrix, Rows, batches, without
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.vectors.vector_file import VectorFile

from ..encoders.adapters import plain_spec
from ..encoders.base import Encoder, as_recorded, is_same_encoder
from ..index import Index
from ..store.index_files import with_moments
from ..store.next_commit import Change
from ..store.snapshot import Snapshot
from ..store.state import Replacement, State, center_text
from ..store.work_folder import work_folder
from .encode import Pace, RowsToEncode, counting, next_rows
from .fitting import FitResult, commit_fit, fit_in
from .text_vectors import NO_TEXTS, EncodedTexts, encode


@dataclass(frozen=True)
class ReplacementReport:
    """Result of a run."""

    rows: int  # documents or passages that have a new vector
    total: int  # all of them
    finished: bool = False  # True if the new vectors are in use
    notes: tuple[str, ...] = ()  # of the fit, for the user


def replace_vectors(index: Index, encoder: Encoder, seconds: float = inf) -> ReplacementReport:
    """Encode documents again by another encoder, or resume this, for about `seconds`.

    A run makes at least one commit. It ends after the one in which its time is up, or with that
    which replaces the vectors. Raises `InputError` if the index has this encoder, or is moving to a
    third one.
    """
    end = monotonic() + seconds
    encoder = _begin(index, encoder)
    pace = Pace.of(index, seconds)
    while (replacement := index.state.replacement) is not None:
        total = index.state.rows
        if replacement.rows == total:
            notes = _finish(index, pace)
            if notes is not None:
                return ReplacementReport(total, total, finished=True, notes=tuple(notes))
            continue
        _encode_next(index, pace)
        now = index.state
        if now.replacement and monotonic() >= end:
            return ReplacementReport(now.replacement.rows, now.rows)

    # Another process has finished the migration or given it up.
    if not is_same_encoder(plain_spec(encoder.spec()), index.state.encoder):
        raise InputError(f"{index.path}: the migration was undone meanwhile")
    return ReplacementReport(index.state.rows, index.state.rows, finished=True)


def next_encoder(index: Index) -> Encoder:
    """The encoder of the replacement that was begun; raises `InputError` if none was."""
    replacement = index.state.replacement
    if replacement is None:
        raise InputError(f"{index.path}: no migration to continue; expected an encoder")
    return index.encoders.open(replacement.encoder)


def undo(index: Index) -> None:
    """Drop the vectors that replace the others; raises `InputError` if there are none."""
    with index.change() as change:
        if change.state.replacement is None:
            raise InputError(f"{index.path}: no migration to undo")
        change.commit(replace(change.next_state(), replacement=None))


def _begin(index: Index, encoder: Encoder) -> Encoder:
    """Commit the start of the replacement, unless it has started.

    Returns the encoder, in the precision of the new vectors.
    """
    spec = plain_spec(encoder.spec())
    with index.change() as change:
        # A migration may have begun already, with this encoder or another one.
        state = change.next_state()
        if state.replacement is not None:
            if is_same_encoder(spec, state.replacement.encoder):
                encoder = as_recorded(encoder, state.replacement.encoder)
                index.encoders.give(encoder)
                return encoder
            raise InputError(
                f"{index.path}: its documents are being encoded by "
                f"{state.replacement.encoder}; expected that encoder, or this to be undone first"
            )

        # Otherwise begin one.
        if is_same_encoder(spec, state.encoder):
            raise InputError(f"{index.path}: its vectors are this encoder's; expected another one")
        if not len(change.base):
            raise InputError(f"{index.path} holds no documents; expected some to encode")
        state.requested.checked(encoder.dim)
        replacement = Replacement(spec, encoder.dim, state.new_name("vectors"))
        change.commit(replace(state, replacement=replacement))
        index.encoders.give(encoder)
        return encoder


def _encode_next(index: Index, pace: Pace) -> None:
    """Encode the next rows, and commit their vectors unless rows were renumbered meanwhile."""

    def read(snapshot: Snapshot) -> RowsToEncode:
        replacement = snapshot.state.replacement
        first = replacement.rows if replacement else snapshot.state.rows
        return next_rows(snapshot, first, pace.limit)

    rows = index.read(read)
    state = rows.manifest.state
    if state.replacement is None:
        return
    with counting(rows, 0):
        encoded = encode(index, _with_new_vectors(state), rows.ids, rows.texts, NO_TEXTS)
    pace.took(encoded)
    with index.change() as change:
        now = change.base.manifest
        if now.keeps_rows_of(rows.manifest) and now.state.replacement == state.replacement:
            _append(change, encoded)


def _append(change: Change, encoded: EncodedTexts) -> None:
    """Commit the vectors of the next rows."""
    # The first vectors set the center that is subtracted from int8 or int4 vectors.
    state = change.next_state()
    replacement = state.replacement
    assert replacement is not None
    vectors = encoded.vectors.rows(0, len(encoded.vectors))
    has_vector = np.flatnonzero(vectors.any(axis=1))
    if not replacement.center and len(has_vector):
        center = center_text(replacement.vectors, vectors[has_vector])
        replacement = replace(replacement, center=center)

    file = replacement.vector_file(change.path)
    file.append(vectors)
    state = replace(state, replacement=replace(replacement, rows=len(file)))
    change.commit(state)


def _finish(index: Index, pace: Pace) -> list[str] | None:
    """Fit the new vectors, and replace the old ones; return the notes of the fit.

    Returns None, so that the caller tries again, if some rows have no new vector yet, or if others
    renumber the rows or give up the migration during the fit.
    """
    with work_folder(index.path) as folder:
        # Fit without the writer lock.
        snapshot = index.snapshot
        state = snapshot.state
        if state.replacement is None or state.replacement.rows != state.rows:
            return None
        if not len(snapshot):
            raise InputError(f"{index.path} holds no documents; expected some to fit on")
        try:
            moments = _moments(state.replacement.vector_file(index.path), _live_rows(snapshot))
            fitted = fit_in(folder, index, _with_new_vectors(state), moments)
        except (CorruptError, OSError):
            if index.snapshot.manifest.keeps_rows_of(snapshot.manifest):
                raise
            return None  # others have renumbered the rows, and deleted these files

        # Under the lock, encode what was added during the fit, and commit everything.
        with index.turn():
            now = index.snapshot.manifest
            replacement = now.state.replacement
            goes_on = replacement is not None and replacement.vectors == state.replacement.vectors
            if not goes_on or not now.keeps_rows_of(snapshot.manifest):
                return None
            while (new := index.state.replacement) is not None and new.rows < index.state.rows:
                _encode_next(index, pace)
            with index.change() as change:
                return _commit(change, fitted, snapshot, moments)


def _commit(change: Change, fitted: FitResult, before: Snapshot, moments: Moments) -> list[str]:
    """Commit the new encoder, its vectors and their fit; return notes for the user.

    The fit and its moments are those of the snapshot `before`. Since then, rows may have been added
    or deleted.
    """
    state = _with_new_vectors(change.next_state())
    vectors = state.vector_file(change.path)
    rows_before = _live_rows(before)
    rows_now = _live_rows(change.base)
    moments = moments.merge(_moments(vectors, without(rows_now, rows_before)))
    moments = moments.subtract(_moments(vectors, without(rows_before, rows_now)))
    return commit_fit(change, fitted, with_moments(change.path, state, moments))


def _with_new_vectors(state: State) -> State:
    """The state with the new encoder and its vectors, which are not fitted yet."""
    new = state.replacement
    assert new is not None
    return replace(
        state,
        encoder=new.encoder,
        dim=new.dim,
        vectors=new.vectors,
        center=new.center,
        encoded=new.rows,
        epoch=state.epoch + 1,
        replacement=None,
    )


def _live_rows(snapshot: Snapshot) -> Rows:
    """All rows with text of documents that are not deleted, in order."""
    return without(np.arange(snapshot.state.rows), snapshot.hidden)


def _moments(vectors: VectorFile, rows: Rows) -> Moments:
    chunks: Iterator[Matrix] = (vectors.take(rows[part]) for part in batches(len(rows)))
    return Moments.of(chunks, vectors.dim)
