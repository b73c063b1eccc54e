"""Tables: documents from JSONL, JSON, CSV, TSV and Parquet, read by DuckDB in batches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any

from slimdex.errors import InputError, shorten
from slimdex.indexes.arrays import batches
from slimdex.system.duckdb_library import connect, duckdb, identifier

from ...column_types import restore_values
from ...documents import Document, check_columns
from ...store.column_fit import misfits
from ..files.input_files import UNREADABLE, InputFile, Reading, unreadable
from ..reading_progress import ReadShare
from .columns import (
    ID_NAMES,
    MOMENTS,
    TEXT_NAMES,
    TITLE_NAMES,
    WITH_ZONES,
    ColumnNames,
    as_written,
    conversion_sql,
    has_months,
    has_zone,
    is_nested,
    is_read_from_text,
    looks_like_date,
    loses_digits,
    only_text_column,
    storable,
    storage_names,
    usual_column,
    zone_note,
)
from .table_files import (
    READERS,
    TYPED,
    check_keys,
    describe,
    describe_json,
    first_error,
    has_mixed_line_endings,
    header,
    narrow_integers,
    read_answer,
    read_csv,
    read_json,
)

BATCH = 1024
"""Documents in a batch."""
CHECKED_AT_ONCE = 256
"""Columns compared in one query, since DuckDB takes time by the square of their number."""
LOOKED_AT = 1000
"""Rows in which text that looks like dates is looked for."""
EVERY_COLUMN = "all"
PLACE = re.compile(r' in file "[^"\n]*",?( at byte \d+)?( in (line|record/value) \d+)?')
"""Place of an error in DuckDB's messages about JSON, which counts the values of a buffer."""
UNNAMED = "column0"
"""DuckDB's name of the column of an empty CSV file."""
EMPTY_LISTS = ("JSON[]", '"NULL"[]')
"""Types that DuckDB infers if all lists of a column are empty."""


