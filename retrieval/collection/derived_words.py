"""Derived words: the index of the documents' words, written from the catalog at will.

It is in step by its rows: an addition's are written before the commit that makes them true, so that
it has all that are committed, and whoever searches says how many those are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from slimdex.indexes.arrays import batches
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.progress import Progress, silent

from ..atomic_files import remove, sync
from ..catalog.state import State
from ..words.word_index import WordIndex
from .ledger import Ledger

READ_AT_ONCE = 1024
"""Documents that are read from the catalog at a time."""


def with_words(ledger: Ledger, state: State, progress: Progress = silent) -> None:
    """Index the words of the rows that a state has and the committed one has not.

    Raises
    ------
    CorruptError
        If the index does not have the words of all committed rows.
    """
    there = ledger.state.rows
    if state.words is None or state.rows == there:
        return
    words = WordIndex.open(ledger.path / state.words)
    if faults := words.count_faults(there):
        raise CorruptError(f"{faults[0]}; `slimdex repair {ledger.path}` rebuilds it")
    words.extended(_rows(ledger, there, state.rows, progress), there)


def with_new_words(
    ledger: Ledger, state: State, progress: Progress = silent, *, live: bool = False
) -> State:
    """The state with the words of all its rows in a new folder, if it has any.

    Parameters
    ----------
    live : whether the state numbers the documents that are not deleted anew, as `compact` does.
    """
    if state.words is None:
        return state
    name = state.new_name("words")
    path = ledger.path / name
    remove(path)  # of a commit that failed
    try:
        stop = ledger.state.rows if live else state.rows
        WordIndex.create(path).extended(_rows(ledger, 0, stop, progress, live=live), 0)
        sync(ledger.path)
    except BaseException:
        remove(path)
        raise
    return replace(state, words=name)


def word_faults(path: Path, rows: int) -> list[str]:
    """What is wrong with an index of so many rows' words; every byte is read."""
    if not path.is_dir():
        return [f"{path}: missing; expected the words of {rows} rows"]
    try:
        return WordIndex.open(path).faults(rows)
    except CorruptError as error:
        return [str(error)]


def _rows(
    ledger: Ledger, start: int, stop: int, progress: Progress, *, live: bool = False
) -> Iterator[tuple[str, str]]:
    """Id and text of each row; where a text is cut, of its passages."""
    for part in batches(stop, READ_AT_ONCE, start):
        yield from ledger.store.named_contents(part.start, part.stop, live=live)
        progress("indexing words", part.stop - start, stop - start)
