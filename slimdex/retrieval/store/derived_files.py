"""The log, and files that are derived from it: columns and words.

A commit that adds more than a few rows names a folder with the words of all rows; most of its files
are those of the previous folder.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path

from slimdex.errors import CorruptError
from slimdex.indexes.arrays import batches
from slimdex.system.atomic_files import FileRecord
from slimdex.system.progress import progress

from ..lexical.word_index import WordIndex, would_merge, write_extended
from .columns import write_columns
from .document_store import DocumentStore
from .log import Log, PackedBlock
from .new_documents import NO_DOCUMENTS, NewDocuments
from .next_commit import Change
from .snapshot import Snapshot
from .state import MOST_LATE, ColumnFile, State

READ_AT_ONCE = 1024
"""Documents read from the log at a time."""
LATE_SHARE = 4
LONGEST_LATE = 1 << 14
"""The lexical index may lack at most one row in so many, and records of at most so many bytes."""


def with_blocks(log: Log, state: State, blocks: Iterable[PackedBlock]) -> State:
    """Append blocks of records to a log; return the state with the longer log.

    Raises `CorruptError` if the log then has another number of rows than the state.
    """
    longer = log.append(blocks)
    if longer.rows != state.rows:
        path = log.files[0].path
        raise CorruptError(f"{path}: documents of {longer.rows} rows; expected {state.rows}")
    return replace(state, log=longer.state)


def with_columns_again(
    store: DocumentStore, state: State, damaged: Collection[FileRecord]
) -> State:
    """Return the state with damaged files of columns derived from the log again.

    Raises `CorruptError` if a record is damaged.
    """
    files = list[ColumnFile]()
    for file in state.column_files:
        if file in damaged:
            state = replace(state, generation=state.generation + 1)
            path = store.path / state.new_name("columns")
            file = new_columns(store, path, range(file.first, file.stop))
        files.append(file)
    return replace(state, column_files=files)


def new_columns(store: DocumentStore, path: Path, rows: range) -> ColumnFile:
    """Write the file of the columns of some rows, derived from the log."""
    parts = (
        store.values(span.start, span.stop) for span in batches(rows.stop, READ_AT_ONCE, rows.start)
    )
    with closing(store.engine.cursor()) as connection:
        return write_columns(connection, path, rows, [*store.columns.items()], parts)


def with_words(change: Change, state: State, written: Path | None = None) -> State:
    """Extend the lexical index to all rows of the next state; return the state that names it.

    Very few new rows stay out of it: searches index them in memory. `written` is a folder to which
    `write_words` has written the extended index; None if it has not.
    """
    base = change.base
    if state.words is None or not len(change.new):
        return state
    if may_be_late(base, change.new):
        return replace(state, words_rows=base.state.lexical_rows)
    name = state.new_name("words")
    if written is not None:
        os.replace(written, change.path / name)
    else:
        write_words(base, change.new, change.path / name)
    return replace(state, words=name, words_rows=None)


def may_be_late(snapshot: Snapshot, new: NewDocuments) -> bool:
    """True if new documents may stay out of a snapshot's lexical index, or it has none.

    They must be few and short, together with the rows that it lacks already.
    """
    state = snapshot.state
    start = state.lexical_rows
    if state.words is None:
        return True
    if state.rows + new.row_count - start > min(MOST_LATE, start // LATE_SHARE):
        return False
    words = snapshot.path / state.words
    return new.longest_record <= LONGEST_LATE and not would_merge(words, start)


def write_words(snapshot: Snapshot, new: NewDocuments, path: Path) -> Path:
    """Extend a snapshot's lexical index by its later rows and new documents, in another folder."""
    state = snapshot.state
    start = state.lexical_rows
    rows = rows_with_text(snapshot.store, start, new)
    write_extended(snapshot.path / str(state.words), start, path, rows)
    return path


def with_new_words(snapshot: Snapshot, state: State, folder: Path, *, live: bool = False) -> State:
    """Write a new lexical index of a snapshot's rows to a folder; return the state that names it.

    With `live`, deleted rows are left out.
    """
    name = state.new_name("words")
    WordIndex.create(folder / name, rows_with_text(snapshot.store, 0, live=live))
    return replace(state, words=name, words_rows=None)


def word_faults(path: Path, rows: int) -> list[str]:
    """Faults of a lexical index in a folder, which should have `rows` rows; reads every byte."""
    try:
        return WordIndex.open(path).faults(rows)
    except CorruptError as error:
        return [str(error)]


def rows_with_text(
    store: DocumentStore, start: int, new: NewDocuments = NO_DOCUMENTS, *, live: bool = False
) -> Iterator[tuple[str, str]]:
    """Id and text to encode of each row from `start` on, then of each row of new documents.

    With `live`, deleted documents are left out.
    """
    deleted = set(store.manifest.deleted.tolist()) if live else set[int]()
    stored = (
        (record.document.id, text)
        for row, record in store.records(start)
        if row not in deleted
        for text in record.contents
    )
    total = store.rows - start + new.row_count
    for number, id_and_text in enumerate(chain(stored, new.ids_and_contents()), 1):
        yield id_and_text
        if number % READ_AT_ONCE == 0:
            progress("indexing words", number, total)
    progress("indexing words", total, total)
