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
from slimdex.indexes.reduced_index import NO_ROWS, ReducedIndex

from ..catalog.passages_table import DocumentRows
from ..catalog.state import State
from ..lexical.word_index import WordIndex
from .document_file import DocumentFile
from .index_files import load_index
from .ledger import Ledger


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
        ledger: Ledger,
        deleted: Rows,
        loaded: Loaded | None = None,
        words: WordIndex | None = None,
    ) -> Snapshot:
        """The committed state, with its indexes if they are in memory."""
        kept = [] if loaded is None else [loaded]
        textless = ledger.textless()
        textless = textless[textless < ledger.state.rows]
        return cls(
            ledger.path,
            ledger.state,
            deleted,
            textless,
            ledger.store.database.epoch,
            ledger.store.columns.committed,
            ledger.document_rows(),
            _loaded=kept,
            _words=[] if words is None else [words],
        )

    def without(self, rows: Rows, ledger: Ledger) -> Snapshot:
        """The snapshot after a commit that only deleted rows; shares the index."""
        return replace(self, state=ledger.state, deleted=np.union1d(self.deleted, rows))

    def with_columns(self, columns: Mapping[str, str]) -> Snapshot:
        """The snapshot after a commit that changed only the documents' columns."""
        return self if columns == self.columns else replace(self, columns=columns, _documents=[])

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

    def documents(self) -> DocumentFile | None:
        """The documents by row; None if only the catalog has them in their current form."""
        if not self._documents:  # two threads may do this at once, which is harmless
            lines, file = self.state.lines, None
            if lines is not None and lines.fit(self.columns):
                file = DocumentFile(self.path, lines, self.state.rows).open()
            self._documents.append(file)
        return self._documents[0]

    def with_documents(self) -> Snapshot:
        """Open the documents' files, so that they remain readable when deleted; return self."""
        self.documents()
        return self

    @property
    def words(self) -> WordIndex | None:
        """The lexical index, None if there is none; raises `CorruptError` if damaged."""
        if self.state.words is None:
            return None
        if not self._words:  # two threads may do this at once, which is harmless
            words = WordIndex.open(self.path / self.state.words)
            if faults := words.count_faults(self.state.rows):
                raise CorruptError(f"{faults[0]}; `slimdex repair {self.path}` makes it anew")
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


def first_snapshot(ledger: Ledger) -> Snapshot:
    """The snapshot of a newly opened ledger."""
    return Snapshot.of(ledger, ledger.deleted() if ledger.state.rows else NO_ROWS)
