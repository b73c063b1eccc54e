"""DocumentStore: the documents of one commit: their records in the log, and queries of columns."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from slimdex.errors import CorruptError, InputError, UnreadableError, shorten
from slimdex.indexes.arrays import Rows, batches, without
from slimdex.system.atomic_files import FileRecord
from slimdex.system.duckdb_library import duckdb, identifier, literal
from slimdex.system.once import Once, cached_property

from ..documents import Document
from .columns import Values, documents_query, unnest_query, values_of
from .engine import Engine, disk_error, disk_errors, one_line
from .ids import IDS, NO_IDS, IdFile, hashes_of
from .log import Log
from .manifest import Manifest
from .origins import Origins, read_origins
from .record import Record, read_record
from .where.conditions import TEXT_COLUMNS
from .where.validation import check, limiting, refusal

if TYPE_CHECKING:
    import pyarrow

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
AMONG = '"row" BETWEEN ? AND ? AND "row" IN (SELECT unnest(?::BIGINT[]))'
"""A condition on rows, whose parameters `among` returns: files without any of them are skipped."""
LIVE = '(FROM documents ANTI JOIN gone USING ("row"))'
"""The documents that are not deleted."""
ORIGINS = """(SELECT "row", id,
    CASE WHEN changed."row" IS NULL THEN slimdex_origin ELSE changed.origin::VARCHAR END AS origin
    FROM (SELECT "row", id, slimdex_origin FROM documents) LEFT JOIN changed USING ("row"))"""
"""Row, id and origin of each document, with those that have changed, in a table."""
PLACE = "left(origin, 32)"
"""The digest of an origin's place."""


def among(rows: Sequence[int] | Rows) -> list[Any]:
    """The parameters of `AMONG` for some rows: the first, the last, and all of them."""
    every = np.asarray(rows, dtype=np.int64)
    first, last = (int(every.min()), int(every.max())) if len(every) else (0, -1)
    return [first, last, every.tolist()]


