"""Derived words: the lexical index, rebuilt from the catalog when necessary.

Each commit that adds rows names a folder with the words of all rows; most of its files are those of
the previous folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from slimdex.indexes.arrays import batches
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.execution.progress import progress

from ..atomic_files import sync
from ..catalog.state import State
from ..lexical.word_index import WordIndex
from .commit_log import CommitLog

READ_AT_ONCE = 1024
"""Documents read from the catalog at a time."""


def with_words(
    commit_log: CommitLog, words: WordIndex | None, state: State
) -> tuple[State, WordIndex | None]:
    """Return the state with the words of its new rows, and the extended index.

    `words` is the index of the committed rows.
    """
    there = commit_log.state.rows
    if words is None or state.rows == there:
        return state, words
    name = state.new_name("words")
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
    WordIndex.create(commit_log.path / name, _rows(commit_log, 0, stop, live=live))
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
    commit_log: CommitLog, start: int, stop: int, *, live: bool = False
) -> Iterator[tuple[str, str]]:
    """Id and text of each row; if a text is cut, of its passages."""
    for part in batches(stop, READ_AT_ONCE, start):
        yield from commit_log.store.documents.named_contents(part.start, part.stop, live=live)
        progress("indexing words", part.stop - start, stop - start)
