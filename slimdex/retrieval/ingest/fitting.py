"""Fitting: reducer, metric and codes of a snapshot are computed without the writer lock.

Others can therefore read and write meanwhile. Only the commit takes the lock.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import sample_rows, without
from slimdex.indexes.codes.kinds import FLAT
from slimdex.indexes.options import MODEL, TABLE
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.atomic_files import publish

from ..encoders.base import check_tokenizer
from ..index import Index
from ..store.index_files import encode_rows, fit, save_codes, with_moments
from ..store.next_commit import Change, Undo
from ..store.snapshot import Snapshot
from ..store.state import State
from ..store.work_folder import work_folder

FIT = {"reducer", "rescorer", "table"}
"""Files that only a fit can make; moments and codes can be derived again."""
ROLES = FIT | {"moments", "codes"}
"""Files that a fit writes, besides the norms."""
MOST_UNCOUNTED = 1024
UNCOUNTED_SHARE = 64
"""The moments are written again once more than `MOST_UNCOUNTED` rows, and one in `UNCOUNTED_SHARE`,
were added or deleted since. Until then, these rows are added and subtracted whenever the moments
are needed."""


def reduce(index: Index, settings: Settings) -> list[str]:
    """Fit with other settings, as `refit` does; raises `InputError` if rows wait for vectors."""
    index.snapshot.check_encoded()
    return refit(index, settings)


def refit(index: Index, settings: Settings | None, undo: Undo = "alone") -> list[str]:
    """Fit reducer, metric and codes with other settings; returns notes for the user.

    `settings` are by default those that were requested last.

    While rows wait for their vectors, the fit is exact, and made again later. Rows that others add
    during the fit are coded with it. If others renumber the rows, replace their vectors or request
    other settings, it starts over. `undo`: see `Change.commit`.
    """
    restarts = list[str]()
    while True:
        if not index.snapshot.searchable_count:
            raise InputError(f"{index.path} holds no documents; expected some to fit on")
        notes = try_fit(index, settings, undo)
        if notes is not None:
            return [*notes, *restarts]
        restarts = [
            "others compacted, migrated or refitted the index during the fit, or undid a change: "
            "it started over"
        ]


def finish_fit(index: Index) -> list[str]:
    """Fit again if the vectors require it; returns notes for the user about a first fit."""
    state = index.state
    if not index.read(is_fit_due):
        return []
    notes = refit(index, None, "with the last")
    return notes if state.fit is None or state.is_provisional else []


def is_fit_due(snapshot: Snapshot) -> bool:
    """Whether all rows have vectors, and these require another fit.

    There was none, or only of the first rows; or none of the rows that the reducer was fitted on is
    left; or a small index has grown, whose settings differ from the requested ones for want of
    rows.
    """
    state = snapshot.state
    if state.waits or not snapshot.searchable_count:
        return False
    if state.fit is None or state.is_provisional:
        return True
    fitted = state.fit.rows
    if np.searchsorted(snapshot.hidden, fitted) == fitted:
        return True
    settings = state.fit.settings
    if state.requested.matches(settings, state.dim):
        return False
    try:
        return state.requested.fitted(snapshot.moments())[0] != settings
    except InputError:  # deletions left fewer dimensions than were asked for
        return False


def renew_moments(index: Index) -> None:
    """Write the moments of all rows again, if many were added or deleted since."""
    state = index.state
    late = state.encoded - state.moments_rows + state.deletion_count - state.moments_deletions
    if late > max(MOST_UNCOUNTED, state.moments_rows // UNCOUNTED_SHARE):
        with index.change() as change:
            moments = change.base.moments()
            change.commit(with_moments(change.path, change.state, moments))


def try_fit(
    index: Index, settings: Settings | None, undo: Undo = "alone", *, replaces: bool = False
) -> list[str] | None:
    """Fit the vectors of the newest commit, and commit the fit; returns notes for the user.

    With `replaces`, the vectors by another encoder replace the index's own. Returns None if others
    renumber the rows, replace or give up these vectors, or request other settings meanwhile.
    """
    snapshot, state, moments = index.read(_to_fit, replaces)
    before = snapshot.manifest
    if state is None:
        return None
    requested = (settings or state.requested).checked(state.dim)
    state = replace(state, requested=requested)
    fitted, notes = requested.fitted(moments)
    if state.waits:  # exact, since the first rows may be too few to train the kind
        fitted = replace(fitted, kind=FLAT.name, query_encoder=MODEL)
        notes = []
    with work_folder(index.path) as folder:
        # Write the files of the fit to a folder.
        try:
            vectors = state.vector_file(index.path)
            state = fit(folder, with_moments(folder, state, moments), vectors, moments, fitted)
            if fitted.query_encoder == TABLE:
                state = _with_table(index, snapshot, folder, state)
            reduced_index, state = encode_rows(folder, state, vectors, index.workers)
        except (CorruptError, OSError):
            if index.snapshot.manifest.keeps_rows_of(before):
                raise
            return None

        # Commit them, unless others have changed the rows meanwhile.
        with index.change() as change:
            newest = change.state.target(replaces)
            if newest is None or newest.vectors != state.vectors:
                return None
            is_same = change.state.requested == before.state.requested
            if not is_same or not change.base.manifest.keeps_rows_of(before):
                return None
            change.state = newest
            return [*notes, *_commit_fit(change, state, folder, reduced_index, undo)]


def _with_table(index: Index, snapshot: Snapshot, folder: Path, state: State) -> State:
    """Fit the token table to a sample of the rows; return the state that names its file."""
    # Loads readers of word vectors.
    from ..encoders.token_table import MOST_TEXTS, fit_table, save_table

    rows = without(np.arange(state.encoded), snapshot.hidden)
    rows = rows[sample_rows(len(rows), MOST_TEXTS, seed=0)]
    texts = [*snapshot.store.contents(rows)]
    encoder: Any = index.encoder_of(state)
    check_tokenizer(encoder)
    table = fit_table(encoder.plain_tokenizer(), texts, state.vector_file(index.path).take(rows))
    record = publish(folder / state.new_name("table"), partial(save_table, table=table))
    return replace(state, files=state.files | {"table": record})


def _to_fit(snapshot: Snapshot, replaces: bool) -> tuple[Snapshot, State | None, Moments]:
    """A snapshot with its documents open, its state with the vectors to fit, and their moments."""
    snapshot.open()
    state = snapshot.state.target(replaces)
    if not replaces or state is None:
        return snapshot, state, snapshot.moments()
    live = without(np.arange(state.rows), snapshot.hidden)
    moments = snapshot.moments_of(live, state.vector_file(snapshot.path))
    return snapshot, state, moments


def _commit_fit(
    change: Change, fitted: State, folder: Path, index: ReducedIndex, undo: Undo
) -> list[str]:
    """Commit a fit, whose files are in a folder; returns notes for the user.

    The rows may be more than those of the fitted state.
    """
    path = change.path
    state = replace(
        change.state,
        requested=fitted.requested,
        fit=fitted.fit,
        moments_rows=fitted.moments_rows,
        moments_deletions=fitted.moments_deletions,
        certificate=None,
    )

    # Move the files into the index.
    files = {role: record for role, record in state.files.items() if role not in ROLES}
    for role in sorted(ROLES & fitted.files.keys()):
        name = state.new_name(role)
        os.replace(folder / fitted.files[role].name, path / name)
        files[role] = replace(fitted.files[role], name=name)
    norms = None
    if fitted.norms is not None and index.metric is not None:
        norms = state.new_name("norms")
        os.replace(folder / fitted.norms, path / norms)
        file = VectorFile(path / norms, 1, fitted.encoded, FLOAT32)
        index.metric = replace(index.metric, norms=file)
    state = replace(state, files=files, norms=norms)

    # Add the rows that others added during the fit.
    index = index.with_rows_of(state.vector_file(path))
    state = save_codes(path, replace(state, code_rows=fitted.encoded), index)

    # Commit, and report how many rows the fit has not seen.
    change.commit(state, undo=undo, index=index)
    added = state.encoded - fitted.encoded
    if not added:
        return []
    return [f"{added:,} {change.base.noun} that others added during the fit are coded with it"]
