"""Tables: documents from JSONL, JSON, CSV, TSV and Parquet, read by DuckDB in batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from slimdex.errors import InputError, shorten
from slimdex.system.duckdb_library import connect, duckdb, identifier

from ...documents import Document, check_columns
from ..files.input_files import InputFile, Reading
from .columns import (
    ID_NAMES,
    NO_VALUES,
    TEXT_NAMES,
    TIMES,
    TIMESTAMPTZ,
    TITLE_NAMES,
    VALUES,
    ColumnNames,
    check_values,
    read_type,
    restore_values,
    storage_names,
    stored_type,
    text_of,
    usual_column,
)
from .table_files import (
    ALL_READERS,
    inferred_types,
    is_parsed,
    read_answer,
    read_csv,
    read_json,
    read_lines,
    why_unreadable,
)

BATCH = 1024
"""Documents in a batch."""
EVERY_COLUMN = "all"
BY_LINES = (read_csv, read_lines)


class TableSource:
    """Source of a table's rows.

    `file` is the input file; without an id column, ids consist of its name and row numbers.

    Attributes
    ----------
    all_columns : names of all columns in the file.
    is_empty_table : whether it has no rows.
    """

    def __init__(self, file: InputFile, names: ColumnNames) -> None:
        self.name = file.name
        self.place = file.place
        self._file = file
        self._reader = ALL_READERS.get(file.ending, read_answer)
        self._connection = connect()
        self._types = self._inferred_types()
        self.notes = [*file.notes]
        self.all_columns = [*self._types]
        self.is_empty_table = not self._fetch(f"SELECT count(*) FROM {self._table}")[0][0]

        # Columns of text, ids, titles and metadata.
        self._text = self._column(names.text, "text", TEXT_NAMES)
        self._id = self._column(names.id, "id", ID_NAMES)
        self._title = self._column(names.title, "title", TITLE_NAMES)
        roles = (self._text, self._id, self._title)
        others = [column for column in self._types if column not in roles]
        self._casts = dict[str, str]()
        nearly_typed = self._find_casts(others)
        if not self._text and not self.is_empty_table:
            typed = self._casts | nearly_typed
            self._text = self._only_text([column for column in others if column not in typed])
            # The user should check this: without a header, the first row is taken for the names.
            self.notes.append(f"the text is the column {self._text!r}, the only one with text")
        vectors = names.vectors and names.vectors.lower()
        metadata = [c for c in others if c != self._text and c.lower() != vectors]
        if self.is_empty_table:
            metadata = []
        check_columns(len(metadata), self.name)
        self._stored_names = storage_names(metadata)

        # Types that the user has named. Text may state a zone, which TIMESTAMP would drop.
        requested = {}
        for column in metadata:
            type_ = names.types.get(column, names.types.get(EVERY_COLUMN))
            if type_ is not None:
                requested[column] = TIMESTAMPTZ if type_ == "TIMESTAMP" else type_
                self._casts.pop(column, None)
            elif column in nearly_typed:
                self.notes.append(f"column {self._stored_names[column]!r} {nearly_typed[column]}")
        ours = [column for column in (self._id, self._text, self._title) if column]
        self._types |= requested | dict.fromkeys(ours, "VARCHAR")

        # Types that values are read as.
        types = self._types | self._casts
        self._stored_types = {n: stored_type(types[c]) for c, n in self._stored_names.items()}
        self._requested = requested

    @property
    def origin(self) -> InputFile | None:
        """File that generated ids are derived from; None if there is an id column."""
        return self._file if self._id is None else None

    @property
    def fingerprint(self) -> str:
        """Digest of path, size, times and chosen columns; empty if modified just now."""
        return self._file.fingerprint(self._text, self._id, self._title, self._requested)

    def batches(self, reading: Reading = Reading()) -> Iterator[list[Document]]:
        """Yield documents in the order of the file, with generated ids if there is no id column.

        Rows of CSV and lines without values are skipped.
        """
        selected = []
        for column in (self._id, self._text, self._title, *self._stored_names):
            selected.append(self._value(column) if column else "NULL")
        with self._reading():
            cursor = self._connection.execute(f"SELECT {', '.join(selected)} FROM {self._table}")
        prefix = self._file.id_prefix if reading.prefix is None else reading.prefix
        origin = reading.origin(self.fingerprint)

        # Rows are numbered from 1, including those that are skipped.
        number = 0
        while True:
            with self._reading():
                rows = cursor.fetchmany(BATCH)
            if not rows:
                return
            documents = []
            for row in rows:
                number += 1
                if self._reader in BY_LINES and all(value in (None, "") for value in row):
                    continue
                documents.append(self._document(prefix, number, row, origin))
            yield documents

    def _document(self, prefix: str, number: int, row: Sequence[Any], origin: str) -> Document:
        """Make the document of a row (id, text, title, metadata...)."""
        id, text, title, *values = row
        if self._id is None:
            id = f"{prefix}:{number}"
        elif id is None:
            raise InputError(f"{self.name}: row {number} has no {self._id!r}; expected one")
        try:
            metadata = restore_values(self._stored_types, values)
        except InputError as error:
            raise InputError(f"{self.name}: document {id!r}: {error}") from error
        return Document(id, text or "", title or "", metadata, origin=origin)

    def _inferred_types(self) -> dict[str, str]:
        """Types of the columns; raise `InputError` if the file can't be read as a table."""
        if self._reader in BY_LINES and not is_parsed(self._connection, self._file):
            self._file.copy(newline=None)  # DuckDB can't read mixed line endings
            is_parsed(self._connection, self._file)
            self._file.notes.append("mixed line endings, read as the same")
        with self._reading():
            return inferred_types(self._connection, self._file)

    def _column(self, requested: str | None, role: str, usual: Sequence[str]) -> str | None:
        """Return the user's column for a role, or else one with a usual name, if any."""
        if requested is not None and self._types and requested not in self._types:
            columns = ", ".join(self._types)
            raise InputError(
                f"{self.name}: no column {requested!r} for the {role}; it has {columns}"
            )
        return requested or usual_column(self.all_columns, usual)

    def _only_text(self, columns: Sequence[str]) -> str:
        """Return the only column of text that is no id; raise `InputError` if there are others."""
        names = [column for column in columns if column.lower() not in ID_NAMES]
        texts = [column for column in names if self._types[column] == "VARCHAR"]
        if len(texts) != 1:
            columns = ", ".join(self._types)
            raise InputError(
                f"{self.name}: which column is the text? Name one by text=NAME: {columns}"
            )
        return texts[0]

    def _find_casts(self, columns: Sequence[str]) -> dict[str, str]:
        """Find types that keep all values of text in CSV and JSON, and of large numbers.

        Returns notes on the columns of text that are nearly typed.
        """
        # DuckDB infers HUGEINT of 0 and -1 in JSON, and reads all of CSV as text here.
        candidates: dict[str, Collection[str]] = {"HUGEINT": ["BIGINT"]}
        if self._reader is read_csv:
            candidates["VARCHAR"] = VALUES
            self._casts |= dict.fromkeys(columns, NO_VALUES)  # until values are found
        elif self._reader is read_json:
            candidates["VARCHAR"] = TIMES

        notes = {}
        for type_, types in candidates.items():
            wide = [column for column in columns if self._types[column] == type_]
            sql = check_values(self._table, wide, types)
            for column, cast, nearly in self._fetch(sql) if wide else ():
                self._casts.pop(column, None)
                if cast:
                    self._casts[column] = cast
                elif nearly:
                    asked, example = nearly
                    notes[column] = (
                        f"is stored as text: {asked} would change or refuse values such as "
                        f"{shorten(example)} (types={column}={asked} requests it)"
                    )
        return notes

    @property
    def _table(self) -> str:
        """SQL of the table."""
        return self._reader(self._file, {c: read_type(t) for c, t in self._types.items()})

    def _value(self, column: str) -> str:
        """SQL of a column's value, as it is stored."""
        if cast := self._casts.get(column):
            return f"CAST({text_of(column)}::{cast} AS {stored_type(cast)})"
        return f"CAST({identifier(column)} AS {stored_type(self._types[column])})"

    def _fetch(self, sql: str) -> list[Any]:
        """Run a statement and return its rows."""
        with self._reading():
            return self._connection.execute(sql).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise `InputError` if DuckDB can't read the file."""
        try:
            yield
        except duckdb.Error as error:
            raise why_unreadable(self._file, error) from error
