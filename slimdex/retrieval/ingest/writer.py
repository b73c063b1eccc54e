"""Changes of an index: each ends in one commit, and then searches get its snapshot.

Searches of an older snapshot are not disturbed: its arrays in memory never change, and its files
stay readable when they are removed from the folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import NO_ROWS
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.vector_file import VectorFile

from ..catalog.passages_table import DocumentRows
from ..catalog.state import Certificate, State
from ..lexical.tokens import TERMS, Terms
from ..lexical.word_index import WordIndex
from ..storage.commit_log import AppendedFile, CommitLog
from ..storage.derived_documents import with_documents, with_new_documents
from ..storage.derived_lexical import new_words, with_new_words, with_words
from ..storage.index_files import encode_rows, fit, save_codes
from ..storage.snapshot import Loaded, Snapshot
from ..storage.work_folder import work_folder
from .staging import Staged

if TYPE_CHECKING:
    from ..collection import Collection


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
    file_notes : "path" and "note" of each file that was left out or could not be read.
    """

    documents: int
    replaced: int
    notes: list[str]
    unchanged: int = 0
    refitted: bool = False
    deleted: int = 0
    moved: int = 0
    encoded: int = 0
    file_notes: list[dict[str, str]] = field(default_factory=list)


def delete(collection: Collection, documents: Rows) -> None:
    """Delete documents by their first rows, and subtract their vectors from the moments."""
    if not len(documents):
        return
    with collection.change():
        commit_deletion(collection.commit_log, documents)
        collection.show()


def commit_deletion(commit_log: CommitLog, documents: Rows) -> None:
    """Commit that some documents are deleted, within `turn`."""
    rows = commit_log.document_rows().all_rows(documents)
    moments = commit_log.moments().subtract(commit_log.moments_of(rows))
    commit_log.commit(commit_log.with_moments(commit_log.next_state(), moments), delete=rows)


def delete_found(collection: Collection, ids: Sequence[str] | None, where: str | None) -> int:
    """Delete the documents of some ids, or else those that a condition holds for; return how many.

    Raises `InputError` if an id is unknown, or the condition is invalid.
    """
    with collection.change():
        if ids is not None:
            rows = collection.store.ids.rows(ids)
        else:
            rows = collection.snapshot.rows_where(where or "")
        delete(collection, rows)
        return len(rows)


def add_staged(
    commit_log: CommitLog,
    snapshot: Snapshot,
    staged: Staged,
    appended: AppendedFile,
    terms: Terms = TERMS,
    words: Path | None = None,
    *,
    are_given: bool = False,
) -> tuple[Added, Loaded]:
    """Commit staged documents; delete those that are gone, and older ones of the same ids.

    Within the transaction that has staged them. Returns the index in memory, too.

    Parameters
    ----------
    snapshot : of the state before.
    appended : file of vectors, with those of the documents.
    terms, words : make the terms of the new rows; a folder with them, if it is written already.
    are_given : True unless the vectors are the encoder's.
    """
    old, store, gone = commit_log.state, commit_log.store, staged.gone
    vectors = commit_log.vectors(staged.stop)
    replaced_documents = store.ids.replaced(old.rows)
    rows = commit_log.document_rows(staged.stop)
    replaced = rows.all_rows(np.union1d(replaced_documents, gone))
    state = replace(commit_log.next_state(), rows=staged.stop)
    deleted = np.union1d(snapshot.deleted, replaced)
    with with_words(commit_log, snapshot.words, state, deleted, terms, words) as state:
        kept = commit_log.moments().subtract(commit_log.moments_of(replaced))
        moments = commit_log.moments_from(old.rows, vectors).merge(kept)
        state = commit_log.with_moments(state, moments)
        state, grown = with_documents(commit_log, state)
        settings, notes = _outgrown(old, moments, kept.n)
        if settings is None:
            loaded, state, norms = _extended(commit_log, snapshot, state, vectors)
        else:
            state = fit(commit_log.path, state, vectors, moments, settings)
            loaded, state, norms = _encoded(commit_log, state)
        if not are_given:
            notes += _unread(commit_log, rows, staged.stop)
    commit_log.commit(state, delete=replaced, grown=[appended, *grown, *norms])
    count = rows.number_before(staged.stop) - rows.number_before(old.rows)
    return Added(count, len(replaced_documents), notes, deleted=len(gone)), loaded


def keep_certificate(collection: Collection, certificate: Certificate) -> None:
    """Keep a proof about the settings in force."""
    with collection.change():
        collection.commit_log.commit(replace(collection.state, certificate=certificate))
        collection.show()


def index_lexical(collection: Collection, wanted: bool) -> None:
    """Index the words of all documents, or drop that index, and with it the choice of `auto`.

    The index is made before the turn, and starts over if others renumber the rows meanwhile.
    """
    while wanted:
        with work_folder(collection.path) as folder:
            snapshot = collection.opened_snapshot()
            words = new_words(snapshot.store, snapshot.manifest, folder / "words")
            with collection.change():
                if collection.snapshot.manifest.keeps_rows_of(snapshot.manifest):
                    _commit_words(collection, words)
                    return
    with collection.change():
        collection.commit_log.commit(
            replace(collection.commit_log.next_state(), words=None, hybrid=None)
        )
        collection.show()


