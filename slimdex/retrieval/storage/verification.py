"""Faults of an index's files and numbers, one line each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from slimdex.indexes.errors import CorruptError
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.vectors.vector_file import BLOCK_BYTES, VectorFile

from ..atomic_files import MANIFEST
from .commit_log import BlockFile, CommitLog
from .derived_lexical import word_faults
from .document_file import parts
from .snapshot import Snapshot


def index_faults(commit_log: CommitLog, snapshot: Snapshot) -> list[str]:
    """All faults; only the segments' if they are damaged, since others can't be determined.

    Reads every byte: checksums of derived files, of each block of append-only files, of segments
    and of DuckDB's blocks; and compares the numbers of documents, vectors, codes and moments.
    """
    return segment_faults(commit_log) or [
        *vector_faults(commit_log),
        *replacement_faults(commit_log),
        *derived_faults(commit_log, snapshot),
    ]


def vector_faults(commit_log: CommitLog) -> list[str]:
    """Faults of the vector file, block by block."""
    path = commit_log.path / commit_log.state.vectors
    return _row_faults(commit_log, path, commit_log.vectors)


def replacement_faults(commit_log: CommitLog) -> list[str]:
    """Faults of the vectors that are to replace the others, block by block."""
    new = commit_log.state.replacement
    if new is None:
        return []
    return _row_faults(
        commit_log, commit_log.path / new.vectors, lambda: new.vector_file(commit_log.path)
    )


def segment_faults(commit_log: CommitLog) -> list[str]:
    """Faults of the segments and readings: damaged bytes, missing documents."""
    path, state, store = commit_log.path, commit_log.state, commit_log.committed
    faults = list[str]()
    for segment in state.segments:
        faults += _attempt(lambda segment=segment: segment.check(path))  # type: ignore[misc]
    if store.readings.file is not None:
        faults += _block_faults(commit_log, store.readings.file)
    if faults:
        return faults
    try:
        store.read_all()
        numbered = store.is_numbered(state.rows)
        rows = store.passages.rows(state.rows)
    except CorruptError as error:
        return [str(error)]
    if not numbered:
        return [f"{path}: expected documents in rows 0 to {state.rows - 1}, each once"]
    known = commit_log.manifest
    textless = store.readings.textless()
    if not (
        np.array_equal(rows.continued(), known.document_rows.continued())
        and np.array_equal(textless[textless < state.rows], known.textless)
    ):
        return [f"{path / MANIFEST}: other passages than those of the segments"]
    return []


def derived_faults(commit_log: CommitLog, snapshot: Snapshot) -> list[str]:
    """Faults of derived files: checksums, then inconsistent numbers."""
    state, faults = snapshot.state, list[str]()
    if state.settings is None:
        return faults
    for record in state.files.values():
        faults += _attempt(lambda record=record: record.check(commit_log.path))  # type: ignore[misc]
    if state.norms:
        path = commit_log.path / state.norms
        faults += _row_faults(commit_log, path, lambda: VectorFile(path, 1, state.rows, np.float32))
    if state.lines:
        for part in parts(commit_log.path, state.lines, state.rows):
            faults += _attempt(part.check) or _block_faults(commit_log, part)
    if state.words:
        faults += word_faults(commit_log.path / state.words, state.rows)
    return faults or _attempt(lambda: _check_numbers(commit_log, snapshot))


def _check_numbers(commit_log: CommitLog, snapshot: Snapshot) -> None:
    state, index = snapshot.state, snapshot.index
    moments = Moments.load(commit_log.path / state.files["moments"].name)
    if len(index) != state.rows:
        name = state.files["codes"].name
        raise CorruptError(f"{name}: {len(index)} rows; expected at most {state.rows}")
    expected = snapshot.searchable_count
    if moments.n != expected:
        name = state.files["moments"].name
        raise CorruptError(f"{name}: {moments.n} rows; expected {expected}")


def _row_faults(commit_log: CommitLog, path: Path, open_: Callable[[], VectorFile]) -> list[str]:
    try:
        file = open_()
        bad = _bad_blocks(commit_log, file)
    except (CorruptError, OSError) as error:
        return [str(error) if path.name in str(error) else f"{path}: {error}"]
    return [f"{path}: damaged in rows {_rows(file, block)}" for block in bad]


def _block_faults(commit_log: CommitLog, part: BlockFile) -> list[str]:
    try:
        bad = _bad_blocks(commit_log, part)
    except OSError as error:
        return [f"{part.path}: {error}"]
    return [
        f"{part.path}: damaged in bytes {block * BLOCK_BYTES} to "
        f"{min((block + 1) * BLOCK_BYTES, part.nbytes) - 1}"
        for block in bad
    ]


def _bad_blocks(commit_log: CommitLog, file: BlockFile) -> list[int]:
    """Numbers of the blocks whose checksum differs from the manifest's."""
    actual, expected = dict(file.blocks()), commit_log.manifest.checksums.of(file.path.name)
    return sorted(b for b in actual.keys() | expected.keys() if actual.get(b) != expected.get(b))


def _rows(file: VectorFile, block: int) -> str:
    first = block * BLOCK_BYTES // file.row_bytes
    last = min((block + 1) * BLOCK_BYTES // file.row_bytes, len(file) - 1)
    return f"{first} to {last}"


def _attempt(check: Callable[[], None]) -> list[str]:
    try:
        check()
    except CorruptError as error:
        return [str(error)]
    return []
