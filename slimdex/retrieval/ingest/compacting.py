"""Compacting: copies of an index's files without deleted rows.

They are made without the writer lock, and committed under it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np

from slimdex.indexes.arrays import Rows, batches, without
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.system.atomic_files import publish
from slimdex.system.progress import note

from ..index import Index
from ..store.derived_files import new_columns, with_blocks, with_new_words
from ..store.document_store import READ_AT_ONCE, DocumentStore
from ..store.engine import Engine
from ..store.index_files import NOT_INDEX, with_moments
from ..store.log import Log, pack
from ..store.manifest import Manifest, append_only_files
from ..store.next_commit import Change
from ..store.origins import Origins, write_origins
from ..store.passages import DocumentRows
from ..store.row_flags import RowSets, flag_files
from ..store.snapshot import IndexInMemory, Snapshot
from ..store.state import LogFiles, State
from ..store.work_folder import work_folder

ATTEMPTS = 3
Copies = tuple[Manifest, ReducedIndex | None]
"""Manifest of files without deleted rows; the index in memory, None if none is fitted yet."""


def compact(index: Index) -> int:
    """Replace the files with copies without deleted rows; returns how many documents were deleted.

    The reducer, the metric and the codebooks are kept, and with them each row's code. The copies
    are made without the writer lock. If others change the index meanwhile, compaction starts over;
    during the last attempt, they have to wait.

    Raises `CorruptError` if a block of vectors or norms is damaged: its copy would get a valid
    checksum.
    """
    index.check_writable()
    for attempts_left in reversed(range(ATTEMPTS)):
        if not index.snapshot.deleted_count:
            break
        with nullcontext() if attempts_left else index.turn(), work_folder(index.path) as folder:
            snapshot = index.snapshot
            copies = _copy_live(index, snapshot, folder)
            if copies is not None:
                with index.change() as change:
                    if change.base.manifest == snapshot.manifest:
                        _commit_copies(change, folder, *copies)
                        return snapshot.deleted_count
        note("others changed the index while it was copied; compacting starts over")
    return 0


def _copy_live(index: Index, snapshot: Snapshot, folder: Path) -> Copies | None:
    """Copy a snapshot's live rows to a folder; None if others change the index meanwhile."""
    try:
        return _compact(snapshot, folder)
    except Exception:
        if index.snapshot.manifest == snapshot.manifest:
            raise
        return None  # others may have removed files while they were read


def _commit_copies(
    change: Change, folder: Path, manifest: Manifest, index: ReducedIndex | None
) -> None:
    """Move copies from a work folder into the index, and commit their manifest and index."""
    state = manifest.state
    loaded = None
    for path in folder.iterdir():
        if path.name in state.file_names:
            os.replace(path, change.path / path.name)

    # Let the index in memory read the moved vectors and norms.
    if index is not None:
        norms = state.norm_file(change.path)
        if index.metric is not None and norms is not None:
            index.metric = replace(index.metric, norms=norms)
        vectors = state.vector_file(change.path)
        loaded = IndexInMemory(index.with_rows_of(vectors), state.encoded)
    change.commit_copies(manifest, loaded)


