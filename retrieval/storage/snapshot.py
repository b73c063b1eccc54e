"""Snapshot: an immutable view of one committed state, for searches during changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock

import numpy as np

from slimdex.indexes.arrays import Rows, without
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.search.reduced_index import NO_ROWS, ReducedIndex

from ..catalog.passages_table import DocumentRows
from ..catalog.state import State
from ..lexical.word_index import WordIndex
from .commit_log import CommitLog
from .document_file import DocumentFile
from .index_files import load_index


@dataclass
class Loaded:
    """An index in memory, and the number of its rows in the file of codes."""

    index: ReducedIndex
    saved_rows: int

    def __post_init__(self) -> None:
        """Map the files of rows, which may be deleted before they are first needed."""
        self.index.vectors.map()
        if self.index.metric is not None:
            self.index.metric.norms.map()


@dataclass(frozen=True)
class Snapshot:
    """An immutable state, whose index is loaded on first use.

    Attributes
    ----------
    deleted : rows of deleted documents, in order.
    textless : rows of documents without text, in order.
    epoch : of the row numbers, see `Database.epoch`.
    columns : the user's columns: name -> DuckDB type.
    document_rows : the documents of rows.
    """

    path: Path
    state: State
    deleted: Rows
    textless: Rows
    epoch: int
    columns: Mapping[str, str]
    document_rows: DocumentRows
    _documents: list[DocumentFile | None] = field(default_factory=list)  # empty until used
    _loaded: list[Loaded] = field(default_factory=list)  # one or none
    _words: list[WordIndex] = field(default_factory=list)  # one or none
    _loading: Lock = field(default_factory=Lock)

    @classmethod
    def of(
        cls,
        commit_log: CommitLog,
        deleted: Rows,
        loaded: Loaded | None = None,
        words: WordIndex | None = None,
    ) -> Snapshot:
        """The committed state, with its indexes if they are in memory."""
        kept = [] if loaded is None else [loaded]
        textless = commit_log.textless()
        textless = textless[textless < commit_log.state.rows]
        return cls(
            commit_log.path,
            commit_log.state,
            deleted,
            textless,
            commit_log.store.database.epoch,
            commit_log.store.columns.committed,
            commit_log.document_rows(),
            _loaded=kept,
            _words=[] if words is None else [words],
        )

    def without(self, rows: Rows, commit_log: CommitLog) -> Snapshot:
        """The snapshot after a commit that only deleted rows; shares the index."""
        return replace(self, state=commit_log.state, deleted=np.union1d(self.deleted, rows))

    def with_columns(self, columns: Mapping[str, str]) -> Snapshot:
        """The snapshot after a commit that changed only the documents' columns."""
        return self if columns == self.columns else replace(self, columns=columns, _documents=[])

    def with_words(self, state: State) -> Snapshot:
        """The snapshot after a commit that changed nothing but the lexical index."""
        return replace(self, state=state, _words=[])

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        """Number of live documents."""
        return self.document_rows.number_before(self.state.rows) - self.deleted_count

    @cached_property
    def deleted_count(self) -> int:
        """Deleted documents that still take space."""
        return self.document_rows.number(self.deleted)

    @property
    def noun(self) -> str:
        """Noun for a row."""
        return "documents" if self.document_rows.is_one_each else "passages"

    def live_documents(self) -> Rows:
        """First rows of the live documents, in order."""
        rows = without(np.arange(self.state.rows), self.deleted)
        first: Rows = rows[self.document_rows.documents(rows) == rows]
        return first

    @cached_property
    def hidden(self) -> Rows:
        """Rows that no search finds, in order: deleted, or without text."""
        return np.union1d(self.deleted, self.textless) if len(self.textless) else self.deleted

    @property
    def searchable_count(self) -> int:
        """Rows that a search can find."""
        return self.state.rows - len(self.hidden)

    def searchable_rows(self) -> Rows:
        """The rows that a search can find, in order."""
        return without(np.arange(self.state.rows), self.hidden)

    def documents(self) -> DocumentFile | None:
        """The documents by row; None if only the catalog has them in their current form."""
        if not self._documents:  # two threads may do this at once, which is harmless
            lines, file = self.state.lines, None
            if lines is not None and lines.fit(self.columns):
                file = DocumentFile(self.path, lines, self.state.rows).open()
            self._documents.append(file)
        return self._documents[0]

    @property
    def words(self) -> WordIndex | None:
        """The lexical index, None if there is none; raises `CorruptError` if damaged."""
        if self.state.words is None:
            return None
        if not self._words:  # two threads may do this at once, which is harmless
            words = WordIndex.open(self.path / self.state.words)
            if faults := words.count_faults(self.state.rows):
                raise CorruptError(f"{faults[0]}; `slimdex repair {self.path}` rebuilds it")
            self._words.append(words)
        return self._words[0]

    @property
    def index(self) -> ReducedIndex:
        """The vectors' index; requires documents."""
        return self.loaded().index

    def loaded(self) -> Loaded:
        """The index, with the state of its file of codes."""
        with self._loading:
            if not self._loaded:
                self._loaded.append(self._load())
        return self._loaded[0]

    def _load(self) -> Loaded:
        index = load_index(self.path, self.state)
        saved_rows = len(index.index)
        index.extend()
        return Loaded(index, saved_rows)


def first_snapshot(commit_log: CommitLog) -> Snapshot:
    """The snapshot of a newly opened commit log."""
    return Snapshot.of(commit_log, commit_log.deleted() if commit_log.state.rows else NO_ROWS)
