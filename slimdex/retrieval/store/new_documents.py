"""New documents: what a change adds, as it will be stored.

They are made before the writers' turn and have no row numbers, so they stay right whatever others
commit meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import randbelow, token_hex
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Rows, batches
from slimdex.system.atomic_files import file_name
from slimdex.system.duckdb_library import duckdb, identifier
from slimdex.system.once import cached_property

from ..documents import Document
from .document_store import DocumentStore
from .lines import (
    LONGEST_TRAILING,
    NONE_COMPRESSED,
    Compressed,
    UnwritableError,
    cut_text,
    line_of,
)
from .new_columns import ColumnValues, returned_values
from .passages import Cut, DocumentRows, parts_written
from .segments import FEW_ROWS, TABLES, Values, attaching, built_in_columns, published, unnested
from .state import Segment

INSERTED_AT_ONCE = 1024
"""Documents written to a segment at a time."""
PLAIN = " USING COMPRESSION uncompressed"
"""Of few documents, until their segment is merged: choosing a compression takes three quarters of a
checkpoint."""


@dataclass(frozen=True)
class NewDocuments:
    """Documents that a change adds.

    Attributes
    ----------
    documents : with their origins.
    cuts : for each, its passages and parts; None for a text of one passage without parts.
    values : the columns that these documents have.
    lines : each document's line; None if a value can't be written to a line.
    compressed : the lines, compressed after the dictionary of the index.
    """

    documents: Sequence[Document] = ()
    cuts: Sequence[Cut | None] = ()
    values: Sequence[ColumnValues] = ()
    lines: Sequence[bytes] | None = ()
    compressed: Compressed = NONE_COMPRESSED

    @classmethod
    def of(
        cls,
        store: DocumentStore,
        documents: Sequence[Document],
        cuts: Sequence[Cut | None],
        columns: Mapping[str, str],
        values: Sequence[ColumnValues],
    ) -> NewDocuments:
        """Make the lines of documents that are added to those of a store.

        `columns` are the user's of all documents: name -> DuckDB type. Raises `InputError` if
        DuckDB can't store a value.
        """
        returned = {each.name: each.values for each in returned_values(store, values, documents)}
        absent: Sequence[Any] = [None] * len(documents)
        metadata = [returned.get(name, absent) for name in columns]
        lines = _lines(documents, cuts, metadata)
        file = store.document_file()
        compressed = NONE_COMPRESSED
        if lines is not None and file is not None:
            compressed = file.compressed(lines)
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

    def named_contents(self) -> Iterator[tuple[str, str]]:
        """Id and text to encode of each row."""
        numbers = np.repeat(np.arange(len(self)), self.counts).tolist()
        for number, text in zip(numbers, self.texts, strict=True):
            yield self.documents[number].id, text

    def written_lines(self) -> Iterator[tuple[bytes, int]]:
        """Each document's line and number of rows; raises `UnwritableError` without lines."""
        if self.lines is None:
            raise UnwritableError("a value that a line can't restore")
        yield from zip(self.lines, self.counts.tolist(), strict=True)

    def columns_of(self, part: slice, stop: int) -> Values:
        """Values of some documents in the table of documents, if all rows end before `stop`."""
        documents = self.documents[part]
        return [
            ("row", "BIGINT", self.rows(stop - self.row_count)[part].tolist()),
            ("id", "VARCHAR", [document.id for document in documents]),
            ("title", "VARCHAR", [document.title for document in documents]),
            ("text", "VARCHAR", [document.text for document in documents]),
            ("slimdex_origin", "VARCHAR", [document.origin or None for document in documents]),
            *((column.name, column.type, column.values[part]) for column in self.values),
        ]

    def passages_of(self, part: slice, stop: int) -> Values:
        """Values of some documents in the table of passages, if all rows end before `stop`."""
        rows = self.rows(stop - self.row_count)[part].tolist()
        cuts = {row: cut for row, cut in zip(rows, self.cuts[part], strict=True) if cut}
        return [
            ("row", "BIGINT", [*cuts]),
            ("starts", "BIGINT[]", [[p.start for p in cut.passages] for cut in cuts.values()]),
            ("ends", "BIGINT[]", [[p.end for p in cut.passages] for cut in cuts.values()]),
            ("contexts", "VARCHAR[]", [[p.context for p in c.passages] for c in cuts.values()]),
            ("parts", "VARCHAR", [parts_written(cut.parts) for cut in cuts.values()]),
        ]

    @property
    def longest_bytes(self) -> int:
        """Most bytes that the title and text of a document have."""
        sizes = (len(each.title.encode()) + len(each.text.encode()) for each in self.documents)
        return max(sizes, default=0)

    @property
    def may_trail(self) -> bool:
        """Whether their lines are enough: they restore short documents of one row exactly."""
        return (
            self.lines is not None
            and not any(self.cuts)
            and not any(document.origin for document in self.documents)
            and all(len(line) <= LONGEST_TRAILING for line in self.lines)
            and all(column.is_exact for column in self.values)
        )


