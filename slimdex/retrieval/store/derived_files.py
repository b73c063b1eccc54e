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
from slimdex.indexes.arrays import Rows, batches, from_row
from slimdex.indexes.search.reduced_index import NO_ROWS
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
    """Return the state with lines of all its documents, appending missing ones.

    If the type of a column has changed, all are rewritten, since its older values changed too.
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
    """The state with lines of a store's documents and of new ones, in new files of a folder.

    With `live`, only the live documents of the store.
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
    """Write damaged lines of the dictionary again, from the segments; return a line about them.

    Documents after the segments are only in lines that this dictionary compresses.
    """
    state = snapshot.state
    damaged = snapshot.store.damaged_in_dictionary()
    if state.lines is None or not damaged:
        return []

    # Only segments have the values of lost lines.
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

    # Documents of segments, in order; later ones are in lines alone.
    file = DocumentFile(snapshot.path, state.lines, state.rows)
    rows = np.arange(state.segment_rows)
    firsts = rows[snapshot.document_rows.documents(rows) == rows].tolist()
    documents = _values(store, 0, state.segment_rows, stage="comparing documents")
    documents_by_row = zip(firsts, documents, strict=True)
    while few := dict(islice(documents_by_row, READ_AT_ONCE)):
        if others := file.others(few):
            path = snapshot.path / state.lines.documents
            raise CorruptError(f"{path}: row {others[0]} differs from its segment")


def _append_lines(
    state: State,
    file: DocumentFile,
    lines: Iterator[tuple[bytes, int]],
    columns: Mapping[str, str],
    known: CompressedLines = NONE_COMPRESSED,
) -> tuple[State, list[AppendedFile]]:
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
    columns = max(len(store.columns), 1)
    for part in batches(stop, max(min(READ_AT_ONCE, VALUES_AT_ONCE // columns), 1), start):
        cuts = store.cuts_between(part.start, part.stop)
        values = store.values(part.start, part.stop, live=live)
        for row, id, title, text, origin, *metadata in values:
            if live:  # rows get other numbers, by which changed origins are known
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
    """The state with the words of the rows that an index lacks.

    Very few are left out. Few are written by a thread, for which the commit waits.

    Parameters
    ----------
    words : the folder of an index of the first `rows`; None without one.
    deleted : rows that are deleted with the commit or before.
    terms : make the terms of the rows that are added.
    written : a folder to which `write_words` has written them before.
    """
    if words is None or state.rows == rows:
        return state

    # Very few: searches index them in memory.
    if words.parent == change.path and _may_be_late(change, words, rows, state.rows):
        return replace(state, words_rows=rows)

    # Those written before need only be moved.
    name = state.new_name("words")
    state = replace(state, words=name, words_rows=None)
    if written is not None:
        os.replace(written, change.path / name)
        return state

    # Few are written by a thread, which needs their texts in memory.
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
    """Id and text of each row from `start` on, with those of new documents."""
    stop = snapshot.state.rows
    yield from rows_with_text(snapshot.store, start, stop, deleted)
    count = new.row_count
    for number, named in enumerate(new.ids_and_contents(), 1):
        yield named
        if number % READ_AT_ONCE == 0 or number == count:
            progress("indexing words", number, count)


def has_words_of_many_deleted(snapshot: Snapshot) -> bool:
    """True if more than `MOST_DELETED` of the rows with words are deleted."""
    state = snapshot.state
    deleted = len(snapshot.deleted)
    if state.words is None or deleted <= MOST_DELETED * state.rows:
        return False
    blank = WordIndex.open(snapshot.path / state.words).blank_count
    return deleted - blank > MOST_DELETED * (state.rows - blank)


def _may_be_late(change: Change, words: Path, start: int, stop: int) -> bool:
    """True if the rows start .. stop may stay out of the lexical index: few, with short texts."""
    if stop - start > min(MOST_LATE, start // LATE_SHARE):
        return False
    return change.new.longest_bytes <= LONGEST_LATE and not would_merge(words, start)


def write_words(snapshot: Snapshot, new: NewDocuments, path: Path) -> Path | None:
    """Write the words of a snapshot's rows, and of new documents, to a folder.

    Returns the folder; None if there is no lexical index, or this fails: if others have changed the
    index meanwhile, its files may be gone, and otherwise the commit fails for the same reason.
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
    """The next state with a new lexical index of a snapshot's rows in a folder, if it has one.

    With `live`, its rows are the live ones.
    """
    if state.words is None:
        return state
    name = state.new_name("words")
    deleted = NO_ROWS if live else snapshot.deleted
    rows = rows_with_text(snapshot.store, 0, snapshot.state.rows, deleted, live=live)
    WordIndex.create(folder / name, rows)
    return replace(state, words=name, words_rows=None)


def new_words(snapshot: Snapshot, path: Path) -> WordIndex:
    """Create a lexical index of a snapshot's rows, outside of the turn."""
    return WordIndex.create(
        path, rows_with_text(snapshot.store, 0, snapshot.state.rows, snapshot.deleted)
    )


def word_faults(path: Path, rows: int) -> list[str]:
    """Faults of a lexical index of `rows` rows; reads every byte."""
    if not path.is_dir():
        return [f"{path}: missing; expected the words of {rows} rows"]
    try:
        return WordIndex.open(path).faults(rows)
    except CorruptError as error:
        return [str(error)]


def rows_with_text(
    store: DocumentStore, start: int, stop: int, deleted: Rows = NO_ROWS, *, live: bool = False
) -> Iterator[tuple[str, str]]:
    """Id and text of each row, empty for `deleted` ones; if a text is cut, of its passages."""
    row = start
    gone = set(from_row(deleted, start).tolist())
    for part in batches(stop, READ_AT_ONCE, start):
        for named in store.ids_and_contents(part.start, part.stop, live=live):
            yield ("", "") if row in gone else named
            row += 1
        progress("indexing words", part.stop - start, stop - start)
