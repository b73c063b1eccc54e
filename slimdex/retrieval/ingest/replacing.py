"""Replacing: all documents are encoded again by another encoder, in one run or several.

The new vectors are written beside the old ones, a window and a commit at a time, while searches are
answered from the old ones. Once all rows have a new vector, reducer, metric and codes are fitted to
them, and one commit replaces vectors, encoder and fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches, without
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.vectors.vector_file import VectorFile

from ..atomic_files import sync
from ..catalog.readings import PartlyRead
from ..catalog.state import Replacement, State
from ..encoders.adapters import plain_spec
from ..encoders.base import Encoder, as_recorded, is_same_encoder
from ..storage.commit_log import AppendedFile
from ..storage.manifest import Manifest
from ..storage.snapshot import Snapshot
from ..storage.work_folder import work_folder
from ..trials.query_pools import row_texts
from .encoding import encoded_steps
from .rewriting.fitting import Fitted, commit_fit, fit_in

if TYPE_CHECKING:
    from ..collection import Collection

WINDOW = 256
"""Rows encoded between two commits, lost by a kill."""


@dataclass(frozen=True)
class Replaced:
    """Result of a run.

    Attributes
    ----------
    rows : documents or passages that have a new vector.
    total : all of them.
    finished : True if the new vectors are in use.
    notes : of the fit, for the user.
    """

    rows: int
    total: int
    finished: bool = False
    notes: tuple[str, ...] = ()


def replace_vectors(
    collection: Collection, encoder: Encoder, seconds: float | None = None
) -> Replaced:
    """Encode documents again by another encoder, or resume this, for about `seconds`.

    A run encodes at least one window. It ends after the window in which its time is up, or with the
    commit that replaces the vectors. Raises `InputError` if the index has this encoder, or is
    moving to a third one.
    """
    start = perf_counter()
    encoder = _begin(collection, encoder)
    while (replacement := collection.state.replacement) is not None:
        total = collection.state.rows
        progress("encoding again", replacement.rows, total)
        if replacement.rows == total:
            notes = _finish(collection, encoder)
            if notes is not None:
                return Replaced(total, total, finished=True, notes=tuple(notes))
            continue
        _encode_window(collection, encoder)
        now = collection.state
        if now.replacement and seconds is not None and perf_counter() - start >= seconds:
            return Replaced(now.replacement.rows, now.rows)
    if not is_same_encoder(plain_spec(encoder.spec()), collection.state.encoder):
        raise InputError(f"{collection.path}: the migration was undone meanwhile")
    return Replaced(collection.state.rows, collection.state.rows, finished=True)


def next_encoder(collection: Collection) -> Encoder:
    """The encoder of the replacement that was begun; raises `InputError` if none was."""
    if (replacement := collection.state.replacement) is None:
        raise InputError(f"{collection.path}: no migration to continue; expected an encoder")
    return collection.encoder_from(replacement.encoder)


def undo(collection: Collection) -> None:
    """Drop the vectors that replace the others; raises `InputError` if there are none."""
    with collection.change():
        state = collection.commit_log.next_state()
        if state.replacement is None:
            raise InputError(f"{collection.path}: no migration to undo")
        collection.commit_log.commit(replace(state, replacement=None))
        collection.show()


def _begin(collection: Collection, encoder: Encoder) -> Encoder:
    """Commit the start of the replacement, unless it has started.

    Returns the encoder, in the precision of the new vectors.
    """
    spec = plain_spec(encoder.spec())
    with collection.change():
        state = collection.commit_log.next_state()
        if state.replacement is not None:
            if is_same_encoder(spec, state.replacement.encoder):
                encoder = as_recorded(encoder, state.replacement.encoder)
                collection.give(encoder)
                return encoder
            raise InputError(
                f"{collection.path}: its documents are being encoded by "
                f"{state.replacement.encoder}; expected that encoder, or this to be undone first"
            )
        if is_same_encoder(spec, state.encoder):
            raise InputError(
                f"{collection.path}: its vectors are this encoder's; expected another one"
            )
        if not len(collection):
            raise InputError(f"{collection.path} holds no documents; expected some to encode")
        state.requested.checked(encoder.dim)
        made = Replacement(spec, encoder.dim, state.new_name("vectors"))
        collection.commit_log.commit(replace(state, replacement=made))
        collection.show()
        collection.give(encoder)
        return encoder


def _encode_window(collection: Collection, encoder: Encoder) -> None:
    """Encode the next rows, and commit their vectors unless rows were renumbered meanwhile."""

    def read(snapshot: Snapshot) -> tuple[Manifest, Matrix, PartlyRead]:
        rows = _next_rows(snapshot.state)
        return snapshot.manifest, *_encoded(collection, snapshot, encoder, rows)

    before, vectors, partly = collection.read(read)
    with collection.change():
        now = collection.snapshot.manifest
        if now.keeps_rows_of(before) and now.state.replacement == before.state.replacement:
            _append(collection, vectors, partly)


def _next_rows(state: State) -> Rows:
    first = state.replacement.rows if state.replacement else state.rows
    return np.arange(first, min(first + WINDOW, state.rows))


def _encoded(
    collection: Collection, snapshot: Snapshot, encoder: Encoder, rows: Rows
) -> tuple[Matrix, PartlyRead]:
    """Vectors (n, dim) of rows, zero for deleted ones and those without text."""
    out: Matrix = np.zeros((len(rows), encoder.dim), dtype=np.float32)
    places = np.flatnonzero(~np.isin(rows, snapshot.hidden))
    texts = row_texts(snapshot, collection.store, rows[places])
    partly = dict[int, tuple[int, int]]()
    for positions, vectors, read in encoded_steps(encoder, texts, encoder.dim):
        out[places[positions]] = vectors
        partly |= {int(rows[places[i]]): lengths for i, lengths in read.items()}
    return out, partly


def _append(collection: Collection, vectors: Matrix, partly: PartlyRead) -> None:
    """Commit the vectors of the next rows; within `collection.change()`."""
    commit_log, state = collection.commit_log, collection.commit_log.next_state()
    assert state.replacement is not None
    file = state.replacement.vector_file(collection.path)
    first, before = len(file), file.nbytes
    file.append(vectors)
    if not first:
        sync(collection.path)
    state = replace(state, replacement=replace(state.replacement, rows=len(file)))
    with commit_log.transaction():
        commit_log.store.readings.forget(first, len(file))
        commit_log.store.readings.put(partly)
        commit_log.commit(state, grown=[AppendedFile(file, before)])
    collection.show()


def _finish(collection: Collection, encoder: Encoder) -> list[str] | None:
    """Fit the new vectors, and replace the old ones; None if rows were renumbered meanwhile."""
    with work_folder(collection.path) as folder:
        snapshot = collection.snapshot
        state = snapshot.state
        if state.replacement is None or state.replacement.rows != state.rows:
            return None
        if not len(snapshot):
            raise InputError(f"{collection.path} holds no documents; expected some to fit on")
        try:
            moments = _moments(
                state.replacement.vector_file(collection.path), snapshot.searchable_rows()
            )
            fitted = fit_in(folder, collection, _replaced(state), moments)
        except (CorruptError, OSError):
            if collection.snapshot.manifest.keeps_rows_of(snapshot.manifest):
                raise
            return None
        with collection.change():
            now = collection.snapshot.manifest
            vectors = now.state.replacement and now.state.replacement.vectors
            if not now.keeps_rows_of(snapshot.manifest) or vectors != state.replacement.vectors:
                return None
            while len(rows := _next_rows(collection.state)):  # added during the fit
                _append(collection, *_encoded(collection, collection.snapshot, encoder, rows))
            return _commit(collection, fitted, snapshot, moments)


def _commit(
    collection: Collection, fitted: Fitted, before: Snapshot, moments: Moments
) -> list[str]:
    """Replace the vectors by the fitted ones and those of the rows added since."""
    commit_log, now = collection.commit_log, collection.snapshot
    state = _replaced(commit_log.next_state())
    vectors = state.vector_file(collection.path, state.rows)
    old, new = before.searchable_rows(), now.searchable_rows()
    moments = moments.merge(_moments(vectors, without(new, old)))
    moments = moments.subtract(_moments(vectors, without(old, new)))
    return commit_fit(collection, fitted, commit_log.with_moments(state, moments))


def _replaced(state: State) -> State:
    """The state with the new encoder and its vectors, which are not fitted yet."""
    new = state.replacement
    assert new is not None
    return replace(
        state,
        encoder=new.encoder,
        dim=new.dim,
        vectors=new.vectors,
        epoch=state.epoch + 1,
        replacement=None,
    )


def _moments(vectors: VectorFile, rows: Rows) -> Moments:
    chunks: Iterator[Matrix] = (vectors.take(rows[part]) for part in batches(len(rows)))
    return Moments.of(chunks, vectors.dim)