class DocumentStore:
    """The documents of one commit, which never change; any thread may read.

    A document is identified by its first row. Queries read the view `documents`, which has all
    rows, also deleted ones.

    Attributes
    ----------
    path : folder of the index.
    columns : the user's: name -> type.
    rows : number of rows.
    """

    def __init__(self, engine: Engine, manifest: Manifest) -> None:
        # Contents of the commit.
        state = manifest.state
        self.engine = engine
        self.path = engine.folder
        self.manifest = manifest
        self.rows = state.rows
        self.epoch = state.epoch
        self.columns: Mapping[str, str] = manifest.columns

        # Read when needed, unless the store of an earlier commit has it already.
        self._changed_origins = Once[Origins]()
        self._known_ids: tuple[IdFile, IdFile, int] | None = None
        # Connections of `reading` that no thread uses. A deque[...] would load DuckDB here.
        self._idle: deque[duckdb.DuckDBPyConnection] = deque()

    def at_commit(self, manifest: Manifest) -> DocumentStore:
        """Return the documents of a later commit, sharing what is known about ids and origins."""
        later = DocumentStore(self.engine, manifest)
        old = self.manifest.state
        new = manifest.state
        if new.files.get("origins") == old.files.get("origins"):
            later._changed_origins = self._changed_origins
        if (new.files.get(IDS), new.epoch) == (old.files.get(IDS), old.epoch):
            later._known_ids = self._known_ids
        return later

    @property
    def origins(self) -> Origins:
        """The origins that differ from those in the log."""
        record = self.manifest.state.files.get("origins")
        return self._changed_origins.get(lambda: read_origins(self.path, record))

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for this thread, with a view of the documents, and a table of `gone` ones.

        Raises `CorruptError` if a file is damaged or missing, `UnreadableError` if the disk or
        memory failed, or others have removed a file.
        """
        self.engine.ensure_open()
        try:
            try:
                cursor = self._idle.pop()
            except IndexError:
                cursor = self._open_cursor()
            yield cursor
            self._idle.append(cursor)
        except duckdb.Error as error:
            if isinstance(error, disk_errors()):
                # DuckDB may refuse everything from now on, or lack its folder for what it spills.
                self._idle.clear()
                self.engine.restart()
                raise UnreadableError(str(disk_error(self.path, error))) from error
            raise CorruptError(f"{self.path}: {one_line(error)}") from error

    def _open_cursor(self) -> duckdb.DuckDBPyConnection:
        """Open a connection for `reading`; raises also `CorruptError` if a record is damaged."""
        state = self.manifest.state
        columns = self.engine.columns(state.column_files)
        cursor = self.engine.cursor()

        # Rows after the files are few: they are in a table.
        later = None
        if state.column_rows < self.rows:
            values = self.values(state.column_rows, self.rows)
            sql, parameters = unnest_query(values)
            cursor.execute(f"CREATE TEMP TABLE later_documents AS {sql}", parameters)
            later = ("later_documents", {name: type_ for name, type_, _ in values})
        paths = [self.path.absolute() / file.name for file in state.column_files]
        every = documents_query([*zip(paths, columns, strict=True)], self.columns, later)
        inside = f'"row" >= 0 AND "row" < {self.rows}'  # files of others may have more
        cursor.execute(f"CREATE TEMP VIEW documents AS FROM ({every}) WHERE {inside}")
        gone = self.manifest.document_rows.first_rows(self.manifest.deleted)
        cursor.register("gone", {"row": gone})
        return cursor

    def fetch(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query."""
        with self.reading() as cursor:
            return cursor.execute(sql, list(values)).fetchall()

    def values(self, start: int, stop: int, users: Mapping[str, str] | None = None) -> Values:
        """The columns of the documents that begin at the rows from `start` to before `stop`.

        `users` are the user's columns, name -> type; by default those of this commit. Raises
        `CorruptError` if a record is damaged.
        """
        users = users or self.columns
        records = dict(self.records(start, stop))
        stored = [
            self._parsed(row, record.stored, users.values()) for row, record in records.items()
        ]
        documents = [record.document for record in records.values()]
        return values_of([*records], documents, users, stored)

    @cached_property
    def log(self) -> Log:
        """The records of the documents, mapped: they stay readable when the files are removed."""
        return Log(self.path, self.manifest.state.log, self.rows)

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Read documents by their first rows; raises `CorruptError` if a record is damaged."""
        self.engine.ensure_open()
        records = self.records_of(rows, [*self.columns])
        return {row: record.document for row, record in records.items()}

    def records_of(self, rows: Sequence[int], columns: Sequence[str] = ()) -> dict[int, Record]:
        """Read records by the documents' first rows; raises as `documents`.

        Documents have the values of `columns` as metadata.
        """
        return self._read_records(self.log.read(rows), columns)

    def records(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Record]]:
        """Yield the documents that begin at the rows from `start` to before `stop`, in order."""
        records = self.log.scan(start, stop)
        while some := dict(islice(records, READ_AT_ONCE)):
            yield from self._read_records(some).items()

    def _read_records(
        self, data: Mapping[int, bytes], columns: Sequence[str] = ()
    ) -> dict[int, Record]:
        """Parse and check the records of documents, by their first rows."""
        records = {row: self._parsed(row, read_record, each, columns) for row, each in data.items()}
        rows = np.array([*records], dtype=np.int64)
        expected = self.manifest.document_rows.counts_of(rows).tolist()
        for (row, record), count in zip(records.items(), expected, strict=True):
            if record.row_count != count:
                raise CorruptError(
                    f"{self.log.files[0].path}: row {row} has {record.row_count} passages; "
                    f"expected {count}"
                )
        return records

    def _parsed(self, row: int, read: Callable[..., T], *values: Any) -> T:
        """Parse a record; raises `CorruptError` if it is invalid."""
        try:
            return read(*values)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise CorruptError(
                f"{self.log.files[0].path}: row {row} is no document ({error})"
            ) from error

    def contents(self, rows: Rows) -> list[str]:
        """Text to encode of each row: the headings above its passage, then the passage."""
        firsts = self.manifest.document_rows.documents(rows)
        records = self.records_of(np.unique(firsts).tolist())
        contents = {first: record.contents for first, record in records.items()}
        each = zip(firsts.tolist(), rows.tolist(), strict=True)
        return [contents[first][row - first] for first, row in each]

    def rows_where(self, where: str) -> Rows:
        """First rows of the documents that satisfy a DuckDB expression, in order.

        Deleted documents are included. Only an expression over the columns is allowed: see
        `where.validation.check`.
        """
        types = TEXT_COLUMNS | dict(self.columns)
        where = check(where, [*types])
        with self.reading() as cursor:
            try:
                with limiting(cursor, where):
                    # The condition may end with a comment, which the line break ends.
                    sql = f'SELECT "row" FROM documents WHERE ({where}\n)'
                    rows = cursor.execute(sql).fetchnumpy()["row"]
                matches = np.zeros(self.rows, dtype=np.bool_)
                matches[rows] = True
                return np.flatnonzero(matches)
            except duckdb.Error as error:
                if isinstance(error, disk_errors()):
                    raise
                words = re.findall(r"\w+", where.lower())
                reason = one_line(error)
                for name in [name for name in types if name.lower() in words][:SAMPLES]:
                    reason += f"; {name} is {types[name]}{_examples(cursor, name)}"
                raise refusal(where, reason, [*types]) from error

    def rows_after(self, id: str) -> Rows:
        """First rows of the documents with later ids, in the order of ids, with deleted ones."""
        sql = f'SELECT "row" FROM {BARE_DOCUMENTS} WHERE id > ? ORDER BY id'
        with self.reading() as cursor:
            return cursor.execute(sql, [id]).fetchnumpy()["row"].astype(np.int64)

    def ids_by_row(self) -> list[str]:
        """Id of the document of each row, including deleted documents."""
        ids = dict(self.fetch(f'SELECT "row", id FROM {BARE_DOCUMENTS}'))
        firsts = self.manifest.document_rows.documents(np.arange(self.rows))
        return [ids[row] for row in firsts.tolist()]

    def ids_of(self, rows: Rows) -> list[str]:
        """Ids of documents, given their rows (n,) in ascending order."""
        return [id for (id,) in self.select(rows, "id")]

    def select(self, rows: Rows, values: str) -> list[tuple[Any, ...]]:
        """Select SQL expressions of documents, given their rows as in `ids_of`.

        They are of the built-in columns only.
        """
        sql = f'SELECT {values} FROM {BARE_DOCUMENTS} WHERE {AMONG} ORDER BY "row"'
        return self.fetch(sql, among(rows)) if len(rows) else []

    def arrow(self, rows: Rows) -> pyarrow.Table:
        """Id, title, text and the user's columns of documents, given their rows (n,) in order.

        JSON is text. Requires pyarrow.
        """
        import_module("duckdb")  # the package adds relations to the connections of its extension
        selected = [*map(identifier, ("id", "title", "text", *self.columns))]

        # Fetch some columns at a time, and join them into one table.
        table = None
        for few in batches(len(selected), COLUMNS_AT_ONCE):
            sql = f'SELECT {", ".join(selected[few])} FROM documents WHERE {AMONG} ORDER BY "row"'
            with self.reading() as cursor:
                part = cursor.sql(sql, params=among(rows)).to_arrow_table()
            if table is None:
                table = part
                continue
            for name in part.column_names:
                table = table.append_column(name, part[name])
        return table

    def rows_of(self, ids: Sequence[str]) -> Rows:
        """Live rows (n,) of ids, in their order; raises `InputError` if an id is unknown."""
        known = self.rows_of_ids(ids)
        for id in ids:
            if id not in known:
                raise InputError(f"unknown id {shorten(id)}; expected the id of a document")
        return np.array([known[id] for id in ids], dtype=np.int64)

    def rows_of_ids(self, ids: Sequence[str]) -> dict[str, int]:
        """Map those ids that exist to their live rows."""
        in_file, later = self._ids()
        found = np.append(in_file.find(ids), later.find(ids))
        # A forged file may have rows that do not exist.
        rows = without(found[found < self.rows], self.manifest.deleted)
        wanted = set(ids)  # a few rows have other ids, with equal hashes
        return {id: row for row, id in self._ids_at(rows).items() if id in wanted}

    def _ids(self) -> tuple[IdFile, IdFile]:
        """Where documents are: those of the file of ids, and later ones, in memory."""
        state = self.manifest.state
        if self._known_ids is None:
            in_file = IdFile.read(self.path, state.files.get(IDS))
            self._known_ids = in_file, NO_IDS, state.id_rows

        # Add the rows since this was read, for this commit or an earlier one.
        in_file, later, stop = self._known_ids
        if stop < self.rows:
            rows = self.manifest.document_rows.first_rows(np.arange(stop, self.rows))
            later = later.with_later(hashes_of([*self._ids_at(rows).values()]), rows)
            self._known_ids = in_file, later, self.rows
        return in_file, later

    def _ids_at(self, rows: Rows) -> dict[int, str]:
        """Map documents, given by their first rows in order, to their ids."""
        if len(rows) <= MOST_FROM_LOG:
            with suppress(CorruptError):  # of a damaged record, columns may have the id
                records = self.records_of(rows.tolist())
                return {row: record.document.id for row, record in records.items()}
        return dict(zip(rows.tolist(), self.ids_of(rows), strict=True))

    def write_ids(self, path: Path) -> FileRecord:
        """Write a file of the ids of all documents."""
        in_file, later = self._ids()
        return in_file.with_later(later.hashes, later.rows).write(path)

    def generated_ids(self, prefix: str) -> dict[str, int]:
        """Map generated ids (prefix, colon, number) of live documents to their rows."""
        sql = f'SELECT id, "row" FROM {LIVE} WHERE starts_with(id, ?)'
        rows = self.fetch(sql, [f"{prefix}:"])
        return {id: row for id, row in rows if id[len(prefix) + 1 :].isdecimal()}

    def _origins_where(self, condition: str, values: Sequence[Any]) -> list[tuple[int, str, str]]:
        """Row, id and origin of the documents that satisfy a condition on these."""
        changed = {
            "row": np.array([*self.origins], dtype=np.int64),
            "origin": np.array([*self.origins.values()], dtype=object),
        }
        with self.reading() as cursor:
            cursor.register("changed", changed)
            sql = f"SELECT * FROM {ORIGINS} WHERE {condition}"
            return cursor.execute(sql, [*values]).fetchall()

    def of_place(self, place: str, *, deleted: bool = False) -> list[tuple[int, str, str]]:
        """Row, id and origin of the live documents of a place, or also of deleted ones."""
        which = "" if deleted else 'AND "row" NOT IN (FROM gone)'
        return self._origins_where(f"{PLACE} = ? {which}", [place])

    def origins_of(self, rows: Sequence[int]) -> Origins:
        """Map documents, given by their first rows, to their origins."""
        return {row: origin for row, _, origin in self._origins_where(AMONG, among(rows))}

    def without_stamps(self, rows: Rows) -> Origins:
        """Return origins without stamps for all documents from the places of some rows.

        An undo brings these rows back or removes them, but leaves their files as they are. Without
        stamps, the next sync reads all files of these places again.
        """
        of_same_place = f"{PLACE} IN (SELECT {PLACE} FROM {ORIGINS} WHERE {AMONG})"
        documents = self._origins_where(of_same_place, among(rows))
        return {row: f"{origin.partition('/')[0]}/" for row, _, origin in documents}


def _examples(cursor: duckdb.DuckDBPyConnection, column: str) -> str:
    """Some values of a column, for a condition that does not suit them."""
    name = identifier(column)
    text = f"left({name}::VARCHAR, {SAMPLE_CHARACTERS})"
    sql = f"SELECT {text} FROM documents WHERE {name} IS NOT NULL LIMIT {SAMPLES}"
    values = ", ".join(literal(value) for (value,) in cursor.execute(sql).fetchall())
    return f", such as {values}" if values else ""
