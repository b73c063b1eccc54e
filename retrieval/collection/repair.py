"""Integrity: verify an index by its path, and rebuild what can be rebuilt."""

from __future__ import annotations

from pathlib import Path

from slimdex.indexes.choices import AUTO
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.kinds import KINDS

from ..sources.given_vectors import GIVEN
from .collection import Collection
from .verification import catalog_faults, derived_faults, vector_faults


def verify(path: str | Path, *, wait: float = 0.0) -> list[str]:
    """One line for each fault, naming the file; an empty list means that all is well.

    Every byte is read: checksums of derived files, of each block of vectors and norms, and of
    DuckDB's own blocks; and the numbers of documents, vectors, codes and moments must agree.
    Another process that writes is waited for as by `Collection.open`.
    """
    with Collection.open(path, read_only=True, wait=wait) as collection:
        return collection.verify()


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
    with Collection.open(path, wait=wait) as collection:
        if lost := catalog_faults(collection._ledger):
            raise CorruptError(f"{lost[0]}; it can't be rebuilt: restore it from a copy")
        if model is not None:
            collection.move_model(model)
        lost = vector_faults(collection._ledger)
        if lost and not encode:
            raise CorruptError(f"{lost[0]}; {_way_out(collection)}")
        if lost:
            collection.encode_lost()
        if untrusted:
            return lost + _replaced(collection)
        faults = derived_faults(collection._ledger, collection._snapshot)
        if faults:
            collection._rebuild()
        return lost + faults


def _way_out(collection: Collection) -> str:
    if collection._state.encoder.get("type") == GIVEN:
        return "vectors given from elsewhere can't be rebuilt: restore the file from a copy"
    return f"`slimdex repair {collection.path} --encode` encodes these documents anew"


def _replaced(collection: Collection) -> list[str]:
    """Make all derived files anew; returns a line for each that was there."""
    state = collection._state
    kinds = {settings.kind for settings in (state.requested, state.settings) if settings}
    for kind in kinds - KINDS.keys() - {AUTO}:
        raise InputError(
            f"{collection.path}: kind {kind!r} is a factory string of its maker's; expected one "
            f"of {', '.join(KINDS)} (choose one by `slimdex reduce {collection.path} --kind`)"
        )
    if state.settings is None:
        return []
    collection._rebuild(fit_anew=True)
    names = sorted(state.file_names - {state.vectors})
    return [f"{collection.path / name}: untrusted" for name in names]
