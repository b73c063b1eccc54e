"""DocumentsTable: documents with the user's columns, on which conditions are evaluated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Rows, batches
from slimdex.indexes.errors import CorruptError, InputError, shortened

from ..column_types import by_lower_name, restored, type_of, types_of
from ..documents import OWN_COLUMNS, Document, content
from ..duckdb_library import connected, duckdb
from ..passages import Passage
from ..sql import identifier
from .column_fit import MisfitError, as_stored, shown
from .database import COLUMNS_AT_ONCE, Database
from .draft import draft_of
from .duckdb_connection import DISK_ERRORS, is_damage, one_line
from .metadata_columns import MetadataColumns
from .passages_table import Cut, DocumentRows, PassagesTable
from .schema import OWN
from .where.checks import SlowConditionError, checked, limited, reads_clock, refusal

NOT_IN_ARROW = ("INTERVAL", "BIT", "UHUGEINT")
"""Types that Arrow or Parquet can't represent."""


class DocumentsTable:
    """The table of documents in a catalog; a document is identified by its first row."""

    def __init__(
        self, database: Database, columns: MetadataColumns, passages: PassagesTable
    ) -> None:
        self._database, self._columns, self._passages = database, columns, passages

    def insert(self, first_row: int, documents: Sequence[Document]) -> None:
        """Insert documents as rows first_row, first_row + 1, ...

        Metadata become columns, new ones typed by their values. A value that does not fit its
        column widens the column if that loses nothing.
        """
        draft_of(self._database).expect(len(documents))
        metadata = [by_lower_name(document) for document in documents]
        self._columns.ensure(types_of(metadata, self._columns.settled))
        self._columns.use({name for values in metadata for name in values})
        values: list[tuple[str, str, list[Any]]] = [
            ("row", "BIGINT", list(range(first_row, first_row + len(documents)))),
            ("id", "VARCHAR", [d.id for d in documents]),
            ("title", "VARCHAR", [d.title for d in documents]),
            ("text", "VARCHAR", [d.text for d in documents]),
            ("slimdex_origin", "VARCHAR", [d.origin or None for d in documents]),
        ]
        draft = draft_of(self._database)
        for column in list(draft.columns):
            given = [m.get(column.lower(), ("", None))[1] for m in metadata]
            values.append((column, *self._stored(column, given, documents)))
        names = ", ".join(identifier(column) for column, _, _ in values)
        unnested = ", ".join(f"unnest(?::{type_}[])" for _, type_, _ in values)
        sql = f"INSERT INTO {draft.documents}({names}) SELECT {unnested}"
        parts = {first_row + i: Cut(parts=d.parts) for i, d in enumerate(documents) if d.parts}
        try:
            draft.execute(sql, [column for _, _, column in values])
            self._passages.insert(parts)
        except DISK_ERRORS:
            raise
        except (duckdb.Error, TypeError, OverflowError) as error:
            raise InputError(
                f"{_misfit(documents, values[5:])}a column's value does not fit its type: "
                f"{one_line(error)}"
            ) from error

    def _stored(
        self, column: str, values: Sequence[Any], documents: Sequence[Document]
    ) -> tuple[str, list[Any]]:
        """Return a column's type, possibly widened, and its values converted for DuckDB."""
        stored, type_ = list[Any](), self._columns.types[column]
        for document, value in zip(documents, values, strict=True):
            try:
                stored.append(as_stored(value, type_))
            except MisfitError as error:
                if self._columns.widen(column, type_of(value)):
                    return self._stored(column, values, documents)
                raise InputError(
                    f"document {shortened(document.id)}: {shown(value)} in column {column!r}; "
                    f"expected {type_}"
                ) from error
            except InputError as error:
                raise InputError(
                    f"document {shortened(document.id)}, column {column!r}: {error}"
                ) from error
        return type_, stored

    def make_room(self, cut: DocumentRows) -> None:
        """Renumber the new documents, so far one row each, for their passages.

        `cut` contains the documents that will have several rows, by their new rows.
        """
        more = np.cumsum(cut.counts - 1)
        after = cut.firsts - np.concatenate([[0], more[:-1]])
        draft = draft_of(self._database)
        draft.execute(
            f"""UPDATE {draft.documents} SET "row" = numbered.new FROM (
                SELECT "row" AS old, "row" + more AS new FROM (SELECT "row" FROM {draft.documents})
                ASOF JOIN (SELECT unnest(?::BIGINT[]) AS after, unnest(?::BIGINT[]) AS more)
                ON "row" > after
            ) numbered WHERE documents."row" = numbered.old""",
            [after.tolist(), more.tolist()],
        )

    def read(self, rows: Sequence[int]) -> dict[int, Document]:
        """Read documents by their rows.

        Raises `CorruptError` if a JSON column holds invalid JSON, or two documents have the same
        row.
        """
        columns = self._columns.types
        values_of = self._values(["id", "title", "text", *columns], rows)
        cuts = self._passages.of(rows)
        try:
            read = {
                row: Document(id, text, title, restored(columns, metadata))
                for row, (id, title, text, *metadata) in values_of.items()
            }
            return {r: cuts[r].of(d) if r in cuts else d for r, d in read.items()}
        except InputError as error:  # not written by slimdex
            raise CorruptError(f"{self._database.path}: {error}") from error

    def _values(self, columns: Sequence[str], rows: Sequence[int]) -> dict[int, list[Any]]:
        numbers, values_of = [int(row) for row in rows], defaultdict[int, list[Any]](list)
        for few in batches(len(columns), COLUMNS_AT_ONCE):
            selected = ", ".join(identifier(column) for column in columns[few])
            sql = f"""SELECT "row", {selected} FROM documents
                WHERE "row" IN (SELECT unnest(?::BIGINT[]))"""
            for row, *values in self._database.fetch(sql, [numbers]):
                values_of[row] += values
        if any(len(values) != len(columns) for values in values_of.values()):
            raise CorruptError(f"{self._database.path}: several documents have the same row")
        return values_of

    def values(self, start: int, stop: int, *, live: bool = False) -> list[Sequence[Any]]:
        """Row, id, title, text and the user's columns of the documents start .. stop, in order.

        If `live`, deleted documents are omitted.
        """
        columns = ["row", "id", "title", "text", *self._columns.types]
        table = self._database.live() if live else "documents"
        parts = []
        for few in batches(len(columns), COLUMNS_AT_ONCE):
            selected = ", ".join(identifier(column) for column in columns[few])
            sql = f'SELECT {selected} FROM {table} WHERE "row" >= ? AND "row" < ? ORDER BY "row"'
            parts.append(self._database.fetch(sql, [start, stop]))
        if len(parts) == 1:
            return parts[0]
        return [[*chain.from_iterable(row)] for row in zip(*parts, strict=True)]

    def arrow(self, rows: Rows) -> Any:
        """Id, title, text and the user's columns of documents, given their rows (n,) in order.

        Returns a `pyarrow.Table`; requires pyarrow. Values of JSON, UUID and `NOT_IN_ARROW` are
        text.
        """
        types = dict.fromkeys(("id", "title", "text"), "VARCHAR") | dict(self._columns.types)
        read = [
            f"{identifier(c)}::VARCHAR AS {identifier(c)}" if t in NOT_IN_ARROW else identifier(c)
            for c, t in types.items()
        ]
        which = '"row" BETWEEN ? AND ? AND "row" IN (SELECT unnest(?::BIGINT[]))'
        first, last = (int(rows[0]), int(rows[-1])) if len(rows) else (0, 0)
        values, parts = [first, last, rows.tolist()], list[Any]()
        for few in batches(len(read), COLUMNS_AT_ONCE):
            sql = f'SELECT {", ".join(read[few])} FROM documents WHERE {which} ORDER BY "row"'
            parts.append(self._database.fetch_table(sql, values))
            if len(parts[-1]) != len(rows):
                raise CorruptError(f"{self._database.path}: several documents have the same row")
        whole = parts[0]
        for part in parts[1:]:
            for name in part.column_names:
                whole = whole.append_column(name, part[name])
        return whole

    def contents(self, start: int, stop: int) -> list[str]:
        """Texts to encode of the rows start .. stop."""
        first, texts = self._passages.first_row(start), list[str]()
        for row, _, passages in self._contents(OWN, first, stop):
            texts += passages[max(start - row, 0) : stop - row]
        return texts

    def named_contents(
        self, start: int, stop: int, *, live: bool = False
    ) -> Iterator[tuple[str, str]]:
        """Id and text to encode of each row of the documents that begin in start .. stop.

        If `live`, deleted documents are omitted.
        """
        table = self._database.live('"row", id, title, text') if live else OWN
        for _, id, passages in self._contents(table, start, stop):
            yield from ((id, each) for each in passages)

    def _contents(self, table: str, start: int, stop: int) -> Iterator[tuple[int, str, list[str]]]:
        """Row, id and texts to encode of the documents that begin in start .. stop."""
        rows = self._database.fetch(
            f'SELECT "row", id, title, text FROM {table} '
            'WHERE "row" >= ? AND "row" < ? ORDER BY "row"',
            [start, stop],
        )
        cuts = self._passages.between(start, stop)
        for row, id, title, text in rows:
            yield row, id, cuts[row].contents(text) if row in cuts else [content(title, text)]

    def contents_of(self, documents: Rows) -> list[str]:
        """Texts to encode of each row of documents, given in order."""
        rows = self._database.fetch(
            f"""SELECT "row", title, text FROM {OWN}
            WHERE "row" IN (SELECT unnest(?::BIGINT[])) ORDER BY "row" """,
            [documents.tolist()],
        )
        cuts, contents = self._passages.of(documents.tolist()), list[str]()
        for row, title, text in rows:
            contents += cuts[row].contents(text) if row in cuts else [content(title, text)]
        return contents

    def whole(self, rows: Sequence[int]) -> dict[int, Passage]:
        """Map documents to the single passage that each consists of."""
        passages = self._database.fetch(
            f"""SELECT "row", title, length(text) FROM {OWN}
            WHERE "row" IN (SELECT unnest(?::BIGINT[]))""",
            [[*rows]],
        )
        return {row: Passage(0, length, title) for row, title, length in passages}

    def longer(self, start: int, stop: int, bytes: int) -> list[tuple[int, str, str]]:
        """Row, title and text of the documents start .. stop longer than `bytes`, in order."""
        return self._database.fetch(
            f'SELECT "row", title, text FROM {OWN} WHERE "row" >= ? AND "row" < ? '
            'AND strlen(title) + strlen(text) > ? ORDER BY "row"',
            [start, stop, bytes],
        )

    def has_text(self, first_row: int) -> bool:
        """True if a document from first_row on has a text or a title."""
        rows = self._database.fetch(
            f"""SELECT 1 FROM {OWN}
            WHERE "row" >= ? AND regexp_matches(title || text, '\\S') LIMIT 1""",
            [first_row],
        )
        return bool(rows)

    def characters(self, start: int, stop: int, most: int) -> int:
        """Number of characters of the rows start .. stop, counting at most `most` per row.

        For a document that is cut, the whole text counts, and overlaps of passages count once.
        """
        ((total,),) = self._database.fetch(
            f"""SELECT coalesce(sum(least(
                length(title) + length(text), ?::HUGEINT * coalesce(len(starts), 1)
            )), 0)
            FROM {OWN} LEFT JOIN passages USING ("row") WHERE "row" >= ? AND "row" < ?""",
            [most, start, stop],
        )
        return int(total)

    def reads_clock(self, where: str) -> bool:
        """True if a condition may hold for other documents a moment later."""
        return reads_clock(where, self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        """Columns that a condition may name."""
        return (*OWN_COLUMNS[1:4], *self._columns.types)

    def rows_where(self, where: str, stop: int) -> Rows:
        """Documents of rows 0 .. stop that satisfy a DuckDB expression, in order, including deleted
        ones.

        Only an expression over the columns is allowed: see `where.checked`.
        """
        names = self._names
        where = checked(where, names)
        with self._database.reading() as cursor:
            try:
                committed = f'(SELECT * FROM documents WHERE "row" < {int(stop)})'
                with limited(cursor):
                    sql = f'SELECT "row" FROM {committed} WHERE ({where}\n)'
                    columns = cursor.execute(sql).fetchnumpy()
                return np.sort(columns["row"].astype(np.int64), kind="stable")  # fast if in order
            except SlowConditionError as error:
                raise SlowConditionError(str(refusal(where, str(error), names))) from error
            except duckdb.Error as error:
                if isinstance(error, DISK_ERRORS) or is_damage(error):
                    raise
                raise refusal(where, one_line(error), names) from error


def _misfit(documents: Sequence[Document], columns: Sequence[tuple[str, str, list[Any]]]) -> str:
    """Name the document whose value its column can't hold, as the start of an error message."""
    with connected() as scratch:  # an error must not abort our transaction
        for column, type_, values in columns:
            for document, value in zip(documents, values, strict=True):
                try:
                    scratch.execute(f"SELECT ?::{type_}", [value])
                except (duckdb.Error, TypeError, OverflowError):
                    return f"document {document.id!r}, {column}={shortened(str(value), 40)}: "
    return ""
