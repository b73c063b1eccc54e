"""SQL for reading files with DuckDB, and the types of their columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

import duckdb

from slimdex.indexes.errors import InputError

from ...documents import MOST_COLUMNS, check_columns
from ...duckdb_library import connected, identifier, literal, one_file
from ..text_files import (
    LARGEST_OBJECT,
    UNREADABLE,
    InputFile,
    header,
    layout,
    unreadable,
)
from .stored_types import TIMESTAMPTZ

OURS = 4
"""Columns that may be the id, the text, the title and the vectors."""
ANSWER, TABLE = ".answer", "answer"
"""Ending of the result of a query, and the table in it."""
KEYS = 1_000_000
"""Keys of a JSON file that are counted at most."""
NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*")
"""DuckDB's numeric types."""
MOMENTS = ("DATE", "TIME", "TIMESTAMP", TIMESTAMPTZ)


def read_json(file: InputFile, types: Mapping[str, str], names: Sequence[str]) -> str:
    """SQL to read a JSON file; DuckDB infers types if none are given."""
    layout = "auto" if file.ending == ".json" else "newline_delimited"
    options = f"format='{layout}', sample_size=-1, maximum_object_size={LARGEST_OBJECT}"
    # Rare keys are columns too, and objects are not read as maps.
    options += ", map_inference_threshold=-1, field_appearance_threshold=0"
    if types:  # read_json requires all types or none
        fields = ", ".join(f"{literal(n)}: {literal(types[n])}" for n in names)
        options += f", columns={{{fields}}}"
    return f"read_json({one_file(str(file.path))}, {options})"


def json_objects(file: InputFile) -> str:
    """SQL to read the objects of a JSON file, each as a column "json"."""
    objects = read_json(file, {}, []).replace("read_json(", "read_json_objects(", 1)
    return re.sub(r", (sample_size|map_\w+|field_\w+)=[-\d]+", "", objects)


def check_keys(connection: duckdb.DuckDBPyConnection, file: InputFile) -> None:
    """Raise `InputError` for far too many columns, which DuckDB takes minutes to describe.

    And for JSON keys that differ only in case, all but one of which DuckDB would read as empty.
    """
    reader = READERS.get(file.ending)
    count: int | None = 0
    alike: list[str] | None = None
    if reader is read_csv:
        count = len(header(file.path))
    elif reader is read_json:
        keys = f"SELECT DISTINCT unnest(json_keys(json)) FROM {json_objects(file)} LIMIT {KEYS}"
        counted = f"SELECT count(*) AS n, list(k) AS l FROM ({keys}) t(k) GROUP BY lower(k)"
        with suppress(duckdb.Error):  # reported when the file is read
            sql = f"SELECT sum(n), any_value(l) FILTER (WHERE n > 1) FROM ({counted})"
            ((count, alike),) = connection.execute(sql).fetchall()
    if count is not None and count > MOST_COLUMNS + OURS:
        check_columns(count, file.name)
    if alike:
        named = ", ".join(map(repr, sorted(alike)[:5]))
        raise InputError(f"{file.name}: keys {named}; expected keys that differ in more than case")


def narrowed(
    connection: duckdb.DuckDBPyConnection, file: InputFile, types: dict[str, str]
) -> dict[str, str]:
    """Read whole numbers of a JSON file as BIGINT if all fit: DuckDB infers HUGEINT of 0 and -1."""
    for column, wide in types.items():
        narrow = types | {column: re.sub(r"\bHUGEINT\b", "BIGINT", wide)}
        if narrow != types:
            table = read_json(file, narrow, list(narrow))
            sql = f"SELECT max({identifier(column)}::VARCHAR) FROM {table}"
            with suppress(duckdb.Error):  # a number is larger
                connection.execute(sql).fetchall()
                types = narrow
    return types


def read_csv(file: InputFile, types: Mapping[str, str], names: Sequence[str]) -> str:
    """SQL to read a CSV or TSV file; DuckDB infers types if none are given."""
    # DuckDB would guess another separator, skip lines or treat rows that begin with "#" as comments
    # rather than report a malformed file.
    options = f"sample_size=-1, header=true, comment='', max_line_size={LARGEST_OBJECT}"
    quotes = "" if file.ending == ".tsv" else ", quote='\"', escape='\"'"
    try:
        skipped, delimiter = layout(file.path)
        options += f", skip={skipped}, delim={literal(delimiter)}{quotes}"
    except UNREADABLE as error:
        raise InputError(f"{file.name}{unreadable(error)}") from error
    if types:
        fields = ", ".join(f"{literal(n)}: {literal(types[n])}" for n in names)
        options += f", types={{{fields}}}"
    return f"read_csv({one_file(str(file.path))}, {options})"


