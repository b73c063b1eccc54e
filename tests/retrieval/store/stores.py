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
from slimdex.retrieval.store.derived_files import with_blocks
from slimdex.retrieval.store.log import Log
from slimdex.retrieval.store.new_documents import NewDocuments, column_values
from slimdex.retrieval.store.state import State


@contextmanager
def created(folder: Path) -> Iterator[Index]:
    """An empty index."""
    Index.create(folder, State({"type": "given"}, 3, Settings()))
    with closing(Index.open(folder)) as index:
        yield index


def add(
    index: Index, *documents: Document, columns: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Commit documents; `columns` have these DuckDB types."""
    with index.change() as change:
        store = change.base.store
        change.columns, values = column_values(store.columns, documents, [columns])
        uncut = [None] * len(documents)
        change.new = NewDocuments.of(documents, uncut, change.columns, values)
        state = replace(change.state, rows=store.rows + len(documents))
        log = Log(index.path, change.base.state.log, store.rows)
        change.commit(with_blocks(log, state, change.new.blocks))
