"""SQL for reading table files with DuckDB, and the place of errors in them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from slimdex.errors import InputError, shorten
from slimdex.system.duckdb_library import connect, duckdb, literal, one_file
from slimdex.system.json_text import parse_json
from slimdex.system.unicode_text import check_unicode

from ...documents import check_columns
from ..files.input_files import (
    LARGEST_OBJECT,
    InputFile,
)
from .columns import unique_names

SQL = "sql:"
"""Prefix of a source that is a query."""
OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
DELIMITERS = ",\t;|"
BLANK = f'{DELIMITERS}" \r\n'
"""Characters of a CSV file's line without values."""
SPACES = "".join(filter(str.isspace, map(chr, range(0x3001))))
LONGEST_REASON = 300
ROLE_COLUMNS = 4
"""Columns that may be the id, the text, the title and the vectors."""
ANSWER = ".answer"
TABLE = "answer"
"""Ending of the result of a query, and the table in it."""
MOST_KEYS = 1_000_000
"""Keys of a JSON file that are counted at most."""
PLACE = re.compile(r'( in)? file "[^"\n]*",?|,? in line \d+')
"""The path, which may be a copy's, and the line in DuckDB's messages about JSON, which is wrong."""
HINTS = re.compile(r"\n[^\S\n]*(Possible|LINE \d|Try increasing)")
"""Beginning of advice on DuckDB's options in its messages."""


def read_json(file: InputFile, types: Mapping[str, str]) -> str:
    """SQL to read a JSON file; DuckDB infers types if none are given."""
    # Rare keys are columns too, and objects are not read as maps.
    options = "sample_size=-1, map_inference_threshold=-1, field_appearance_threshold=0"
    if types:  # read_json requires all types or none
        options += f", columns={_types_sql(types)}"
    return f"read_json({_json_layout(file)}, {options})"


def _json_layout(file: InputFile) -> str:
    layout = "auto" if file.ending == ".json" else "newline_delimited"
    path = one_file(str(file.path))
    return f"{path}, format='{layout}', maximum_object_size={LARGEST_OBJECT}"


def read_csv(file: InputFile, types: Mapping[str, str]) -> str:
    """SQL to read a CSV or TSV file; columns without a given type are text."""
    layout = _layout(file)
    quote = literal(file.quote)
    columns = {**dict.fromkeys(layout.names, "VARCHAR"), **types}
    options = f"columns={_types_sql(columns)}, header=true, max_line_size={LARGEST_OBJECT}"
    options += f", skip={layout.skipped}, delim={literal(layout.delimiter)}, comment=''"
    options += f", quote={quote}, escape={quote}"
    return f"read_csv({one_file(str(file.path))}, auto_detect=false, {options})"


def read_lines(file: InputFile, types: Mapping[str, str]) -> str:
    """SQL to read a text file, with a row for each line."""
    options = f"max_line_size={LARGEST_OBJECT}, header=false, columns={{'text': 'VARCHAR'}}"
    options += ", delim='', quote='', escape='', comment=''"
    lines = f"read_csv({one_file(str(file.path))}, auto_detect=false, {options})"
    return f"(SELECT trim(text, {literal(SPACES)}) AS text FROM {lines})"


def _types_sql(types: Mapping[str, str]) -> str:
    """SQL of a struct with the columns' types."""
    fields = ", ".join(f"{literal(name)}: {literal(type_)}" for name, type_ in types.items())
    return f"{{{fields}}}"


def read_parquet(file: InputFile, types: Mapping[str, str]) -> str:
    """SQL to read a Parquet file, with its own types."""
    return f"read_parquet({one_file(str(file.path))})"


def read_answer(file: InputFile, types: Mapping[str, str]) -> str:
    """SQL to read the result of a query, with its own types, from a file of DuckDB's."""
    return f"read_duckdb({one_file(str(file.path))}, table_name={literal(TABLE)})"


READERS: Mapping[str, Callable[[InputFile, Mapping[str, str]], str]] = {
    ".jsonl": read_json,
    ".ndjson": read_json,
    ".json": read_json,
    ".csv": read_csv,
    ".tsv": read_csv,
    ".parquet": read_parquet,
}
"""Ending of a table that users name -> its reader."""
ALL_READERS = {**READERS, ".txt": read_lines}


def inferred_types(connection: duckdb.DuckDBPyConnection, file: InputFile) -> dict[str, str]:
    """Types of a table's columns; raises `InputError` for columns that DuckDB can't read well."""
    reader = ALL_READERS.get(file.ending, read_answer)
    if reader is read_csv:
        return dict.fromkeys(_layout(file).names, "VARCHAR")
    if reader is not read_json:
        return describe(connection, reader(file, {}))
    _check_keys(connection, file)
    table = reader(file, {})
    try:
        types = describe(connection, table)
    except duckdb.NotImplementedException:
        # Keys in objects that differ only in case: DuckDB can't tell them apart, so all is JSON.
        return describe(connection, f"{table.removesuffix(')')}, maximum_depth=1)")
    # DuckDB takes numbers of both signs in a list for HUGEINT.
    return {name: type_.replace("HUGEINT[]", "BIGINT[]") for name, type_ in types.items()}


