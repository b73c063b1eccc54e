"""Derived lexical index: rebuilt from the segments when necessary.

Each commit that adds rows names a folder with the words of all rows; most of its files are those of
the previous folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from slimdex.indexes.arrays import Rows, batches
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.search.reduced_index import NO_ROWS

from ..lexical.tokens import TERMS, Terms
from ..lexical.word_index import WordIndex
from .change import Change
from .document_store import DocumentStore
from .snapshot import Snapshot
from .state import State

READ_AT_ONCE = 1024
MOST_DELETED = 0.2
"""Largest share of rows with words that are deleted, after an addition."""


@contextmanager
def with_words(
    change: Change,
    words: WordIndex | None,
    state: State,
    deleted: Rows,
    terms: Terms = TERMS,
    written: Path | None = None,
) -> Iterator[State]:
    """The state with the words of the rows that an index lacks, which exist once the context ends.

    Few are written by a thread, so that the context can do other work in the meantime. If many
    of the rows with words are deleted, the index is rebuilt without their words.

    Parameters
    ----------
    words : an index of the first rows.
    deleted : rows that are deleted with the commit or before.
    terms : make the terms of the rows that are added.
    written : a folder to which `write_words` has written them before.
    """
    if words is None or state.rows == len(words):
        yield state
        return
    name = state.new_name("words")
    if len(deleted) - words.blank_count > MOST_DELETED * (state.rows - words.blank_count):
        WordIndex.create(change.path / name, _rows(change.store, 0, state.rows, deleted))
        yield replace(state, words=name)
        return
    if written is not None:
        os.replace(written, change.path / name)
        yield replace(state, words=name)
        return
    rows = _rows(change.store, len(words), state.rows)
    with ThreadPoolExecutor(1) as pool:
        if state.rows - len(words) <= READ_AT_ONCE:  # only this thread can read the change's
            writing = pool.submit(words.write_extended, change.path / name, [*rows], terms)
            yield replace(state, words=name)
            writing.result()
        else:
            words.write_extended(change.path / name, rows, terms)
            yield replace(state, words=name)


def write_words(change: Change, path: Path, stop: int) -> Path | None:
    """Write the words of the committed rows, and of the new ones before `stop`.

    Returns the folder; None if there is no lexical index, or this fails: if others have changed the
    index meanwhile, its files may be gone, and otherwise the commit fails for the same reason.
    """
    if change.state.words is None:
        return None
    try:
        words = WordIndex.open(change.path / change.state.words)
        if len(words) == stop:
            return None
        words.write_extended(path, _rows(change.store, len(words), stop))
    except (OSError, CorruptError):
        return None
    return path


def with_new_words(snapshot: Snapshot, state: State, folder: Path, *, live: bool = False) -> State:
    """The next state with a new lexical index of a snapshot's rows in a folder, if it has one.

    With `live`, its rows are the live ones.
    """
    if state.words is None:
        return state
    name, deleted = state.new_name("words"), NO_ROWS if live else snapshot.deleted
    rows = _rows(snapshot.store, 0, snapshot.state.rows, deleted, live=live)
    WordIndex.create(folder / name, rows)
    return replace(state, words=name)


def new_words(snapshot: Snapshot, path: Path) -> WordIndex:
    """Create a lexical index of a snapshot's rows, outside of the turn."""
    return WordIndex.create(path, _rows(snapshot.store, 0, snapshot.state.rows, snapshot.deleted))


def word_faults(path: Path, rows: int) -> list[str]:
    """Faults of a lexical index of `rows` rows; reads every byte."""
    if not path.is_dir():
        return [f"{path}: missing; expected the words of {rows} rows"]
    try:
        return WordIndex.open(path).faults(rows)
    except CorruptError as error:
        return [str(error)]


def _rows(
    store: DocumentStore, start: int, stop: int, deleted: Rows = NO_ROWS, *, live: bool = False
) -> Iterator[tuple[str, str]]:
    """Id and text of each row, empty for `deleted` ones; if a text is cut, of its passages."""
    row, gone = start, set(deleted.tolist())
    for part in batches(stop, READ_AT_ONCE, start):
        for named in store.named_contents(part.start, part.stop, live=live):
            yield ("", "") if row in gone else named
            row += 1
        progress("indexing words", part.stop - start, stop - start)
