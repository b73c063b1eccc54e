"""Fitting: reducer, metric and codes of a snapshot are computed before the turn that commits them.

So others can read and write meanwhile, for as long as it takes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.vector_file import VectorFile

from ...catalog.state import State
from ...open_index import OpenIndex
from ...storage.commit_log import AppendedFile
from ...storage.derived_documents import with_documents
from ...storage.head import Undo
from ...storage.index_files import encode_rows, fit, save_codes
from ...storage.snapshot import Loaded, Snapshot
from ...storage.work_folder import work_folder

ROLES = ("reducer", "rescorer", "codes")
"""Files that a fit writes, besides the norms."""


@dataclass(frozen=True)
class Fitted:
    """A fit of a snapshot's rows.

    Attributes
    ----------
    state : of the snapshot, but with the settings, the figures and the files of the fit.
    index : in memory, with codes and norms of the rows.
    folder : contains the files.
    notes : for the user.
    """

    state: State
    index: ReducedIndex
    folder: Path
    notes: list[str]


def refit(core: OpenIndex, settings: Settings, undo: Undo = "alone") -> list[str]:
    """Fit reducer, metric and codes with other settings; returns notes for the user.

    Rows that others add during the fit are coded with it. If others renumber the rows, or
    replace their vectors, it starts over. `undo` is as for `CommitLog.transaction`.
    """
    notes = list[str]()
    while True:
        if not len(core.snapshot):
            raise InputError(f"{core.path} holds no documents; expected some to fit on")
        with work_folder(core.path) as folder:
            if (fitted := _fitted(core, settings, folder)) is not None:
                with core.change():
                    if core.state.epoch == fitted.state.epoch:
                        state = core.commit_log.next_state()
                        more = commit_fit(core, fitted, state, undo)
                        return [*fitted.notes, *notes, *more]
        notes = [
            "others compacted or migrated the index during the fit, or undid a change: it "
            "started over"
        ]


def _fitted(core: OpenIndex, settings: Settings, folder: Path) -> Fitted | None:
    """Fit the newest snapshot in another folder; None if its rows are replaced meanwhile."""
    commit_log = core.commit_log
    state, moments = core.read(
        lambda snapshot: (snapshot.state, commit_log.moments(snapshot.state))
    )
    try:
        return fit_in(folder, core, replace(state, requested=settings), moments)
    except (CorruptError, OSError):
        if core.state.epoch == state.epoch:
            raise
        return None


def fit_in(folder: Path, core: OpenIndex, state: State, moments: Moments) -> Fitted:
    """Fit a state's vectors, which have these moments, by its requested settings.

    The files are written to another folder.
    """
    requested = state.requested.checked(state.dim)
    chosen, notes = requested.fitted(moments)
    vectors = state.vector_file(core.path, state.rows)
    state = fit(folder, replace(state, requested=requested), vectors, moments, chosen)
    index, state = encode_rows(folder, state, vectors, core.commit_log.workers)
    return Fitted(state, index, folder, notes)


def commit_fit(core: OpenIndex, fitted: Fitted, state: State, undo: Undo = "alone") -> list[str]:
    """Commit a fit with the next state, whose rows may be more; returns notes for the user."""
    commit_log, own = core.commit_log, fitted.state
    state = replace(
        state,
        requested=own.requested,
        settings=own.settings,
        fit=own.fit,
        certificate=None,
    )
    files = {role: record for role, record in state.files.items() if role not in ROLES}
    for role in [role for role in ROLES if role in own.files]:
        name = _moved(core.path, fitted.folder / own.files[role].name, state.new_name(role))
        files[role] = replace(own.files[role], name=name)
    norms = own.norms and _moved(core.path, fitted.folder / own.norms, state.new_name("norms"))
    state, index = replace(state, files=files, norms=norms), fitted.index
    if norms is not None and index.metric is not None:
        file = VectorFile(core.path / norms, 1, own.rows, np.float32)
        index.metric = replace(index.metric, norms=file)
    index = index.extended_to(state.vector_file(core.path, state.rows))
    state, saved_rows = save_codes(core.path, state, index, own.rows)
    state, grown = with_documents(commit_log, state)
    if index.metric is not None:
        grown = [*grown, AppendedFile(index.metric.norms)]
    commit_log.commit(state, grown=grown, undo=undo)
    core.show(Snapshot.of(commit_log, Loaded(index, saved_rows)))
    more = state.rows - own.rows
    noun = core.snapshot.noun
    return [f"{more:,} {noun} that others added during the fit are coded with it"] if more else []


def _moved(folder: Path, file: Path, name: str) -> str:
    os.replace(file, folder / name)
    return name
