"""Adding: documents are staged, encoded and committed; an interrupted addition is finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.search.reduced_index import NO_ROWS

from .catalog.metadata_columns import widened
from .encoders.base import Encoder
from .ingest import encoding, writer
from .ingest.preparing import Prepared
from .ingest.staging import Addition, DuplicateKeyError, stage
from .ingest.writer import Added, Finished
from .lexical.tokens import TERMS, Terms
from .open_index import OpenIndex
from .quality import refitting
from .sources.given_vectors import GivenVectors, as_given
from .sources.tabular.records import as_documents
from .storage.snapshot import Snapshot

if TYPE_CHECKING:
    from .ingest.made_up_ids import MadeUpIds
    from .sources.opened_sources import Sources


def add_given(
    core: OpenIndex,
    documents: Any,
    *,
    vectors: GivenVectors | ArrayLike | None = None,
    refit: str = "auto",
) -> Added:
    """Add documents in any form that `Collection.add` takes; the caller reports the notes."""
    read = as_documents(documents)
    new = [core.store.columns.new(types) for types in read.columns]
    given = None if vectors is None else as_given(vectors)
    added = add(core, Addition(read.documents, new, given), refit=refit)
    return replace(added, notes=[*read.notes(), *added.notes])


def add(core: OpenIndex, addition: Addition, *, refit: str = "auto") -> Added:
    """Encode, stage and commit documents; `refit` is as for `Collection.add`."""
    refitting.check_refit(refit)
    if addition.vectors is None and not core.has_encoder:
        raise InputError(f"{core.path}: built from given vectors; expected vectors for these")
    core.check_writable()  # before texts are encoded, which takes long
    start = perf_counter()
    prepared = Prepared(core, addition)
    with core.change():
        with core.commit_log.transaction() if prepared.is_small else nullcontext():
            finished = _committed(core, prepared)
        _show(core, finished)
    added = finished.added
    return _settled(core, added, start, refit) if added.documents else added


def _committed(core: OpenIndex, prepared: Prepared) -> Finished:
    """Stage and commit documents, in their turn."""
    commit_log = core.commit_log
    before = core.store.columns.committed
    staged = stage(commit_log, prepared.addition, lambda: prepared.encoder)
    notes = widened(before, core.store.columns.seen)
    if commit_log.state.unfinished:
        encoder = prepared.encoder if core.has_encoder else core.encoder
        finished = _finished(core, encoder, prepared.addition.vectors, staged.gone, prepared.terms)
    else:
        if len(staged.gone):
            writer.commit_deletion(commit_log, staged.gone)
        finished = Finished(Added(0, 0, [], deleted=len(staged.gone)))
    notes += finished.added.notes
    added = replace(finished.added, notes=notes, unchanged=staged.unchanged, moved=staged.moved)
    return replace(finished, added=added)


def resume(
    core: OpenIndex,
    vectors: GivenVectors | None = None,
    *,
    refit: str = "auto",
) -> Added:
    """Finish an interrupted addition from where its vectors end.

    Parameters
    ----------
    vectors : the given vectors of the whole addition, if it had some.
    refit : as for `Collection.add`.
    """
    refitting.check_refit(refit)
    start = perf_counter()
    with core.change():
        if not core.state.unfinished:
            raise InputError(f"{core.path}: nothing to resume; expected an unfinished addition")
        finished = _finished(core, core.encoder, vectors)
        _show(core, finished)
    return _settled(core, finished.added, start, refit)


def _finished(
    core: OpenIndex,
    encoder: Encoder,
    vectors: GivenVectors | None,
    gone: Rows = NO_ROWS,
    terms: Terms = TERMS,
) -> Finished:
    """Encode and commit what is staged; delete the documents `gone` in the same commit."""
    encoded = encoding.encode_pending(core.commit_log, encoder, vectors, gone)
    finished = writer.add_pending(core, gone, terms)
    return replace(finished, added=replace(finished.added, encoded=encoded))


def _show(core: OpenIndex, finished: Finished) -> None:
    """Give a committed addition to searches."""
    if finished.loaded is None:
        core.show()
    else:
        core.show(Snapshot.of(core.commit_log, finished.loaded))


def _settled(core: OpenIndex, added: Added, start: float, refit: str) -> Added:
    """Check the fit after an addition that began at `start`; refit if necessary."""
    settled = refitting.after_addition(core, perf_counter() - start, refit)
    return replace(added, notes=[*added.notes, *settled.notes], refitted=settled.refitted)


def add_read(
    core: OpenIndex,
    sources: Sources,
    ids: MadeUpIds,
    *,
    refit: str = "auto",
    missing: Callable[[int], Rows] | None = None,
) -> Added:
    """Add the documents of sources with their ids; `missing` is as for `Addition`."""
    try:
        with places_told(core, sources):
            addition = Addition(
                sources.documents(ids.readings),
                sources.columns(core.store),
                sources.vectors,
                sources.fingerprint(),
                ids.origins,
                missing,
            )
            added = add(core, addition, refit=refit)
    except DuplicateKeyError as error:
        raise InputError(
            f"id {error.id!r} occurs twice, in {sources.place(error.first, ids.readings)} and "
            f"{sources.place(error.second, ids.readings)}; expected each id once"
        ) from error
    return replace(added, notes=[*ids.notes, *added.notes, *sources.left_out()])


@contextmanager
def places_told(core: OpenIndex, sources: Sources) -> Iterator[None]:
    """If documents can't be encoded, raise an error that names their file beside their ids."""
    try:
        yield
    except encoding.EncodingError as error:
        from .ingest.made_up_ids import MadeUpIds  # with the readers of all sources

        ids = MadeUpIds.of(sources.opened, core.state, core.store)
        place = sources.place_of(error.ids[0], ids.readings)
        raise InputError(str(error) if place is None else f"{place}: {error}") from error