def read_parquet(file: InputFile, types: Mapping[str, str], names: Sequence[str]) -> str:
    """SQL to read a Parquet file, with its own types."""
    return f"read_parquet({one_file(str(file.path))})"


def read_answer(file: InputFile, types: Mapping[str, str], names: Sequence[str]) -> str:
    """SQL to read the result of a query, with its own types, from a file of DuckDB's."""
    return f"read_duckdb({one_file(str(file.path))}, table_name={literal(TABLE)})"


TYPED = (read_parquet, read_answer)
"""Readers of files that state the types of their columns."""
READERS = {
    ".jsonl": read_json,
    ".ndjson": read_json,
    ".json": read_json,
    ".csv": read_csv,
    ".tsv": read_csv,
    ".parquet": read_parquet,
}
"""Ending of a file that users name -> its reader."""


def checked_types(words: Sequence[str]) -> dict[str, str]:
    """Parse column types like ``name=VARCHAR,price=DECIMAL(10,2)``: column -> DuckDB type.

    Raises `InputError` if a pair is malformed, or DuckDB does not have the type.

    >>> checked_types(["a=int,b=DECIMAL(9, 2)"])
    {'a': 'INTEGER', 'b': 'DECIMAL(9,2)'}
    """
    types = {}
    for pair in (pair for word in words for pair in re.split(r",(?![^()]{0,200}\))", word)):
        name, equals, type_ = pair.strip().rpartition("=")
        if not equals or not name or not re.fullmatch(r"[\w\s(),\[\]]+", type_):
            raise InputError(f"types={pair!r}; expected COLUMN=TYPE, as in year=BIGINT")
        try:
            with connected() as scratch:
                ((types[name],),) = scratch.execute(f"SELECT typeof(NULL::{type_})").fetchall()
        except duckdb.Error as error:
            raise InputError(
                f"types={pair!r}: {str(error).splitlines()[0]}; expected a DuckDB type, "
                "such as VARCHAR, BIGINT, DOUBLE or DATE"
            ) from error
    return types


def is_read_from_text(type_: str) -> bool:
    """Return whether values of a type have several spellings."""
    return bool(NUMBERS.fullmatch(type_)) or type_ in MOMENTS or type_ == "BOOLEAN"


def as_written(column: str, type_: str) -> str:
    """SQL condition: casting a column's text to a type and back gives an equivalent text."""
    text = f"trim({identifier(column)})"
    if type_ in MOMENTS:  # excludes "inf"; 01/02/2024 is ambiguous
        read = f"regexp_matches({text}, '\\d') AND TRY_CAST({text} AS {type_}) IS NOT NULL"
        return f"coalesce({text} = '' OR ({read}), true)"
    if type_ == "BOOLEAN":
        return f"coalesce(lower({text}) IN ('', 'true', 'false'), true)"
    if not NUMBERS.fullmatch(type_):
        return "true"
    back = f"TRY_CAST({text} AS {type_})::VARCHAR"
    same = f"{back} IN (lower({text}), lower({text}) || '.0')"
    return f"(coalesce({text}, '') = '' OR coalesce({same}, false))"


def loses_digits(column: str) -> str:
    """SQL condition: a JSON number is an integer that DOUBLE would round."""
    text = identifier(column)
    back = f"TRY_CAST(TRY_CAST({text} AS DOUBLE) AS HUGEINT)::VARCHAR"
    return (
        f"coalesce(regexp_full_match({text}, '-?\\d{{16,}}'), false) "
        f"AND coalesce({back} <> {text}, true)"
    )


def has_months(column: str) -> str:
    """SQL condition: an interval counts months or years, which have no fixed length."""
    name = identifier(column)
    return f"coalesce(datepart('month', {name}) <> 0 OR datepart('year', {name}) <> 0, false)"


def is_nested(type_: str) -> bool:
    """Return whether a type is nested."""
    return any(mark in type_ for mark in ("(", "[", "JSON")) and not type_.startswith("DECIMAL")
