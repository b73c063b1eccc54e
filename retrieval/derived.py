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


def derive(
    folder: Path,
    state: State,
    vectors: VectorFile,
    moments: Moments,
    settings: Settings,
    progress: Progress = silent,
) -> tuple[ReducedIndex, State]:
    """Fit the reducer and build codes and norms for all vectors, under new file names.

    The state that comes back names the new files; nothing refers to them until it is committed.
    """
    reducer = settings.make_reducer().fit_moments(moments)
    number = f"{state.generation:06d}"
    files = dict(state.files)
    files["reducer"] = publish(folder / f"reducer-{number}.safetensors", reducer.save)
    files.pop("rescorer", None)
    rescorer, norms = None, None
    if settings.candidates:
        rescorer = Rescorer.fit(moments, settings.beta, settings.gamma)
        files["rescorer"] = publish(folder / f"rescorer-{number}.safetensors", rescorer.save)
        norms = _norms(folder / f"norms-{number}.f32")
    kind = kind_named(settings.kind)
    index = ReducedIndex(
        reducer,
        FaissIndex(kind, reducer.n_components, len(vectors)),
        vectors,
        rescorer=rescorer,
        norms=norms,
        candidates=settings.candidates,
    )
    index.train(kind)
    index.extend(progress)
    files["codes"] = publish(folder / f"codes-{number}.faiss", index.index.save)
    return index, replace(
        state, settings=settings, files=files, norms=norms.path.name if norms else None
    )


def load_index(folder: Path, state: State, vectors: VectorFile) -> ReducedIndex:
    """The index of a committed state, its files checked first; rows not coded yet are reduced.

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
    index.extend()
    return index


def save_codes(folder: Path, state: State, index: ReducedIndex, saved_rows: int) -> State:
    """Write the codes again if more rows are missing from the file than opening should redo."""
    total = len(index)
    if total - saved_rows <= max(TAIL_ROWS, total // TAIL_SHARE):
        return state
    name = f"codes-{state.generation:06d}.faiss"
    files = state.files | {"codes": publish(folder / name, index.index.save)}
    return replace(state, files=files)


def _norms(path: Path, rows: int = 0) -> VectorFile:
    return VectorFile(path, dim=1, rows=rows, dtype=np.float32)
