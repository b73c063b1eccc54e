"""Indexes with documents but without vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from slimdex.indexes.settings import Settings
from slimdex.retrieval.documents import Document
from slimdex.retrieval.index import Index
from slimdex.retrieval.store.new_columns import NewColumns
from slimdex.retrieval.store.new_documents import NewDocuments
from slimdex.retrieval.store.next_commit import Change
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


def insert(
    change: Change, *documents: Document, columns: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Give a change new documents; `columns` have these DuckDB types."""
    store = change.base.store
    made = NewColumns(store, [columns])
    values, uncut = made.values_of(documents), [None] * len(documents)
    change.columns = made.types
    change.new = NewDocuments.of(store, documents, uncut, made.types, values)
    change.state = replace(change.state, rows=store.rows + len(documents))
