"""Readers: files as DuckDB reads them, and the types that columns have by it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import duckdb

from slimdex.indexes.errors import InputError

from ..sql import identifier, literal, one_file
from .text_files import LARGEST_OBJECT, UNREADABLE, InputFile, layout, unreadable

LONGEST_TYPE = 1000
"""Characters in the name of a nested type that is still worth a typed column."""
ZONED = "TIMESTAMP WITH TIME ZONE"
NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*")
"""Types of numbers, by DuckDB's names."""
MOMENTS = ("DATE", "TIME", "TIMESTAMP", ZONED)


def read_json(file: InputFile, types: Mapping[str, str], names: Sequence[str]) -> str:
    """A JSON file as SQL; of no types, DuckDB finds them."""
    layout = "auto" if file.ending == ".json" else "newline_delimited"
    options = f"format='{layout}', sample_size=-1, maximum_object_size={LARGEST_OBJECT}"
    # Keys that are rare are columns all the same, and no object is taken for a map.
    options += ", map_inference_threshold=-1, field_appearance_threshold=0"
    if types:  # read_json takes the types of all columns or of none
        fields = ", ".join(f"{literal(n)}: {literal(types[n])}" for n in names)
        options += f", columns={{{fields}}}"
    return f"read_json({one_file(str(file.path))}, {options})"


def read_csv(file: InputFile, types: Mapping[str, str], names: Sequence[str]) -> str:
    """A CSV or TSV file as SQL; of no types, DuckDB finds them."""
    # DuckDB would rather guess another separator, skip lines or take rows that begin with "#" for
    # comments than call a file broken.
    options = f"sample_size=-1, header=true, comment='', max_line_size={LARGEST_OBJECT}"
    quotes = "" if file.ending == ".tsv" else ", quote='\"', escape='\"'"
    try:
        skipped, delimiter = layout(file.path)
        options += f", skip={skipped}, delim={literal(delimiter)}{quotes}"
    except UNREADABLE as error:
        raise InputError(f"{file.name}{unreadable(file.path, error)}") from error
    if types:
        fields = ", ".join(f"{literal(n)}: {literal(types[n])}" for n in names)
        options += f", types={{{fields}}}"
    return f"read_csv({one_file(str(file.path))}, {options})"


def read_parquet(file: InputFile, types: Mapping[str, str], names: Sequence[str]) -> str:
    """A Parquet file as SQL, with its own types."""
    return f"read_parquet({one_file(str(file.path))})"


READERS = {
    ".jsonl": read_json,
    ".ndjson": read_json,
    ".json": read_json,
    ".csv": read_csv,
    ".tsv": read_csv,
    ".parquet": read_parquet,
}


def checked_types(words: Sequence[str]) -> dict[str, str]:
    """Column -> DuckDB type, of words like ``name=VARCHAR,price=DECIMAL(10,2)``.

    Raises
    ------
    InputError
        If one is no such pair, or DuckDB has no such type.

    >>> checked_types(["a=int,b=DECIMAL(9, 2)"])
    {'a': 'INTEGER', 'b': 'DECIMAL(9,2)'}
    """
    types = {}
    for pair in (pair for word in words for pair in re.split(r",(?![^(]*\))", word)):
        name, equals, type_ = pair.strip().rpartition("=")
        if not equals or not name or not re.fullmatch(r"[\w\s(),\[\]]+", type_):
            raise InputError(f"types={pair!r}; expected COLUMN=TYPE, as in year=BIGINT")
        try:
            with duckdb.connect() as scratch:
                ((types[name],),) = scratch.execute(f"SELECT typeof(NULL::{type_})").fetchall()
        except duckdb.Error as error:
            raise InputError(
                f"types={pair!r}: {str(error).splitlines()[0]}; expected a type of DuckDB's, "
                "as VARCHAR, BIGINT, DOUBLE or DATE"
            ) from error
    return types


def is_read_from_text(type_: str) -> bool:
    """Whether values of a type can be written in several ways."""
    return bool(NUMBERS.fullmatch(type_)) or type_ in MOMENTS or type_ == "BOOLEAN"


def as_written(column: str, type_: str) -> str:
    """A condition: a type gives a column's text back, or another that means the same."""
    text = f"trim({identifier(column)})"
    if type_ in MOMENTS:  # "inf" is none, and 01/02/2024 is a day in January or in February
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
    """A condition: a JSON number is a whole one that DOUBLE would change."""
    text = identifier(column)
    back = f"TRY_CAST(TRY_CAST({text} AS DOUBLE) AS HUGEINT)::VARCHAR"
    return (
        f"coalesce(regexp_full_match({text}, '-?\\d{{16,}}'), false) "
        f"AND coalesce({back} <> {text}, true)"
    )


def is_nested(type_: str) -> bool:
    """Whether values of a type hold others."""
    return any(mark in type_ for mark in ("(", "[", "JSON")) and not type_.startswith("DECIMAL")


def stored_value(value: str, type_: str) -> str:
    """A value of a type as SQL, of the type that it is stored as."""
    if type_ == ZONED:
        return f"timezone('UTC', {value})"
    kept = storable(type_)
    if kept == type_:
        return value
    return f"to_json({value})" if kept == "JSON" else f"CAST({value} AS {kept})"


def storable(type_: str) -> str:
    """The type a column is kept as.

    DuckDB's Python client can't fetch zoned timestamps, gives every row all keys of a map, and
    JSON within other types as text; objects with hundreds of different keys are better off as JSON,
    too.
    """
    if type_ == ZONED:
        return "TIMESTAMP"
    if any(part in type_ for part in ("MAP(", "JSON", ZONED)) or len(type_) > LONGEST_TYPE:
        return "JSON"
    if type_.startswith("ENUM("):  # which another category would not fit into
        return "VARCHAR"
    return type_.replace('"NULL"', "VARCHAR")  # of lists without items
