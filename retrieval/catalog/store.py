"""DocumentStore: documents, their columns and the state of the index, in one DuckDB file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from slimdex.indexes.arrays import Rows, batches
from slimdex.indexes.errors import CorruptError, InputError, shortened

from ..column_types import by_lower_name, restored, type_of, types_of
from ..documents import OWN_COLUMNS, Document, content
from ..passages import Passage
from ..sql import identifier
from .column_fit import MisfitError, as_stored, shown
from .column_values import ColumnValues
from .database import DISK_ERRORS, Database, is_damage, one_line
from .document_origins import LIVE, DocumentOrigins
from .document_rows import DocumentRows
from .metadata_columns import MetadataColumns
from .passages_table import PASSAGES, Cut, PassagesTable
from .schema import check_plain, check_schema
from .state import FORMAT, State
from .where import SlowConditionError, checked, limited, refusal

SCHEMA = """
    CREATE TABLE documents(
        "row" BIGINT, id VARCHAR, title VARCHAR, text VARCHAR, deleted BOOLEAN,
        slimdex_origin VARCHAR
    );
    CREATE TABLE state(format INTEGER, "rows" BIGINT, body JSON);
    CREATE TABLE blocks(file VARCHAR, block BIGINT, sha256 VARCHAR);
    CREATE TABLE partly_read("row" BIGINT, tokens BIGINT, read BIGINT);
