"""New documents: what a change adds, as it will be stored.

They are made without the writer lock and have no row numbers, so they stay right whatever others
commit meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Rows
from slimdex.system.once import cached_property
from slimdex.system.unicode_text import check_unicode

from ..column_types import storable, widen
from ..documents import BUILT_IN_COLUMNS, Document, check_columns
from .columns import Values, values_of
from .log import PackedBlock, pack
from .passages import DocumentRows
from .record import Record


def new_records(
    columns: Mapping[str, str], documents: Sequence[Document]
) -> tuple[dict[str, str], list[Record]]:
    """Return an index's columns with those of more documents, and the records of the latter.

    Columns map names to types; `columns` are those of the index. Nothing is cut yet. Raises
    `InputError` if a name is invalid, or a value can't be stored.
    """
    # The values of each document, and of each column, by lower-case names: DuckDB ignores case.
    names = {name.lower(): name for name in columns}
    by_document = [_values(document) for document in documents]
    by_column = defaultdict[str, list[Any]](list)
    for document, values in zip(documents, by_document, strict=True):
        for name, (key, value) in zip(document.metadata, values.items(), strict=True):
            if value is not None:
                if key not in names:
                    check_unicode(name, f"document {document.id!r}, metadata")
                    names[key] = name
                by_column[key].append(value)
    check_columns(len(names), "the index with these documents")

    types = {name: widen(columns.get(name), by_column[key]) for key, name in names.items()}
    records = list[Record]()
    for document, values in zip(documents, by_document, strict=True):
        if document.passages:  # of another index
            document = replace(document, passages=())
        records.append(Record(document, values=[*map(values.get, names)]))
    return types, records


def _values(document: Document) -> dict[str, Any]:
    """Map lower-case names of columns to a document's values.

    Raises `InputError` if a name is reserved, or differs from another only in case, or a value
    can't be stored.
    """
    values = dict[str, Any]()
    about = f"document {document.id!r}"
    for name, value in document.metadata.items():
        key = name.lower() if isinstance(name, str) else ""
        if not key or key in BUILT_IN_COLUMNS or key in values:
            raise InputError(
                f"{about}: metadata {name!r}; expected names that differ in more than case from "
                f"each other and from {', '.join(BUILT_IN_COLUMNS)}"
            )
        try:
            values[key] = storable(value)
        except (InputError, RecursionError) as error:
            raise InputError(f"{about}, column {name!r}: {error}") from error
    return values


@dataclass(frozen=True)
class NewDocuments:
    """Documents that a change adds.

    Attributes
    ----------
    records : with their origins.
    blocks : the records as the log stores them.
    longest_record : in bytes.
    """

    records: Sequence[Record] = ()
    blocks: Sequence[PackedBlock] = ()
    longest_record: int = 0

    @classmethod
    def of(cls, records: Sequence[Record]) -> NewDocuments:
        """Pack the records of documents."""
        written = [(record.written(), record.row_count) for record in records]
        longest = max((len(record) for record, _ in written), default=0)
        return cls(records, [*pack(written)], longest)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def documents(self) -> list[Document]:
        """The documents."""
        return [record.document for record in self.records]

    @cached_property
    def counts(self) -> Rows:
        """Number of rows of each document (n,)."""
        return np.array([record.row_count for record in self.records], dtype=np.int64)

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
        return [text for record in self.records for text in record.contents]

    def ids_and_contents(self) -> Iterator[tuple[str, str]]:
        """Id and text to encode of each row."""
        for record in self.records:
            for text in record.contents:
                yield record.document.id, text

    def values(self, first: int, columns: Mapping[str, str]) -> Values:
        """The columns of these documents, if rows are added from `first` on.

        `columns` are the user's columns with their types.
        """
        stored = [record.stored(columns.values()) for record in self.records]
        return values_of(self.rows(first).tolist(), self.documents, columns, stored)


NO_DOCUMENTS = NewDocuments()
