"""Adding: documents are staged, encoded and committed; an interrupted addition is finished."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.search.reduced_index import NO_ROWS

from .catalog.metadata_columns import widened
from .ingest import encoding, writer
from .ingest.staging import Addition, stage
from .ingest.writer import Added
from .open_index import OpenIndex
from .quality import refitting
from .sources.given_vectors import GivenVectors, as_given
from .sources.tabular.records import as_documents


def add_given(
    core: OpenIndex,
    documents: Any,
    *,
    vectors: GivenVectors | NDArray[Any] | None = None,
    refit: str = "auto",
) -> Added:
    """Add documents in any form that `Collection.add` takes; the caller reports the notes."""
    read, columns = as_documents(documents)
    new = [core.store.columns.new(types) for types in columns]
    given = None if vectors is None else as_given(vectors)
    return add(core, Addition(read, new, given), refit=refit)


def add(core: OpenIndex, addition: Addition, *, refit: str = "auto") -> Added:
    """Stage, encode and commit documents; `refit` is as for `Collection.add`."""
    refitting.check_refit(refit)
    if addition.vectors is None and not core.has_encoder:
        raise InputError(f"{core.path}: built from given vectors; expected vectors for these")
    start = perf_counter()
    with core.change():
        before = core.store.columns.committed
        staged = stage(core.commit_log, addition, lambda: core.encoder)
        notes = widened(before, core.store.columns.committed)
        core.show(core.snapshot.with_columns(core.store.columns.committed))
        if core.state.unfinished:
            added = resume(core, addition.vectors, refit=refit, start=start, gone=staged.gone)
        else:
            writer.delete(core, staged.gone)
            added = Added(0, 0, [], deleted=len(staged.gone))
        notes += added.notes
        return replace(added, notes=notes, unchanged=staged.unchanged, moved=staged.moved)


def resume(
    core: OpenIndex,
    vectors: GivenVectors | None = None,
    *,
    refit: str = "auto",
    start: float | None = None,
    gone: Rows = NO_ROWS,
) -> Added:
    """Finish an interrupted addition from where its vectors end.

    Parameters
    ----------
    vectors : the given vectors of the whole addition, if it had some.
    refit : as for `Collection.add`.
    start : when the addition began, by `perf_counter`; by default now.
    gone : first rows of documents to delete in the same commit.
    """
    refitting.check_refit(refit)
    start = perf_counter() if start is None else start
    with core.change():
        if not core.state.unfinished:
            raise InputError(f"{core.path}: nothing to resume; expected an unfinished addition")
        encoded = encoding.encode_pending(core.commit_log, core.encoder, vectors, gone)
        added = writer.add_pending(core, gone)
        settled = refitting.after_addition(core, perf_counter() - start, refit)
        notes = [*added.notes, *settled.notes]
        return replace(added, notes=notes, refitted=settled.refitted, encoded=encoded)
