"""DocumentStore: the documents of one commit: their records in the log, and queries of columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from weakref import finalize

import numpy as np

from slimdex.errors import CorruptError, InputError, UnreadableError, shorten
from slimdex.indexes.arrays import Rows, union, without
from slimdex.system.atomic_files import FileRecord
from slimdex.system.duckdb_library import duckdb, identifier, literal
from slimdex.system.once import Once, cached_property

from ..documents import BUILT_IN_COLUMNS, Document
from .columns import Part, Typed, column_values, documents_query, part_of, unnest_query
from .engine import Engine, Session, disk_error, disk_errors, one_line
from .ids import IDS, IdFile, LaterIds
from .log import Log
from .manifest import Manifest
from .origins import Origins, read_origins
from .record import Record, read_record
from .where.conditions import TEXT_COLUMNS
from .where.validation import SlowConditionError, check, limiting, refusal

T = TypeVar("T")

COLUMNS_AT_ONCE = 500
"""Columns per query: DuckDB holds 2,048 values of each in memory, several times."""
MOST_FROM_LOG = 256
"""Most documents whose ids are read from the log: a query of more takes less time."""
READ_AT_ONCE = 256
"""Records in memory at a time."""
BARE_DOCUMENTS = '(SELECT "row", id, title, text FROM documents)'
"""The documents without the user's columns, whose names may be any word of our queries.

Queries read `documents` itself only for those columns, and then without a join.
"""
SAMPLES = 3
SAMPLE_CHARACTERS = 40
"""Values of a column that the error for a condition shows, and the characters of each."""
BEGINNING = 300
"""Characters of the beginning of a text."""
COMPARED = 100_000
COMPARED_CHARACTERS = 100
"""An unknown id is compared with others only if it has at most `COMPARED_CHARACTERS` characters and
the index has at most `COMPARED` rows, which takes some milliseconds."""
AMONG = '"row" BETWEEN ? AND ? AND "row" IN (SELECT unnest(?::BIGINT[]))'
"""A condition on rows, whose parameters `among` returns: files without any of them are skipped."""
PLACE = "left(slimdex_origin, 32)"
"""The digest of an origin's place. (DuckDB 2.0.0 fails on `split_part` of an all-NULL column.)"""


def among(rows: Sequence[int] | Rows) -> list[Any]:
    """The parameters of `AMONG` for some rows: the first, the last, and all of them."""
    every = np.asarray(rows, dtype=np.int64)
    first, last = (int(every.min()), int(every.max())) if len(every) else (0, -1)
    return [first, last, every.tolist()]


def _ids_of(manifest: Manifest) -> tuple[object, ...]:
    """While these are the same, known ids stay valid, and later rows may be added to them."""
    return manifest.state.files.get(IDS), manifest.state.epoch