class TableSource:
    """Source of a table's rows; the user's columns keep their types.

    `file` is the input file; without an id column, ids consist of its name and row numbers.

    Attributes
    ----------
    is_typed : whether the file states the types of its columns.
    is_json : whether it is JSON.
    is_empty_table : whether it has no rows.
    """

    def __init__(self, file: InputFile, names: ColumnNames) -> None:
        self.name = file.name
        self.place = file.place
        self._file = file
        self._reader = READERS.get(file.ending, read_answer)
        self.is_typed = self._reader in TYPED
        self.is_json = self._reader is read_json
        self._connection = connect()
        self._rows_read = 0
        self._characters_read = 0
        self._inferred = self._describe()
        self._types = self._inferred

        # Columns of text, ids, titles and metadata.
        text_column = self._column(names.text, "text", TEXT_NAMES)
        self.is_empty_table = not self._has_rows(self._types)
        self._text = text_column
        if not text_column and not self.is_empty_table:
            self._text = only_text_column(self.name, self._types)
        self._id = self._column(names.id, "id", ID_NAMES)
        self._title = self._column(names.title, "title", TITLE_NAMES)
        vectors = names.vectors and names.vectors.lower()
        ours = (self._text, self._id, self._title)
        self._metadata = [c for c in self._types if c not in ours and c.lower() != vectors]
        check_columns(len(self._metadata), self.name)
        self._renamed = storage_names(self._metadata)  # column -> its name in the index
        self._original = {stored.lower(): c for c, stored in self._renamed.items()}  # and back

        # Their types.
        self._requested = self._requested_types(names.types)
        self._types = self._types | self._requested
        for name in self._renamed.values():
            if self.inferred_type(name) in EMPTY_LISTS and self.is_empty(name):
                self.keep_as(name, "VARCHAR[]")

        # Notes on what is stored in another way than it is written.
        self.notes = [*file.notes]
        for column, stored in self._renamed.items():
            if column != stored:
                self.notes.append(f"column {column!r} is stored as {stored!r}")
        self.notes += self._keep_as_written()
        self.notes += self._dates_as_text()
        zoned = [self._renamed[c] for c in self._metadata if has_zone(self._types[c])]
        self.notes += zone_note(zoned)
        # The user should check this: without a header, the first row is taken for the names.
        if text_column is None and not self.is_empty_table:
            self.notes.append(f"the text is the column {self._text!r}, the only one with text")

    @property
    def origin(self) -> InputFile | None:
        """File that generated ids are derived from; None if there is an id column."""
        return self._file if self._id is None else None

    @property
    def columns(self) -> Mapping[str, str]:
        """User's columns: name -> DuckDB type."""
        return {self._renamed[c]: storable(self._types[c]) for c in self._metadata}

    @property
    def requested(self) -> set[str]:
        """User's columns with a type given by the user."""
        return {self._renamed[c] for c in self._metadata if c in self._requested}

    @property
    def all_columns(self) -> list[str]:
        """Names of all columns in the file."""
        return list(self._types)

    @property
    def fingerprint(self) -> str:
        """Digest of path, size, times and chosen columns; empty if modified just now."""
        return self._file.fingerprint(self._text, self._id, self._title, self._requested)

    def batches(self, reading: Reading = Reading()) -> Iterator[list[Document]]:
        """Yield documents in the order of the file, with generated ids if there is no id column.

        Rows of a CSV file without values are skipped.
        """
        # Select the id, text and title, and then the metadata in their storage types.
        select = [_as_text(self._id), _as_text(self._text), _as_text(self._title)]
        select += map(self._value, self._metadata)
        cursor = self._execute(f"SELECT {', '.join(select)} FROM {self._table()}")
        prefix = self._file.id_prefix if reading.prefix is None else reading.prefix
        origin = reading.origin(self.fingerprint)
        columns = self.columns

        # Rows are numbered from 1, including those that are skipped.
        number = 0
        while rows := self._fetch(cursor):
            documents = []
            for row in rows:
                number += 1
                self._characters_read += len(row[1] or "")
                if self._reader is read_csv and all(value in (None, "") for value in row):
                    continue
                document = self._document(f"{prefix}:{number}", number, row, columns, origin)
                documents.append(document)
            self._rows_read = number
            yield documents

    @property
    def read_share(self) -> ReadShare | None:
        """Shares of the rows and of their text read so far, or None for a table without text."""
        rows, characters = self._size
        if not rows or not characters:
            return None
        return ReadShare(self._rows_read / rows, self._characters_read / characters)

    @cached_property
    def _size(self) -> tuple[int, int]:
        """Number of rows, and of characters in their texts."""
        text = f"length({identifier(self._text)}::VARCHAR)" if self._text else "0"
        sql = f"SELECT count(*), coalesce(sum({text}), 0)::BIGINT FROM {self._table()}"
        with self._connection.cursor() as cursor:  # another one is being read
            ((rows, characters),) = cursor.execute(sql).fetchall()
        return int(rows), int(characters)

    def type_of(self, name: str) -> str:
        """Storage type of one of the user's columns, ignoring the name's case."""
        return storable(self._types[self._original[name.lower()]])

    def inferred_type(self, name: str) -> str:
        """Type inferred from a column's values."""
        return self._inferred[self._original[name.lower()]]

    def keep_as(self, name: str, type_: str) -> None:
        """Read one of the user's columns as another type; text is read as written."""
        self._types = self._types | {self._original[name.lower()]: type_}

    def is_empty(self, name: str) -> bool:
        """Return whether a column has no values, or only empty lists, and hence no type."""
        column = self._original[name.lower()]
        ((filled_rows,),) = self._execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {self._table({column})} "
            f"WHERE {identifier(column)}::VARCHAR NOT IN ('', '[]') LIMIT 1)"
        ).fetchall()
        return not filled_rows

    def misfit(self, name: str, type_: str, *, zeros: bool = False) -> tuple[int, str] | None:
        """Return the first row, from 1, whose value can't be cast to a type, and that value.

        If `zeros`, numbers with leading zeros are reported, too.
        """
        wrong = misfits(type_)
        if zeros:
            wrong += r" OR regexp_matches(value, '^\s*[+-]?0\d')"
        column = self._original[name.lower()]
        rows = self._execute(
            f"""SELECT number, value FROM (
                SELECT row_number() OVER () AS number, {identifier(column)}::VARCHAR AS value
                FROM {self._table({column})}
            ) WHERE value <> '' AND ({wrong}) ORDER BY number LIMIT 1"""
        ).fetchall()
        return rows[0] if rows else None

    def not_as_written(self, types: Mapping[str, str]) -> dict[str, str]:
        """Columns of text files whose values change when cast to these types: name -> example.

        CSV loses, for example, leading and trailing zeros, exponents and excess digits; JSON only
        the latter. Of other files, intervals lose months, which Python's lack.
        """
        # Column -> SQL condition for a value that changes.
        by_column = {self._original[name.lower()]: type_ for name, type_ in types.items()}
        if self._reader is read_csv:
            wrong = {c: f"NOT {as_written(c, type_)}" for c, type_ in by_column.items()}
        elif self.is_json:
            wrong = {c: loses_digits(c) for c, type_ in by_column.items() if type_ == "DOUBLE"}
        else:
            wrong = {c: has_months(c) for c, type_ in by_column.items() if type_ == "INTERVAL"}
        if not wrong:
            return {}

        # No FILTER: for each one DuckDB would copy all columns.
        checks = []
        for column, sql in wrong.items():
            checks.append(f"min(CASE WHEN {sql} THEN {identifier(column)} END)::VARCHAR")
        table = self._table(set(self._types))
        values = list[str | None]()
        for few in batches(len(checks), CHECKED_AT_ONCE):
            sql = f"SELECT {', '.join(checks[few])} FROM {table}"
            values += self._execute(sql).fetchall()[0]

        examples = {}
        for column, value in zip(wrong, values, strict=True):
            if value is not None:
                examples[self._renamed[column]] = value
        return examples

    def _has_rows(self, types: Mapping[str, str]) -> bool:
        """True if the table has a row; `types` are those of its columns, if known."""
        table = self._reader(self._file, types, [*types])
        return bool(self._execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall())

    def _document(
        self, made_up: str, number: int, row: Sequence[Any], columns: Mapping[str, str], origin: str
    ) -> Document:
        """Make the document of a row (id, text, title, metadata...).

        `made_up` is its id if the table has no column of ids.
        """
        id, text, title, *metadata_values = row
        if self._id is None:
            id = made_up
        elif id is None:
            raise InputError(f"{self.name}: row {number} has no {self._id!r}; expected an id")
        try:
            metadata = restore_values(columns, metadata_values)
        except InputError as error:
            raise InputError(f"{self.name}: document {id!r}: {error}") from error
        return Document(id, text or "", title or "", metadata, origin=origin)

    def _describe(self) -> dict[str, str]:
        """Types of the columns; raise `InputError` if the file can't be read as a table."""
        check_keys(self._connection, self._file)
        types = self._describe_file()

        # DuckDB puts values that are not objects into a column "json".
        if list(types) == ["json"] and types["json"] != "VARCHAR":
            if not self._has_rows({}):
                return {}
            raise self._refusal("expected JSON objects with fields, found none")
        if self.is_json:
            return narrow_integers(self._connection, self._file, types)
        return self._with_names_or_values(types) if self._reader is read_csv else types

    def _with_names_or_values(self, types: dict[str, str]) -> dict[str, str]:
        """The columns of a CSV file that have a name or a value: DuckDB names the others, too.

        Raises `InputError` if the file has no row.
        """
        names = [*map(str.strip, header(self._file.path))]
        if not any(names) and [*types] == [UNNAMED]:
            raise InputError(f"{self.name}: no rows; expected the names of columns, and rows below")
        if len(names) != len(types) or all(names):
            return types

        # Remove columns that have neither a name nor values.
        table = self._reader(self._file, types, [*types])
        unnamed = [column for column, name in zip(types, names, strict=True) if not name]
        counted = ", ".join(f"count({identifier(column)})" for column in unnamed)
        ((*counts,),) = self._execute(f"SELECT {counted} FROM {table}").fetchall()
        remaining = dict(types)
        for column, count in zip(unnamed, counts, strict=True):
            if not count:
                del remaining[column]
        return remaining

    def _describe_file(self) -> dict[str, str]:
        """Types of the columns, if necessary in a copy with uniform line endings."""
        try:
            if self.is_json:
                return describe_json(self._connection, self._file)
            return describe(self._connection, self._reader(self._file, {}, []))
        except duckdb.Error as error:
            if self._reader is not read_csv or not has_mixed_line_endings(self._file.path):
                raise self._explain(error) from error
        self._file.unify_line_endings()
        try:
            return describe(self._connection, self._reader(self._file, {}, []))
        except duckdb.Error as error:
            raise self._explain(error) from error

    def _requested_types(self, types: Mapping[str, str]) -> dict[str, str]:
        """Types of metadata columns that the user has named, for one column or for all.

        Raises `InputError` if the user has named a type other than text for the id, text or title.
        """
        for column in (self._text, self._id, self._title):
            if column and types.get(column, "VARCHAR") != "VARCHAR":
                raise InputError(
                    f"{self.name}: types={column}={types[column]}; expected VARCHAR for text, id "
                    "and title"
                )
        requested = {}
        for column in self._metadata:
            type_ = types.get(column, types.get(EVERY_COLUMN))
            if type_ is not None:
                requested[column] = type_
        return requested

    def _keep_as_written(self) -> list[str]:
        """Store columns as text if their types would change values; return notes."""
        # Check columns whose values may be written differently, unless the user has named the type.
        types = {}
        for column in self._metadata:
            type_ = self._types[column]
            may_change = self.is_typed or is_read_from_text(type_)
            if may_change and column not in self._requested:
                types[self._renamed[column]] = type_

        notes = []
        for name, value in self.not_as_written(types).items():
            self.keep_as(name, "VARCHAR")
            why = self._why_text(name, types[name])
            notes.append(f"column {name!r} is stored as text: {shorten(value, 40)} {why}")
        return notes

    def _dates_as_text(self) -> list[str]:
        """Notes on columns of text that look like dates, and would be compared letter by letter."""
        texts = []
        for column in self._metadata:
            if column not in self._requested and self._inferred[column] == "VARCHAR":
                texts.append(column)

        # Find an example in each column of dates.
        examples = list[str | None]()
        for few in batches(len(texts), CHECKED_AT_ONCE):
            columns = ", ".join(map(identifier, texts[few]))
            checks = ", ".join(map(looks_like_date, texts[few]))
            rows = f"(SELECT {columns} FROM {self._table()} LIMIT {LOOKED_AT})"
            examples += self._execute(f"SELECT {checks} FROM {rows}").fetchall()[0]
        notes = []
        for column, value in zip(texts, examples, strict=True):
            if value is not None:
                notes.append(
                    f"column {self._renamed[column]!r} is stored as text, not as a date: "
                    f"{shorten(value, 40)}; write dates as 2024-12-31, or read these by a query "
                    "with strptime"
                )
        return notes

    def _why_text(self, name: str, type_: str) -> str:
        """Explain why a value is not read as the inferred type, and how to read it so."""
        if type_ in MOMENTS:
            return "is ambiguous; write dates as 2024-12-31"
        return (
            f"would change as {type_} (types={self._original[name.lower()]}={type_} "
            "reads it anyway)"
        )

    def _column(self, requested: str | None, role: str, usual: Sequence[str]) -> str | None:
        """Return the user's column for a role, or else one with a usual name, if any."""
        if requested is not None and self._types and requested not in self._types:
            columns = ", ".join(self._types)
            raise InputError(
                f"{self.name}: no column {requested!r} for the {role}; it has {columns}"
            )
        return requested or usual_column([*self._types], usual)

    def _table(self, texts: Set[str] = frozenset()) -> str:
        """SQL of the table, with the given columns read as text."""
        types = {c: "VARCHAR" if c in texts else self._read_type(c) for c in self._types}
        return self._reader(self._file, types, list(types))

    def _read_type(self, column: str) -> str:
        """Type that a column is read as, before `_value` converts it."""
        type_ = self._types[column]
        inferred = self._inferred[column]
        if column not in self._renamed:  # not metadata
            return "VARCHAR"
        if type_ == inferred or self.is_typed:
            return inferred
        if self.is_json and is_nested(type_):
            return type_

        # Other types are converted from the text as written, but inferred JSON from the values.
        is_converted = type_ == "JSON" and column not in self._requested
        return inferred if is_converted else "VARCHAR"

    def _value(self, column: str) -> str:
        """SQL of a column's value, in its storage type."""
        # DuckDB reads the column as one type, and converts it to another.
        type_ = self._types[column]
        read_type = self._read_type(column)
        value = identifier(column)
        if type_ != read_type and has_zone(read_type):
            value = conversion_sql(value, read_type)
            read_type = storable(read_type)
        if type_ == read_type:
            return conversion_sql(value, type_)
        if type_ == "JSON" and column not in self._requested:
            return f"to_json({value})"

        # Convert texts: an empty one is a missing value, and times may state zones.
        if read_type == "VARCHAR":
            if type_ == "BLOB" and column not in self._requested:
                return f"from_base64({value})"
            value = f"nullif({value}, '')"
            type_ = WITH_ZONES.get(type_, type_)
        return conversion_sql(f"CAST({value} AS {type_})", type_)

    def _execute(self, sql: str) -> duckdb.DuckDBPyConnection:
        """Run a statement; raise `InputError` if DuckDB can't read the file."""
        try:
            return self._connection.execute(sql)
        except duckdb.Error as error:
            raise self._explain(error) from error

    def _fetch(self, cursor: duckdb.DuckDBPyConnection) -> list[Any]:
        """Fetch the next rows of a query; raise `InputError` if DuckDB can't read the file."""
        try:
            return cursor.fetchmany(BATCH)
        except duckdb.Error as error:
            raise self._explain(error) from error

    def _explain(self, error: duckdb.Error) -> InputError:
        """Make the error for the user from the first lines of DuckDB's."""
        reason = " ".join(str(error).split("\n\n")[0].splitlines()[:2])
        return self._refusal(PLACE.sub("", reason))

    def _refusal(self, reason: str) -> InputError:
        """Make the error for the user: the first broken line of the file, or else the reason."""
        try:
            broken = None if self.is_typed else first_error(self._file)
        except UNREADABLE as other:
            return InputError(f"{self.name}{unreadable(other, self._file.path)}")
        if broken:
            return InputError(f"{self.name}, {broken}")
        return InputError(f"{self.name}: {reason}")


def _as_text(column: str | None) -> str:
    """SQL of a column's values as text, or NULL without a column."""
    return f"{identifier(column)}::VARCHAR" if column else "NULL"
