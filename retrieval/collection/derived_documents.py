"""Derived documents: files of the documents by row, rebuilt from the catalog when necessary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from slimdex.indexes.arrays import batches
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.progress import progress
from slimdex.indexes.vector_file import BLOCK_BYTES

from ..atomic_files import CATALOG, sync
from ..catalog.state import Lines, State
from ..document_lines import UnwritableError
from .document_file import DocumentFile, cut_text
from .ledger import Grown, Ledger

READ_AT_ONCE, VALUES_AT_ONCE = 1024, 1 << 20
"""Documents, and values of their columns, read from the catalog at a time."""


def with_documents(ledger: Ledger, state: State) -> tuple[State, list[Grown]]:
    """Return the state with lines of all its documents, appending missing ones.

    If the type of a column has changed, all are rewritten, since its older values changed too.

    Raises `CorruptError` if the block that an append changes is damaged.
    """
    lines, there = ledger.state.lines, ledger.state.rows
    if lines is None or not lines.fit(ledger.store.columns.committed):
        return with_new_documents(ledger, state)
    if state.rows == there:
        return state, []
    file = DocumentFile(ledger.path, lines, there)
    for part in file.parts:
        ledger.check_tail(part)
    return _appended(ledger, state, file, _values(ledger, there, state.rows))


def with_new_documents(
    ledger: Ledger, state: State, *, live: bool = False
) -> tuple[State, list[Grown]]:
    """The state with lines of all its documents, in new files.

    Parameters
    ----------
    live : renumber the documents that are not deleted, as `compact` does.
    """
    lines = Lines(state.new_name("documents"), state.new_name("offsets"))
    stop = ledger.state.rows if live else state.rows
    try:
        for name in lines.names:
            (ledger.path / name).unlink(missing_ok=True)  # of a commit that failed
        values = _values(ledger, 0, stop, live=live)
        return _appended(ledger, state, DocumentFile(ledger.path, lines, 0), values)
    except BaseException:
        for name in lines.names:
            (ledger.path / name).unlink(missing_ok=True)
        raise


def _appended(
    ledger: Ledger, state: State, file: DocumentFile, values: Iterator[Sequence[Any]]
) -> tuple[State, list[Grown]]:
    first_blocks = [part.nbytes // BLOCK_BYTES for part in file.parts]
    try:
        file = file.append(values, ledger.store.columns.committed)
    except UnwritableError:  # a column of times with zones, for example: DuckDB is asked for all
        return replace(state, lines=None), []
    if file.rows != state.rows:
        raise CorruptError(
            f"{ledger.path / CATALOG}: documents of {file.rows} rows; expected {state.rows}"
        )
    sync(ledger.path)
    grown = map(Grown, file.parts, first_blocks)
    return replace(state, lines=file.lines), [*grown]


def _values(
    ledger: Ledger, start: int, stop: int, *, live: bool = False
) -> Iterator[Sequence[Any]]:
    columns = max(len(ledger.store.columns.committed), 1)
    for part in batches(stop, max(min(READ_AT_ONCE, VALUES_AT_ONCE // columns), 1), start):
        cuts = ledger.store.passages.between(part.start, part.stop)
        for row, id, title, text, *own in ledger.store.documents.values(
            part.start, part.stop, live=live
        ):
            yield [id, title, cut_text(text, cuts[row]) if row in cuts else text, *own]
        progress("copying documents", part.stop - start, stop - start)