def _compact(snapshot: Snapshot, folder: Path) -> Copies:
    """Write copies of a snapshot's live rows to a folder, numbered from 0 without gaps."""
    old = snapshot.state
    live = without(np.arange(old.rows), snapshot.deleted)
    state = replace(old, generation=old.generation + 1)

    # Vectors. Fewer of the first rows, on which the reducer was fitted, may be left.
    encoded = snapshot.vectors()
    snapshot.manifest.check(encoded)
    coded = live[live < old.encoded]
    vectors = encoded.copy(folder / state.new_name("vectors"), coded)
    fit = old.fit
    if fit:
        fit = fit | {"rows": int(np.searchsorted(live, fit["rows"]))}
    state = replace(
        state,
        vectors=vectors.path.name,
        rows=len(live),
        encoded=len(coded),
        fit=fit,
        files={role: file for role, file in old.files.items() if role not in NOT_INDEX},
        flags=state.new_name("flags"),
        deletions=state.new_name("deletions"),
        deletion_count=0,
        encoded_before=0,
        deletions_before=0,
        id_rows=0,
    )

    # Documents.
    rows = snapshot.document_rows
    documents = rows.first_rows(live)
    counts = rows.counts_of(documents).tolist()
    log = LogFiles(state.new_name("documents"), state.new_name("offsets"))
    records = zip(_records(snapshot, documents), counts, strict=True)
    state = with_blocks(Log(folder, log, 0), replace(state, column_files=[]), pack(records))
    state = _with_origins(snapshot.store.origins, state, documents, live, folder)

    # Row sets, and the columns.
    is_live = np.isin(rows.firsts, live)
    row_sets = RowSets(
        textless=np.searchsorted(live, without(snapshot.manifest.textless, snapshot.deleted)),
        documents=DocumentRows(np.searchsorted(live, rows.firsts[is_live]), rows.counts[is_live]),
    )
    manifest = Manifest(state, snapshot.columns, row_sets)
    if state.rows:
        flags, _ = flag_files(folder, replace(state, rows=0))
        flags.append(row_sets.flags(0, state.rows))
        with closing(Engine(folder)) as engine:
            store = DocumentStore(engine, manifest)
            columns = new_columns(store, folder / state.new_name("columns"), range(state.rows))
        state = replace(state, column_files=[columns])
        manifest = replace(manifest, state=state)

    # What is derived from documents and vectors.
    if state.words is not None:
        state = with_new_words(snapshot, state, folder, live=True)
    state = with_moments(folder, state, snapshot.moments())
    state = _compact_replacement(snapshot, state, live, folder)
    if old.settings is None:
        return _with_checksums(replace(manifest, state=state), folder), None

    # The norms and codes of live rows.
    norms = None
    old_index = snapshot.index
    if old_index.metric is not None:
        snapshot.manifest.check(old_index.metric.norms)
        norms = old_index.metric.norms.copy(folder / state.new_name("norms"), coded)
        state = replace(state, norms=norms.path.name)
    index = old_index.without_rows(state.vector_file(folder), norms)
    index.extend()
    codes = publish(folder / state.new_name("codes"), index.index.save)
    state = replace(state, files=state.files | {"codes": codes})
    return _with_checksums(replace(manifest, state=state), folder), index


def _with_checksums(manifest: Manifest, folder: Path) -> Manifest:
    """Return a manifest with the checksums of all blocks of its files, which are in a folder."""
    files = append_only_files(folder, manifest.state)
    return replace(manifest, checksums={file.path.name: file.checksums() for file in files})


def _records(snapshot: Snapshot, documents: Rows) -> Iterator[bytes]:
    """Yield the records of documents, given by their first rows."""
    for part in batches(len(documents), READ_AT_ONCE):
        yield from snapshot.store.log.read(documents[part].tolist()).values()


def _with_origins(
    origins: Origins, state: State, documents: Rows, live: Rows, folder: Path
) -> State:
    """Write the changed origins of live documents, with their new row numbers, if there are any."""
    numbers = dict(zip(documents.tolist(), np.searchsorted(live, documents).tolist(), strict=True))
    of_live = {numbers[row]: origin for row, origin in origins.items() if row in numbers}
    if not of_live:
        return state
    record = write_origins(folder / state.new_name("origins"), of_live)
    return replace(state, files=state.files | {"origins": record})


def _compact_replacement(snapshot: Snapshot, state: State, live: Rows, folder: Path) -> State:
    """Write the live rows of the vectors that will replace the index's own, if any.

    Returns a state that names the new file. It has the next generation, since the file would
    otherwise get the same name as the index's own vectors.
    """
    if state.replacement is None:
        return state
    file = state.replacement.vector_file(snapshot.path)
    snapshot.manifest.check(file)
    next_state = replace(state, generation=state.generation + 1)
    rows = live[live < len(file)]  # the new encoder has no vectors of the others yet
    live_file = file.copy(folder / next_state.new_name("vectors"), rows)
    replacement = replace(state.replacement, vectors=live_file.path.name, rows=len(live_file))
    return replace(next_state, replacement=replacement)