def _commit_words(collection: Collection, words: WordIndex) -> None:
    """Commit a lexical index, extended by the rows that were added since."""
    commit_log = collection.commit_log
    state = commit_log.next_state()
    if len(words) == state.rows:
        state = replace(state, words=state.new_name("words"))
        os.replace(words.path, collection.path / state.new_name("words"))
    with with_words(commit_log, words, state, collection.snapshot.deleted) as state:
        pass
    commit_log.commit(state)
    collection.show()


def keep_fusion(collection: Collection, hybrid: str | None) -> None:
    """Set how `auto` fuses vectors and words."""
    with collection.change():
        collection.commit_log.commit(replace(collection.state, hybrid=hybrid))
        collection.show()


def rebuild(collection: Collection, fit_again: bool = False) -> None:
    """Rebuild the derived files, but fit reducer and metric only if damaged or `fit_again`.

    Changed origins are dropped if damaged or `fit_again`: the next sync reads all files.

    It can't be undone, nor the change before it, whose files may be damaged.
    """
    with collection.change():
        if fit_again or collection.state.settings is not None:
            collection.show(_rebuilt(collection.commit_log, collection.state.settings, fit_again))


def _rebuilt(commit_log: CommitLog, settings: Settings | None, fit_again: bool) -> Snapshot:
    if not commit_log.state.rows:  # nothing to fit on: the next addition does it
        state = replace(commit_log.next_state(), settings=None, norms=None, lines=None, files={})
        state = with_new_words(commit_log, state)
        state = replace(state, certificate=None, fit={})
        commit_log.commit(state, undo="never")
        return Snapshot.of(commit_log)
    if settings is None:
        raise CorruptError(f"{commit_log.path}: {commit_log.state.rows} rows without settings")
    state, deleted = commit_log.next_state(), commit_log.manifest.deleted
    moments = commit_log.moments_of(np.delete(np.arange(state.rows), deleted))
    if fit_again or not _are_whole(commit_log, {"origins"}):
        state = replace(state, files={r: f for r, f in state.files.items() if r != "origins"})
    state = commit_log.with_moments(state, moments)
    state, grown = with_new_documents(commit_log, state)
    state = with_new_words(commit_log, state)
    if fit_again or not _are_whole(commit_log, {"reducer", "rescorer"}):
        fitted = state.requested.fitted(moments)[0] if moments.n else settings
        if fit_again:
            settings = fitted
        elif fitted != settings or not moments.n:  # keep what the old fit was based on
            moments = commit_log.moments_from(0, commit_log.vectors())
        state = fit(commit_log.path, state, commit_log.vectors(), moments, settings)
    loaded, state, norms = _encoded(commit_log, state)
    commit_log.commit(state, grown=[*grown, *norms], undo="never")
    return Snapshot.of(commit_log, loaded)


def _unread(commit_log: CommitLog, rows: DocumentRows, stop: int) -> list[str]:
    """Notes on new texts, before row `stop`, that the encoder read only in part.

    `rows` has their documents.
    """
    first = commit_log.state.rows
    added = rows.number_before(stop) - rows.number_before(first)
    notes = []
    if cut := (rows.firsts >= first).sum():
        passages = rows.counts[rows.firsts >= first].sum()
        notes.append(f"{cut:,} of {added:,} documents cut into {passages:,} passages")
    if empty := int((commit_log.textless() >= first).sum()):
        notes.append(f"{empty:,} of {added:,} documents have no text: no search finds them")
    count, part = commit_log.store.readings.count_cut(rows, NO_ROWS, first)
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
    """Settings to refit with, or None; and notes, unless the index was a small one before.

    A refit is necessary at first, when a small corpus has grown, and when nothing that the reducer
    was fitted on is left: no document is `kept`.
    """
    if state.settings is None:
        return state.requested.fitted(moments)
    was_small = not state.requested.matches(state.settings, state.dim)
    if not kept and moments.n:
        fitted, notes = state.requested.fitted(moments)
        return fitted, [] if was_small else notes
    if not was_small:
        return None, []
    try:
        fitted, _ = state.requested.fitted(moments)
    except InputError:  # deletions left fewer dimensions than were asked for
        return None, []
    return (fitted, []) if fitted != state.settings else (None, [])


Coded = tuple[Loaded, State, Sequence[AppendedFile]]
"""An index with the new rows, the state with its files, and the file of norms, if any."""


def _extended(
    commit_log: CommitLog, snapshot: Snapshot, state: State, vectors: VectorFile
) -> Coded:
    loaded = snapshot.loaded()
    if len(loaded.index.index) > commit_log.state.rows:  # by an addition that failed later
        loaded = Snapshot.of(commit_log).loaded()
    norms = loaded.index.metric.norms if loaded.index.metric else None
    before = norms.nbytes if norms else 0
    index = loaded.index.extended_to(vectors)
    state, saved_rows = save_codes(commit_log.path, state, index, loaded.saved_rows)
    grown = [AppendedFile(index.metric.norms, before)] if index.metric else []
    return Loaded(index, saved_rows), state, grown


def _encoded(commit_log: CommitLog, state: State) -> Coded:
    vectors = commit_log.vectors(state.rows)
    index, state = encode_rows(commit_log.path, state, vectors, commit_log.workers)
    grown = [AppendedFile(index.metric.norms)] if index.metric else []
    return Loaded(index, len(index)), state, grown


def _are_whole(commit_log: CommitLog, roles: Set[str]) -> bool:
    files = commit_log.state.files
    try:
        for role in roles & files.keys():
            files[role].check(commit_log.path)
    except CorruptError:
        return False
    return True
