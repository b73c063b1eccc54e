"""Derived files: reducer, metric, norms and codes, all rebuilt from the vectors at will."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from indexes.catalog import kind_named, load_reducer
from indexes.moments import Moments
from indexes.progress import Progress, silent
from indexes.reduced_index import ReducedIndex
from indexes.rescorer import Rescorer
from indexes.settings import Settings
from indexes.vector_file import VectorFile
from indexes.vector_index import FaissIndex

from .files import publish
from .state import State

TAIL_ROWS = 8192
"""Rows that may be missing from the codes on disk before they are written again..."""
TAIL_SHARE = 20
"""...or one row in so many, if that is more. The rest is reduced when the index is opened."""


def fit(folder: Path, state: State, moments: Moments, settings: Settings) -> State:
    """Fit the reducer and, for rescoring, the metric, under new file names.

    The state that comes back names the new files; nothing refers to them until it is committed.
    """
    number = f"{state.generation:06d}"
    reducer = settings.make_reducer().fit_moments(moments)
    files = {role: record for role, record in state.files.items() if role != "rescorer"}
    files["reducer"] = publish(folder / f"reducer-{number}.safetensors", reducer.save)
    if settings.candidates:
        rescorer = Rescorer.fit(moments, settings.beta, settings.gamma)
        files["rescorer"] = publish(folder / f"rescorer-{number}.safetensors", rescorer.save)
    return replace(state, settings=settings, files=files)


def encode_rows(
    folder: Path, state: State, vectors: VectorFile, progress: Progress = silent
) -> tuple[ReducedIndex, State]:
    """Codes and norms of all vectors, by the fitted files of `state`, under new file names."""
    settings = state.settings
    assert settings is not None
    number = f"{state.generation:06d}"
    kind, reducer = kind_named(settings.kind), load_reducer(folder / state.files["reducer"].name)
    index = ReducedIndex(
        reducer,
        FaissIndex(kind, reducer.n_components, len(vectors)),
        vectors,
        candidates=settings.candidates,
    )
    if settings.candidates:
        index.rescorer = Rescorer.load(folder / state.files["rescorer"].name)
        index.norms = _norms(folder / f"norms-{number}.f32")
    index.train(kind)
    index.extend(progress)
    codes = publish(folder / f"codes-{number}.faiss", index.index.save)
    norms = index.norms.path.name if index.norms else None
    return index, replace(state, files=state.files | {"codes": codes}, norms=norms)


def load_index(folder: Path, state: State, vectors: VectorFile) -> ReducedIndex:
    """The index of a committed state, its files checked first; `extend` adds rows not coded yet.

    Raises
    ------
    CorruptError
        If a file is missing or damaged; `slimdex repair` rebuilds it.
    """
    assert state.settings is not None
    for record in state.files.values():
        record.check(folder)
    index = ReducedIndex(
        load_reducer(folder / state.files["reducer"].name),
        FaissIndex.load(folder / state.files["codes"].name),
        vectors,
        candidates=state.settings.candidates,
    )
    if state.norms:
        index.rescorer = Rescorer.load(folder / state.files["rescorer"].name)
        index.norms = _norms(folder / state.norms, state.rows)
    return index


def save_codes(
    folder: Path, state: State, index: ReducedIndex, saved_rows: int
) -> tuple[State, int]:
    """Write the codes again if more rows are missing from the file than opening should redo.

    Returns the state and how many rows its file of codes has.
    """
    total = len(index)
    if total - saved_rows <= max(TAIL_ROWS, total // TAIL_SHARE):
        return state, saved_rows
    name = f"codes-{state.generation:06d}.faiss"
    files = state.files | {"codes": publish(folder / name, index.index.save)}
    return replace(state, files=files), total


def _norms(path: Path, rows: int = 0) -> VectorFile:
    return VectorFile(path, dim=1, rows=rows, dtype=np.float32)
