"""Derived words: the index of the documents' words, written from the catalog at will.

Each commit that adds rows names a folder with the words of all of them; most of its files are those
of the folder before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from slimdex.indexes.arrays import batches
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.progress import progress

from ..atomic_files import sync
from ..catalog.state import State
from ..lexical.word_index import WordIndex
from .ledger import Ledger

READ_AT_ONCE = 1024
"""Documents that are read from the catalog at a time."""


def with_words(
    ledger: Ledger, words: WordIndex | None, state: State
) -> tuple[State, WordIndex | None]:
    """The state with the words of the rows, too, that the committed one has not; and these.

    Parameters
    ----------
    words : of the committed rows.
    """
    there = ledger.state.rows
    if words is None or state.rows == there:
        return state, words
    name = state.new_name("words")
    words = words.extended(ledger.path / name, _rows(ledger, there, state.rows))
    sync(ledger.path)
    return replace(state, words=name), words


def with_new_words(ledger: Ledger, state: State, *, live: bool = False) -> State:
    """The state with the words of all its rows in a new folder, if it has any.

    Parameters
    ----------
    live : whether the state numbers the documents that are not deleted anew, as `compact` does.
    """
    if state.words is None:
        return state
    name, stop = state.new_name("words"), ledger.state.rows if live else state.rows
    WordIndex.create(ledger.path / name, _rows(ledger, 0, stop, live=live))
    sync(ledger.path)
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
    ledger: Ledger, start: int, stop: int, *, live: bool = False
) -> Iterator[tuple[str, str]]:
    """Id and text of each row; where a text is cut, of its passages."""
    for part in batches(stop, READ_AT_ONCE, start):
        yield from ledger.store.documents.named_contents(part.start, part.stop, live=live)
        progress("indexing words", part.stop - start, stop - start)
