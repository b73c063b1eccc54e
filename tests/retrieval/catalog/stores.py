"""Indexes with documents but without vectors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from slimdex.indexes.settings import Settings
from slimdex.retrieval.catalog.state import State
from slimdex.retrieval.documents import Document
from slimdex.retrieval.storage.commit_log import CommitLog


@contextmanager
def created(folder: Path) -> Iterator[CommitLog]:
    """An empty index."""
    log = CommitLog.create(folder, State({"type": "given"}, 3, Settings()))
    try:
        yield log
    finally:
        log.close()


def add(log: CommitLog, *documents: Document) -> None:
    """Commit documents."""
    with log.transaction():
        first = log.state.rows
        log.store.documents.insert(first, documents)
        log.set_state(replace(log.state, rows=first + len(documents)))
