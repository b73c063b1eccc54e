"""Sources: files, BEIR folders and Python packages become Documents, in batches."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import duckdb

from indexes.errors import InputError
from indexes.json_text import TooDeepError, parsed

from .columns import restored
from .docstrings import PREFIX as PYTHON
from .docstrings import PythonSource
from .documents import OWN_COLUMNS, Document
from .sql import identifier, literal, one_file

BATCH = 1024
"""Documents that a source hands over at a time."""
ID_NAMES = ("_id", "id", "doc_id", "docid")
TEXT_NAMES = ("text", "body", "content", "sentence", "document", "passage")
TITLE_NAMES = ("title",)
LARGEST_OBJECT = 32 << 20
"""Bytes that one JSON object or CSV line may have."""
LONGEST_TYPE = 1000
"""Characters in the name of a nested type that is still worth a typed column."""
ZONED = "TIMESTAMP WITH TIME ZONE"
UNREADABLE = (UnicodeDecodeError, EOFError, OSError, zlib.error)
"""What reading a file as text can raise: it is no UTF-8, cut off, or gone."""


class Source(Protocol):
    """Where documents come from."""

    @property
    def name(self) -> str: ...

    @property
    def columns(self) -> Mapping[str, str]:
        """The user's own columns: name -> DuckDB type."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What the user should know about how the source is read."""
        ...

    def fingerprint(self) -> str:
        """Changes when the source does."""
        ...

    def batches(self) -> Iterator[list[Document]]: ...


@dataclass(frozen=True)
class ColumnNames:
    """The columns that the user names; None looks for the usual ones.

    A column of vectors is read elsewhere (`given`) and is no metadata.
    """

    text: str | None = None
    id: str | None = None
    title: str | None = None
    vectors: str | None = None


def open_source(spec: str, names: ColumnNames = ColumnNames()) -> Source:
    """The source that a word of the command line means.

    Raises
    ------
    InputError
        If there is no such file, folder or package, its kind is not known, or it has no column
        of the given name.
    """
    if spec.startswith(PYTHON):
        return PythonSource(spec)
    path = Path(spec)
    if path.is_dir():
        path = path / "corpus.jsonl"
        if not path.is_file():
            raise InputError(f"{spec}: no corpus.jsonl in that folder; expected a BEIR folder")
    if not path.is_file():
        raise InputError(f"{spec}: no such file")
    ending = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if ending == ".txt":
        return TextSource(path)
    if ending not in READERS:
        raise InputError(
            f"{spec}: ending {ending!r}; expected {', '.join(READERS)}, .txt (also with .gz), "
            "a BEIR folder, python: or python:PACKAGE"
        )
    return TableSource(path, ending, names)


def read_json(path: str, types: Mapping[str, str], names: Sequence[str]) -> str:
    layout = "auto" if Path(path.removesuffix(".gz")).suffix == ".json" else "newline_delimited"
    options = f"format='{layout}', sample_size=-1, maximum_object_size={LARGEST_OBJECT}"
    # Keys that are rare are columns all the same, and no object is taken for a map.
    options += ", map_inference_threshold=-1, field_appearance_threshold=0"
    if types:  # read_json takes the types of all columns or of none
        fields = ", ".join(f"{literal(n)}: {literal(types[n])}" for n in names)
        options += f", columns={{{fields}}}"
    return f"read_json({one_file(path)}, {options})"


def read_csv(path: str, types: Mapping[str, str], names: Sequence[str]) -> str:
    # DuckDB would rather guess another separator, or skip lines, than call a file broken.
    options = f"sample_size=-1, header=true, skip=0, max_line_size={LARGEST_OBJECT}"
    is_tsv = Path(path.removesuffix(".gz")).suffix == ".tsv"
    quotes = "" if is_tsv else ", quote='\"', escape='\"'"
    options += f", delim={literal(_separator(Path(path)))}{quotes}"
    if types:
        fields = ", ".join(f"{literal(n)}: {literal(types[n])}" for n in names)
        options += f", types={{{fields}}}"
    return f"read_csv({one_file(path)}, {options})"