def describe(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """Types of the columns of a table in SQL."""
    described = connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()
    return {column: type_ for column, type_, *_ in described}


def _check_keys(connection: duckdb.DuckDBPyConnection, file: InputFile) -> None:
    """Raise `InputError` for too many keys, or if some differ only in case.

    DuckDB reads one of these and leaves the others empty.
    """
    objects = f"read_json_objects({_json_layout(file)})"
    keys = f"SELECT DISTINCT unnest(json_keys(json)) FROM {objects} LIMIT {MOST_KEYS}"
    groups = f"SELECT count(*) AS n, list(k) AS l FROM ({keys}) t(k) GROUP BY lower(k)"
    with suppress(duckdb.Error):  # reported when the file is read
        sql = f"SELECT sum(n), any_value(l) FILTER (WHERE n > 1) FROM ({groups})"
        ((count, alike),) = connection.execute(sql).fetchall()
        check_columns((count or 0) - ROLE_COLUMNS, file.name)
        if alike:
            shown = ", ".join(map(repr, sorted(alike)[:5]))
            raise InputError(
                f"{file.name}: keys {shown}; expected keys that differ in more than case"
            )


class _Layout(NamedTuple):
    """Number of lines before a CSV file's header, its separator, and the columns' names."""

    skipped: int
    delimiter: str
    names: Sequence[str]


def _layout(file: InputFile) -> _Layout:
    """Detect the layout of a CSV file.

    The separator is a tab, comma, semicolon or bar. Excel may state it in a first line "sep=;".
    Lines without a name are skipped.
    """
    try:
        with file.path.open(encoding="utf-8-sig") as lines:
            header = lines.readline(LARGEST_OBJECT)
            skipped = 0
            stated = re.fullmatch(r"sep=(.)\s*", header, re.IGNORECASE)

            # Skip lines without values, and the first line if it states the separator.
            while header and (not header.strip(BLANK) or (stated and not skipped)):
                header = lines.readline(LARGEST_OBJECT)
                skipped = skipped + 1
            unquoted = re.sub(r'"[^"]*"', "", header)
            delimiter = stated[1] if stated else max(DELIMITERS, key=unquoted.count)
            given = chain([header], lines)
            reader = partial(csv.reader, given, delimiter=delimiter, strict=True)
            rows = reader() if file.quote else reader(quoting=csv.QUOTE_NONE)
            names = next(rows, [])
            check_columns(len(names) - ROLE_COLUMNS, file.name)
            digits = len(str(len(names) - 1))
            filled = [name.strip() or f"column{i:0{digits}}" for i, name in enumerate(names)]
            return _Layout(skipped, delimiter, unique_names(filled))
    except csv.Error as error:
        raise InputError(f"{file.name}, line {skipped + 1}: {error}; expected names") from error
    except (UnicodeDecodeError, OSError) as error:
        raise why_unreadable(file, error) from error


def is_parsed(connection: duckdb.DuckDBPyConnection, file: InputFile) -> bool:
    """Return whether lines or CSV can be parsed; choose whether quotes have a meaning.

    In a tab-separated file they may be mere signs: they are, if more rows are read so.
    """
    rows = dict[str, int]()
    for quote in ('"', "") if file.ending == ".tsv" else '"':
        file.quote = quote
        with suppress(duckdb.Error):
            count = f"SELECT count(*) FROM {ALL_READERS[file.ending](file, {})}"
            ((rows[quote],),) = connection.execute(count).fetchall()
    file.quote = max(rows, key=lambda quote: rows[quote], default='"')
    return bool(rows)


def why_unreadable(file: InputFile, error: Exception) -> InputError:
    """The error of a file that can't be read, with its line if it is text."""
    if file.ending not in (".parquet", ANSWER):
        try:
            _check_lines(file)
        except (InputError, OSError) as clearer:
            return InputError(str(clearer))
    reason = " ".join(PLACE.sub("", HINTS.split(str(error))[0]).split())
    return InputError(f"{file.name}: {reason[:LONGEST_REASON]}")


def _check_lines(file: InputFile) -> None:
    """Raise `InputError` for a line that is too long, or not UTF-8 or JSON, by its number."""
    with file.path.open("rb") as lines:
        for number, line in enumerate(iter(partial(lines.readline, LARGEST_OBJECT + 1), b""), 1):
            place = f"{file.name}, line {number}"
            if len(line) > LARGEST_OBJECT and not line.endswith(b"\n"):
                raise InputError(f"{place}: over {LARGEST_OBJECT:,} bytes; expected shorter lines")
            value = None
            try:
                text = line.decode("utf-8-sig")
                if file.ending in (".jsonl", ".ndjson") and text.strip():
                    value = parse_json(text)
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{place}: not UTF-8 text ({error.reason}); expected UTF-8, or "
                    "encoding=latin-1 or another"
                ) from error
            except json.JSONDecodeError as error:
                raise InputError(f"{place}: {error.msg}; expected JSON") from error
            except ValueError as error:
                raise InputError(f"{place}: {error}") from error
            check_unicode(value, place)


def query_file(spec: str) -> InputFile:
    """Run a DuckDB query over files: ``sql:SELECT * FROM 'notes/*.parquet'``.

    Raises `InputError` if the query fails.
    """
    query = spec.removeprefix(SQL).strip().rstrip(";")
    file = InputFile(
        name=shorten(query, 60),
        path=Path(),
        ending=ANSWER,
        id_prefix="sql",
        place=f"sql {query}",
        facts=[query],
    )
    file.use_copy()
    file.path.unlink()  # DuckDB makes its files itself
    try:
        with connect(OFFLINE) as connection:
            connection.execute(f"ATTACH {literal(str(file.path))} AS made")
            connection.execute(f"CREATE TABLE made.{TABLE} AS (\n{query}\n)")
            file.facts.append(describe(connection, f"made.{TABLE}"))
            digest = f"SELECT count(*), sum(hash(t, rowid)) FROM made.{TABLE} t"
            file.facts += connection.execute(digest).fetchall()
    except duckdb.Error as error:
        reason = " ".join(str(error).split("\n\n")[0].splitlines()[:2])
        raise InputError(f"sql {shorten(query)}: {reason}") from error
    return file
