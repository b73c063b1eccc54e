"""Changes to an index by a writer; each ends in one commit and the snapshot it makes.

Searches of an older snapshot continue undisturbed: its data in memory do not change, and its
files stay readable when they are removed from the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.moments import Moments
from slimdex.indexes.reduced_index import NO_ROWS
from slimdex.indexes.settings import Settings
from slimdex.indexes.vector_file import BLOCK_BYTES, VectorFile

from ..atomic_files import publish
from ..catalog.state import Certificate, State
from .derived_documents import with_documents, with_new_documents
from .derived_words import with_new_words, with_words
from .index_files import encode_rows, fit, save_codes
from .ledger import BlockFile, Grown, Ledger
from .snapshot import Loaded, Snapshot


@dataclass(frozen=True)
class Added:
    """Result of an addition.

    Attributes
    ----------
    documents : number added.
    replaced : number of these that replaced an older document.
    unchanged : skipped as identical to existing ones.
    refitted : True if the reducer and the codes were refitted afterwards.
    deleted : documents that disappeared from their source.
    moved : number of these that were added under another id.
    encoded : texts encoded; the others kept their vectors.
    """

    documents: int
    replaced: int
    notes: list[str]
    unchanged: int = 0
    refitted: bool = False
    deleted: int = 0
    moved: int = 0
    encoded: int = 0


def delete(ledger: Ledger, snapshot: Snapshot, rows: Rows) -> Snapshot:
    """Delete documents and subtract their vectors from the moments."""
    moments = ledger.moments().subtract(ledger.moments_of(rows))
    ledger.commit(ledger.with_moments(ledger.next_state(), moments), delete=rows)
    return snapshot.without(rows, ledger)


def add_pending(ledger: Ledger, snapshot: Snapshot, gone: Rows = NO_ROWS) -> tuple[Snapshot, Added]:
    """Publish staged, encoded documents; delete those that they replace, and `gone`."""
    old, store = ledger.state, ledger.store
    vectors, replaced_documents = ledger.vectors(old.staged), store.ids.replaced(old.rows)
    rows = ledger.document_rows(old.staged)
    replaced = rows.all_rows(np.union1d(replaced_documents, gone))
    kept = ledger.moments().subtract(ledger.moments_of(replaced))
    moments = ledger.moments_from(old.rows, vectors).merge(kept)
    settings, notes = _outgrown(old, moments, kept.n)
    notes += _unread(ledger)
    state = replace(ledger.next_state(), rows=old.staged, source=None)
    state = ledger.with_moments(state, moments)
    state, grown = with_documents(ledger, state)
    state, words = with_words(ledger, snapshot.words, state)
    if settings is None:
        loaded = _extend(ledger, snapshot, state, vectors, replaced, grown)
    else:
        state = fit(ledger.path, state, vectors, moments, settings)
        loaded = _encode(ledger, state, grown, replaced)
    deleted = np.union1d(snapshot.deleted, replaced)
    there = rows.number_before(old.rows)
    count = rows.number_before(old.staged) - there
    added = Added(count, len(replaced_documents), notes, deleted=len(gone))
    return Snapshot.of(ledger, deleted, loaded, words), added


def refit(ledger: Ledger, snapshot: Snapshot, settings: Settings) -> tuple[Snapshot, list[str]]:
    """Rebuild reducer, metric and codes with other settings; also return notes."""
    requested, moments = settings.checked(ledger.state.dim), ledger.moments()
    fitted, notes = requested.fitted(moments)
    state = replace(ledger.next_state(), requested=requested)
    state, grown = with_documents(ledger, state)
    state = fit(ledger.path, state, ledger.vectors(), moments, fitted)
    return Snapshot.of(ledger, snapshot.deleted, _encode(ledger, state, grown)), notes


def certify(ledger: Ledger, snapshot: Snapshot, certificate: Certificate) -> Snapshot:
    """Store a certificate of the current settings."""
    ledger.commit(replace(ledger.state, certificate=certificate))
    return replace(snapshot, state=ledger.state)


def index_words(ledger: Ledger, snapshot: Snapshot, wanted: bool) -> Snapshot:
    """Build or delete the lexical index; deleting also resets the fusion for `auto`."""
    state = ledger.next_state()
    if wanted:
        state = with_new_words(ledger, replace(state, words=state.new_name("words")))
    else:
        state = replace(state, words=None, hybrid=None)
    ledger.commit(state)
    return replace(snapshot, state=ledger.state, _words=[])


def fuse(ledger: Ledger, snapshot: Snapshot, hybrid: str | None) -> Snapshot:
    """Set the fusion for `auto`."""
    ledger.commit(replace(ledger.state, hybrid=hybrid))
    return replace(snapshot, state=ledger.state)


def rebuild(ledger: Ledger, snapshot: Snapshot, fit_anew: bool = False) -> Snapshot:
    """Rebuild the derived files; the reducer and the metric only if damaged, or with `fit_anew`."""
    settings = ledger.state.settings
    if settings is None:
        return snapshot
    if not ledger.state.rows:  # nothing to fit on: the next addition fits
        state = replace(ledger.next_state(), settings=None, norms=None, lines=None, files={})
        state = with_new_words(ledger, state)
        state = replace(state, certificate=None, fit={})
        ledger.commit(state)
        return Snapshot.of(ledger, snapshot.deleted)
    moments = ledger.moments_of(ledger.live_rows())
    state = ledger.with_moments(ledger.next_state(), moments)
    state, grown = with_new_documents(ledger, state)
    state = with_new_words(ledger, state)
    if fit_anew or not _fitted_files_are_whole(ledger):
        fitted = state.requested.fitted(moments)[0] if moments.n else settings
        if fit_anew:
            settings = fitted
        elif fitted != settings or not moments.n:  # keep what the old fit was based on
            moments = ledger.moments_from(0, ledger.vectors())
        state = fit(ledger.path, state, ledger.vectors(), moments, settings)
    return Snapshot.of(ledger, snapshot.deleted, _encode(ledger, state, grown))


def compact(ledger: Ledger, snapshot: Snapshot) -> Snapshot:
    """Replace files by copies without the deleted rows; answers stay the same.

    The reducer, the metric and the codebooks are kept, so rows keep their codes.

    Raises `CorruptError` if a block of vectors or norms is damaged: its copy would get a valid
    checksum.
    """
    try:
        state, files, loaded = _compacted(ledger, snapshot)
    except BaseException:
        ledger.remove_strays()
        raise
    ledger.commit_compacted(state, files)
    return Snapshot.of(ledger, NO_ROWS, loaded)


def _compacted(ledger: Ledger, snapshot: Snapshot) -> tuple[State, list[BlockFile], Loaded | None]:
    """Write the files of `compact`; return the new state, its append-only files, and its index."""
    old, live = ledger.state, ledger.live_rows()
    gone, state = old.rows - len(live), ledger.next_state()
    encoded = ledger.vectors(old.encoded)
    ledger.check(encoded)
    name = ledger.path / state.new_name("vectors")
    vectors = encoded.copy(name, np.concatenate([live, np.arange(old.rows, old.encoded)]))
    state = replace(
        state,
        vectors=vectors.path.name,
        rows=len(live),
        staged=old.staged - gone,
        encoded=old.encoded - gone,
        fit=old.fit and old.fit | {"rows": int(np.searchsorted(live, old.fit["rows"]))},
    )
    if old.settings is None:
        return state, [vectors], None
    state, grown = with_new_documents(ledger, state, live=True)
    state = with_new_words(ledger, state, live=True)
    files = [vectors, *(each.file for each in grown)]
    norms, before = None, snapshot.index
    if before.metric is not None:
        ledger.check(before.metric.norms)
        name = ledger.path / state.new_name("norms")
        norms = before.metric.norms.copy(name, live)
        state = replace(state, norms=norms.path.name)
        files.append(norms)
    index = before.without_rows(state.vector_file(ledger.path, len(live)), norms)
    index.extend()
    codes = publish(ledger.path / state.new_name("codes"), index.index.save)
    state = replace(state, files=state.files | {"codes": codes})
    return state, files, Loaded(index, len(live))


def _unread(ledger: Ledger) -> list[str]:
    """Notes on texts that the encoder read only in part."""
    first, rows = ledger.state.rows, ledger.document_rows(ledger.state.staged)
    added = rows.number_before(ledger.state.staged) - rows.number_before(first)
    notes = []
    if cut := (rows.firsts >= first).sum():
        passages = rows.counts[rows.firsts >= first].sum()
        notes.append(f"{cut:,} of {added:,} documents cut into {passages:,} passages")
    if empty := int((ledger.textless() >= first).sum()):
        notes.append(f"{empty:,} of {added:,} documents have no text: no search finds them")
    count, part = ledger.store.readings.count_cut(first)
    if count:
        notes.append(
            f"{count:,} of {added:,} documents are longer than the encoder reads: "
            f"{share(part)} of their text was read, and only that is found"
        )
    return notes


def share(part: float) -> str:
    """Format a share as a percentage.

    >>> share(0.256), share(0.003)
    ('26%', 'less than 1%')
    """
    return f"{part:.0%}" if part >= 0.01 else "less than 1%"


def _outgrown(state: State, moments: Moments, kept: int) -> tuple[Settings | None, list[str]]:
    """Settings to refit with, or None; and notes.

    A refit is necessary at first, when a small corpus has grown, and when nothing that the reducer
    was fitted on is left: no document is `kept`.
    """
    if state.settings is None or (not kept and moments.n):
        return state.requested.fitted(moments)
    if state.requested.matches(state.settings, state.dim):
        return None, []
    try:
        fitted, notes = state.requested.fitted(moments)
    except InputError:  # deletions left fewer dimensions than were asked for
        return None, []
    return (fitted, notes) if fitted != state.settings else (None, [])


def _extend(
    ledger: Ledger,
    snapshot: Snapshot,
    state: State,
    vectors: VectorFile,
    replaced: Rows,
    grown: Sequence[Grown],
) -> Loaded:
    """Add the new rows to the existing codes and norms, and commit."""
    loaded = snapshot.loaded()
    if len(loaded.index.index) > ledger.state.rows:  # by an addition that failed later
        loaded = Snapshot.of(ledger, snapshot.deleted).loaded()
    norms = loaded.index.metric.norms if loaded.index.metric else None
    first_block = norms.nbytes // BLOCK_BYTES if norms else 0
    if norms is not None:
        ledger.check_tail(norms)
    index = loaded.index.extended_to(vectors)
    state, saved_rows = save_codes(ledger.path, state, index, loaded.saved_rows)
    if index.metric is not None:
        grown = [*grown, Grown(index.metric.norms, first_block)]
    ledger.commit(state, delete=replaced, grown=grown)
    return Loaded(index, saved_rows)


def _encode(
    ledger: Ledger, state: State, grown: Sequence[Grown], replaced: Rows = NO_ROWS
) -> Loaded:
    """Code all rows with the fitted files that the state names, and commit."""
    vectors = ledger.vectors(state.rows)
    index, state = encode_rows(ledger.path, state, vectors, ledger.workers)
    if index.metric is not None:
        grown = [*grown, Grown(index.metric.norms)]
    ledger.commit(state, delete=replaced, grown=grown)
    return Loaded(index, len(index))


def _fitted_files_are_whole(ledger: Ledger) -> bool:
    files = ledger.state.files
    try:
        for role in {"reducer", "rescorer"} & files.keys():
            files[role].check(ledger.path)
    except CorruptError:
        return False
    return True
