"""Derived documents: files of the documents by row, rebuilt from the segments when necessary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slimdex.indexes.arrays import batches
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.execution.progress import progress

from ..catalog.state import Lines, State
from .commit_log import AppendedFile, CommitLog
from .document_file import DocumentFile, cut_text
from .document_lines import UnwritableError

READ_AT_ONCE, VALUES_AT_ONCE = 1024, 1 << 20
"""Documents, and values of their columns, read from the segments at a time."""


def with_documents(commit_log: CommitLog, state: State) -> tuple[State, list[AppendedFile]]:
    """Return the state with lines of all its documents, appending missing ones.

    If the type of a column has changed, all are rewritten, since its older values changed too.
    """
    lines, rows = commit_log.state.lines, commit_log.state.rows
    if lines is None or not lines.fit(commit_log.store.columns.types):
        return with_new_documents(commit_log, state)
    if state.rows == rows:
        return state, []
    file = DocumentFile(commit_log.path, lines, rows)
    return _appended(commit_log, state, file, _values(commit_log, rows, state.rows))


def with_new_documents(
    commit_log: CommitLog, state: State, copies: Path | None = None
) -> tuple[State, list[AppendedFile]]:
    """The state with lines of all its documents, in new files.

    With `copies`, they are written to that folder, without the deleted documents.
    """
    lines = Lines(state.new_name("documents"), state.new_name("offsets"))
    folder = copies or commit_log.path
    stop = commit_log.state.rows if copies else state.rows
    try:
        for name in lines.names:
            (folder / name).unlink(missing_ok=True)  # of a commit that failed
        values = _values(commit_log, 0, stop, live=copies is not None)
        return _appended(commit_log, state, DocumentFile(folder, lines, 0), values)
    except BaseException:
        for name in lines.names:
            (folder / name).unlink(missing_ok=True)
        raise


def _appended(
    commit_log: CommitLog, state: State, file: DocumentFile, values: Iterator[Sequence[Any]]
) -> tuple[State, list[AppendedFile]]:
    before = [part.nbytes for part in file.parts]
    try:
        file = file.append(values, commit_log.store.columns.types)
    except UnwritableError:  # such as times with zones: the segments have all
        return replace(state, lines=None), []
    if file.rows != state.rows:
        raise CorruptError(
            f"{commit_log.path}: documents of {file.rows} rows; expected {state.rows}"
        )
    grown = map(AppendedFile, file.parts, before)
    return replace(state, lines=file.lines), [*grown]


def _values(
    commit_log: CommitLog, start: int, stop: int, *, live: bool = False
) -> Iterator[Sequence[Any]]:
    columns = max(len(commit_log.store.columns.types), 1)
    for part in batches(stop, max(min(READ_AT_ONCE, VALUES_AT_ONCE // columns), 1), start):
        cuts = commit_log.store.passages.between(part.start, part.stop)
        for row, id, title, text, *metadata in commit_log.store.documents.values(
            part.start, part.stop, live=live
        ):
            yield [id, title, cut_text(text, cuts[row]) if row in cuts else text, *metadata]
        progress("copying documents", part.stop - start, stop - start)
