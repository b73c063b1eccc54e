"""Fitting: reducer, metric and codes of a snapshot are computed without the writer lock.

Others can therefore read and write meanwhile. Only the commit takes the lock.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile

from ..index import Index
from ..store.index_files import encode_rows, fit, save_codes
from ..store.manifest import Manifest, Undo
from ..store.next_commit import Change
from ..store.snapshot import IndexInMemory
from ..store.state import State
from ..store.work_folder import work_folder

ROLES = ("reducer", "rescorer", "codes")
"""Files that a fit writes, besides the norms."""


@dataclass(frozen=True)
class FitResult:
    """A fit of a snapshot's rows: the index in memory, with notes for the user.

    The state is the snapshot's, but with the settings, the figures and the files of the fit, which
    are in the folder.
    """

    state: State
    index: ReducedIndex
    folder: Path
    notes: list[str]


def reduce(index: Index, settings: Settings) -> list[str]:
    """Fit with other settings, as `refit` does; raises `InputError` if rows wait for vectors."""
    index.snapshot.check_encoded()
    return refit(index, settings)


def refit(index: Index, settings: Settings, undo: Undo = "alone") -> list[str]:
    """Fit reducer, metric and codes with other settings; returns notes for the user.

    Rows that others add during the fit are coded with it. If others renumber the rows, or
    replace their vectors, it starts over. `undo`: see `Change.commit`.
    """
    restart_notes = list[str]()
    while True:
        if not len(index.snapshot):
            raise InputError(f"{index.path} holds no documents; expected some to fit on")
        with work_folder(index.path) as folder:
            fit_and_manifest = _fit(index, settings, folder)
            if fit_and_manifest is not None:
                fitted, before = fit_and_manifest
                with index.change() as change:
                    if change.base.manifest.keeps_rows_of(before):
                        commit_notes = commit_fit(change, fitted, change.next_state(), undo)
                        return [*fitted.notes, *restart_notes, *commit_notes]
        restart_notes = [
            "others compacted or migrated the index during the fit, or undid a change: it "
            "started over"
        ]


def _fit(index: Index, settings: Settings, folder: Path) -> tuple[FitResult, Manifest] | None:
    """Fit the newest commit, writing to a folder; return the fit, and the manifest of this commit.

    Returns None if others replace its rows meanwhile.
    """
    before, moments = index.read(lambda snapshot: (snapshot.manifest, snapshot.moments()))
    try:
        state = replace(before.state, requested=settings)
        return fit_in(folder, index, state, moments), before
    except (CorruptError, OSError):
        if index.snapshot.manifest.keeps_rows_of(before):
            raise
        return None


def fit_in(folder: Path, index: Index, state: State, moments: Moments) -> FitResult:
    """Fit a state's vectors, which have these moments, by its requested settings.

    The files are written to `folder`.
    """
    requested = state.requested.checked(state.dim)
    settings, notes = requested.fitted(moments)
    vectors = state.vector_file(index.path)
    state = fit(folder, replace(state, requested=requested), vectors, moments, settings)
    reduced_index, state = encode_rows(folder, state, vectors, index.workers)
    return FitResult(state, reduced_index, folder, notes)


def commit_fit(change: Change, fitted: FitResult, state: State, undo: Undo = "alone") -> list[str]:
    """Commit a fit with the next state, whose rows may be more; returns notes for the user."""
    path = change.path
    fitted_state = fitted.state
    state = replace(
        state,
        requested=fitted_state.requested,
        settings=fitted_state.settings,
        fit=fitted_state.fit | ({"provisional": 1} if fitted_state.waits else {}),
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
    state, saved_rows = save_codes(path, state, index, fitted_state.encoded)

    # Commit, and report how many rows the fit has not seen.
    change.commit(state, undo=undo, loaded=IndexInMemory(index, saved_rows))
    added = state.encoded - fitted_state.encoded
    if not added:
        return []
    return [f"{added:,} {change.base.noun} that others added during the fit are coded with it"]


def _move(folder: Path, file: Path, name: str) -> str:
    """Move a file into a folder under another name; return this name."""
    os.replace(file, folder / name)
    return name