def read_parquet(path: str, types: Mapping[str, str], names: Sequence[str]) -> str:
    return f"read_parquet({one_file(path)})"


READERS = {
    ".jsonl": read_json,
    ".ndjson": read_json,
    ".json": read_json,
    ".csv": read_csv,
    ".tsv": read_csv,
    ".parquet": read_parquet,
}


class TableSource:
    """JSONL, JSON, CSV, TSV or Parquet, read by DuckDB; every other column keeps its type."""

    def __init__(self, path: Path, ending: str, names: ColumnNames) -> None:
        self.name, self._path, self._reader = str(path), path, READERS[ending]
        self._connection = duckdb.connect()
        self._types = self._describe()
        self._text = self._column(names.text, "text", TEXT_NAMES) or self._only_text_column()
        self._id = self._column(names.id, "id", ID_NAMES)
        self._title = self._column(names.title, "title", TITLE_NAMES)
        vectors = names.vectors and names.vectors.lower()
        ours = (self._text, self._id, self._title)
        self._own = [c for c in self._types if c not in ours and c.lower() != vectors]
        self._renamed = _kept_names(self._own)
        self.columns = {self._renamed[c]: _storable(self._types[c]) for c in self._own}
        self.notes = [
            f"column {c!r} is kept as {new!r}" for c, new in self._renamed.items() if c != new
        ]

    def fingerprint(self) -> str:
        """From path, size, time of change and the chosen columns."""
        stat = self._path.stat()
        chosen = [self._text, self._id, self._title]
        facts = [str(self._path.resolve()), stat.st_size, stat.st_mtime_ns, *chosen]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def batches(self) -> Iterator[list[Document]]:
        """Documents in the order of the file."""
        read_as_text = {c: "VARCHAR" for c in (self._text, self._id, self._title) if c}
        select = [f"{identifier(c)}::VARCHAR" if c else "NULL" for c in (self._id, self._text)]
        select += [f"{identifier(self._title)}::VARCHAR" if self._title else "''"]
        select += [_select(c, self._types[c]) for c in self._own]
        table = self._reader(self.name, self._types | read_as_text, list(self._types))
        cursor = self._execute(f"SELECT {', '.join(select)} FROM {table}")
        number = 0
        while rows := self._fetch(cursor):
            yield [self._document(number + i, row) for i, row in enumerate(rows, start=1)]
            number += len(rows)

    def _document(self, number: int, row: Sequence[Any]) -> Document:
        id, text, title, *own = row
        if self._id is None:
            id = f"{self._path.name}:{number}"
        elif id is None:
            raise InputError(f"{self.name}: row {number} has no {self._id!r}; expected an id")
        try:
            metadata = restored(self.columns, own)
        except InputError as error:
            raise InputError(f"{self.name}: document {id!r}: {error}") from error
        return Document(id, text or "", title or "", metadata)

    def _describe(self) -> dict[str, str]:
        table = self._reader(self.name, {}, [])
        described = self._execute(f"DESCRIBE SELECT * FROM {table}").fetchall()
        types = {row[0]: row[1] for row in described}
        if list(types) == ["json"] and types["json"] != "VARCHAR":  # so it names other values
            raise InputError(f"{self.name}: expected JSON objects with fields, found none")
        return types

    def _column(self, given: str | None, role: str, usual: Sequence[str]) -> str | None:
        if given is not None and given not in self._types:
            found = ", ".join(self._types)
            raise InputError(f"{self.name}: no column {given!r} for --{role}; it has {found}")
        lowered = {c.lower(): c for c in self._types}
        return given or next((lowered[name] for name in usual if name in lowered), None)

    def _only_text_column(self) -> str:
        texts = [c for c, t in self._types.items() if t == "VARCHAR" and c.lower() not in ID_NAMES]
        if len(texts) == 1:
            return texts[0]
        found = ", ".join(self._types)
        raise InputError(f"{self.name}: which column is the text? Name one with --text: {found}")

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
        find = {read_json: _broken_line, read_csv: _broken_record}.get(self._reader)
        if find is not None and (broken := find(self._path)):
            return InputError(f"{self.name}, {broken}")
        reason = " ".join(str(error).split("\n\n")[0].splitlines()[:2])
        return InputError(f"{self.name}: {reason}")