class DocumentStore:
    """The documents of one commit, which never change; any thread may read.

    A document is identified by its first row. Queries read the view `documents`, which has all
    rows, also deleted ones.

    Attributes
    ----------
    columns : the user's: name -> type.
    rows : documents before this row are visible.
    changed_origins : the content of the file of origins.
    id_file, later_ids : where documents are, by their ids.
    """

    def __init__(
        self, engine: Engine, manifest: Manifest, before: DocumentStore | None = None
    ) -> None:
        # Contents of the commit.
        state = manifest.state
        self.engine = engine
        self.manifest = manifest
        self.rows = state.rows
        self.epoch = state.epoch
        self.columns: Mapping[str, str] = manifest.columns
        self.origins_file = state.files.get("origins")

        # Read when needed, unless the store of an earlier commit has it already.
        self.changed_origins = Once[Origins]()
        self.id_file = Once[IdFile]()
        self.later_ids = LaterIds(state.id_rows)
        if before is not None:
            if before.origins_file == self.origins_file:
                self.changed_origins = before.changed_origins
            if _ids_of(before.manifest) == _ids_of(manifest):
                self.id_file = before.id_file
                self.later_ids = replace(before.later_ids)
        self._made: tuple[Session, str] | None = None  # where the view is: see `_schema`
        self._tables = set[str]()  # tables that were made beside it: see `_table`

    def at_commit(self, manifest: Manifest) -> DocumentStore:
        """Return the documents of a later commit, sharing what is known about ids and origins.

        This is the same store if the commit has the same documents: its files stay open.
        """
        store = DocumentStore(self.engine, manifest, self)
        return self if self._has_documents_of(store) else store

    def _has_documents_of(self, other: DocumentStore) -> bool:
        """True if both stores have the same documents, columns and files."""
        state = self.manifest.state
        now = other.manifest.state
        return (
            (state.column_files, state.log, self.rows, self.epoch)
            == (now.column_files, now.log, other.rows, other.epoch)
            and self.origins_file == other.origins_file
            and dict(self.columns) == dict(other.columns)
            and np.array_equal(self.manifest.deleted, other.manifest.deleted)
        )

    @property
    def path(self) -> Path:
        """Folder of the index."""
        return self.engine.folder

    @property
    def origins(self) -> Origins:
        """The origins that differ from those in the log."""
        return self.changed_origins.get(lambda: read_origins(self.path, self.origins_file))

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for this thread, with the view of the documents.

        Raises `CorruptError` if a file is damaged or missing, `UnreadableError` if the disk or
        memory failed, or others have removed a file.
        """
        session = None
        try:
            # One thread at a time makes views, but several may query.
            with self.session() as session:
                cursor = session.cursor(self._schema(session))
            with closing(cursor):
                yield cursor
        except duckdb.Error as error:
            # After a fatal error, DuckDB refuses everything.
            if isinstance(error, duckdb.FatalException) and session is not None:
                session.has_failed = True
                self.engine.restart()
            raise self._read_error(error) from error

    @contextmanager
    def session(self) -> Iterator[Session]:
        """The session in which the view is or will be, for one thread at a time.

        It stays the same when others start a new one, except after a failure.
        """
        with self.engine.working() as current:
            session = None if self._made is None else self._made[0]
            yield current if session is None or session.has_failed else session

    @contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a connection in which the view need not be."""
        with self.session() as session:
            cursor = session.cursor()
        try:
            with closing(cursor):
                yield cursor
        except disk_errors() as error:
            raise disk_error(self.path, error) from error

    def _schema(self, session: Session) -> str:
        """Return the schema of this commit's view in a session, created on first use."""
        if self._made is not None and self._made[0] is session:
            return self._made[1]
        files = self.manifest.state.column_files
        columns = session.columns(files)
        schema = session.schema()
        finalize(self, session.end, schema)

        # Rows after the files are few: they are in a table.
        table = None
        if self.manifest.state.column_rows < self.rows:
            table = self._later_rows(session, schema)
        paths = [self.path.absolute() / file.name for file in files]
        view = documents_query([*zip(paths, columns, strict=True)], self.columns, table)
        session.create("VIEW", f"{schema}.documents", view)
        self._made = (session, schema)
        self._tables = set()
        return schema

    def _later_rows(self, session: Session, schema: str) -> Typed:
        """Make a table of the rows after the files of columns; return its name and columns.

        Raises `CorruptError` if a record is damaged.
        """
        values = column_values(self.part(self.manifest.state.column_rows, self.rows))
        sql, parameters = unnest_query(values)
        session.create("TABLE", f"{schema}.later_documents", sql, parameters)
        return f"memory.{schema}.later_documents", {name: type_ for name, type_, _ in values}

    def part(self, start: int, stop: int, columns: Mapping[str, str] | None = None) -> Part:
        """The columns of the documents that begin at the rows from `start` to before `stop`.

        `columns` are the user's, name -> type; by default those of this commit. Raises
        `CorruptError` if a record is damaged.
        """
        users = columns or self.columns
        records = dict(self.records(start, stop))
        values = list[list[Any]]()
        for row, record in records.items():
            values.append(self._parsed(row, record.stored, users.values()))
        return part_of([*records], [*records.values()], users, values)

    def live(self, columns: str = "*", table: str = "documents") -> str:
        """Return the SQL of a subquery of the live documents in a table.

        It may name a table of the present session, so use it only for the next query.
        """
        stop = self.rows
        deleted = self.manifest.deleted
        if not len(deleted):
            return f'(SELECT {columns} FROM {table} WHERE "row" < {stop})'
        documents = self.manifest.document_rows.first_rows(deleted)
        self._table("gone", 'SELECT unnest(?::BIGINT[]) AS "row"', [documents.tolist()])
        return f'(SELECT {columns} FROM {table} ANTI JOIN gone USING ("row") WHERE "row" < {stop})'

    @property
    def _origins(self) -> str:
        """The SQL of a subquery of the row, id and origin of each document, as `live`."""
        if not self.origins:
            return '(SELECT "row", id, slimdex_origin FROM documents)'
        values = [[*self.origins], [*self.origins.values()]]
        self._table(
            "changed",
            'SELECT unnest(?::BIGINT[]) AS "row", unnest(?::VARCHAR[]) AS slimdex_origin',
            values,
        )
        return """(SELECT "row", id, CASE WHEN changed."row" IS NULL THEN documents.slimdex_origin
            ELSE changed.slimdex_origin END AS slimdex_origin
            FROM (SELECT "row", id, slimdex_origin FROM documents) documents
            LEFT JOIN changed USING ("row"))"""

    def _table(self, name: str, sql: str, values: Sequence[Any]) -> None:
        """Make a table of a query in this commit's schema, once in each session.

        Raises the errors of `reading`: others may have removed the files of columns.
        """
        try:
            with self.session() as session:
                schema = self._schema(session)
                if name not in self._tables:
                    session.create("TABLE", f"{schema}.{name}", sql, values)
                    self._tables.add(name)
        except duckdb.Error as error:
            raise self._read_error(error) from error

    def fetch(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query."""
        with self.reading() as cursor:
            return cursor.execute(sql, list(values)).fetchall()

    def _read_error(self, error: duckdb.Error) -> Exception:
        """Convert DuckDB's error to the one that `reading` raises."""
        if isinstance(error, disk_errors()):
            return UnreadableError(str(disk_error(self.path, error)))
        return CorruptError(f"{self.path}: {one_line(error)}")

    def _still_live(self, rows: Sequence[int] | Rows) -> set[int]:
        """Return those of these documents that this commit has, except deleted ones."""
        sorted_rows = union(np.array(rows, dtype=np.int64))
        committed = sorted_rows[sorted_rows < self.rows]
        return set(without(committed, self.manifest.deleted).tolist())

    @cached_property
    def log(self) -> Log:
        """The records of the documents, mapped: they stay readable when the files are removed."""
        return Log(self.path, self.manifest.state.log, self.rows).open()

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Read documents by their first rows; raises `CorruptError` if a record is damaged."""
        records = self.records_of(rows, [*self.columns])
        return {row: record.document for row, record in records.items()}

    def records_of(self, rows: Sequence[int], columns: Sequence[str] = ()) -> dict[int, Record]:
        """Read records by the documents' first rows; raises as `documents`.

        Documents have the values of `columns` as metadata.
        """
        read = self.log.read(rows)
        records = {row: self._parsed(row, read_record, data, columns) for row, data in read.items()}
        self._check_counts({row: record.row_count for row, record in records.items()})
        return records

    def _check_counts(self, counts: Mapping[int, int]) -> None:
        """Raise `CorruptError` unless documents, by their first rows, have so many rows."""
        expected = self.manifest.document_rows.counts_of(np.array([*counts], dtype=np.int64))
        for (row, count), known in zip(counts.items(), expected.tolist(), strict=True):
            if count != known:
                path = self.log.files[0].path
                raise CorruptError(f"{path}: row {row} has {count} passages; expected {known}")

    def records(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Record]]:
        """Yield the documents that begin at the rows from `start` to before `stop`, in order."""
        records = self.log.scan(start, stop)
        while some := dict(islice(records, READ_AT_ONCE)):
            read = {row: self._parsed(row, read_record, data) for row, data in some.items()}
            self._check_counts({row: record.row_count for row, record in read.items()})
            yield from read.items()

    def _parsed(self, row: int, read: Callable[..., T], *values: Any) -> T:
        """Parse a record; raises `CorruptError` if it is invalid."""
        try:
            return read(*values)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise CorruptError(
                f"{self.log.files[0].path}: row {row} is no document ({error})"
            ) from error

    def contents(self, start: int, stop: int) -> list[str]:
        """Texts to encode of the rows from `start` to before `stop`."""
        first = int(self.manifest.document_rows.documents(np.array([start]))[0])
        texts = list[str]()
        for row, record in self.records(first, stop):
            texts += record.contents[max(start - row, 0) : stop - row]
        return texts

    def contents_of(self, documents: Rows) -> list[str]:
        """Texts to encode of each row of documents, given in order."""
        texts = list[str]()
        for record in self.records_of(documents.tolist()).values():
            texts += record.contents
        return texts

    @property
    def _names(self) -> tuple[str, ...]:
        """Columns that a condition may name."""
        return (*BUILT_IN_COLUMNS[1:4], *self.columns)

    def rows_where(self, where: str, stop: int, start: int = 0) -> Rows:
        """First rows of the documents that satisfy a DuckDB expression, in order.

        Documents begin at the rows from `start` to before `stop`; deleted ones are included.

        Only an expression over the columns is allowed: see `where.validation.check`.
        """
        names = self._names
        where = check(where, names)
        with self.reading() as cursor:
            try:
                inside = f'"row" >= {int(start)} AND "row" < {int(stop)}'
                committed = f"(SELECT * FROM documents WHERE {inside})"
                with limiting(cursor):
                    # The condition may end with a comment, which the line break ends.
                    sql = f'SELECT "row" FROM {committed} WHERE ({where}\n)'
                    columns = cursor.execute(sql).fetchnumpy()
                return np.sort(columns["row"].astype(np.int64), kind="stable")  # fast if in order
            except SlowConditionError as error:
                raise SlowConditionError(str(refusal(where, str(error), names))) from error
            except duckdb.Error as error:
                if isinstance(error, disk_errors()):
                    raise
                held = "".join(map(self._contents_of, self._columns_in(where)))
                raise refusal(where, one_line(error) + held, names) from error

    def rows_after(self, id: str) -> Rows:
        """First rows of the documents with later ids, in the order of ids, with deleted ones."""
        sql = f'SELECT "row" FROM {BARE_DOCUMENTS} WHERE id > ? ORDER BY id'
        with self.reading() as cursor:
            return cursor.execute(sql, [id]).fetchnumpy()["row"].astype(np.int64)

    def _columns_in(self, where: str) -> list[str]:
        """Columns that a condition names, at most `SAMPLES`."""
        words = re.findall(r"\w+", where.lower())
        return [name for name in self._names if name.lower() in words][:SAMPLES]

    def _contents_of(self, column: str) -> str:
        """Type and some values of a column, for a condition that does not suit them."""
        name = identifier(column)
        text = f"left({name}::VARCHAR, {SAMPLE_CHARACTERS})"
        sql = f"SELECT {text} FROM documents WHERE {name} IS NOT NULL LIMIT {SAMPLES}"
        values = ", ".join(literal(value) for (value,) in self.fetch(sql))
        type_ = (TEXT_COLUMNS | dict(self.columns))[column]
        return f"; {column} is {type_}" + (f", such as {values}" if values else "")

    def ids_by_row(self, stop: int) -> list[str]:
        """Id of the document of each row below `stop`, including deleted documents."""
        ids = self.fetch(f'SELECT id FROM {BARE_DOCUMENTS} WHERE "row" < ? ORDER BY "row"', [stop])
        rows = self.manifest.document_rows
        counts = rows.counts_of(rows.first_rows(np.arange(stop))).tolist()
        by_row = list[str]()
        for (id,), count in zip(ids, counts, strict=True):
            by_row += [id] * count
        return by_row

    def ids_of(self, rows: Rows) -> list[str]:
        """Ids of documents, given their rows (n,) in ascending order."""
        return [id for (id,) in self._values_of(rows, "id")]

    def beginnings(self, rows: Rows) -> list[tuple[str, str]]:
        """Ids of documents, and how their texts begin; rows as of `ids_of`."""
        return self._values_of(rows, f"id, left(text, {BEGINNING})")

    def _values_of(self, rows: Rows, values: str) -> list[tuple[Any, ...]]:
        """Select SQL expressions of documents, given their rows as in `ids_of`."""
        sql = f'SELECT {values} FROM {BARE_DOCUMENTS} WHERE {AMONG} ORDER BY "row"'
        return self.fetch(sql, among(rows)) if len(rows) else []

    def live_rows(self, ids: Sequence[str]) -> Rows:
        """Live rows of the given ids, in order; raises `InputError` for an unknown id."""
        return np.array(sorted(self.row_by_id(ids).values()), dtype=np.int64)

    def row_by_id(self, ids: Sequence[str]) -> dict[str, int]:
        """Map ids to their live rows; raises `InputError` if an id is unknown."""
        known = self.rows_of_ids(ids)
        for id in ids:
            if id not in known:
                raise InputError(
                    f"unknown id {shorten(id)}; expected the id of a document{self._meant(id)}"
                )
        return known

    def _meant(self, id: str) -> str:
        """Suggest a file of this name in any folder; "" without one, or if that would take long."""
        if self.rows > COMPARED or len(id) > COMPARED_CHARACTERS:
            return ""

        # A path that ends with the id, with or without a file extension.
        live = self.live("id")
        name = f"/{id.lower()}"
        paths = self.fetch(
            f"""SELECT id FROM {live} WHERE suffix(lower(id), ?) OR contains('/' || lower(id), ?)
            ORDER BY len(id), id LIMIT 1""",
            [name, f"{name}."],
        )
        return f"; did you mean {shorten(paths[0][0])}?" if paths else ""

    def rows_of_ids(self, ids: Sequence[str]) -> dict[str, int]:
        """Map those ids that exist to their live rows."""
        # Later rows with these ids, and those of the file that may have them: few have other ids,
        # with equal hashes.
        known = self._later()
        later = {row: id for id in ids if (row := known.get(id)) is not None}
        live = self._still_live([*self._ids_in_file.find(ids), *later])
        found = self._ids_at(sorted(live - later.keys()))
        found |= {row: id for row, id in later.items() if row in live}
        wanted = set(ids)
        return {id: row for row, id in found.items() if id in wanted}

    @property
    def _ids_in_file(self) -> IdFile:
        """The file of ids, mapped."""
        record = self.manifest.state.files.get(IDS)
        return self.id_file.get(lambda: IdFile.read(self.path, record))

    def _later(self) -> Mapping[str, int]:
        """The row of each id that a live document after the file of ids has."""
        later = self.later_ids
        if later.stop < self.rows:
            rows = self.manifest.document_rows.first_rows(np.arange(later.stop, self.rows))
            later.extend(self._ids_at(sorted(self._still_live(rows))), self.rows)
        return later.rows

    def _ids_at(self, rows: Sequence[int]) -> dict[int, str]:
        """Map documents, given by their first rows in order, to their ids."""
        if len(rows) <= MOST_FROM_LOG:
            with suppress(CorruptError):  # of a damaged record, columns may have the id
                return {row: each.document.id for row, each in self.records_of(rows).items()}
        return dict(zip(rows, self.ids_of(np.array(rows)), strict=True))

    def with_id_file(self, path: Path) -> FileRecord:
        """Write a file of the ids of all documents."""
        start = self.manifest.state.id_rows
        rows = self.manifest.document_rows.first_rows(np.arange(start, self.rows)).tolist()
        return self._ids_in_file.with_later([*self._ids_at(rows).values()], rows).write(path)

    def generated_ids(self, prefix: str) -> dict[str, int]:
        """Map generated ids (prefix, colon, number) of live documents to their rows."""
        rows = self.fetch(
            f'SELECT id, "row" FROM {self.live()} WHERE starts_with(id, ?)',
            [f"{prefix}:"],
        )
        return {id: row for id, row in rows if id[len(prefix) + 1 :].isdecimal()}

    def origins_of_place(self, place: str) -> set[str]:
        """Origins of the live documents of a place."""
        live = self.live(table=self._origins)
        rows = self.fetch(f"SELECT DISTINCT slimdex_origin FROM {live} WHERE {PLACE} = ?", [place])
        return {origin for (origin,) in rows}

    def count_of_place(self, place: str) -> int:
        """Number of live documents of a place."""
        live = self.live(table=self._origins)
        ((count,),) = self.fetch(f"SELECT count(*) FROM {live} WHERE {PLACE} = ?", [place])
        return int(count)

    def gone_from(
        self, places: Sequence[str], current: Sequence[str]
    ) -> list[tuple[int, str, str]]:
        """Row, id and place of live documents of `places` with an origin that is not `current`."""
        live = self.live(table=self._origins)
        return self.fetch(
            f"""SELECT "row", id, {PLACE} FROM {live}
            WHERE {PLACE} IN (SELECT unnest(?::VARCHAR[]))
            AND slimdex_origin NOT IN (SELECT unnest(?::VARCHAR[])) ORDER BY "row" """,
            [[*places], [*current]],
        )

    def origins_of(self, rows: Sequence[int]) -> Origins:
        """Map documents, given by their first rows, to their origins."""
        sql = f'SELECT "row", slimdex_origin FROM {self._origins} WHERE {AMONG}'
        return dict(self.fetch(sql, among(rows)))

    def rows_of_place(self, place: str) -> list[int]:
        """First rows of all documents of a place, including deleted ones."""
        rows = self.fetch(f'SELECT "row" FROM {self._origins} WHERE {PLACE} = ?', [place])
        return [row for (row,) in rows]

    def without_stamps(self, rows: Rows) -> Origins:
        """Return origins without stamps for all documents from the places of some rows.

        An undo brings these rows back or removes them, but leaves their files as they are. Without
        stamps, the next sync reads all files of these places again.
        """
        origins = self._origins
        return dict(
            self.fetch(
                f"""SELECT "row", {PLACE} || '/' FROM {origins} WHERE {PLACE} IN (
                    SELECT {PLACE} FROM {origins} WHERE {AMONG}
                )""",
                among(rows),
            )
        )

    def count_again(self, rows: Rows, start: int) -> int:
        """Number of documents, by their first rows, whose content documents from `start` on have.

        Repeated content is counted as often as both sides have it.
        """
        again = f"""SELECT least(count(*) FILTER ("row" < ?), count(*) FILTER ("row" >= ?)) AS count
            FROM {BARE_DOCUMENTS} WHERE "row" >= ? OR {AMONG}
            GROUP BY md5(title || chr(10) || text)"""
        sql = f"SELECT coalesce(sum(count), 0) FROM ({again})"
        ((count,),) = self.fetch(sql, [start, start, start, *among(rows)])
        return int(count)
