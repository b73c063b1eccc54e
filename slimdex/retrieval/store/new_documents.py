"""New documents: what a change adds, as it will be stored.

They are made without the writer lock and have no row numbers, so they stay right whatever others
commit meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from slimdex.errors import InputError, shorten
from slimdex.indexes.arrays import Rows
from slimdex.system.once import cached_property

from ..column_types import ANY, by_lower_name, joint, widen
from ..documents import Document, check_columns
from .columns import Part
from .log import PackedBlock, pack
from .passages import DocumentPassages, DocumentRows
from .record import record_of


@dataclass(frozen=True)
class ColumnValues:
    """The values of documents in a column, as they were given and as the column stores them."""

    name: str
    type: str
    given: Sequence[Any]
    stored: Sequence[Any]

    def select(self, is_chosen: Sequence[bool]) -> ColumnValues:
        """Return the values of some of the documents."""
        given = [*compress(self.given, is_chosen)]
        return ColumnValues(self.name, self.type, given, [*compress(self.stored, is_chosen)])


def column_values(
    columns: Mapping[str, str],
    documents: Sequence[Document],
    declared: Iterable[Mapping[str, str]] = (),
) -> tuple[dict[str, str], list[ColumnValues]]:
    """Return an index's columns with those of more documents, and the values of the latter.

    `columns` are those of the index, name -> type, and `declared` those of sources, name -> DuckDB
    type: a column that is declared as text or JSON becomes that; others have the types of their
    values. Raises `InputError` if a name is invalid, or a value can't be stored.
    """
    types = dict(columns)
    names = {name.lower(): name for name in types}
    for each in declared:
        for name, type_ in each.items():
            name = names.setdefault(name.lower(), name)
            if type_ in ANY and types.get(name) not in ANY:
                types[name] = joint({types.get(name, type_), type_})

    # The values of each column; None for a document that lacks it.
    metadata = [by_lower_name(document) for document in documents]
    used = dict[str, str]()  # lower-case names of columns with values, and their first spelling
    for values_by_name in metadata:
        for key, (name, value) in values_by_name.items():
            if value is not None:
                used.setdefault(key, name)
    check_columns(len(names | used), "the index with these documents")
    values = []
    for key, spelling in used.items():
        name = names.setdefault(key, spelling)
        given = [each.get(key, ("", None))[1] for each in metadata]
        type_, stored = _widen(name, types.get(name), given, documents)
        types[name] = type_
        values.append(ColumnValues(name, type_, given, stored))
    return types, values


def _widen(
    name: str, type_: str | None, given: Sequence[Any], documents: Sequence[Document]
) -> tuple[str, list[Any]]:
    """Widen a column as `widen` does; the error names the document whose value is refused."""
    try:
        return widen(type_, given)
    except InputError:
        for document, value in zip(documents, given, strict=True):
            try:
                widen(type_, [value] if value is not None else [""])
            except InputError as error:
                raise InputError(
                    f"document {shorten(document.id)}, column {name!r}: {error}"
                ) from error
        raise


@dataclass(frozen=True)
class NewDocuments:
    """Documents that a change adds.

    Attributes
    ----------
    documents : with their origins.
    cuts : for each, its passages and parts; None for a text of one passage without parts.
    columns : the user's columns that these documents have, with their values.
    blocks : the documents' records as the log stores them.
    longest_record : in bytes.
    """

    documents: Sequence[Document] = ()
    cuts: Sequence[DocumentPassages | None] = ()
    columns: Sequence[ColumnValues] = ()
    blocks: Sequence[PackedBlock] = ()
    longest_record: int = 0

    @classmethod
    def of(
        cls,
        documents: Sequence[Document],
        cuts: Sequence[DocumentPassages | None],
        columns: Iterable[str],
        values: Sequence[ColumnValues],
    ) -> NewDocuments:
        """Make the records of documents.

        `columns` are the names of all of the user's columns, `values` those of these documents.
        Raises `InputError` if a value can't be stored.
        """
        given = {each.name: each.given for each in values}
        absent: Sequence[Any] = [None] * len(documents)
        by_column = [given.get(name, absent) for name in columns]
        records = list[tuple[bytes, int]]()
        for number, (document, cut) in enumerate(zip(documents, cuts, strict=True)):
            metadata = [column[number] for column in by_column]
            record = record_of(document, cut, metadata, document.origin)
            records.append((record, _row_count(cut)))
        longest = max((len(record) for record, _ in records), default=0)
        return cls(documents, cuts, values, [*pack(records)], longest)

    def __len__(self) -> int:
        return len(self.documents)

    @cached_property
    def counts(self) -> Rows:
        """Number of rows of each document (n,)."""
        return np.array([*map(_row_count, self.cuts)], dtype=np.int64)

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

    def part(self, first: int) -> Part:
        """The columns of these documents, if rows are added from `first` on."""
        users = [(each.name, each.type, each.stored) for each in self.columns]
        return self.rows(first).tolist(), self.documents, users

    @property
    def longest_bytes(self) -> int:
        """Size of the longest text of a row, in bytes."""
        return max((len(text.encode()) for text in self.texts), default=0)


NO_DOCUMENTS = NewDocuments()


def _row_count(cut: DocumentPassages | None) -> int:
    """Number of rows of a document: of its passages, or one."""
    return max(len(cut.passages), 1) if cut else 1
