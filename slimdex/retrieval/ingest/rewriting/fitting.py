"""Fitting: reducer, metric and codes of a snapshot are computed before the turn that commits them.

So others can read and write meanwhile.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.vector_file import VectorFile

from ...catalog.state import State
from ...storage.commit_log import AppendedFile
from ...storage.derived_documents import with_documents
from ...storage.index_files import encode_rows, fit, save_codes
from ...storage.manifest import Manifest, Undo
from ...storage.snapshot import Loaded, Snapshot
from ...storage.work_folder import work_folder

if TYPE_CHECKING:
    from ...collection import Collection

ROLES = ("reducer", "rescorer", "codes")
"""Files that a fit writes, besides the norms."""


@dataclass(frozen=True)
class Fitted:
    """A fit of a snapshot's rows: the index in memory, with notes for the user.

    The state is the snapshot's, but with the settings, the figures and the files of the fit, which
    are in the folder.
    """

    state: State
    index: ReducedIndex
    folder: Path
    notes: list[str]


def refit(collection: Collection, settings: Settings, undo: Undo = "alone") -> list[str]:
    """Fit reducer, metric and codes with other settings; returns notes for the user.

    Rows that others add during the fit are coded with it. If others renumber the rows, or
    replace their vectors, it starts over. `undo` is as for `CommitLog.transaction`.
    """
    notes = list[str]()
    while True:
        if not len(collection.snapshot):
            raise InputError(f"{collection.path} holds no documents; expected some to fit on")
        with work_folder(collection.path) as folder:
            if (made := _fitted(collection, settings, folder)) is not None:
                fitted, before = made
                with collection.change():
                    if collection.snapshot.manifest.keeps_rows_of(before):
                        state = collection.commit_log.next_state()
                        more = commit_fit(collection, fitted, state, undo)
                        return [*fitted.notes, *notes, *more]
        notes = [
            "others compacted or migrated the index during the fit, or undid a change: it "
            "started over"
        ]


def _fitted(
    collection: Collection, settings: Settings, folder: Path
) -> tuple[Fitted, Manifest] | None:
    """Fit the newest commit in another folder; None if its rows are replaced meanwhile."""
    commit_log = collection.commit_log
    before, moments = collection.read(
        lambda snapshot: (snapshot.manifest, commit_log.moments(snapshot.state))
    )
    try:
        state = replace(before.state, requested=settings)
        return fit_in(folder, collection, state, moments), before
    except (CorruptError, OSError):
        if collection.snapshot.manifest.keeps_rows_of(before):
            raise
        return None


def fit_in(folder: Path, collection: Collection, state: State, moments: Moments) -> Fitted:
    """Fit a state's vectors, which have these moments, by its requested settings.

    The files are written to another folder.
    """
    requested = state.requested.checked(state.dim)
    chosen, notes = requested.fitted(moments)
    vectors = state.vector_file(collection.path, state.rows)
    state = fit(folder, replace(state, requested=requested), vectors, moments, chosen)
    index, state = encode_rows(folder, state, vectors, collection.commit_log.workers)
    return Fitted(state, index, folder, notes)


def commit_fit(
    collection: Collection, fitted: Fitted, state: State, undo: Undo = "alone"
) -> list[str]:
    """Commit a fit with the next state, whose rows may be more; returns notes for the user."""
    commit_log, fitted_state = collection.commit_log, fitted.state
    state = replace(
        state,
        requested=fitted_state.requested,
        settings=fitted_state.settings,
        fit=fitted_state.fit,
        certificate=None,
    )
    files = {role: record for role, record in state.files.items() if role not in ROLES}
    for role in [role for role in ROLES if role in fitted_state.files]:
        name = _moved(
            collection.path, fitted.folder / fitted_state.files[role].name, state.new_name(role)
        )
        files[role] = replace(fitted_state.files[role], name=name)
    norms = fitted_state.norms and _moved(
        collection.path, fitted.folder / fitted_state.norms, state.new_name("norms")
    )
    state, index = replace(state, files=files, norms=norms), fitted.index
    if norms is not None and index.metric is not None:
        file = VectorFile(collection.path / norms, 1, fitted_state.rows, np.float32)
        index.metric = replace(index.metric, norms=file)
    index = index.extended_to(state.vector_file(collection.path, state.rows))
    state, saved_rows = save_codes(collection.path, state, index, fitted_state.rows)
    state, grown = with_documents(commit_log, state)
    if index.metric is not None:
        grown = [*grown, AppendedFile(index.metric.norms)]
    commit_log.commit(state, grown=grown, undo=undo)
    collection.show(Snapshot.of(commit_log, Loaded(index, saved_rows)))
    more = state.rows - fitted_state.rows
    noun = collection.snapshot.noun
    return [f"{more:,} {noun} that others added during the fit are coded with it"] if more else []


def _moved(folder: Path, file: Path, name: str) -> str:
    os.replace(file, folder / name)
    return name
