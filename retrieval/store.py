"""DocumentStore: documents, their columns and the state of the index, in one DuckDB file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import duckdb
import numpy as np

from indexes.arrays import Rows
from indexes.errors import CorruptError, InputError

from .columns import as_stored, by_lower_name, restored, types_of
from .documents import OWN_COLUMNS, Document, content
from .sql import identifier
from .state import FORMAT, State

CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,  # a filter must not read files
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": "1GB",  # more than that spills to disk
    "lock_configuration": True,
}
SCHEMA = """
    CREATE TABLE documents(
        "row" BIGINT, id VARCHAR, title VARCHAR, text VARCHAR, deleted BOOLEAN
    );
    CREATE TABLE state(format INTEGER, "rows" BIGINT, body JSON);
    CREATE TABLE blocks(file VARCHAR, block BIGINT, sha256 VARCHAR);
    CREATE VIEW live AS
        SELECT * FROM documents WHERE NOT deleted AND "row" < (SELECT "rows" FROM state);
"""
_WRITERS: WeakValueDictionary[Path, DocumentStore] = WeakValueDictionary()
"""Stores open for writing here: DuckDB keeps out other processes' writers, not our own."""


class DocumentStore:
    """The catalog of an index. Writers hold the file alone; readers share it with readers."""

    def __init__(self, path: Path, connection: duckdb.DuckDBPyConnection) -> None:
        self._path, self._connection = path, connection
        self._columns = self._read_columns()

    @classmethod
    def create(cls, path: Path, state: State) -> DocumentStore:
        """A new catalog with no documents."""
        connection = duckdb.connect(str(path), config=CONFIG)
        connection.execute(SCHEMA)
        connection.execute("INSERT INTO state VALUES (?, 0, ?)", [FORMAT, state.to_json()])
        return cls(path, connection)

    @classmethod
    def open(cls, path: Path, *, read_only: bool) -> DocumentStore:
        """An existing catalog.

        Raises
        ------
        InputError
            If another process is writing, or the catalog is of a newer slimdex.
        CorruptError
            If it is no catalog of ours, or damaged.
        """
        if not read_only and path.resolve() in _WRITERS:
            raise InputError(f"{path.parent}: this process is writing to it; expected one writer")
        try:
            connection = duckdb.connect(str(path), read_only=read_only, config=CONFIG)
        except duckdb.Error as error:
            raise _open_error(path, error) from error
        try:
            found = connection.execute("SELECT format FROM state").fetchall()
        except duckdb.Error as error:
            connection.close()
            raise _open_error(path, error) from error
        if found != [(FORMAT,)]:
            connection.close()
            version = found[0][0] if found else None
            raise InputError(f"{path}: format {version}; this slimdex reads format {FORMAT}")
        store = cls(path, connection)
        if not read_only:
            _WRITERS[path.resolve()] = store
        return store

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
        if _WRITERS.get(self._path.resolve()) is self:
            del _WRITERS[self._path.resolve()]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing, on disk when it ends."""
        self._connection.execute("BEGIN TRANSACTION")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            self._rollback()
            raise

    @property
    def columns(self) -> dict[str, str]:
        """The user's own columns: name -> DuckDB type."""
        return dict(self._columns)

    def state(self) -> State:
        ((body,),) = self._fetch("SELECT body FROM state")
        return State.from_json(body)

    def set_state(self, state: State) -> None:
        self._connection.execute(
            'UPDATE state SET "rows" = ?, body = ?', [state.rows, state.to_json()]
        )

    def insert(
        self, first_row: int, documents: Sequence[Document], typed: Set[str] = frozenset()
    ) -> None:
        """Documents as rows first_row, first_row + 1, ...

        Metadata become columns, typed and widened by their values, but for the names in `typed`
        (in lower case), whose columns are there with the right type.
        """
        metadata = [by_lower_name(document) for document in documents]
        self.ensure_columns(types_of(metadata, typed))
        values: list[tuple[str, str, list[Any]]] = [
            ("row", "BIGINT", list(range(first_row, first_row + len(documents)))),
            ("id", "VARCHAR", [d.id for d in documents]),
            ("title", "VARCHAR", [d.title for d in documents]),
            ("text", "VARCHAR", [d.text for d in documents]),
        ]
        for column, type_ in self._columns.items():
            own = [as_stored(m.get(column.lower(), ("", None))[1], type_) for m in metadata]
            values.append((column, type_, own))
        names = ", ".join(identifier(column) for column, _, _ in values)
        unnested = ", ".join(f"unnest(?::{type_}[])" for _, type_, _ in values)
        sql = f"INSERT INTO documents({names}, deleted) SELECT {unnested}, false"
        try:
            self._connection.execute(sql, [column for _, _, column in values])
        except (duckdb.Error, TypeError, OverflowError) as error:
            raise InputError(f"a column's value does not fit its type: {_line(error)}") from error

    def ensure_columns(self, columns: Mapping[str, str]) -> None:
        """Columns that hold values of the given DuckDB types: new ones, or ones made wider.

        Raises
        ------
        InputError
            If a column holds another kind of thing: numbers are not mixed with texts.
        """
        existing = {name.lower(): name for name in self._columns}
        for name, type_ in columns.items():
            column = existing.get(name.lower())
            if column is None:
                self._alter(f"ADD COLUMN {identifier(name)} {type_}")
                existing[name.lower()] = name
            elif (wider := self._wider(column, type_)) != self._columns[column]:
                self._alter(f"ALTER COLUMN {identifier(column)} TYPE {wider}")

    def _wider(self, column: str, type_: str) -> str:
        """The type that holds a column's values and those of another type."""
        own = self._columns[column]
        if type_ == own or own in ("JSON", "VARCHAR"):  # these hold anything, written out
            return own
        with duckdb.connect() as scratch:  # an error must not abort our transaction
            try:
                sql = f"SELECT typeof(coalesce(NULL::{own}, NULL::{type_}))"
                ((wider,),) = scratch.execute(sql).fetchall()
            except duckdb.Error:
                wider = "VARCHAR"
        if wider in ("JSON", "VARCHAR"):
            raise InputError(f"column {column!r} holds {own}; the new values are {type_}")
        return str(wider)

    def _alter(self, change: str) -> None:
        self._connection.execute(f"ALTER TABLE documents {change}")
        self._columns = self._read_columns()

    def discard_from(self, row: int) -> None:
        """Remove the documents from `row` on."""
        self._connection.execute('DELETE FROM documents WHERE "row" >= ?', [row])

    def duplicate_id(self, first_row: int) -> str | None:
        """An id that stands twice among the rows from first_row on."""
        found = self._fetch(
            'SELECT id FROM documents WHERE "row" >= ? GROUP BY id HAVING count(*) > 1 LIMIT 1',
            [first_row],
        )
        return found[0][0] if found else None

    def count_empty(self, first_row: int) -> int:
        """Documents from first_row on that have neither text nor title."""
        ((count,),) = self._fetch(
            'SELECT count(*) FROM documents WHERE "row" >= ? '
            "AND NOT regexp_matches(title || text, '\\S')",
            [first_row],
        )
        return int(count)

    def contents(self, start: int, stop: int) -> list[str]:
        """What is encoded of the documents start .. stop."""
        rows = self._fetch(
            'SELECT title, text FROM documents WHERE "row" >= ? AND "row" < ? ORDER BY "row"',
            [start, stop],
        )
        return [content(title, text) for title, text in rows]

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """The documents of the given rows, by row."""
        own = "".join(f", {identifier(column)}" for column in self._columns)
        found = self._fetch(
            f'SELECT "row", id, title, text{own} FROM documents '
            'WHERE "row" IN (SELECT unnest(?::BIGINT[]))',
            [[int(row) for row in rows]],
        )
        return {
            row: Document(id, text, title, restored(self._columns, own))
            for row, id, title, text, *own in found
        }

    def ids(self, stop: int) -> list[str]:
        """The ids of rows 0 .. stop, deleted ones included."""
        rows = self._fetch('SELECT id FROM documents WHERE "row" < ? ORDER BY "row"', [stop])
        return [id for (id,) in rows]

    def rows_where(self, where: str) -> Rows:
        """Live rows that a DuckDB expression holds for, in order.

        The expression is parsed as one: statements, limits and unbalanced brackets are refused.
        """
        try:
            found = self._connection.view("live").filter(where).project('"row"')
            return np.sort(found.fetchnumpy()["row"].astype(np.int64))
        except duckdb.Error as error:
            raise InputError(
                f"where {where!r}: {_line(error)}; expected a condition on the columns "
                f"{', '.join((*OWN_COLUMNS[1:4], *self._columns))}"
            ) from error

    def rows_of(self, ids: Sequence[str]) -> Rows:
        """Live rows of the given ids; raises `InputError` for an unknown one."""
        found = self._fetch(
            'SELECT id, "row" FROM live WHERE id IN (SELECT unnest(?::VARCHAR[]))', [list(ids)]
        )
        known = dict(found)
        if unknown := [id for id in ids if id not in known]:
            raise InputError(f"unknown id {unknown[0]!r}; expected the id of a document")
        return np.sort(np.array([row for _, row in found], dtype=np.int64))

    def replaced_rows(self, first_row: int) -> Rows:
        """Live rows whose id comes again from first_row on."""
        return self._rows(
            'SELECT "row" FROM live WHERE id IN (SELECT id FROM documents WHERE "row" >= ?) '
            'ORDER BY "row"',
            [first_row],
        )

    def delete_rows(self, rows: Rows) -> None:
        """Mark rows as deleted."""
        self._connection.execute(
            'UPDATE documents SET deleted = true WHERE "row" IN (SELECT unnest(?::BIGINT[]))',
            [rows.tolist()],
        )

    def deleted_rows(self) -> Rows:
        """Rows marked as deleted, in order."""
        return self._rows('SELECT "row" FROM documents WHERE deleted ORDER BY "row"')

    def read_all(self) -> None:
        """Read every value, so that DuckDB's own checksums are tried; `CorruptError` if not."""
        for table in ("documents", "state", "blocks"):
            self._fetch(f"SELECT bit_xor(hash(t)) FROM {table} t")

    def count_documents(self, stop: int) -> int:
        """Documents in rows 0 .. stop, each row counted once, deleted ones included."""
        ((count,),) = self._fetch(
            'SELECT count(DISTINCT "row") FROM documents WHERE "row" >= 0 AND "row" < ?', [stop]
        )
        return int(count)

    def set_blocks(self, file: str, first: int, blocks: Sequence[tuple[int, str]]) -> None:
        """Checksums of a file's blocks, in place of all from block `first` on."""
        self._connection.execute("DELETE FROM blocks WHERE file = ? AND block >= ?", [file, first])
        self._connection.execute(
            "INSERT INTO blocks SELECT ?, unnest(?::BIGINT[]), unnest(?::VARCHAR[])",
            [file, [block for block, _ in blocks], [digest for _, digest in blocks]],
        )

    def blocks(self, file: str) -> dict[int, str]:
        """Checksum of each block of a file."""
        return dict(self._fetch("SELECT block, sha256 FROM blocks WHERE file = ?", [file]))

    def forget_blocks(self, keep: set[str]) -> None:
        """Drop the checksums of files that are not in `keep`."""
        self._connection.execute(
            "DELETE FROM blocks WHERE file NOT IN (SELECT unnest(?::VARCHAR[]))", [list(keep)]
        )

    def _fetch(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query; DuckDB's checksums are tried as it reads."""
        try:
            return self._connection.execute(sql, list(values)).fetchall()
        except duckdb.Error as error:
            raise self._read_error(error) from error

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        """The "row" column of a query."""
        try:
            found = self._connection.execute(sql, list(values)).fetchnumpy()
        except duckdb.Error as error:
            raise self._read_error(error) from error
        rows: Rows = found["row"].astype(np.int64)
        return rows

    def _read_error(self, error: duckdb.Error) -> Exception:
        damaged = "Corrupt" in str(error) or "checksum" in str(error)
        return CorruptError(f"{self._path}: damaged ({_line(error)})") if damaged else error

    def _read_columns(self) -> dict[str, str]:
        described = self._fetch("DESCRIBE documents")
        return {row[0]: row[1] for row in described if row[0] not in OWN_COLUMNS}

    def _rollback(self) -> None:
        try:
            self._connection.execute("ROLLBACK")
        except duckdb.Error:
            pass  # the error that led here says more
        else:
            self._columns = self._read_columns()


def _open_error(path: Path, error: duckdb.Error) -> InputError:
    message = str(error)
    if "different configuration" in message:
        return InputError(f"{path.parent}: this process is writing to it; expected no writer")
    if "Could not set lock" in message:
        process = re.search(r"PID (\d+)", message)
        who = f"process {process[1]}" if process else "another process"
        return InputError(f"{path.parent}: {who} is using it; expected no other writer")
    return CorruptError(f"{path}: no slimdex catalog, or damaged ({_line(error)})")


def _line(error: Exception) -> str:
    """The part of a DuckDB message that says what is wrong, on one line."""
    return " ".join(re.split(r"\n+LINE \d", str(error))[0].split())
