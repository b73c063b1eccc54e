"""New documents: what a change adds, as it will be stored.

They are made without the writer lock and have no row numbers, so they stay right whatever others
commit meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Rows, batches
from slimdex.system.once import cached_property

from ..documents import Document
from .document_store import DocumentStore
from .lines import (
    LONGEST_TRAILING,
    NONE_COMPRESSED,
    CompressedLines,
    line_of,
    text_value,
)
from .new_columns import ColumnValues, values_as_returned
from .passages import DocumentPassages, DocumentRows
from .segments import Values, table_values, write_segment
from .state import Segment

INSERTED_AT_ONCE = 1024
"""Documents written to a segment at a time."""


@dataclass(frozen=True)
class NewDocuments:
    """Documents that a change adds.

    Attributes
    ----------
    documents : with their origins.
    cuts : for each, its passages and parts; None for a text of one passage without parts.
    columns : the user's columns that these documents have, with their values.
    lines : each document's line.
    compressed : the lines, compressed with the index's dictionary; none if that is incomplete.
    """

    documents: Sequence[Document] = ()
    cuts: Sequence[DocumentPassages | None] = ()
    columns: Sequence[ColumnValues] = ()
    lines: Sequence[bytes] = ()
    compressed: CompressedLines = NONE_COMPRESSED

    @classmethod
    def of(
        cls,
        store: DocumentStore,
        documents: Sequence[Document],
        cuts: Sequence[DocumentPassages | None],
        columns: Mapping[str, str],
        values: Sequence[ColumnValues],
    ) -> NewDocuments:
        """Make the lines of documents that are added to those of a store.

        `columns` are the user's columns of all documents: name -> DuckDB type; `values` are the
        columns' values of these documents. Raises `InputError` if DuckDB can't store a value.
        """
        # Lines have the values of all columns, in order, as DuckDB returns them.
        returned = {each.name: each.values for each in values_as_returned(store, values, documents)}
        absent: Sequence[Any] = [None] * len(documents)
        metadata = [returned.get(name, absent) for name in columns]
        lines = _lines(documents, cuts, metadata)

        # Compress them now, without the writer lock.
        file = store.document_file
        compressed = NONE_COMPRESSED
        if file is not None:
            compressed = file.compress(lines)
        return cls(documents, cuts, values, lines, compressed)

    def __len__(self) -> int:
        return len(self.documents)

    @cached_property
    def counts(self) -> Rows:
        """Number of rows of each document (n,)."""
        counts = [max(len(cut.passages), 1) if cut else 1 for cut in self.cuts]
        return np.array(counts, dtype=np.int64)

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    def rows(self, first: int) -> Rows:
        """First row of each document (n,), if they are added from row `first` on."""
        rows: Rows = first + np.cumsum(self.counts) - self.counts
        return rows

    def document_rows(self, first: int) -> DocumentRows:
        """The documents with several rows, if they are added from row `first` on."""
        is_several = self.counts > 1
        return DocumentRows(self.rows(first)[is_several], self.counts[is_several])

    @cached_property
    def texts(self) -> list[str]:
        """Text to encode of each row."""
        texts = list[str]()
        for document, cut in zip(self.documents, self.cuts, strict=True):
            texts += [document.content] if cut is None else cut.contents(document.text)
        return texts

    def ids_and_contents(self) -> Iterator[tuple[str, str]]:
        """Id and text to encode of each row."""
        numbers = np.repeat(np.arange(len(self)), self.counts).tolist()
        for number, text in zip(numbers, self.texts, strict=True):
            yield self.documents[number].id, text

    def lines_and_rows(self) -> Iterator[tuple[bytes, int]]:
        """Each document's line and number of rows."""
        return zip(self.lines, self.counts.tolist(), strict=True)

    def values(self, first: int) -> Iterator[tuple[Values, Values]]:
        """Values in the two tables of a segment, in parts, if rows are added from `first` on."""
        rows = self.rows(first).tolist()
        for part in batches(len(self), INSERTED_AT_ONCE):
            columns = [(each.name, each.type, each.values[part]) for each in self.columns]
            yield table_values(rows[part], self.documents[part], self.cuts[part], columns)

    @property
    def longest_bytes(self) -> int:
        """Size of the longest text of a row, in bytes."""
        return max((len(text.encode()) for text in self.texts), default=0)

    @property
    def may_trail(self) -> bool:
        """Whether lines suffice without a segment: they are short, and exact in all values."""
        longest = max(map(len, self.lines), default=0)
        return longest <= LONGEST_TRAILING and all(column.is_exact for column in self.columns)


NO_DOCUMENTS = NewDocuments()


def _lines(
    documents: Sequence[Document],
    cuts: Sequence[DocumentPassages | None],
    metadata: Sequence[Sequence[Any]],
) -> list[bytes]:
    """Return the line of each document; `metadata` has each column's values."""
    lines = list[bytes]()
    for number, (document, cut) in enumerate(zip(documents, cuts, strict=True)):
        text = text_value(document.text, cut, document.origin or None)
        values = [column[number] for column in metadata]
        lines.append(line_of([document.id, document.title, text, *values]))
    return lines


def new_segment(
    store: DocumentStore, new: NewDocuments, columns: Mapping[str, str], path: Path, rows: range
) -> Segment:
    """Write a segment of rows: those that are in a store's lines alone, then new ones.

    `columns` are the user's of all documents. Raises an error of DuckDB if the disk fails.
    """
    names = {column.name for column in new.columns}
    parts = new.values(store.rows)
    trailing = store.trailing()
    if trailing is not None:
        documents, _ = trailing
        names.update(name for name, _, _ in documents)
        parts = chain([trailing], parts)

    # Columns that none of these documents has are left out.
    users = [(name, type_) for name, type_ in columns.items() if name in names]
    with store.connection() as connection:
        return write_segment(connection, path, rows, users, parts)
