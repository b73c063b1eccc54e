"""Integrity: verify an index by its path, and rebuild damaged files."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from slimdex.indexes.codes.kinds import KINDS
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.options import AUTO

from ..encoders.opening import weights_faults
from ..open_index import OpenIndex
from ..storage.verification import catalog_faults, derived_faults, index_faults, vector_faults
from . import writer
from .reencoding import encode_lost


def verify(path: str | Path, *, wait: float = 0.0) -> list[str]:
    """Return one line for each fault, naming the file; an empty list if there is none.

    Reads every byte: checksums of derived files, of each block of vectors and norms, and of
    DuckDB's own blocks, and of the weights of a transformer on this machine; the numbers of
    documents, vectors, codes and moments must agree. Waits for another process that writes, as
    `Collection.open` does.
    """
    with closing(OpenIndex.open(path, read_only=True, wait=wait)) as core:
        return faults(core)


def faults(core: OpenIndex) -> list[str]:
    """Return a line for each fault, while no change is in progress."""
    with core.unchanged() as snapshot:
        found = index_faults(core.commit_log, snapshot)
        return [*found, *weights_faults(snapshot.state.encoder)]


def repair(
    path: str | Path,
    *,
    untrusted: bool = False,
    encode: bool = False,
    model: str | None = None,
    wait: float = 0.0,
) -> list[str]:
    """Rebuild what `verify` finds damaged; returns the faults that were repaired.

    Parameters
    ----------
    encode : encode again the documents whose vectors are missing or damaged, and no others. After
        an interruption, the next call continues.
    model : where the encoder's model is, if it has moved; see `Collection.move_model`.
    untrusted : rebuild all that is derived from documents and vectors without reading it first. A
        FAISS file from others may contain anything, and so may its checksum in the catalog.
    wait : seconds to wait for other processes that read or write.

    Raises
    ------
    CorruptError
        If the catalog is damaged, or vectors are damaged and `encode` is false. Then nothing is
        changed.
    InputError
        If an untrusted index has its own FAISS factory string.
    """
    with closing(OpenIndex.open(path, wait=wait)) as core:
        if lost := catalog_faults(core.commit_log):
            raise CorruptError(f"{lost[0]}; it can't be rebuilt: restore it from a copy")
        if model is not None:
            core.move_model(model)
        lost = vector_faults(core.commit_log)
        if lost and not encode:
            raise CorruptError(f"{lost[0]}; {_way_out(core)}")
        if lost:
            encode_lost(core)
        if untrusted:
            return lost + _replaced(core)
        derived = derived_faults(core.commit_log, core.snapshot)
        if derived:
            writer.rebuild(core)
        return lost + derived


def _way_out(core: OpenIndex) -> str:
    if not core.has_encoder:
        return "vectors given from elsewhere can't be rebuilt: restore the file from a copy"
    return f"`slimdex repair {core.path} --encode` encodes these documents again"


def _replaced(core: OpenIndex) -> list[str]:
    """Rebuild all derived files; returns a line for each file that existed."""
    state = core.state
    kinds = {settings.kind for settings in (state.requested, state.settings) if settings}
    for kind in kinds - KINDS.keys() - {AUTO}:
        raise InputError(
            f"{core.path}: kind {kind!r} is an untrusted factory string; expected one "
            f"of {', '.join(KINDS)} (choose one by `slimdex reduce {core.path} --kind`)"
        )
    if state.settings is None:
        return []
    writer.rebuild(core, fit_again=True)
    names = sorted(state.file_names - {state.vectors})
    return [f"{core.path / name}: untrusted" for name in names]
