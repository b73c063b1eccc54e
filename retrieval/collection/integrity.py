"""Integrity: find every fault of an index, rebuild what can be rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.moments import Moments
from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.registry import KINDS
from slimdex.indexes.vector_file import BLOCK_BYTES, VectorFile

from ..atomic_files import CATALOG
from ..sources.given_vectors import GIVEN
from .collection import Collection


def verify(path: str | Path, *, wait: float = 0.0) -> list[str]:
    """One line for each fault, naming the file; an empty list means that all is well.

    Every byte is read: checksums of derived files, of each block of vectors and norms, and of
    DuckDB's own blocks; and the numbers of documents, vectors, codes and moments must agree.
    Another process that writes is waited for as by `Collection.open`.
    """
    with Collection.open(path, read_only=True, wait=wait) as collection:
        # Nothing else can be told from a catalog that is damaged itself.
        return _catalog_faults(collection) or (
            vector_faults(collection) + _derived_faults(collection)
        )


def repair(
    path: str | Path,
    progress: Progress = silent,
    *,
    untrusted: bool = False,
    encode: bool = False,
    model: str | None = None,
    wait: float = 0.0,
) -> list[str]:
    """Rebuild what `verify` finds at fault; returns the faults that were mended.

    Parameters
    ----------
    encode : encode documents anew whose vectors are missing or damaged. Documents that are whole
        are not; what an interruption leaves undone the next call does.
    model : where the encoder's model is, if it has moved; see `Collection.move_model`.
    untrusted : rebuild all that is derived from documents and vectors, whether at fault or not,
        and read none of it first. Whoever made a FAISS file can have put anything in it, and its
        checksum in the catalog too.
    wait : seconds to wait for other processes that read or write.

    Raises
    ------
    CorruptError
        If the catalog is damaged, or the vectors are and are not to be encoded: they are the
        truth, and nothing is changed.
    InputError
        If an untrusted index asks for a FAISS factory string of its own.
    """
    with Collection.open(path, wait=wait) as collection:
        if lost := _catalog_faults(collection):
            raise CorruptError(f"{lost[0]}; it can't be rebuilt: restore it from a copy")
        if model is not None:
            collection.move_model(model)
        lost = vector_faults(collection)
        if lost and not encode:
            raise CorruptError(f"{lost[0]}; {_way_out(collection)}")
        if lost:
            collection.encode_lost(progress)
        if untrusted:
            return lost + _replaced(collection, progress)
        faults = _derived_faults(collection)
        if faults:
            collection.rebuild(progress)
        return lost + faults


def _way_out(collection: Collection) -> str:
    if collection.state.encoder.get("type") == GIVEN:
        return "vectors given from elsewhere can't be rebuilt: restore the file from a copy"
    return f"`slimdex repair {collection.path} --encode` encodes these documents anew"


def _replaced(collection: Collection, progress: Progress) -> list[str]:
    """Make all derived files anew; returns a line for each that was there."""
    state = collection.state
    kinds = {settings.kind for settings in (state.requested, state.settings) if settings}
    for kind in kinds - KINDS.keys():
        raise InputError(
            f"{collection.path}: kind {kind!r} is a factory string of its maker's; expected one "
            f"of {', '.join(KINDS)} (choose one by `slimdex reduce {collection.path} --kind`)"
        )
    if state.settings is None:
        return []
    collection.rebuild(progress, fit_anew=True)
    names = sorted(state.file_names - {state.vectors})
    return [f"{collection.path / name}: untrusted" for name in names]


def vector_faults(collection: Collection) -> list[str]:
    """Faults of the vector file, block by block."""
    state = collection.state
    path = collection.path / state.vectors
    return _block_faults(collection, path, lambda: VectorFile(path, state.dim, state.encoded))


def _catalog_faults(collection: Collection) -> list[str]:
    catalog = collection.path / CATALOG
    staged = collection.state.staged
    try:
        collection.store.read_all()
        numbered = collection.store.is_numbered(staged)
    except CorruptError as error:
        return [str(error)]
    return (
        [] if numbered else [f"{catalog}: expected documents in rows 0 to {staged - 1}, each once"]
    )


def _derived_faults(collection: Collection) -> list[str]:
    state, faults = collection.state, list[str]()
    if state.settings is None:
        return faults
    for record in state.files.values():
        faults += _attempt(lambda record=record: record.check(collection.path))  # type: ignore[misc]
    if state.norms:
        path = collection.path / state.norms
        faults += _block_faults(
            collection, path, lambda: VectorFile(path, 1, state.rows, np.float32)
        )
    return faults or _attempt(lambda: _check_numbers(collection))


def _check_numbers(collection: Collection) -> None:
    state, index = collection.state, collection.index
    moments = Moments.load(collection.path / state.files["moments"].name)
    if len(index) != state.rows:
        name = state.files["codes"].name
        raise CorruptError(f"{name}: {len(index)} rows; expected at most {state.rows}")
    expected = state.rows - len(collection.hidden)
    if moments.n != expected and not state.moments_outdated:
        name = state.files["moments"].name
        raise CorruptError(f"{name}: {moments.n} rows; expected {expected}")


def _block_faults(collection: Collection, path: Path, open_: Callable[[], VectorFile]) -> list[str]:
    try:
        file = open_()
        found = dict(file.blocks())
    except (CorruptError, OSError) as error:
        return [str(error) if path.name in str(error) else f"{path}: {error}"]
    expected = collection.store.blocks(path.name)
    bad = sorted(b for b in found.keys() | expected.keys() if found.get(b) != expected.get(b))
    return [f"{path}: damaged in rows {_rows(file, block)}" for block in bad]


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
