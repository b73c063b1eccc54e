"""Derived files: segments, lines and words, each rebuilt from another one when necessary.

A commit that adds more than a few rows names a folder with the words of all rows; most of its files
are those of the previous folder.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from slimdex.errors import CorruptError
from slimdex.indexes.arrays import NO_ROWS, Rows, batches, from_row
from slimdex.system.progress import progress

from ..lexical.tokens import TERMS, Terms
from ..lexical.word_index import WordIndex, would_merge, write_extended
from .document_store import DocumentStore
from .lines import (
    NONE_COMPRESSED,
    CompressedLines,
    DocumentFile,
    line_and_rows,
    text_value,
)
from .new_documents import NO_DOCUMENTS, NewDocuments
from .next_commit import AppendedFile, Change
from .segments import write_segment
from .snapshot import Snapshot
from .state import MOST_LATE, Lines, Segment, State

READ_AT_ONCE = 1024
VALUES_AT_ONCE = 1 << 20
"""Documents, and values of their columns, read from the segments at a time."""
LATE_SHARE = 4
LONGEST_LATE = 1 << 14
"""The lexical index may lack at most one row in so many, and texts of at most so many bytes."""
MOST_DELETED = 0.2
"""Largest share of rows with words that are deleted before an addition."""


def with_documents(change: Change, state: State) -> tuple[State, list[AppendedFile]]:
    """Append the lines of a change's new documents.

    If the type of a column has changed, all lines are rewritten, since older values changed too.
    Returns the state with these lines, and the two files that have grown.
    """
    new = change.new
    lines = change.base.state.lines
    if lines is None or not lines.fit(change.columns):
        store = change.base.store.with_columns(change.columns)
        return with_new_documents(store, state, change.path, new)
    file = DocumentFile(change.path, lines, change.base.state.rows)
    return _append_lines(state, file, new.lines_and_rows(), change.columns, new.compressed)


def with_new_documents(
    store: DocumentStore,
    state: State,
    folder: Path,
    new: NewDocuments = NO_DOCUMENTS,
    *,
    live: bool = False,
) -> tuple[State, list[AppendedFile]]:
    """Write the lines of a store's documents, then of new ones, to new files of a folder.

    With `live`, deleted documents of the store are left out. Returns the state with these lines,
    and both files.
    """
    lines = Lines(state.new_name("documents"), state.new_name("offsets"), is_whole=True)
    try:
        for name in lines.names:
            (folder / name).unlink(missing_ok=True)  # of a commit that failed
        old = map(line_and_rows, _values(store, 0, store.rows, live=live))
        every_line = chain(old, new.lines_and_rows())
        return _append_lines(state, DocumentFile(folder, lines, 0), every_line, store.columns)
    except BaseException:
        for name in lines.names:
            (folder / name).unlink(missing_ok=True)
        raise


def restore_dictionary(snapshot: Snapshot) -> list[str]:
    """Restore damaged lines of the dictionary from the segments.

    The dictionary is the first lines of the file of documents. Without it, later lines can't be
    read, including those of documents that are in no segment yet. Returns one message about the
    restored lines in a list, which is empty if none was restored.
    """
    state = snapshot.state
    damaged = snapshot.store.damaged_in_dictionary()
    if state.lines is None or not damaged:
        return []

    # Only segments have the values of lost lines; the rows after them can't be read yet.
    file = DocumentFile(snapshot.path, state.lines, state.rows)
    in_segments = replace(snapshot.manifest, state=replace(state, rows=state.segment_rows))
    store = DocumentStore(snapshot.store.engine, in_segments)
    restored = 0
    for row in damaged:
        (values,) = _values(store, row, row + 1)
        restored += file.restore(row, values)
    if not restored:
        return []
    return [f"{snapshot.path / state.lines.documents}: damaged in {restored} documents"]


def with_rebuilt_segments(
    store: DocumentStore, state: State, damaged: Collection[Segment]
) -> State:
    """Return the state with damaged segments rebuilt from the lines.

    Raises `CorruptError` if a line is damaged, too.
    """
    segments = list[Segment]()
    for segment in state.segments:
        if segment not in damaged:
            segments.append(segment)
            continue
        state = replace(state, generation=state.generation + 1)
        path = store.path / state.new_name("segment")
        segments.append(_from_lines(store, path, range(segment.first, segment.stop)))
    return replace(state, segments=segments)


def _from_lines(store: DocumentStore, path: Path, rows: range) -> Segment:
    """Write a segment of the documents of some rows, read from their lines."""
    spans = batches(rows.stop, READ_AT_ONCE, rows.start)
    parts = (store.values_in_lines(span.start, span.stop) for span in spans)
    with store.connection() as connection:
        return write_segment(connection, path, rows, [*store.columns.items()], parts)


def check_lines(snapshot: Snapshot) -> None:
    """Raise `CorruptError` if a document has other values in the lines than in its segment."""
    state = snapshot.state
    store = snapshot.store
    if state.lines is None or not state.lines.fit(store.columns):
        return

    # Documents of segments, in order; later ones are only in lines.
    file = DocumentFile(snapshot.path, state.lines, state.rows)
    firsts = snapshot.document_rows.first_rows(np.arange(state.segment_rows)).tolist()
    documents = _values(store, 0, state.segment_rows, stage="comparing documents")
    documents_by_row = zip(firsts, documents, strict=True)
    while few := dict(islice(documents_by_row, READ_AT_ONCE)):
        different = file.others(few)
        if different:
            path = snapshot.path / state.lines.documents
            raise CorruptError(f"{path}: row {different[0]} differs from its segment")


def _append_lines(
    state: State,
    file: DocumentFile,
    lines: Iterator[tuple[bytes, int]],
    columns: Mapping[str, str],
    known: CompressedLines = NONE_COMPRESSED,
) -> tuple[State, list[AppendedFile]]:
    """Append lines to a file; return the state with them, and both files that have grown.

    `lines` has each document's line and number of rows; `known` are lines already compressed.
    Raises `CorruptError` if the file then has another number of rows than the state.
    """
    before = [each.nbytes for each in file.files]
    file = file.append(lines, columns, known)
    if file.rows != state.rows:
        path = file.files[0].path
        raise CorruptError(f"{path}: documents of {file.rows} rows; expected {state.rows}")
    grown = map(AppendedFile, file.files, before)
    return replace(state, lines=file.lines), [*grown]


def _values(
    store: DocumentStore,
    start: int,
    stop: int,
    *,
    live: bool = False,
    stage: str = "copying documents",
) -> Iterator[Sequence[Any]]:
    """Yield the values for the lines of documents from the segments, and report progress.

    These are id, title, `text_value` and the user's columns of each document that begins at a row
    from `start` to before `stop`; with `live`, only of live documents.
    """
    # Documents with many columns are read few at a time.
    columns = max(len(store.columns), 1)
    documents_at_once = max(min(READ_AT_ONCE, VALUES_AT_ONCE // columns), 1)
    for part in batches(stop, documents_at_once, start):
        cuts = store.cuts_between(part.start, part.stop)
        values = store.values(part.start, part.stop, live=live)
        for row, id, title, text, origin, *metadata in values:
            if live:  # rows are renumbered, but changed origins are known by the old numbers
                origin = store.origins.get(row, origin)
            yield [id, title, text_value(text, cuts.get(row), origin), *metadata]
        progress(stage, part.stop - start, stop - start)


def with_words(
    change: Change,
    words: Path | None,
    rows: int,
    state: State,
    deleted: Rows,
    terms: Terms = TERMS,
    written: Path | None = None,
) -> State:
    """Extend a lexical index to all rows of the next state; return the state that names it.

    If there are very few new rows, they stay out of it. A few rows are added by a thread, which the
    commit waits for.

    Parameters
    ----------
    words : the folder of an index of the first `rows` rows; None if words are not indexed.
    deleted : rows that are deleted by this commit or an earlier one.
    terms : make the terms of the rows that are added.
    written : a folder to which `write_words` has written the extended index; None if it has not.
    """
    if words is None or state.rows == rows:
        return state

    # Very few rows stay out: searches index them in memory. But an index in a work folder must
    # move.
    if words.parent == change.path and _may_be_late(change, words, rows, state.rows):
        return replace(state, words_rows=rows)

    # An index that was written beforehand need only be moved.
    name = state.new_name("words")
    state = replace(state, words=name, words_rows=None)
    if written is not None:
        os.replace(written, change.path / name)
        return state

    # A few rows are added by a thread, so their texts are read into memory first.
    added = _texts_from(change.base, change.new, rows, deleted)
    if state.rows - rows <= READ_AT_ONCE:
        path = change.path / name
        few = [*added]
        change.write_meanwhile(partial(write_extended, words, rows, path, few, terms=terms))
    else:
        write_extended(words, rows, change.path / name, added, terms)
    return state


def _texts_from(
    snapshot: Snapshot, new: NewDocuments, start: int, deleted: Rows
) -> Iterator[tuple[str, str]]:
    """Id and text of each row from `start` on, then of each row of new documents.

    Both are empty for deleted rows.
    """
    stop = snapshot.state.rows
    yield from rows_with_text(snapshot.store, start, stop, deleted)
    count = new.row_count
    for number, id_and_text in enumerate(new.ids_and_contents(), 1):
        yield id_and_text
        if number % READ_AT_ONCE == 0 or number == count:
            progress("indexing words", number, count)


def has_words_of_many_deleted(snapshot: Snapshot) -> bool:
    """True if more than `MOST_DELETED` of the rows with words are deleted."""
    state = snapshot.state
    deleted = len(snapshot.deleted)
    if state.words is None or deleted <= MOST_DELETED * state.rows:
        return False

    # Rows that were deleted when the index was written have no words in it.
    blank = WordIndex.open(snapshot.path / state.words).blank_count
    return deleted - blank > MOST_DELETED * (state.rows - blank)


def _may_be_late(change: Change, words: Path, start: int, stop: int) -> bool:
    """True if the rows from `start` to before `stop` may stay out of the lexical index.

    They must be few, with short texts.
    """
    if stop - start > min(MOST_LATE, start // LATE_SHARE):
        return False
    return change.new.longest_bytes <= LONGEST_LATE and not would_merge(words, start)


def write_words(snapshot: Snapshot, new: NewDocuments, path: Path) -> Path | None:
    """Extend a snapshot's lexical index by its later rows and new documents, in another folder.

    Returns the folder; None if there is no lexical index, or if this fails. A failure means that
    others have meanwhile removed the index's files, or that the commit will fail for the same
    reason.
    """
    state = snapshot.state
    if state.words is None or not len(new):
        return None
    try:
        rows = _texts_from(snapshot, new, state.lexical_rows, snapshot.deleted)
        write_extended(snapshot.path / state.words, state.lexical_rows, path, rows)
    except (OSError, CorruptError):
        return None
    return path


def with_new_words(snapshot: Snapshot, state: State, folder: Path, *, live: bool = False) -> State:
    """Write a new lexical index of a snapshot's rows to a folder; return the state that names it.

    Nothing is written if words are not indexed. With `live`, deleted rows are left out.
    """
    if state.words is None:
        return state
    name = state.new_name("words")
    deleted = NO_ROWS if live else snapshot.deleted
    rows = rows_with_text(snapshot.store, 0, snapshot.state.rows, deleted, live=live)
    WordIndex.create(folder / name, rows)
    return replace(state, words=name, words_rows=None)


def new_words(snapshot: Snapshot, path: Path) -> WordIndex:
    """Create a lexical index of a snapshot's rows; this needs no writer lock."""
    return WordIndex.create(
        path, rows_with_text(snapshot.store, 0, snapshot.state.rows, snapshot.deleted)
    )


def word_faults(path: Path, rows: int) -> list[str]:
    """Faults of a lexical index in a folder, which should have `rows` rows; reads every byte."""
    if not path.is_dir():
        return [f"{path}: missing; expected the words of {rows} rows"]
    try:
        return WordIndex.open(path).faults(rows)
    except CorruptError as error:
        return [str(error)]


def rows_with_text(
    store: DocumentStore, start: int, stop: int, deleted: Rows = NO_ROWS, *, live: bool = False
) -> Iterator[tuple[str, str]]:
    """Id and text to encode of each row from `start` to before `stop`.

    Both are empty for `deleted` rows. With `live`, rows of deleted documents are left out instead.
    """
    row = start
    deleted_rows = set(from_row(deleted, start).tolist())
    for part in batches(stop, READ_AT_ONCE, start):
        for id_and_text in store.ids_and_contents(part.start, part.stop, live=live):
            yield ("", "") if row in deleted_rows else id_and_text
            row += 1
        progress("indexing words", part.stop - start, stop - start)
