"""Derived files: reducer, metric, norms and codes, rebuilt from the vectors when necessary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from slimdex.errors import CorruptError
from slimdex.indexes.arrays import Rows, sample_rows
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import FLAT, kind_named
from slimdex.indexes.reducers.drift import SAMPLED_ROWS, code_error, variance_kept
from slimdex.indexes.reducers.linear import Identity
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.reducers.reducer import Reducer, load_reducer
from slimdex.indexes.search.reduced_index import ReducedIndex, train_index
from slimdex.indexes.search.rescoring import Metric, Rescorer
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.atomic_files import publish
from slimdex.system.workers import IN_THIS_PROCESS, Workers

from .ids import IDS
from .state import Fit, State

NOT_INDEX = ("origins", IDS)
"""Roles of files that are not part of the index of vectors."""
TAIL_ROWS = 8192
"""Rows that may be missing from the codes on disk before they are rewritten..."""
TAIL_SHARE = 20
"""...or one row in so many, if that is more. The rest is reduced when the index is opened."""


def with_moments(folder: Path, state: State, moments: Moments) -> State:
    """Write the moments of the rows that are live in a state; return the state that names them."""
    record = publish(folder / state.new_name("moments"), moments.save)
    files = state.files | {"moments": record}
    return replace(
        state, files=files, moments_rows=state.encoded, moments_deletions=state.deletion_count
    )


def fit(
    folder: Path, state: State, vectors: VectorFile, moments: Moments, settings: Settings
) -> State:
    """Fit the reducer and, for rescoring, the metric, under new file names.

    The returned state names the new files, and is not committed yet. It has no certificate, and
    figures of `indexes.reducers.drift` about the rows of the fit, to measure drift later.
    """
    reducer = settings.fit_reducer(vectors, moments)
    files = dict(state.files)
    files["reducer"] = publish(folder / state.new_name("reducer"), reducer.save)
    files.pop("rescorer", None)
    files.pop("table", None)
    if settings.rescores:
        rescorer = Rescorer.fit(moments, settings.beta, settings.gamma)
        files["rescorer"] = publish(folder / state.new_name("rescorer"), rescorer.save)

    of_fit = Fit(
        settings=settings,
        documents=moments.n,
        rows=state.encoded,
        is_provisional=state.waits,
        variance_kept=variance_kept(reducer, moments),
    )
    return replace(state, files=files, fit=of_fit, certificate=None)


def encode_rows(
    folder: Path, state: State, vectors: VectorFile, workers: Workers = IN_THIS_PROCESS
) -> tuple[ReducedIndex, State]:
    """Code all vectors with the reducer and metric that `state` names.

    Returns the index, and the state that names the new files of codes and norms.
    """
    of_fit = state.fit
    assert of_fit is not None
    settings = of_fit.settings
    state = replace(state, norms=state.new_name("norms") if settings.rescores else None)
    reducer = _reducer(folder, state)
    codes_of_none = train_index(kind_named(settings.kind), reducer, vectors)
    index = _index(folder, replace(state, encoded=0), reducer, codes_of_none, vectors)
    index.extend(workers)

    # Estimate how much the codes change the vectors, to measure drift later.
    error = estimate_code_error(index, np.arange(len(index)))
    state = replace(state, fit=replace(of_fit, code_error=error))
    return index, with_codes(folder, state, index)


def load_index(folder: Path, state: State) -> ReducedIndex:
    """Load the index of a committed state, checking its files; its `extend` codes the other rows.

    Before the first documents it is empty. Raises `CorruptError` if a file is missing or damaged;
    `slimdex repair` rebuilds it.
    """
    if state.fit is None:
        unfitted = Identity(state.dim).fit_moments(Moments(state.dim))
        return ReducedIndex(unfitted, FaissIndex(FLAT, state.dim), state.vector_file(folder))
    for role, record in state.files.items():
        if role not in NOT_INDEX:  # which may have been replaced since
            record.check(folder)

    reducer = _reducer(folder, state)
    codes = FaissIndex.load(folder / state.files["codes"].name)
    _expect(folder, state, "codes", codes.dim, reducer.n_components)
    if len(codes) != state.code_rows:
        name = folder / state.files["codes"].name
        raise CorruptError(f"{name}: {len(codes)} rows; expected {state.code_rows}")
    return _index(folder, state, reducer, codes, state.vector_file(folder))


def save_codes(folder: Path, state: State, index: ReducedIndex) -> State:
    """Rewrite the codes if too many rows are missing from their file; return the state."""
    total = len(index)
    if total - state.code_rows <= max(TAIL_ROWS, total // TAIL_SHARE):
        return state
    return with_codes(folder, state, index)


def with_codes(folder: Path, state: State, index: ReducedIndex) -> State:
    """Write the codes of an index; return the state that names their file."""
    codes = publish(folder / state.new_name("codes"), index.index.save)
    return replace(state, files=state.files | {"codes": codes}, code_rows=len(index))


def estimate_code_error(index: ReducedIndex, rows: Rows) -> float | None:
    """Mean error of the codes of a sample of rows (n,), ignoring those without a vector."""
    rows = rows[sample_rows(len(rows), SAMPLED_ROWS, seed=0)]
    return code_error(index.reducer, index.index, index.vectors.take(rows))


def _index(
    folder: Path, state: State, reducer: Reducer, codes: FaissIndex, vectors: VectorFile
) -> ReducedIndex:
    """The index of these vectors, whose first `state.encoded` rows have norms."""
    assert state.fit is not None
    metric = None
    if state.norms is not None:
        rescorer = Rescorer.load(folder / state.files["rescorer"].name)
        _expect(folder, state, "rescorer", len(rescorer.shift), state.dim)
        norms = VectorFile(folder / state.norms, 1, state.encoded, FLOAT32)
        metric = Metric(rescorer, vectors, norms)
    candidates = state.fit.settings.candidates
    return ReducedIndex(reducer, codes, vectors, metric=metric, asked_candidates=candidates)


def _reducer(folder: Path, state: State) -> Reducer:
    """Load the reducer of a state."""
    reducer = load_reducer(folder / state.files["reducer"].name)
    _expect(folder, state, "reducer", reducer.n_features, state.dim)
    return reducer


def _expect(folder: Path, state: State, role: str, dimensions: int, expected: int) -> None:
    """Raise `CorruptError` if the file of a role has another number of dimensions."""
    if dimensions != expected:
        name = folder / state.files[role].name
        raise CorruptError(f"{name}: {dimensions} dimensions; expected {expected}")
