"""Fitting: reducer, metric and codes of a snapshot are computed without the writer lock.

Others can therefore read and write meanwhile. Only the commit takes the lock.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import without
from slimdex.indexes.codes.kinds import FLAT
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile

from ..index import Index
from ..store.index_files import encode_rows, fit, save_codes, with_moments
from ..store.manifest import Manifest
from ..store.next_commit import Change, Undo
from ..store.snapshot import Snapshot
from ..store.state import State
from ..store.work_folder import work_folder

ROLES = ("moments", "reducer", "rescorer", "codes")
"""Files that a fit writes, besides the norms."""
MOST_UNCOUNTED = 1024
UNCOUNTED_SHARE = 64
"""The moments are written again once more than `MOST_UNCOUNTED` rows, and one in `UNCOUNTED_SHARE`,
were added or deleted since. Until then, these rows are added and subtracted whenever the moments
are needed."""


@dataclass(frozen=True)
class FitResult:
    """A fit of a snapshot's rows.

    Attributes
    ----------
    before : the manifest of the snapshot.
    state : the state to commit, with the settings, the figures and the files of the fit.
    folder : where these files are.
    index : in memory.
    notes : for the user.
    """

    before: Manifest
    state: State
    folder: Path
    index: ReducedIndex
    notes: list[str]


def reduce(index: Index, settings: Settings) -> list[str]:
    """Fit with other settings, as `refit` does; raises `InputError` if rows wait for vectors."""
    index.snapshot.check_encoded()
    return refit(index, settings)


def refit(index: Index, settings: Settings, undo: Undo = "alone") -> list[str]:
    """Fit reducer, metric and codes with other settings; returns notes for the user.

    While rows wait for their vectors, the fit is exact, and made again later. Rows that others add
    during the fit are coded with it. If others renumber the rows, or replace their vectors, it
    starts over. `undo`: see `Change.commit`.
    """
    restarts = list[str]()
    while True:
        if not index.snapshot.searchable_count:
            raise InputError(f"{index.path} holds no documents; expected some to fit on")
        notes = try_fit(index, settings, undo)
        if notes is not None:
            return [*notes, *restarts]
        restarts = [
            "others compacted or migrated the index during the fit, or undid a change: it "
            "started over"
        ]


def finish_fit(index: Index) -> list[str]:
    """Fit again if the vectors require it; returns notes for the user about a first fit."""
    state = index.state
    if not index.read(is_fit_due):
        return []
    notes = refit(index, state.requested, "with the last")
    return notes if state.fit is None or state.is_provisional else []


def is_fit_due(snapshot: Snapshot) -> bool:
    """Whether all rows have vectors, which require another fit.

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
    index: Index, settings: Settings, undo: Undo = "alone", *, replaces: bool = False
) -> list[str] | None:
    """Fit the vectors of the newest commit, and commit the fit; returns notes for the user.

    With `replaces`, the vectors by another encoder replace the index's own. Returns None if others
    renumber the rows, or replace or give up these vectors meanwhile.
    """
    with work_folder(index.path) as folder:
        fitted = _fit(index, settings, folder, replaces)
        if fitted is not None:
            with index.change() as change:
                state = change.state.target(replaces)
                is_same = state is not None and state.vectors == fitted.state.vectors
                if state and is_same and change.base.manifest.keeps_rows_of(fitted.before):
                    return [*fitted.notes, *_commit_fit(change, fitted, state, undo)]
    return None


def _fit(index: Index, settings: Settings, folder: Path, replaces: bool) -> FitResult | None:
    """Fit the vectors of the newest commit; the files are written to a folder.

    Returns None if others replace its rows meanwhile.
    """

    def read(snapshot: Snapshot) -> tuple[Manifest, State | None, Moments]:
        state = snapshot.state.target(replaces)
        if not replaces or state is None:
            return snapshot.manifest, state, snapshot.moments()
        live = without(np.arange(state.rows), snapshot.hidden)
        moments = snapshot.moments_of(live, state.vector_file(index.path))
        return snapshot.manifest, state, moments

    before, state, moments = index.read(read)
    if state is None:
        return None
    try:
        requested = settings.checked(state.dim)
        fitted, notes = requested.fitted(moments)
        if state.waits:  # exact, since the first rows may be too few to train the kind
            fitted = replace(fitted, kind=FLAT.name)
            notes = []
        state = with_moments(folder, replace(state, requested=requested), moments)
        vectors = state.vector_file(index.path)
        state = fit(folder, state, vectors, moments, fitted)
        reduced_index, state = encode_rows(folder, state, vectors, index.workers)
        return FitResult(before, state, folder, reduced_index, notes)
    except (CorruptError, OSError):
        if index.snapshot.manifest.keeps_rows_of(before):
            raise
        return None


def _commit_fit(change: Change, fitted: FitResult, state: State, undo: Undo) -> list[str]:
    """Commit a fit with the next state, whose rows may be more; returns notes for the user."""
    path = change.path
    fitted_state = fitted.state
    state = replace(
        state,
        requested=fitted_state.requested,
        fit=fitted_state.fit,
        moments_rows=fitted_state.moments_rows,
        moments_deletions=fitted_state.moments_deletions,
        certificate=None,
    )

    # Move the files into the index.
    files = {role: record for role, record in state.files.items() if role not in ROLES}
    for role in ROLES:
        record = fitted_state.files.get(role)
        if record is not None:
            name = _move(path, fitted.folder / record.name, state.new_name(role))
            files[role] = replace(record, name=name)
    norms = None
    if fitted_state.norms:
        norms = _move(path, fitted.folder / fitted_state.norms, state.new_name("norms"))
    state = replace(state, files=files, norms=norms)

    # Add the rows that others added during the fit.
    index = fitted.index
    if norms is not None and index.metric is not None:
        file = VectorFile(path / norms, 1, fitted_state.encoded, FLOAT32)
        index.metric = replace(index.metric, norms=file)
    index = index.with_rows_of(state.vector_file(path))
    state = save_codes(path, replace(state, code_rows=fitted_state.encoded), index)

    # Commit, and report how many rows the fit has not seen.
    change.commit(state, undo=undo, index=index)
    added = state.encoded - fitted_state.encoded
    if not added:
        return []
    return [f"{added:,} {change.base.noun} that others added during the fit are coded with it"]


def _move(folder: Path, file: Path, name: str) -> str:
    """Move a file into a folder under another name; return this name."""
    os.replace(file, folder / name)
    return name
