"""Changes of an index: each ends in one commit, and then searches get its snapshot.

Searches of an older snapshot are not disturbed: its arrays in memory never change, and its files
stay readable when they are removed from the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import NO_ROWS
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.vector_file import BLOCK_BYTES, VectorFile

from ..atomic_files import publish
from ..catalog.state import Certificate, State
from ..open_index import OpenIndex
from ..storage.commit_log import AppendedFile, BlockFile, CommitLog
from ..storage.derived_documents import with_documents, with_new_documents
from ..storage.derived_lexical import with_new_words, with_words
from ..storage.index_files import encode_rows, fit, save_codes
from ..storage.snapshot import Loaded, Snapshot


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


def delete(core: OpenIndex, documents: Rows) -> None:
    """Delete documents by their first rows, and subtract their vectors from the moments."""
    if not len(documents):
        return
    with core.change():
        commit_log, snapshot = core.commit_log, core.snapshot
        rows = snapshot.document_rows.all_rows(documents)
        moments = commit_log.moments().subtract(commit_log.moments_of(rows))
        commit_log.commit(commit_log.with_moments(commit_log.next_state(), moments), delete=rows)
        core.show(snapshot.without(rows, commit_log))


def delete_found(core: OpenIndex, ids: Sequence[str] | None, where: str | None) -> int:
    """Delete the documents of some ids, or else those that a condition holds for; return how many.

    Raises `InputError` if an id is unknown, or the condition is invalid.
    """
    with core.change():
        if ids is not None:
            rows = core.store.ids.rows(ids)
        else:
            rows = core.view(core.snapshot).rows_where(where or "")
        delete(core, rows)
        return len(rows)


def add_pending(core: OpenIndex, gone: Rows) -> Added:
    """Commit the staged documents, all encoded; delete `gone` and older ones of the same ids.

    Within `core.change()`.
    """
    commit_log, snapshot = core.commit_log, core.snapshot
    old, store = commit_log.state, commit_log.store
    vectors, replaced_documents = commit_log.vectors(old.staged), store.ids.replaced(old.rows)
    rows = commit_log.document_rows(old.staged)
    replaced = rows.all_rows(np.union1d(replaced_documents, gone))
    kept = commit_log.moments().subtract(commit_log.moments_of(replaced))
    moments = commit_log.moments_from(old.rows, vectors).merge(kept)
    settings, notes = _outgrown(old, moments, kept.n)
    notes += _unread(commit_log)
    state = replace(commit_log.next_state(), rows=old.staged, source=None)
    state = commit_log.with_moments(state, moments)
    state, grown = with_documents(commit_log, state)
    deleted = np.union1d(snapshot.deleted, replaced)
    state, words = with_words(commit_log, snapshot.words, state, deleted)
    if settings is None:
        loaded = _extend(commit_log, snapshot, state, vectors, replaced, grown)
    else:
        state = fit(commit_log.path, state, vectors, moments, settings)
        loaded = _encode(commit_log, state, grown, replaced)
    there = rows.number_before(old.rows)
    count = rows.number_before(old.staged) - there
    core.show(Snapshot.of(commit_log, deleted, loaded, words))
    return Added(count, len(replaced_documents), notes, deleted=len(gone))


def refit(core: OpenIndex, settings: Settings) -> list[str]:
    """Fit reducer, metric and codes with other settings; returns notes for the user."""
    with core.change():
        commit_log, snapshot = core.commit_log, core.snapshot
        if not len(snapshot):
            raise InputError(f"{core.path} holds no documents; expected some to fit on")
        requested, moments = settings.checked(commit_log.state.dim), commit_log.moments()
        fitted, notes = requested.fitted(moments)
        state = replace(commit_log.next_state(), requested=requested)
        state, grown = with_documents(commit_log, state)
        state = fit(commit_log.path, state, commit_log.vectors(), moments, fitted)
        core.show(Snapshot.of(commit_log, snapshot.deleted, _encode(commit_log, state, grown)))
        return notes


def keep_certificate(core: OpenIndex, certificate: Certificate) -> None:
    """Keep a proof about the settings in force."""
    with core.change():
        core.commit_log.commit(replace(core.state, certificate=certificate))
        core.show(replace(core.snapshot, state=core.state))


def index_words(core: OpenIndex, wanted: bool) -> None:
    """Index the words of all documents, or drop that index, and with it the choice of `auto`."""
    with core.change():
        commit_log, state = core.commit_log, core.commit_log.next_state()
        if wanted:
            state = with_new_words(commit_log, replace(state, words=state.new_name("words")))
        else:
            state = replace(state, words=None, hybrid=None)
        commit_log.commit(state)
        core.show(core.snapshot.with_words(state))


def keep_fusion(core: OpenIndex, hybrid: str | None) -> None:
    """Set how `auto` fuses vectors and words."""
    with core.change():
        core.commit_log.commit(replace(core.state, hybrid=hybrid))
        core.show(replace(core.snapshot, state=core.state))


def rebuild(core: OpenIndex, fit_again: bool = False) -> None:
    """Rebuild the derived files, but fit reducer and metric only if damaged or `fit_again`."""
    with core.change():
        if core.state.settings is not None:
            core.show(_rebuilt(core.commit_log, core.snapshot, core.state.settings, fit_again))


def _rebuilt(
    commit_log: CommitLog, snapshot: Snapshot, settings: Settings, fit_again: bool
) -> Snapshot:
    if not commit_log.state.rows:  # nothing to fit on: the next addition does it
        state = replace(commit_log.next_state(), settings=None, norms=None, lines=None, files={})
        state = with_new_words(commit_log, state)
        state = replace(state, certificate=None, fit={})
        commit_log.commit(state)
        return Snapshot.of(commit_log, snapshot.deleted)
    moments = commit_log.moments_of(commit_log.live_rows())
    state = commit_log.with_moments(commit_log.next_state(), moments)
    state, grown = with_new_documents(commit_log, state)
    state = with_new_words(commit_log, state)
    if fit_again or not _fitted_files_are_whole(commit_log):
        fitted = state.requested.fitted(moments)[0] if moments.n else settings
        if fit_again:
            settings = fitted
        elif fitted != settings or not moments.n:  # keep what the old fit was based on
            moments = commit_log.moments_from(0, commit_log.vectors())
        state = fit(commit_log.path, state, commit_log.vectors(), moments, settings)
    return Snapshot.of(commit_log, snapshot.deleted, _encode(commit_log, state, grown))


def compact(core: OpenIndex) -> int:
    """Replace the files with copies without deleted rows; returns how many documents were deleted.

    The reducer, the metric and the codebooks are kept, and with them each row's code.

    Raises `CorruptError` if a block of vectors or norms is damaged: its copy would get a valid
    checksum.
    """
    with core.change():
        commit_log, snapshot = core.commit_log, core.snapshot
        if not snapshot.deleted_count:
            return 0
        try:
            state, files, loaded = _compacted(commit_log, snapshot)
        except BaseException:
            commit_log.remove_strays()
            raise
        commit_log.commit_compacted(state, files)
        core.show(Snapshot.of(commit_log, NO_ROWS, loaded))
        return snapshot.deleted_count


def _compacted(
    commit_log: CommitLog, snapshot: Snapshot
) -> tuple[State, list[BlockFile], Loaded | None]:
    """Write the files of `compact`; return the new state, its append-only files, and its index."""
    old, live = commit_log.state, commit_log.live_rows()
    gone, state = old.rows - len(live), commit_log.next_state()
    encoded = commit_log.vectors(old.encoded)
    commit_log.check(encoded)
    name = commit_log.path / state.new_name("vectors")
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
    state, grown = with_new_documents(commit_log, state, live=True)
    state = with_new_words(commit_log, state, live=True)
    files = [vectors, *(each.file for each in grown)]
    norms, before = None, snapshot.index
    if before.metric is not None:
        commit_log.check(before.metric.norms)
        name = commit_log.path / state.new_name("norms")
        norms = before.metric.norms.copy(name, live)
        state = replace(state, norms=norms.path.name)
        files.append(norms)
    index = before.without_rows(state.vector_file(commit_log.path, len(live)), norms)
    index.extend()
    codes = publish(commit_log.path / state.new_name("codes"), index.index.save)
    state = replace(state, files=state.files | {"codes": codes})
    return state, files, Loaded(index, len(live))


def _unread(commit_log: CommitLog) -> list[str]:
    """Notes on texts that the encoder read only in part."""
    first, rows = commit_log.state.rows, commit_log.document_rows(commit_log.state.staged)
    added = rows.number_before(commit_log.state.staged) - rows.number_before(first)
    notes = []
    if cut := (rows.firsts >= first).sum():
        passages = rows.counts[rows.firsts >= first].sum()
        notes.append(f"{cut:,} of {added:,} documents cut into {passages:,} passages")
    if empty := int((commit_log.textless() >= first).sum()):
        notes.append(f"{empty:,} of {added:,} documents have no text: no search finds them")
    count, part = commit_log.store.readings.count_cut(first)
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
    commit_log: CommitLog,
    snapshot: Snapshot,
    state: State,
    vectors: VectorFile,
    replaced: Rows,
    grown: Sequence[AppendedFile],
) -> Loaded:
    """Add the new rows to the existing codes and norms, and commit."""
    loaded = snapshot.loaded()
    if len(loaded.index.index) > commit_log.state.rows:  # by an addition that failed later
        loaded = Snapshot.of(commit_log, snapshot.deleted).loaded()
    norms = loaded.index.metric.norms if loaded.index.metric else None
    first_block = norms.nbytes // BLOCK_BYTES if norms else 0
    if norms is not None:
        commit_log.check_tail(norms)
    index = loaded.index.extended_to(vectors)
    state, saved_rows = save_codes(commit_log.path, state, index, loaded.saved_rows)
    if index.metric is not None:
        grown = [*grown, AppendedFile(index.metric.norms, first_block)]
    commit_log.commit(state, delete=replaced, grown=grown)
    return Loaded(index, saved_rows)


def _encode(
    commit_log: CommitLog, state: State, grown: Sequence[AppendedFile], replaced: Rows = NO_ROWS
) -> Loaded:
    """Code all rows with the fitted files that the state names, and commit."""
    vectors = commit_log.vectors(state.rows)
    index, state = encode_rows(commit_log.path, state, vectors, commit_log.workers)
    if index.metric is not None:
        grown = [*grown, AppendedFile(index.metric.norms)]
    commit_log.commit(state, delete=replaced, grown=grown)
    return Loaded(index, len(index))


def _fitted_files_are_whole(commit_log: CommitLog) -> bool:
    files = commit_log.state.files
    try:
        for role in {"reducer", "rescorer"} & files.keys():
            files[role].check(commit_log.path)
    except CorruptError:
        return False
    return True
