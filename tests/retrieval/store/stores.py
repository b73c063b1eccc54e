"""Indexes with documents but without vectors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from slimdex.indexes.settings import Settings
from slimdex.retrieval.documents import Document
from slimdex.retrieval.index import Index
from slimdex.retrieval.store.derived_files import with_blocks
from slimdex.retrieval.store.log import Log
from slimdex.retrieval.store.new_documents import NewDocuments, new_records
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
        store = change.base.store
        change.columns, records = new_records(store.columns, documents)
        change.new = NewDocuments.of(records)
        state = replace(change.state, rows=store.rows + len(documents))
        log = Log(index.path, change.base.state.log, store.rows)
        change.commit(with_blocks(log, state, change.new.blocks))
