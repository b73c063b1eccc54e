"""Tables: JSONL, JSON, CSV, TSV and Parquet, read by DuckDB, become Documents in batches."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import duckdb

from slimdex.indexes.errors import InputError, shortened

from ..catalog.column_fit import misfits
from ..column_types import restored
from ..documents import OWN_COLUMNS, Document
from ..sql import identifier
from .duckdb_readers import (
    MOMENTS,
    READERS,
    ZONED,
    as_written,
    is_nested,
    is_read_from_text,
    loses_digits,
    read_csv,
    read_json,
    read_parquet,
    storable,
    stored_value,
)
from .origins import Reading
from .text_files import (
    UNREADABLE,
    InputFile,
    broken_line,
    broken_record,
    ends_in_two_ways,
    undecodable,
    unreadable,
)

BATCH = 1024
"""Documents that a source hands over at a time."""
ID_NAMES = ("_id", "id", "doc_id", "docid")
TEXT_NAMES = ("text", "body", "content", "sentence", "document", "passage")
TITLE_NAMES = ("title",)
EVERY_COLUMN = "all"
EMPTY_LISTS = ("JSON[]", '"NULL"[]')
"""Types that DuckDB finds where all lists of a column are empty."""


@dataclass(frozen=True)
class ColumnNames:
    """The columns that the user names; None looks for the usual ones.

    A column of vectors is read elsewhere (`given`) and is no metadata.

    Attributes
    ----------
    types : column -> the DuckDB type that it is to have; "all" stands for every column.
    """

    text: str | None = None
    id: str | None = None
    title: str | None = None
    vectors: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)


class TableSource:
    """Rows of a table; every column that is not ours keeps its type.

    Attributes
    ----------
    file : what is read; without an id column, ids are made up of its name and rows.
    """

    def __init__(self, file: InputFile, names: ColumnNames) -> None:
        self.name, self._file = file.name, file
        self._reader = READERS[file.ending]
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")  # of texts that say no zone
        self._keys: dict[str, str] = {}
        self._types = self._found = self._describe()
        named = self._column(names.text, "text", TEXT_NAMES)
        self._text = named or self._only_text_column()
        self._id = self._column(names.id, "id", ID_NAMES)
        self._title = self._column(names.title, "title", TITLE_NAMES)
        vectors = names.vectors and names.vectors.lower()
        ours = (self._text, self._id, self._title)
        self._own = [c for c in self._types if c not in ours and c.lower() != vectors]
        self._renamed = kept_names(self._own)
        self._original = {kept.lower(): c for c, kept in self._renamed.items()}
        self._asked = self._asked_types(names.types)
        self._types = self._types | self._asked
        for name in (self._renamed[c] for c in self._own):
            if self.found_type(name) in EMPTY_LISTS and self.is_empty(name):
                self.keep_as(name, "VARCHAR[]")
        self.notes = [*file.notes, *self._notes_on_names(), *self._keep_as_written()]
        if named is None:  # in a file without a line of names, the first document is one
            self.notes.append(f"the text is the column {self._text!r}, as no other has texts")

    @property
    def origin(self) -> InputFile | None:
        """The file that made-up ids come from; None where there is an id column."""
        return self._file if self._id is None else None

    @property
    def columns(self) -> Mapping[str, str]:
        """The user's own columns: name -> DuckDB type."""
        return {self._renamed[c]: storable(self._types[c]) for c in self._own}

    @property
    def asked(self) -> set[str]:
        """Those of the user's own columns whose types they have given."""
        return {self._renamed[c] for c in self._own if c in self._asked}

    @property
    def all_columns(self) -> list[str]:
        """The file's own names of all its columns."""
        return list(self._types)

    @property
    def ending(self) -> str:
        """The kind of file."""
        return self._file.ending

    def fingerprint(self) -> str:
        """From path, size, time of change and the chosen columns."""
        return self._file.fingerprint(*self._chosen)

    @property
    def place(self) -> str:
        """The file's."""
        return self._file.place

    @property
    def stamp(self) -> str:
        """From the same as the fingerprint."""
        return self._file.stamp(*self._chosen)

    @property
    def _chosen(self) -> list[Any]:
        """What the user has said of the columns."""
        chosen: list[Any] = [self._text, self._id, self._title]
        return [*chosen, *([self._asked] if self._asked else [])]

    def batches(self, reading: Reading = Reading()) -> Iterator[list[Document]]:
        """Documents in the order of the file; without an id column their ids are made up."""
        select = [f"{identifier(c)}::VARCHAR" if c else "NULL" for c in (self._id, self._text)]
        select += [f"{identifier(self._title)}::VARCHAR" if self._title else "''"]
        select += [self._value(c) for c in self._own]
        cursor = self._execute(f"SELECT {', '.join(select)} FROM {self._table()}")
        prefix = self._file.id_prefix if reading.prefix is None else reading.prefix
        origin = reading.origin(self.stamp)
        number, columns = 0, self.columns
        while rows := self._fetch(cursor):
            numbered = enumerate(rows, start=number + 1)
            yield [self._document(f"{prefix}:{i}", i, row, columns, origin) for i, row in numbered]
            number += len(rows)

    def type_of(self, name: str) -> str:
        """The type that one of the user's own columns is kept as, whatever the case of its name."""
        return storable(self._types[self._original[name.lower()]])

    def found_type(self, name: str) -> str:
        """The type that a column's values have by themselves."""
        return self._found[self._original[name.lower()]]

    def keep_as(self, name: str, type_: str) -> None:
        """Read a column of the user's own as another type: texts as they are written."""
        self._types = self._types | {self._original[name.lower()]: type_}

    def is_empty(self, name: str) -> bool:
        """Whether a column has no value, or lists without items: then it has no type of its own."""
        column = self._original[name.lower()]
        (found,) = self._execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {self._table({column})} "
            f"WHERE {identifier(column)}::VARCHAR NOT IN ('', '[]') LIMIT 1)"
        ).fetchall()
        return not found[0]

    def misfit(self, name: str, type_: str, *, zeros: bool = False) -> tuple[int, str] | None:
        """The first row, from 1, whose value can't be of a type, and that value.

        Parameters
        ----------
        zeros : whether numbers with zeros before them count, too.
        """
        wrong = misfits(type_)
        if zeros:
            wrong += r" OR regexp_matches(value, '^\s*[+-]?0\d')"
        try:
            return self._first_misfit(self._original[name.lower()], wrong)
        except duckdb.Error as error:
            raise self._explained(error) from error

    def not_as_written(self, types: Mapping[str, str]) -> dict[str, str]:
        """Columns of text files whose values don't come back from these types as they are written.

        Name -> one such value. Of CSV, zeros before a number and after its fraction are lost, for
        example, exponents and digits beyond those that a number has; of JSON, only such digits.
        """
        named = {self._original[name.lower()]: type_ for name, type_ in types.items()}
        if self._reader is read_csv:
            wrong = {c: f"NOT {as_written(c, type_)}" for c, type_ in named.items()}
        elif self._reader is read_json:
            wrong = {c: loses_digits(c) for c, type_ in named.items() if type_ == "DOUBLE"}
        else:
            wrong = {}
        if not wrong:
            return {}
        checks = [f"min({identifier(c)}) FILTER (WHERE {sql})" for c, sql in wrong.items()]
        table = self._table(set(self._types))
        (found,) = self._execute(f"SELECT {', '.join(checks)} FROM {table}").fetchall()
        return {
            self._renamed[c]: value
            for c, value in zip(wrong, found, strict=True)
            if value is not None
        }

    def _first_misfit(self, column: str, wrong: str) -> tuple[int, str] | None:
        rows = self._connection.execute(
            f"""SELECT number, value FROM (
                SELECT row_number() OVER () AS number, {identifier(column)}::VARCHAR AS value
                FROM {self._table({column})}
            ) WHERE value <> '' AND ({wrong}) ORDER BY number LIMIT 1"""
        ).fetchall()
        return rows[0] if rows else None

    def _document(
        self,
        made_up: str,
        number: int,
        row: Sequence[Any],
        columns: Mapping[str, str],
        origin: str,
    ) -> Document:
        id, text, title, *own = row
        if self._id is None:
            id = made_up
        elif id is None:
            raise InputError(f"{self.name}: row {number} has no {self._id!r}; expected an id")
        try:
            metadata = restored(columns, own)
        except InputError as error:
            raise InputError(f"{self.name}: document {id!r}: {error}") from error
        return Document(id, text or "", title or "", metadata, origin=origin)

    def _describe(self) -> dict[str, str]:
        described = self._described()
        types = {row[0]: row[1] for row in described.fetchall()}
        if list(types) == ["json"] and types["json"] != "VARCHAR":  # so it names other values
            raise InputError(f"{self.name}: expected JSON objects with fields, found none")
        lowered = {c.lower() for c in types}
        if self._reader is read_json and any(_unnumbered(c.lower()) in lowered for c in types):
            return self._told_apart(types)
        return types

    def _described(self) -> duckdb.DuckDBPyConnection:
        """What DuckDB says of the columns, if need be of a copy whose lines all end alike."""
        sql = "DESCRIBE SELECT * FROM "
        try:
            return self._connection.execute(sql + self._reader(self._file, {}, []))
        except duckdb.Error as error:
            if self._reader is not read_csv or not ends_in_two_ways(self._file.path):
                raise self._explained(error) from error
        self._file.end_alike()
        return self._execute(sql + self._reader(self._file, {}, []))

    def _told_apart(self, types: Mapping[str, str]) -> dict[str, str]:
        """The columns of objects with keys that differ only in case, which DuckDB numbers.

        Each key gets a column: the first one as it is, the others with a "_".
        """
        objects = read_json(self._file, {}, []).replace("read_json(", "read_json_objects(", 1)
        objects = re.sub(r", (sample_size|map_\w+|field_\w+)=[-\d]+", "", objects)
        rows = self._execute(
            f"""SELECT key FROM (
                SELECT number, unnest(keys) AS key, generate_subscripts(keys, 1) AS place
                FROM (SELECT row_number() OVER () AS number, json_keys(json) AS keys FROM {objects})
            ) GROUP BY key ORDER BY min((number, place))"""
        ).fetchall()
        spelled = defaultdict[str, list[str]](list)
        for (key,) in rows:
            spelled[key.lower()].append(key)
        alike = {lower for lower, keys in spelled.items() if len(keys) > 1}
        whole, apart = dict[str, str](), defaultdict[str, set[str]](set)
        for column, type_ in types.items():
            lower = column.lower() if column.lower() in spelled else _unnumbered(column.lower())
            if lower in alike:
                apart[lower].add(type_)
            else:
                whole[column] = type_
        for lower in apart:
            type_ = apart[lower].pop() if len(apart[lower]) == 1 else "JSON"
            for key in spelled[lower]:
                name = _free(key, {c.lower() for c in whole})
                whole[name], self._keys[name] = type_, key
        return whole

    def _notes_on_names(self) -> list[str]:
        notes = [f"column {c!r} is kept as {new!r}" for c, new in self._renamed.items() if c != new]
        notes += [f"key {key!r} is kept as {c!r}" for c, key in self._keys.items() if c != key]
        return notes

    def _asked_types(self, types: Mapping[str, str]) -> dict[str, str]:
        for column in (self._text, self._id, self._title):
            if column and types.get(column, "VARCHAR") != "VARCHAR":
                raise InputError(
                    f"{self.name}: types={column}={types[column]}; expected VARCHAR for text, id "
                    "and title"
                )
        asked = {c: types.get(c, types.get(EVERY_COLUMN)) for c in self._own}
        return {c: type_ for c, type_ in asked.items() if type_ is not None}

    def _keep_as_written(self) -> list[str]:
        """Keep columns of CSV files as text that numbers would change; returns notes."""
        typed = {self._renamed[c]: self._types[c] for c in self._own if c not in self._asked}
        kept = self.not_as_written({c: t for c, t in typed.items() if is_read_from_text(t)})
        for name in kept:
            self.keep_as(name, "VARCHAR")
        return [
            f"column {name!r} is kept as text: {shortened(value, 40)} "
            f"{self._why_text(name, typed[name])}"
            for name, value in kept.items()
        ]

    def _why_text(self, name: str, type_: str) -> str:
        """Why a column's value is not read as what DuckDB takes it for, and what to do."""
        if type_ in MOMENTS:
            return "can be read in several ways; a date is written 2024-12-31"
        return (
            f"is not what {type_} gives back (types={self._original[name.lower()]}={type_} "
            "reads it all the same)"
        )

    def _column(self, given: str | None, role: str, usual: Sequence[str]) -> str | None:
        if given is not None and given not in self._types:
            found = ", ".join(self._types)
            raise InputError(f"{self.name}: no column {given!r} for the {role}; it has {found}")
        lowered = {c.lower(): c for c in self._types}
        return given or next((lowered[name] for name in usual if name in lowered), None)

    def _only_text_column(self) -> str:
        texts = [c for c, t in self._types.items() if t == "VARCHAR" and c.lower() not in ID_NAMES]
        if len(texts) == 1:
            return texts[0]
        found = ", ".join(self._types)
        raise InputError(f"{self.name}: which column is the text? Name one by text=NAME: {found}")

    def _table(self, texts: Set[str] = frozenset()) -> str:
        """The table as SQL; these columns are read as text."""
        read = {c: "VARCHAR" if c in texts else self._read_type(c) for c in self._types}
        tables, left = list[str](), dict(read)
        while left:  # names differ in more than case in each of the tables
            part = {self._keys.get(c, c).lower(): c for c in reversed(left)}
            keys = {self._keys.get(c, c): c for c in reversed(part.values())}
            types = {key: left.pop(c) for key, c in keys.items()}
            named = [f"{identifier(key)} AS {identifier(c)}" for key, c in keys.items()]
            table = self._reader(self._file, types, list(keys))
            tables.append(f"(SELECT {', '.join(named)} FROM {table})")
        return " POSITIONAL JOIN ".join(tables)

    def _read_type(self, column: str) -> str:
        """The type that a column is read as, to be made its own of by `_value`."""
        type_, found = self._types[column], self._found[column]
        if column not in self._renamed:
            return "VARCHAR"
        if type_ == found or self._reader is read_parquet:
            return found
        if self._reader is read_json and is_nested(type_):
            return type_
        return found if type_ == "JSON" and column not in self._asked else "VARCHAR"

    def _value(self, column: str) -> str:
        """A column's value as SQL, of the type that it is stored as."""
        type_, read, value = self._types[column], self._read_type(column), identifier(column)
        if type_ != read and type_ == "JSON" and column not in self._asked:
            value = f"to_json({value})"
        elif type_ != read:
            value = f"nullif({value}, '')" if read == "VARCHAR" else value
            if type_ == "BLOB" and column not in self._asked:
                return f"from_base64({identifier(column)})"
            if type_ == "TIMESTAMP" and read == "VARCHAR":
                return stored_value(f"CAST({value} AS {ZONED})", ZONED)
            value = f"CAST({value} AS {type_})"
        return stored_value(value, type_)

    def _execute(self, sql: str) -> duckdb.DuckDBPyConnection:
        try:
            return self._connection.execute(sql)
        except duckdb.Error as error:
            raise self._explained(error) from error

    def _fetch(self, cursor: duckdb.DuckDBPyConnection) -> list[Any]:
        try:
            return cursor.fetchmany(BATCH)
        except duckdb.Error as error:
            raise self._explained(error) from error

    def _explained(self, error: duckdb.Error) -> InputError:
        path, ending = self._file.path, self._file.ending
        find = {".csv": broken_record, ".tsv": broken_record, ".json": undecodable}
        try:
            broken = None if ending == ".parquet" else find.get(ending, broken_line)(path)
        except UNREADABLE as other:
            return InputError(f"{self.name}{unreadable(path, other)}")
        if broken:
            return InputError(f"{self.name}, {broken}")
        if isinstance(error, duckdb.ConversionException) and (misfit := self._asked_misfit()):
            return InputError(f"{self.name}, {misfit}")
        reason = " ".join(str(error).split("\n\n")[0].splitlines()[:2])
        return InputError(f"{self.name}: {reason}")

    def _asked_misfit(self) -> str | None:
        """Which value is not of the type that the user gave its column."""
        for column, type_ in self._asked.items():
            with suppress(duckdb.Error):
                if found := self._first_misfit(column, f"TRY_CAST(value AS {type_}) IS NULL"):
                    row, value = found
                    return (
                        f"row {row}: {shortened(value, 40)} in column {column!r}; expected {type_} "
                        f"(types={column}={type_})"
                    )
        return None


def kept_names(columns: Sequence[str]) -> dict[str, str]:
    """The user's columns by the names they are kept under: ours are avoided by a "_"."""
    taken = {*OWN_COLUMNS, *(c.lower() for c in columns if c.lower() not in OWN_COLUMNS)}
    kept = {}
    for column in columns:
        kept[column] = _free(column, taken) if column.lower() in OWN_COLUMNS else column
        taken.add(kept[column].lower())
    return kept


def _free(name: str, taken: Set[str]) -> str:
    """A name that is not taken, but for case: with as many "_" as it takes."""
    while name.lower() in taken:
        name += "_"
    return name


def _unnumbered(name: str) -> str | None:
    """`name` without the number that DuckDB gives columns of one name; None if it has none."""
    found = re.fullmatch(r"(.*)_\d+", name, re.DOTALL)
    return found[1] if found else None
