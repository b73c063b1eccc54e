"""Derived documents: files of the documents by row, rebuilt from the segments when necessary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slimdex.indexes.arrays import batches
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.execution.progress import progress

from .change import AppendedFile, Change
from .document_file import DocumentFile, cut_text
from .document_lines import UnwritableError
from .document_store import DocumentStore
from .state import Lines, State

READ_AT_ONCE, VALUES_AT_ONCE = 1024, 1 << 20
"""Documents, and values of their columns, read from the segments at a time."""


def with_documents(change: Change, state: State) -> tuple[State, list[AppendedFile]]:
    """Return the state with lines of all its documents, appending missing ones.

    If the type of a column has changed, all are rewritten, since its older values changed too.
    """
    lines, rows, store = change.base.state.lines, change.base.state.rows, change.store
    if lines is None or not lines.fit(store.columns):
        return with_new_documents(store, state, change.path)
    if state.rows == rows:
        return state, []
    file = DocumentFile(change.path, lines, rows)
    return _appended(store, state, file, _values(store, rows, state.rows))


def with_new_documents(
    store: DocumentStore, state: State, folder: Path, live: int | None = None
) -> tuple[State, list[AppendedFile]]:
    """The state with lines of all its documents, in new files of a folder.

    With `live`, its documents are the live ones of so many rows.
    """
    lines = Lines(state.new_name("documents"), state.new_name("offsets"))
    try:
        for name in lines.names:
            (folder / name).unlink(missing_ok=True)  # of a commit that failed
        values = _values(store, 0, live or state.rows, live=live is not None)
        return _appended(store, state, DocumentFile(folder, lines, 0), values)
    except BaseException:
        for name in lines.names:
            (folder / name).unlink(missing_ok=True)
        raise


def _appended(
    store: DocumentStore, state: State, file: DocumentFile, values: Iterator[Sequence[Any]]
) -> tuple[State, list[AppendedFile]]:
    before = [part.nbytes for part in file.parts]
    try:
        file = file.append(values, store.columns)
    except UnwritableError:  # such as times with zones: the segments have all
        return replace(state, lines=None), []
    if file.rows != state.rows:
        path = store.path
        raise CorruptError(f"{path}: documents of {file.rows} rows; expected {state.rows}")
    grown = map(AppendedFile, file.parts, before)
    return replace(state, lines=file.lines), [*grown]


def _values(
    store: DocumentStore, start: int, stop: int, *, live: bool = False
) -> Iterator[Sequence[Any]]:
    columns = max(len(store.columns), 1)
    for part in batches(stop, max(min(READ_AT_ONCE, VALUES_AT_ONCE // columns), 1), start):
        cuts = store.cuts_between(part.start, part.stop)
        values = store.values(part.start, part.stop, live=live)
        for row, id, title, text, *metadata in values:
            yield [id, title, cut_text(text, cuts[row]) if row in cuts else text, *metadata]
        progress("copying documents", part.stop - start, stop - start)
