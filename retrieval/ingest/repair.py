"""Integrity: verify an index by its path, and rebuild what can be rebuilt."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from slimdex.indexes.codes.kinds import KINDS
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.options import AUTO

from ..open_index import OpenIndex
from ..storage.verification import catalog_faults, derived_faults, index_faults, vector_faults
from . import writer
from .reencoding import encode_lost


def verify(path: str | Path, *, wait: float = 0.0) -> list[str]:
    """One line for each fault, naming the file; an empty list means that all is well.

    Every byte is read: checksums of derived files, of each block of vectors and norms, and of
    DuckDB's own blocks; and the numbers of documents, vectors, codes and moments must agree.
    Another process that writes is waited for as by `Collection.open`.
    """
    with closing(OpenIndex.open(path, read_only=True, wait=wait)) as core:
        return faults(core)


def faults(core: OpenIndex) -> list[str]:
    """A line for each fault, while no change is under way."""
    with core.unchanged() as snapshot:
        return index_faults(core.commit_log, snapshot)


def repair(
    path: str | Path,
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
    return f"`slimdex repair {core.path} --encode` encodes these documents anew"


def _replaced(core: OpenIndex) -> list[str]:
    """Rebuild all derived files; returns a line for each existing one."""
    state = core.state
    kinds = {settings.kind for settings in (state.requested, state.settings) if settings}
    for kind in kinds - KINDS.keys() - {AUTO}:
        raise InputError(
            f"{core.path}: kind {kind!r} is a factory string of its maker's; expected one "
            f"of {', '.join(KINDS)} (choose one by `slimdex reduce {core.path} --kind`)"
        )
    if state.settings is None:
        return []
    writer.rebuild(core, fit_anew=True)
    names = sorted(state.file_names - {state.vectors})
    return [f"{core.path / name}: untrusted" for name in names]