""" + PASSAGES.rstrip()
INSERT_STATE = 'INSERT INTO state(format, "rows", body) VALUES (?, ?, ?)'
NUMBERED = """(
    SELECT "row" AS old, count, (sum(count) OVER (ORDER BY "row") - count)::BIGINT AS new FROM (
        SELECT "row", coalesce(len(starts), 1) AS count
        FROM documents LEFT JOIN passages USING ("row") WHERE NOT deleted
    )
)"""
"""The live documents as `compact` numbers them: old first row, number of rows, new first row."""
PartlyRead = Mapping[int, tuple[int, int]]
"""Row -> the tokens of its text, and how many of them were read: fewer, or none of none."""
ASKED_AT_ONCE = 65_536
"""Ids looked up in one query."""
NOT_IN_ARROW = ("INTERVAL", "BIT", "UHUGEINT")
"""Types that Arrow, or Parquet after it, has no room for."""
COLUMNS_AT_ONCE = 500
"""Columns read in one query: it takes memory for 2,048 values of each, several times."""


class DocumentStore:
    """The catalog of an index: what its tables hold. Any thread may read, one at a time writes.

    A document is called by its first row, here and wherever a row stands for one.

    Attributes
    ----------
    passages : the table of how documents are cut.
    origins : where documents came from.
    column_values : what stands in the user's columns.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._columns = MetadataColumns(database)
        self.passages = PassagesTable(database)
        self.origins = DocumentOrigins(database)
        self.column_values = ColumnValues(database, self._columns)

    @classmethod
    def create(cls, path: Path, state: State) -> DocumentStore:
        """A new catalog with no documents."""
        database = Database(path, read_only=False)
        try:
            with database.transaction():
                database.execute(SCHEMA)
                database.execute(INSERT_STATE, [FORMAT, 0, state.to_json()])
            return cls(database)
        except BaseException:
            database.close()
            raise

    @classmethod
    def open(cls, path: Path, *, read_only: bool) -> DocumentStore:
        """An existing catalog.

        Raises
        ------
        InputError
            If another process is writing, or the catalog is of a newer format.
        CorruptError
            If it is no catalog of ours, or damaged.
        """
        database = Database(path, read_only=read_only)
        try:
            _check(path, database)
            return cls(database)
        except duckdb.Error as error:
            database.close()
            raise CorruptError(
                f"{path}: no slimdex catalog, or damaged ({one_line(error)})"
            ) from error
        except BaseException:
            database.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def ensure_open(self) -> None:
        """Raise `InputError` if it was closed, or is that of a writer of which this is a fork."""
        self._database.ensure_open()

    @property
    def is_usable(self) -> bool:
        """Whether it can be read as it is; if not, `ensure_open` tries to open it again."""
        return self._database.is_usable

    @property
    def epoch(self) -> int:
        """Grows when `compact` numbers the rows anew."""
        return self._database.epoch

    @property
    def read_only(self) -> bool:
        """Whether it was opened to be read, like others may do at the same time."""
        return self._database.read_only

    def check_place(self) -> None:
        """Raise `InputError` if another folder, or none, has this one's place, or it is closed."""
        self._database.check_place()

    @property
    def in_transaction(self) -> bool:
        """Whether one has begun and not ended."""
        return self._database.in_transaction

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing, on disk when it ends."""
        with self._columns.following(), self._database.transaction():
            yield

    @property
    def columns(self) -> dict[str, str]:
        """The user's own columns: name -> DuckDB type."""
        return dict(self._columns.committed)

    def read_columns(self) -> None:
        """See which columns are committed, after a failure that has left it open."""
        self._columns.read_again()

    def state(self) -> State:
        """What is committed, or within a transaction what will be."""
        ((body,),) = self._database.fetch("SELECT body FROM state")
        return State.from_json(body)

    def set_state(self, state: State) -> None:
        """Put another state in place of the one that is there."""
        self._database.execute(
            'UPDATE state SET "rows" = ?, body = ?', [state.rows, state.to_json()]
        )

    def insert(self, first_row: int, documents: Sequence[Document]) -> None:
        """Documents as rows first_row, first_row + 1, ...

        Metadata become columns: new ones by the types of their values. A value that is not of its
        column's type makes it wider where that loses nothing.
        """
        metadata = [by_lower_name(document) for document in documents]
        self._columns.ensure(types_of(metadata, self._columns.settled))
        values: list[tuple[str, str, list[Any]]] = [
            ("row", "BIGINT", list(range(first_row, first_row + len(documents)))),
            ("id", "VARCHAR", [d.id for d in documents]),
            ("title", "VARCHAR", [d.title for d in documents]),
            ("text", "VARCHAR", [d.text for d in documents]),
            ("slimdex_origin", "VARCHAR", [d.origin or None for d in documents]),
        ]
        for column in list(self._columns.types):
            given = [m.get(column.lower(), ("", None))[1] for m in metadata]
            values.append((column, *self._stored(column, given, documents)))
        names = ", ".join(identifier(column) for column, _, _ in values)
        unnested = ", ".join(f"unnest(?::{type_}[])" for _, type_, _ in values)
        sql = f"INSERT INTO documents({names}, deleted) SELECT {unnested}, false"
        parts = {first_row + i: Cut(parts=d.parts) for i, d in enumerate(documents) if d.parts}
        try:
            self._database.execute(sql, [column for _, _, column in values])
            self.passages.insert(parts)
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
        """A column's type, which may be wider by then, and its values as DuckDB takes them."""
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
                raise InputError(f"document {shortened(document.id)}: {error}") from error
        return type_, stored

    def declare_columns(self, columns: Mapping[str, str]) -> None:
        """Columns of the given DuckDB types, which someone wants them to have."""
        self._columns.declare(columns)

    @property
    def columns_with_values(self) -> dict[str, str]:
        """Of the user's own columns those that another type would lose something of."""
        return self._columns.with_values

    def new_columns(self, columns: Mapping[str, str]) -> dict[str, str]:
        """Of the given columns those that there are not."""
        existing = self._columns.by_lower_name
        return {name: type_ for name, type_ in columns.items() if name.lower() not in existing}

    def discard_from(self, row: int) -> None:
        """Remove the documents from `row` on: what became of their files is not known then."""
        self.origins.forget_stamps(row)
        for table in ("documents", "partly_read", "passages"):
            self._database.execute(f'DELETE FROM {table} WHERE "row" >= ?', [row])

    def set_partly_read(self, partly: PartlyRead) -> None:
        """Rows whose text was not read to its end, with their tokens and how many were read."""
        columns = [list(partly), [t for t, _ in partly.values()], [r for _, r in partly.values()]]
        self._database.execute(
            'DELETE FROM partly_read WHERE "row" IN (SELECT unnest(?::BIGINT[]))', columns[:1]
        )
        self._database.execute(
            "INSERT INTO partly_read "
            "SELECT unnest(?::BIGINT[]), unnest(?::BIGINT[]), unnest(?::BIGINT[])",
            columns,
        )

    def partly_read(self, rows: Rows) -> PartlyRead:
        """Of the given rows those whose text was not read to its end: row -> tokens, and read."""
        found = self._database.fetch(
            """SELECT "row", tokens, read FROM partly_read
            WHERE "row" IN (SELECT unnest(?::BIGINT[]))""",
            [rows.tolist()],
        )
        return {row: (tokens, read) for row, tokens, read in found}

    def textless_rows(self) -> Rows:
        """Rows of documents that have no text, and so no vector, in order."""
        return self._database.fetch_rows(
            'SELECT DISTINCT "row" FROM partly_read WHERE tokens = 0 AND "row" >= 0 ORDER BY "row"'
        )

    def count_cut(self, first_row: int = 0) -> tuple[int, float]:
        """Live documents from first_row on that have more than what is read of a text or passage:
        how many, and the share of the tokens of these that was read."""
        ((count, share),) = self._database.fetch(
            """SELECT count(DISTINCT d."row"), sum(read)::DOUBLE / sum(tokens)::DOUBLE
            FROM partly_read p ASOF JOIN documents d ON p."row" >= d."row"
            WHERE d."row" >= ? AND tokens > read AND read >= 0 AND NOT deleted""",
            [first_row],
        )
        return (count, share) if count else (0, 1.0)

    def duplicate_id(self, first_row: int) -> tuple[str, int, int] | None:
        """An id that stands twice among the rows from first_row on, with two of its rows."""
        found = self._database.fetch(
            """SELECT id, min("row") AS one, max("row") FROM documents WHERE "row" >= ?
            GROUP BY id HAVING count(*) > 1 ORDER BY one LIMIT 1""",
            [first_row],
        )
        return found[0] if found else None

    def has_text(self, first_row: int) -> bool:
        """Whether a document from first_row on has a text or a title."""
        found = self._database.fetch(
            """SELECT 1 FROM documents
            WHERE "row" >= ? AND regexp_matches(title || text, '\\S') LIMIT 1""",
            [first_row],
        )
        return bool(found)

    def characters(self, start: int, stop: int, most: int) -> int:
        """Characters of the rows start .. stop, of each at most so many.

        Of a document that is cut, all of the text counts, and of its passages no overlap.
        """
        ((found,),) = self._database.fetch(
            """SELECT coalesce(sum(least(
                length(title) + length(text), ?::HUGEINT * coalesce(len(starts), 1)
            )), 0)
            FROM documents LEFT JOIN passages USING ("row") WHERE "row" >= ? AND "row" < ?""",
            [most, start, stop],
        )
        return int(found)

    def ids_between(self, start: int, stop: int) -> tuple[str, str]:
        """The ids of the first and the last document that has some of the rows start .. stop."""
        rows = [self.first_row(start), self.first_row(stop - 1)]
        found = self._database.fetch(
            """SELECT id FROM documents WHERE "row" IN (?, ?) ORDER BY "row" """, rows
        )
        return found[0][0], found[-1][0]

    def contents(self, start: int, stop: int) -> list[str]:
        """What is encoded of the rows start .. stop."""
        first = self.first_row(start)
        rows = self._database.fetch(
            'SELECT "row", title, text FROM documents WHERE "row" >= ? AND "row" < ? '
            'ORDER BY "row"',
            [first, stop],
        )
        cuts, found = self.passages.between(first, stop), list[str]()
        for row, title, text in rows:
            own = cuts[row].contents(text) if row in cuts else [content(title, text)]
            found += own[max(start - row, 0) : stop - row]
        return found

    def named_contents(
        self, start: int, stop: int, *, live: bool = False
    ) -> Iterator[tuple[str, str]]:
        """Id and what is encoded, of each row of the documents that begin in start .. stop.

        Parameters
        ----------
        live : whether documents that are deleted are left out.
        """
        which = " AND NOT deleted" if live else ""
        rows = self._database.fetch(
            'SELECT "row", id, title, text FROM documents '
            f'WHERE "row" >= ? AND "row" < ?{which} ORDER BY "row"',
            [start, stop],
        )
        cuts = self.passages.between(start, stop)
        for row, id, title, text in rows:
            own = cuts[row].contents(text) if row in cuts else [content(title, text)]
            yield from ((id, each) for each in own)

    def contents_of(self, documents: Rows) -> list[str]:
        """What is encoded of each row of some documents, which are in order."""
        rows = self._database.fetch(
            """SELECT "row", title, text FROM documents
            WHERE "row" IN (SELECT unnest(?::BIGINT[])) ORDER BY "row" """,
            [documents.tolist()],
        )
        cuts, found = self.passages.of(documents.tolist()), list[str]()
        for row, title, text in rows:
            found += cuts[row].contents(text) if row in cuts else [content(title, text)]
        return found

    def first_row(self, row: int) -> int:
        """The first row of the document that a row is of."""
        found = self._database.fetch(
            'SELECT "row", len(starts) FROM passages WHERE "row" < ? AND len(starts) > 1 '
            'ORDER BY "row" DESC LIMIT 1',
            [row],
        )
        return int(found[0][0]) if found and row < sum(found[0]) else row

    def whole(self, rows: Sequence[int]) -> dict[int, Passage]:
        """Row -> the one passage that each of some documents is."""
        found = self._database.fetch(
            """SELECT "row", title, length(text) FROM documents
            WHERE "row" IN (SELECT unnest(?::BIGINT[]))""",
            [[*rows]],
        )
        return {row: Passage(0, length, title) for row, title, length in found}

    def longer(self, start: int, stop: int, bytes: int) -> list[tuple[int, str, str]]:
        """Row, title and text of the documents start .. stop that have more bytes, in order."""
        return self._database.fetch(
            'SELECT "row", title, text FROM documents WHERE "row" >= ? AND "row" < ? '
            'AND strlen(title) + strlen(text) > ? ORDER BY "row"',
            [start, stop, bytes],
        )

    def documents(self, rows: Sequence[int], epoch: int | None = None) -> dict[int, Document]:
        """The documents of the given rows, by row.

        Raises
        ------
        RenumberedError
            If the rows are of another epoch.
        CorruptError
            If what a column says is JSON is none, or two documents have the same row.
        """
        columns = self._columns.committed
        found = self._values(["id", "title", "text", *columns], rows, epoch)
        cuts = self.passages.of(rows, epoch)
        try:
            read = {
                row: Document(id, text, title, restored(columns, own))
                for row, (id, title, text, *own) in found.items()
            }
            return {r: cuts[r].of(d) if r in cuts else d for r, d in read.items()}
        except InputError as error:  # none that we have written
            raise CorruptError(f"{self._database.path}: {error}") from error

    def values(self, start: int, stop: int, *, live: bool = False) -> list[Sequence[Any]]:
        """Row, id, title, text and the user's columns of the documents start .. stop, in order.

        Parameters
        ----------
        live : whether documents that are deleted are left out.
        """
        columns = ["row", "id", "title", "text", *self._columns.committed]
        which = '"row" >= ? AND "row" < ?' + (" AND NOT deleted" if live else "")
        parts = []
        for few in batches(len(columns), COLUMNS_AT_ONCE):
            own = ", ".join(identifier(column) for column in columns[few])
            sql = f'SELECT {own} FROM documents WHERE {which} ORDER BY "row"'
            parts.append(self._database.fetch(sql, [start, stop]))
        if len(parts) == 1:
            return parts[0]
        return [[*chain.from_iterable(row)] for row in zip(*parts, strict=True)]

    def arrow(self, rows: Rows, epoch: int | None = None) -> Any:
        """Id, title, text and the user's columns of some documents (n,), which are in order.

        A `pyarrow.Table`, for who has pyarrow. JSON, UUID and those of
        `NOT_IN_ARROW` are texts in it.

        Raises
        ------
        RenumberedError
            If the rows are of another epoch.
        """
        types = dict.fromkeys(("id", "title", "text"), "VARCHAR") | self._columns.committed
        read = [
            f"{identifier(c)}::VARCHAR AS {identifier(c)}" if t in NOT_IN_ARROW else identifier(c)
            for c, t in types.items()
        ]
        which = '"row" BETWEEN ? AND ? AND "row" IN (SELECT unnest(?::BIGINT[]))'
        values, parts = [int(rows[0]), int(rows[-1]), rows.tolist()], list[Any]()
        for few in batches(len(read), COLUMNS_AT_ONCE):
            sql = f'SELECT {", ".join(read[few])} FROM documents WHERE {which} ORDER BY "row"'
            parts.append(self._database.fetch_table(sql, values, epoch))
            if len(parts[-1]) != len(rows):
                raise CorruptError(f"{self._database.path}: documents that have the same row")
        whole = parts[0]
        for part in parts[1:]:
            for name in part.column_names:
                whole = whole.append_column(name, part[name])
        return whole

    def _values(
        self, columns: Sequence[str], rows: Sequence[int], epoch: int | None
    ) -> dict[int, list[Any]]:
        wanted, found = [int(row) for row in rows], defaultdict[int, list[Any]](list)
        for few in batches(len(columns), COLUMNS_AT_ONCE):
            own = ", ".join(identifier(column) for column in columns[few])
            sql = f"""SELECT "row", {own} FROM documents
                WHERE "row" IN (SELECT unnest(?::BIGINT[]))"""
            for row, *values in self._database.fetch(sql, [wanted], epoch):
                found[row] += values
        if any(len(values) != len(columns) for values in found.values()):
            raise CorruptError(f"{self._database.path}: documents that have the same row")
        return found

    def ids(self, stop: int) -> list[str]:
        """The ids of the documents of rows 0 .. stop, deleted ones included, a row each."""
        rows = self._database.fetch(
            """SELECT id, len(starts) FROM documents LEFT JOIN passages USING ("row")
            WHERE "row" < ? ORDER BY "row" """,
            [stop],
        )
        return [id for id, count in rows for _ in range(count or 1)]

    def ids_of(self, rows: Rows, epoch: int | None = None) -> list[str]:
        """The ids of some documents (n,), which are in order."""
        found = self._database.fetch(
            """SELECT id FROM documents WHERE "row" BETWEEN ? AND ?
            AND "row" IN (SELECT unnest(?::BIGINT[])) ORDER BY "row" """,
            [int(rows[0]), int(rows[-1]), rows.tolist()],
            epoch,
        )
        return [id for (id,) in found]

    def rows_where(self, where: str, stop: int, epoch: int | None = None) -> Rows:
        """Documents of rows 0 .. stop that a DuckDB expression holds for, deleted ones included.

        They are in order.

        Anything but an expression over the columns is refused: see `where.checked`.

        Raises
        ------
        RenumberedError
            If the rows are of another epoch.
        """
        names = (*OWN_COLUMNS[1:4], *self._columns.committed)
        where = checked(where, names)
        with self._database.reading(epoch) as cursor:
            try:
                documents = cursor.sql(f'SELECT * FROM documents WHERE "row" < {int(stop)}')
                with limited(cursor):
                    found = documents.filter(where).project('"row"').fetchnumpy()
                return np.sort(found["row"].astype(np.int64))
            except SlowConditionError as error:
                raise SlowConditionError(str(refusal(where, str(error), names))) from error
            except duckdb.Error as error:
                if isinstance(error, DISK_ERRORS) or is_damage(error):
                    raise
                raise refusal(where, one_line(error), names) from error

    def rows_of(self, ids: Sequence[str]) -> Rows:
        """Live rows of the given ids, in order; raises `InputError` for an unknown one."""
        return np.array(sorted(self.row_by_id(ids).values()), dtype=np.int64)

    def row_by_id(self, ids: Sequence[str], epoch: int | None = None) -> dict[str, int]:
        """Id -> its live row.

        Raises
        ------
        InputError
            If one is unknown.
        RenumberedError
            If the rows are of another epoch.
        """
        known = dict(self._live(ids, epoch))
        if unknown := [id for id in ids if id not in known]:
            raise InputError(f"unknown id {shortened(unknown[0])}; expected the id of a document")
        return known

    def known(self, ids: Sequence[str]) -> dict[str, int]:
        """Id -> its live row, for those that a document has."""
        return dict(self._live(ids))

    def made_up_rows(self, prefix: str) -> dict[str, int]:
        """Rows of the live documents whose ids are a prefix, a colon and a number, by id."""
        found = self._database.fetch(
            f'SELECT id, "row" FROM {LIVE} WHERE starts_with(id, ?)', [f"{prefix}:"]
        )
        return {id: row for id, row in found if id[len(prefix) + 1 :].isdecimal()}

    def replaced_rows(self, first_row: int) -> Rows:
        """Live rows whose id comes again from first_row on."""
        again = self._database.fetch('SELECT id FROM documents WHERE "row" >= ?', [first_row])
        rows = [row for _, row in self._live([id for (id,) in again])]
        return np.array(sorted(rows), dtype=np.int64)

    def unchanged(self, start: int, stop: int) -> tuple[Rows, Rows]:
        """Documents of start .. stop, in order, that are in every column as the live one of the
        same id; and the row of that one."""
        columns = ["title", "text", *self._columns.types]
        found = []
        for part in batches(stop, ASKED_AT_ONCE, start):
            alike = self._database.fetch(
                'SELECT id FROM documents WHERE "row" >= ? AND "row" < ?', [part.start, part.stop]
            )
            for few in batches(len(columns), COLUMNS_AT_ONCE):
                alike = self._alike([id for id, *_ in alike], part, columns[few])
            found += [rows for _, *rows in alike]
        parts = self.passages.parts_text([row for pair in found for row in pair])
        found = [(new, old) for new, old in found if parts.get(new) == parts.get(old)]
        pairs: Rows = np.array(found, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def _alike(self, ids: Sequence[str], rows: slice, columns: Sequence[str]) -> list[Any]:
        """(id, row, row of the live document) of those that have the same in these columns."""
        own = [identifier(column) for column in columns]
        same = " AND ".join(f"new.{column} IS NOT DISTINCT FROM old.{column}" for column in own)
        # A join with the whole table would read every text; one with the rows of known ids doesn't.
        return self._database.fetch(
            f"""WITH old AS MATERIALIZED (
                SELECT id, "row", {", ".join(own)} FROM {LIVE}
                WHERE id IN (SELECT unnest(?::VARCHAR[]))
            )
            SELECT id, new."row", old."row" FROM documents new JOIN old USING (id)
            WHERE new."row" >= ? AND new."row" < ? AND {same}
            ORDER BY new."row" """,
            [ids, rows.start, rows.stop],
        )

    def drop_rows(self, rows: Rows, first: int) -> None:
        """Remove documents from among those from `first` on, and close the gaps that they leave.

        They are not cut yet.
        """
        for table in ("documents", "passages"):
            self._database.execute(
                f'DELETE FROM {table} WHERE "row" IN (SELECT unnest(?::BIGINT[]))', [rows.tolist()]
            )
        for table in ("passages", "documents"):
            self._database.execute(
                f"""UPDATE {table} SET "row" = numbered.new FROM (
                    SELECT "row" AS old, ? + row_number() OVER (ORDER BY "row") - 1 AS new
                    FROM documents WHERE "row" >= ?
                ) numbered WHERE {table}."row" = numbered.old AND numbered.old <> numbered.new""",
                [first, first],
            )

    def make_room(self, cut: DocumentRows, first: int) -> None:
        """Number the documents from `first` on, a row each so far, as they are cut.

        Parameters
        ----------
        cut : the documents that have several rows, by the rows that they are to have.
        """
        more = np.cumsum(cut.counts - 1)
        after = cut.firsts - np.concatenate([[0], more[:-1]])
        self._database.execute(
            """UPDATE documents SET "row" = numbered.new FROM (
                SELECT "row" AS old, "row" + more AS new FROM documents
                ASOF JOIN (SELECT unnest(?::BIGINT[]) AS after, unnest(?::BIGINT[]) AS more)
                ON "row" > after WHERE "row" >= ?
            ) numbered WHERE documents."row" = numbered.old""",
            [after.tolist(), more.tolist(), first],
        )

    def compact(self, state: State, blocks: Mapping[str, Sequence[tuple[int, str]]]) -> None:
        """A new catalog in this one's place, without deleted documents: the commit of `compact`.

        The others are numbered anew, in the same order. `blocks` are the checksums of its files.
        """
        with self._database.attached("fresh") as new:
            for sql in SCHEMA.split(";")[1:]:
                self._database.execute(sql.replace("CREATE TABLE ", "CREATE TABLE fresh."))
            self._database.execute(
                """CREATE TABLE fresh.documents AS
                SELECT (row_number() OVER (ORDER BY "row") - 1)::BIGINT AS "row",
                    * EXCLUDE ("row") FROM documents WHERE NOT deleted ORDER BY "row" """
                if self.passages.rows(state.staged).is_one_each
                else f"""CREATE TABLE fresh.documents AS
                SELECT new AS "row", documents.* EXCLUDE ("row")
                FROM documents JOIN {NUMBERED} ON "row" = old ORDER BY new"""
            )
            self._database.execute(
                f"""INSERT INTO fresh.partly_read SELECT new + "row" - old, tokens, read
                FROM partly_read ASOF JOIN {NUMBERED} ON "row" >= old
                WHERE "row" < old + count ORDER BY 1"""
            )
            self._database.execute(
                f"""INSERT INTO fresh.passages SELECT new, passages.* EXCLUDE ("row")
                FROM passages JOIN {NUMBERED} ON "row" = old ORDER BY 1"""
            )
            self._database.execute(
                INSERT_STATE.replace("INTO ", "INTO fresh."),
                [FORMAT, state.rows, state.to_json()],
            )
            for file, found in blocks.items():
                self._add_blocks("fresh.blocks", file, found)
        self._database.replace_with(new)

    def delete_rows(self, rows: Rows) -> None:
        """Mark rows as deleted."""
        self._database.execute(
            'UPDATE documents SET deleted = true WHERE "row" IN (SELECT unnest(?::BIGINT[]))',
            [rows.tolist()],
        )

    def deleted_rows(self) -> Rows:
        """Rows marked as deleted, in order."""
        return self._database.fetch_rows('SELECT "row" FROM documents WHERE deleted ORDER BY "row"')

    def read_all(self) -> None:
        """Read every value, so that DuckDB's own checksums are tried; `CorruptError` if not."""
        for table in ("documents", "state", "blocks", "partly_read", "passages"):
            self._database.fetch(f"SELECT bit_xor(hash(t)) FROM {table} t")

    def is_numbered(self, stop: int) -> bool:
        """Whether each of the rows 0 .. stop is one document's, and no document has others."""
        ((strays,),) = self._database.fetch(
            """SELECT count(*) FROM passages LEFT JOIN documents USING ("row")
            WHERE id IS NULL OR len(starts) <> len(ends) OR len(starts) <> len(contexts)"""
        )
        ((first, gaps, last),) = self._database.fetch(
            """SELECT coalesce(min("row"), 0), count(*) FILTER ("row" + count <> next),
                coalesce(max("row" + count), 0)
            FROM (
                SELECT "row", count, lead("row", 1, "row" + count) OVER (ORDER BY "row") AS next
                FROM (
                    SELECT "row", coalesce(len(starts), 1) AS count
                    FROM documents LEFT JOIN passages USING ("row")
                )
            )"""
        )
        return bool((strays, first, gaps, last) == (0, 0, 0, stop))

    def set_blocks(self, file: str, first: int, blocks: Sequence[tuple[int, str]]) -> None:
        """Checksums of a file's blocks, in place of all from block `first` on."""
        self._database.execute("DELETE FROM blocks WHERE file = ? AND block >= ?", [file, first])
        self._add_blocks("blocks", file, blocks)

    def _add_blocks(self, table: str, file: str, blocks: Sequence[tuple[int, str]]) -> None:
        self._database.execute(
            f"INSERT INTO {table} SELECT ?, unnest(?::BIGINT[]), unnest(?::VARCHAR[])",
            [file, [block for block, _ in blocks], [digest for _, digest in blocks]],
        )

    def set_block(self, file: str, block: int, sha256: str) -> None:
        """The checksum of one block of a file."""
        self._database.execute("DELETE FROM blocks WHERE file = ? AND block = ?", [file, block])
        self._add_blocks("blocks", file, [(block, sha256)])

    def blocks(self, file: str) -> dict[int, str]:
        """Checksum of each block of a file."""
        return dict(self._database.fetch("SELECT block, sha256 FROM blocks WHERE file = ?", [file]))

    def forget_blocks(self, keep: set[str]) -> None:
        """Drop the checksums of files that are not in `keep`."""
        self._database.execute(
            "DELETE FROM blocks WHERE file NOT IN (SELECT unnest(?::VARCHAR[]))", [list(keep)]
        )

    def _live(self, ids: Sequence[str], epoch: int | None = None) -> list[Any]:
        """(id, row) of the live documents that have one of the ids."""
        # A join with the table's own staged rows would read every text; a list of ids does not.
        sql = f'SELECT id, "row" FROM {LIVE} WHERE id IN (SELECT unnest(?::VARCHAR[]))'
        parts = (list(ids[part]) for part in batches(len(ids), ASKED_AT_ONCE))
        return [row for part in parts for row in self._database.fetch(sql, [part], epoch)]


def _misfit(documents: Sequence[Document], columns: Sequence[tuple[str, str, list[Any]]]) -> str:
    """Which document has a value that its column can't hold, to be put before an error."""
    with duckdb.connect() as scratch:  # an error must not abort our transaction
        for column, type_, values in columns:
            for document, value in zip(documents, values, strict=True):
                try:
                    scratch.execute(f"SELECT ?::{type_}", [value])
                except (duckdb.Error, TypeError, OverflowError):
                    return f"document {document.id!r}, {column}={shortened(str(value), 40)}: "
    return ""


def _check(path: Path, database: Database) -> None:
    """Raise `CorruptError` for a catalog that slimdex did not make, `InputError` for a newer one.

    A migration from an older format will run between the two checks of the tables.
    """
    try:
        with database.reading() as cursor:
            check_plain(cursor)
        _check_format(path, [format_ for (format_,) in database.fetch("SELECT format FROM state")])
        with database.reading() as cursor:
            check_schema(cursor, SCHEMA)
    except CorruptError as error:
        if str(path) in str(error):  # it is damaged
            raise
        raise CorruptError(f"{path}: no slimdex catalog: {error}") from error


def _check_format(path: Path, found: Sequence[int | None]) -> None:
    if len(found) != 1:
        raise CorruptError(f"its table 'state' has {len(found)} rows; expected one")
    if found[0] is None or found[0] < 1:
        raise CorruptError(f"format {found[0]}; expected 1 or more")
    if found[0] > FORMAT:
        raise InputError(f"{path}: format {found[0]}; expected {FORMAT} (a newer slimdex made it)")