@dataclass(frozen=True)
class TextSource:
    """One document a line; empty lines are passed over, and ids are ``file:line``."""

    path: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def name(self) -> str:
        return str(self.path)

    def fingerprint(self) -> str:
        """From path, size and time of change."""
        stat = self.path.stat()
        facts = [str(self.path.resolve()), stat.st_size, stat.st_mtime_ns]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def batches(self) -> Iterator[list[Document]]:
        """Documents in the order of the file."""
        with _open_text(self.path) as lines:
            numbered = enumerate(lines, start=1)
            documents = (
                Document(f"{self.path.name}:{number}", line.strip())
                for number, line in numbered
                if line.strip()
            )
            try:
                while batch := list(islice(documents, BATCH)):
                    yield batch
            except UNREADABLE as error:
                raise InputError(f"{self.path}: {_unreadable(error)}") from error


def read_pairs(path: str) -> list[tuple[str, str]]:
    """(id, text) of every row of a file of queries, in any of the formats above."""
    source = open_source(path)
    return [(d.id, d.content) for batch in source.batches() for d in batch]


def _kept_names(columns: Sequence[str]) -> dict[str, str]:
    """The user's columns by the names they are kept under: ours are avoided by a "_"."""
    taken = {*OWN_COLUMNS, *(c.lower() for c in columns if c.lower() not in OWN_COLUMNS)}
    kept = {}
    for column in columns:
        name = column
        if column.lower() in OWN_COLUMNS:
            while name.lower() in taken:
                name += "_"
            taken.add(name.lower())
        kept[column] = name
    return kept


def _open_text(path: Path) -> Any:
    opener = gzip.open if path.suffix == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig")


def _separator(path: Path) -> str:
    """What separates the columns in a file's first line: a tab, comma, semicolon or bar."""
    try:
        with _open_text(path) as lines:
            header = next(iter(lines), "")
    except UNREADABLE as error:
        raise InputError(f"{path}: {_unreadable(error)}") from error
    return max(",\t;|", key=header.count)


def _broken_line(path: Path) -> str | None:
    """Which line is no JSON object, and why: DuckDB counts lines by its own buffers."""
    if path.name.removesuffix(".gz").endswith(".json"):
        return None
    try:
        with _open_text(path) as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    if line.strip():
                        parsed(line)
                except json.JSONDecodeError as error:
                    return f"line {number}: broken JSON ({error.msg} at column {error.colno})"
                except TooDeepError as error:
                    return f"line {number}: JSON {error}"
                except ValueError as error:  # a number of thousands of digits
                    return f"line {number}: {error}"
    except UNREADABLE as error:
        return _unreadable(error)
    return None


def _broken_record(path: Path) -> str | None:
    """Which line of a CSV file has other columns than the first: DuckDB's sniffer does not say."""
    try:
        with _open_text(path) as lines:
            records = csv.reader(lines, delimiter=_separator(path), strict=True)
            width = len(next(records, []))
            try:
                for record in records:
                    if record and len(record) != width:
                        line = records.line_num
                        return f"line {line}: {len(record)} columns; expected {width}"
            except csv.Error as error:
                return f"line {records.line_num}: broken CSV ({error})"
    except UNREADABLE as error:
        return _unreadable(error)
    return None


def _unreadable(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 text ({error})"
    return f"can't be read ({error})"


def _storable(type_: str) -> str:
    """The type a column is kept as.

    DuckDB's Python client can't fetch zoned timestamps, gives every row all keys of a map, and
    JSON within other types as text; objects with hundreds of different keys are better off as JSON,
    too.
    """
    if type_ == ZONED:
        return "TIMESTAMP"
    if any(part in type_ for part in ("MAP(", "JSON", ZONED)) or len(type_) > LONGEST_TYPE:
        return "JSON"
    return type_


def _select(column: str, type_: str) -> str:
    if type_ == ZONED:
        return f"timezone('UTC', {identifier(column)})"
    return f"to_json({identifier(column)})" if _storable(type_) != type_ else identifier(column)
