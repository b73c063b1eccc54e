"""Indexes with documents but without vectors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from slimdex.indexes.settings import Settings
from slimdex.retrieval.documents import Document
from slimdex.retrieval.index import Index
from slimdex.retrieval.store.change import Change
from slimdex.retrieval.store.state import State


@contextmanager
def created(folder: Path) -> Iterator[Index]:
    """An empty index."""
    Index.create(folder, State({"type": "given"}, 3, Settings()))
    with closing(Index.open(folder)) as index:
        yield index


def add(index: Index, *documents: Document) -> None:
    """Commit documents."""
    with index.change() as change:
        insert(change, *documents)
        change.commit()


def insert(change: Change, *documents: Document) -> None:
    """Give a change new documents."""
    first = change.state.rows
    change.store.insert(first, documents)
    change.state = replace(change.state, rows=first + len(documents))
