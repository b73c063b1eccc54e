"""Derived words: the lexical index, rebuilt from the catalog when necessary.

Each commit that adds rows names a folder with the words of all rows; most of its files are those of
the previous folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from slimdex.indexes.arrays import Rows, batches
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.search.reduced_index import NO_ROWS

from ..atomic_files import sync
from ..catalog.state import State
from ..lexical.word_index import WordIndex
from .commit_log import CommitLog

READ_AT_ONCE = 1024
"""Documents read from the catalog at a time."""
MOST_DELETED = 0.2
"""Largest share of rows with words that are deleted, after an addition."""


def with_words(
    commit_log: CommitLog, words: WordIndex | None, state: State, deleted: Rows
) -> tuple[State, WordIndex | None]:
    """Return the state with the words of its new rows, and the extended index.

    If many of the rows with words are deleted, the index is rebuilt without their words.

    Parameters
    ----------
    words : the index of the committed rows.
    deleted : rows that are deleted with the commit or before.
    """
    there = commit_log.state.rows
    if words is None or state.rows == there:
        return state, words
    name = state.new_name("words")
    if len(deleted) - words.blank_count > MOST_DELETED * (state.rows - words.blank_count):
        rows = _rows(commit_log, 0, state.rows, deleted)
        words = WordIndex.create(commit_log.path / name, rows)
    else:
        words = words.extended(commit_log.path / name, _rows(commit_log, there, state.rows))
    sync(commit_log.path)
    return replace(state, words=name), words


def with_new_words(commit_log: CommitLog, state: State, *, live: bool = False) -> State:
    """Return the state with a new lexical index of all rows, if it has one.

    If `live`, the documents that are not deleted are renumbered, as `compact` does.
    """
    if state.words is None:
        return state
    name, stop = state.new_name("words"), commit_log.state.rows if live else state.rows
    deleted = NO_ROWS if live else commit_log.deleted()
    WordIndex.create(commit_log.path / name, _rows(commit_log, 0, stop, deleted, live=live))
    sync(commit_log.path)
    return replace(state, words=name)


def word_faults(path: Path, rows: int) -> list[str]:
    """Faults of a lexical index of `rows` rows; reads every byte."""
    if not path.is_dir():
        return [f"{path}: missing; expected the words of {rows} rows"]
    try:
        return WordIndex.open(path).faults(rows)
    except CorruptError as error:
        return [str(error)]


def _rows(
    commit_log: CommitLog, start: int, stop: int, deleted: Rows = NO_ROWS, *, live: bool = False
) -> Iterator[tuple[str, str]]:
    """Id and text of each row, empty for `deleted` ones; if a text is cut, of its passages."""
    row, gone = start, set(deleted.tolist())
    for part in batches(stop, READ_AT_ONCE, start):
        for named in commit_log.store.documents.named_contents(part.start, part.stop, live=live):
            yield ("", "") if row in gone else named
            row += 1
        progress("indexing words", part.stop - start, stop - start)
