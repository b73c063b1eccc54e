"""Replacing: all documents are encoded again by another encoder, in one run or several.

The new vectors are written beside the old ones, a window and a commit at a time, while searches are
answered from the old ones. Once all rows have a new vector, reducer, metric and codes are fitted to
them, and one commit replaces vectors, encoder and fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import Matrix, Rows, batches, without
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.append_only import sync
from slimdex.system.progress import progress

from ..encoders.adapters import plain_spec
from ..encoders.base import Encoder, as_recorded, is_same_encoder
from ..encoders.encoding import encode_all, partly_read
from ..index import Index
from ..store.index_files import with_moments
from ..store.manifest import Manifest
from ..store.next_commit import AppendedFile, Change
from ..store.readings import PartlyRead
from ..store.snapshot import Snapshot
from ..store.state import Replacement, State, center_text
from ..store.work_folder import work_folder
from .fitting import FitResult, commit_fit, fit_in

COMMITTED_ROWS = 256
"""Rows encoded between two commits, lost by a kill."""


@dataclass(frozen=True)
class ReplacementReport:
    """Result of a run."""

    rows: int  # documents or passages that have a new vector
    total: int  # all of them
    finished: bool = False  # True if the new vectors are in use
    notes: tuple[str, ...] = ()  # of the fit, for the user


def replace_vectors(
    index: Index, encoder: Encoder, seconds: float | None = None
) -> ReplacementReport:
    """Encode documents again by another encoder, or resume this, for about `seconds`.

    A run encodes at least one window. It ends after the window in which its time is up, or with the
    commit that replaces the vectors. Raises `InputError` if the index has this encoder, or is
    moving to a third one.
    """
    start = perf_counter()
    encoder = _begin(index, encoder)
    while (replacement := index.state.replacement) is not None:
        total = index.state.rows
        progress("encoding again", replacement.rows, total)
        if replacement.rows == total:
            notes = _finish(index, encoder)
            if notes is not None:
                return ReplacementReport(total, total, finished=True, notes=tuple(notes))
            continue
        _encode_window(index, encoder)
        now = index.state
        if now.replacement and seconds is not None and perf_counter() - start >= seconds:
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


def _encode_window(index: Index, encoder: Encoder) -> None:
    """Encode the next rows, and commit their vectors unless rows were renumbered meanwhile."""

    def read(snapshot: Snapshot) -> tuple[Manifest, Matrix, PartlyRead]:
        """Encode without the writer lock; also return the manifest to compare with."""
        rows = _next_rows(snapshot.state)
        return snapshot.manifest, *_encode_rows(snapshot, encoder, rows)

    before, vectors, partly = index.read(read)
    with index.change() as change:
        now = change.base.manifest
        if now.keeps_rows_of(before) and now.state.replacement == before.state.replacement:
            _append(change, vectors, partly)


def _next_rows(state: State) -> Rows:
    """Rows of the next window, which have no new vector yet; empty if none are left."""
    first = state.replacement.rows if state.replacement else state.rows
    return np.arange(first, min(first + COMMITTED_ROWS, state.rows))


def _encode_rows(snapshot: Snapshot, encoder: Encoder, rows: Rows) -> tuple[Matrix, PartlyRead]:
    """Return vectors (n, dim) of rows, and how much was read of texts that were read in part.

    Vectors are zero for deleted rows and those without text.
    """
    vectors: Matrix = np.zeros((len(rows), encoder.dim), dtype=np.float32)
    positions = np.flatnonzero(~np.isin(rows, snapshot.hidden))
    searchable = rows[positions]
    texts = snapshot.contents(searchable, encoder)
    vectors[positions], lengths = encode_all(encoder, texts, encoder.dim)
    return vectors, partly_read(searchable, lengths)


def _append(change: Change, vectors: Matrix, partly: PartlyRead) -> None:
    """Commit the vectors of the next rows, and how much of their texts was read."""
    # The first vectors set the center that is subtracted from int8 or int4 vectors.
    state = change.next_state()
    replacement = state.replacement
    assert replacement is not None
    first = replacement.rows
    if not first:
        replacement = replace(replacement, center=center_text(replacement.vectors, vectors))

    file = replacement.vector_file(change.path)
    before = file.nbytes
    file.append(vectors)
    if not first:
        sync(change.path)  # the file is new, so its name must be durable, too
    state = replace(state, replacement=replace(replacement, rows=len(file)))
    change.readings.forget(first, len(file))
    change.readings.add(partly)
    change.commit(state, grown=[AppendedFile(file, before)])


def _finish(index: Index, encoder: Encoder) -> list[str] | None:
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
            while len(rows := _next_rows(index.state)):
                with index.change() as change:
                    _append(change, *_encode_rows(change.base, encoder, rows))
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
