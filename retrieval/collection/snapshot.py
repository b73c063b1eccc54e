"""Snapshot: one committed state as those see it who search it while the next one is made."""

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
    """An index in memory, and how many of its rows the file of codes has."""

    index: ReducedIndex
    saved_rows: int

    def __post_init__(self) -> None:
        """Map the files of rows: they may be gone from the folder when they are first needed."""
        self.index.vectors.map()
        if self.index.metric is not None:
            self.index.metric.norms.map()


@dataclass(frozen=True)
class Snapshot:
    """A state that never changes; its index is loaded when it is first needed.

    Attributes
    ----------
    deleted : rows of deleted documents, in order.
    textless : rows of documents without text, in order.
    epoch : of the row numbers, see `DocumentStore.epoch`.
    columns : the user's own: name -> DuckDB type.
    document_rows : which rows are of which document.
    """

    path: Path
    state: State
    deleted: Rows
    textless: Rows
    epoch: int
    columns: Mapping[str, str]
    document_rows: DocumentRows
    _documents: list[DocumentFile | None] = field(default_factory=list)  # empty until asked
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
        """What is committed now; its index and its words, where they are in memory."""
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
        """The snapshot after a commit that only deleted some rows; it has the same index."""
        return replace(self, state=ledger.state, deleted=np.union1d(self.deleted, rows))

    def with_columns(self, columns: Mapping[str, str]) -> Snapshot:
        """The snapshot after a commit that changed no more than the documents' columns."""
        return self if columns == self.columns else replace(self, columns=columns, _documents=[])

    def with_words(self, state: State) -> Snapshot:
        """The snapshot after a commit that changed no more than the words' index."""
        return replace(self, state=state, _words=[])

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        """Documents that are not deleted."""
        return self.document_rows.number_before(self.state.rows) - self.deleted_count

    @cached_property
    def deleted_count(self) -> int:
        """Documents that are deleted and still take space."""
        return self.document_rows.number(self.deleted)

    @property
    def noun(self) -> str:
        """What a row is."""
        return "documents" if self.document_rows.is_one_each else "passages"

    def live_documents(self) -> Rows:
        """The first rows of the documents that are not deleted, in order."""
        rows = without(np.arange(self.state.rows), self.deleted)
        first: Rows = rows[self.document_rows.documents(rows) == rows]
        return first

    @cached_property
    def hidden(self) -> Rows:
        """Rows that no search finds, in order: of deleted documents, and of those without text."""
        return np.union1d(self.deleted, self.textless) if len(self.textless) else self.deleted

    @property
    def searchable_count(self) -> int:
        """Rows that a search can find."""
        return self.state.rows - len(self.hidden)

    def searchable_rows(self) -> Rows:
        """The rows that a search can find, in order."""
        return without(np.arange(self.state.rows), self.hidden)

    def documents(self) -> DocumentFile | None:
        """The documents by row; None where only the catalog has them as they are by now."""
        if not self._documents:  # two threads may do so at once: one file is as good as the other
            lines, file = self.state.lines, None
            if lines is not None and lines.fit(self.columns):
                file = DocumentFile(self.path, lines, self.state.rows).open()
            self._documents.append(file)
        return self._documents[0]

    @property
    def words(self) -> WordIndex | None:
        """The words' index, None where there is none; raises `CorruptError` if it is damaged."""
        if self.state.words is None:
            return None
        if not self._words:  # two threads may do so at once: one is as good as the other
            words = WordIndex.open(self.path / self.state.words)
            if faults := words.count_faults(self.state.rows):
                raise CorruptError(f"{faults[0]}; `slimdex repair {self.path}` makes it anew")
            self._words.append(words)
        return self._words[0]

    @property
    def index(self) -> ReducedIndex:
        """The vectors' index; there is none before the first documents are in."""
        return self.loaded().index

    def loaded(self) -> Loaded:
        """The index with what is known of its files."""
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
    """The snapshot of a ledger that was just opened."""
    return Snapshot.of(ledger, ledger.deleted() if ledger.state.rows else NO_ROWS)