NO_DOCUMENTS = NewDocuments()


def _lines(
    documents: Sequence[Document], cuts: Sequence[Cut | None], metadata: Sequence[Sequence[Any]]
) -> list[bytes] | None:
    """Return the line of each document, given the values of each column; None if one can't be."""
    lines = list[bytes]()
    try:
        for number, (document, cut) in enumerate(zip(documents, cuts, strict=True)):
            text = document.text if cut is None else cut_text(document.text, cut)
            values = [column[number] for column in metadata]
            lines.append(line_of([document.id, document.title, text, *values]))
    except UnwritableError:
        return None
    return lines


def new_segment(
    store: DocumentStore,
    new: NewDocuments,
    columns: Mapping[str, str],
    path: Path,
    first: int,
    stop: int,
) -> Segment:
    """Write a segment of the rows first .. stop: those in a store's lines alone, then new ones.

    `columns` are the user's of all documents. Raises an error of DuckDB if the disk fails.
    """
    trailing = store.tables()[-1:] if store.manifest.state.segment_rows < store.rows else []
    names = {column.name for column in new.values}.union(*(types for _, types in trailing))
    users = [(name, type_) for name, type_ in columns.items() if name in names]
    # A name of its own: DuckDB may have the file of a change that failed open for a while.
    file = path.with_name(f"{file_name('segment', randbelow(10**12))}.tmp")
    database = f"new_{token_hex(4)}"
    with store.session() as session:
        cursor = session.cursor()
    try:
        cursor.execute(attaching(file, database, stop - first))
        cursor.execute("BEGIN TRANSACTION")
        ending = PLAIN if stop - first < FEW_ROWS else ""
        for table in TABLES:
            built_in = [(name, f"{type_}{ending}") for name, type_ in built_in_columns(table)]
            _create(
                cursor, f"{database}.{table}", built_in + (users if table == "documents" else [])
            )
        for table, _ in trailing:
            cursor.execute(f"INSERT INTO {database}.documents BY NAME FROM {table}")
        for part in batches(len(new), INSERTED_AT_ONCE):
            _insert(cursor, f"{database}.documents", new.columns_of(part, stop))
            _insert(cursor, f"{database}.passages", new.passages_of(part, stop))
        # After an error, this query fails; `COMMIT` alone would roll back without an error.
        cursor.execute(f"SELECT count(*) FROM {database}.documents").fetchall()
        cursor.execute("COMMIT")
        cursor.execute(f"CHECKPOINT {database}")
        cursor.execute(f"DETACH {database}")
    except BaseException:
        for sql in ("ROLLBACK", f"DETACH {database}"):
            with suppress(duckdb.Error):
                cursor.execute(sql)
        for left in file.parent.glob(f"{file.name}*"):
            with suppress(OSError):
                left.unlink()
        raise
    finally:
        with suppress(duckdb.Error):
            cursor.close()
    return published(file, path, first, stop)


def _create(
    cursor: duckdb.DuckDBPyConnection, table: str, columns: Sequence[tuple[str, str]]
) -> None:
    named = ", ".join(f"{identifier(name)} {type_}" for name, type_ in columns)
    cursor.execute(f"CREATE TABLE {table}({named})")


def _insert(cursor: duckdb.DuckDBPyConnection, table: str, values: Values) -> None:
    sql, parameters = unnested(values)
    cursor.execute(f"INSERT INTO {table} BY NAME {sql}", parameters)
