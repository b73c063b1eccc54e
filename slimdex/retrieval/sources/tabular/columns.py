"""Columns of tables: their names, and the types that an index stores them as."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

from slimdex.errors import InputError
from slimdex.system.duckdb_library import connect, duckdb, identifier
from slimdex.system.json_text import parse_json

from ...documents import BUILT_IN_COLUMNS

LONGEST_TYPE = 1000
"""Longest name of a type that is stored as such; longer ones become JSON."""
AS_JSON = re.compile(r"\b(STRUCT|TUPLE|MAP|UNION|ENUM|GEOMETRY|VARIANT|BIGNUM|JSON)\b")
"""Types that are stored as JSON, as the dicts of a program are, and lists of these."""
AS_TEXT = re.compile(r'(ENUM|GEOMETRY)\b(.*[^\]])?|"NULL"')
"""Types that are stored as text; new values would not fit an ENUM."""
NO_VALUES = '"NULL"'
"""Type of columns without values."""
TIMESTAMPTZ = "TIMESTAMP WITH TIME ZONE"
RENAMED = {
    TIMESTAMPTZ: "TIMESTAMP",
    "TIMESTAMPTZ_NS": "TIMESTAMP",
    "TIME WITH TIME ZONE": "VARCHAR",
    "TIME_NS": "TIME",
    NO_VALUES: "VARCHAR",
}
"""Types that are stored as others, also in lists; moments are converted to UTC."""
TIMES = {
    "DATE": r"regexp_full_match(t, '\d{4}-\d\d?-\d\d?') AND TRY_CAST(t AS DATE) NOT NULL",
    "TIME": r"regexp_full_match(t, '\d\d?:[\d:.]+') AND TRY_CAST(t AS TIME) NOT NULL",
    TIMESTAMPTZ: r"regexp_full_match(t, '\d{4}-\d\d?-\d\d?([T ].*)?') "
    "AND TRY_CAST(t AS TIMESTAMPTZ) NOT NULL",
}
VALUES = {
    "BOOLEAN": "lower(t) IN ('true', 'false')",
    "BIGINT": "coalesce(TRY_CAST(t AS BIGINT)::VARCHAR = t, false)",
    "DOUBLE": "coalesce(TRY_CAST(t AS DOUBLE)::VARCHAR IN (lower(t), lower(t) || '.0'), false)",
    **TIMES,
}
"""Type -> SQL condition that it keeps a text t as written: 007, 1.10 and 1e5 stay text."""
LIKE = {
    "DOUBLE": "TRY_CAST(t AS DOUBLE) NOT NULL",
    "BOOLEAN": "TRY_CAST(t AS BOOLEAN) NOT NULL",
    TIMESTAMPTZ: r"regexp_full_match(t, '\d{4}-\d\d?-\d\d?([T ].*)?|\d{8}T.*')",
}
"""Type -> SQL condition that a text t looks like one of its values."""
LONGEST_VALUE = 64
"""Longest text that may be converted to another type, in characters."""
ID_NAMES = ("_id", "id", "doc_id", "docid")
TEXT_NAMES = ("text", "body", "content", "sentence", "document", "passage")
TITLE_NAMES = ("title",)


@dataclass(frozen=True)
class ColumnNames:
    """Columns named by the user; None searches for the usual names.

    `vectors` is a .npy file or a column, which is read by `given_vectors` and is not metadata.

    `types` maps columns to requested DuckDB types; "all" stands for every column.
    """

    text: str | None = None
    id: str | None = None
    title: str | None = None
    vectors: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)


def storage_names(columns: Sequence[str], ours: Sequence[str] = BUILT_IN_COLUMNS) -> dict[str, str]:
    """Map the user's columns to unique names, with "_" appended where they clash with ours.

    >>> storage_names(["year", "Vector"], ["id", "vector"])
    {'year': 'year', 'Vector': 'Vector_'}
    """
    taken = {*ours, *map(str.lower, columns)}
    names = {}
    for column in columns:
        name = column
        while column.lower() in ours and name.lower() in taken:
            name += "_"
        names[column] = name
        taken.add(name.lower())
    return names


def unique_names(names: Iterable[object]) -> list[str]:
    """Names of columns as texts, unique ignoring case, as DuckDB makes them for CSV.

    >>> unique_names(["id", "ID", 2023, ""])
    ['id', 'ID_1', '2023', 'column3']
    """
    unique = list[str]()
    taken = set[str]()
    for number, value in enumerate(names):
        name = str(value) or f"column{number}"
        numbers = count(1)
        candidate = name
        while candidate.lower() in taken:
            candidate = f"{name}_{next(numbers)}"
        unique.append(candidate)
        taken.add(candidate.lower())
    return unique


def usual_column(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """Return the first column with a usual name, ignoring case."""
    lowered = {name.lower(): name for name in reversed(names)}  # the first of equal names wins
    return next((lowered[name] for name in usual if name in lowered), None)


def text_of(column: str) -> str:
    """SQL of a column's values as text without spaces around it; NULL if there is none."""
    return f"nullif(trim({identifier(column)}::VARCHAR), '')"


def check_values(table: str, columns: Sequence[str], types: Collection[str]) -> str:
    """SQL to find the first of `types` that keeps all values of a column.

    Each row has the name of a column with values and that type; if there is none, also the type
    that most distinct values look like, and an example that it would change.
    """
    texts = ", ".join(f"{text_of(column)} AS {identifier(column)}" for column in columns)
    value = f"CASE WHEN length(t) > {LONGEST_VALUE} THEN left(t, {LONGEST_VALUE}) || '…' ELSE t END"
    keeps = " ".join(f"WHEN bool_and({VALUES[type_]}) THEN '{type_}'" for type_ in types)
    odd = " ".join(
        f"WHEN 2 * count_if({like}) >= count(*) "
        f"THEN ['{stored_type(type_)}', min(t) FILTER (NOT ({VALUES[type_]}))]"
        for type_, like in LIKE.items()
        if type_ in types
    )
    return (
        f"SELECT name, CASE {keeps} END, CASE {odd} WHEN false THEN [] END FROM "
        f"(SELECT DISTINCT name, {value} AS t FROM "
        f"(UNPIVOT (SELECT {texts} FROM {table}) ON COLUMNS(*) INTO NAME name VALUE t)) "
        "GROUP BY name"
    )


def parse_types(words: Sequence[str]) -> dict[str, str]:
    """Parse column types like ``name=VARCHAR,price=DECIMAL(10,2)``: column -> DuckDB type.

    Raises `InputError` if a pair is malformed, or DuckDB does not have the type.

    >>> parse_types(["a=int,b=DECIMAL(9, 2)"])
    {'a': 'INTEGER', 'b': 'DECIMAL(9,2)'}
    """
    types = dict[str, str]()
    # At commas outside of brackets; the limit keeps this in linear time.
    pairs = chain.from_iterable(re.split(r",(?![^()]{0,200}\))", word) for word in words)
    for pair in pairs:
        name, equals, type_ = pair.strip().rpartition("=")
        if not equals or not name or not re.fullmatch(r"[\w\s(),\[\]]+", type_):
            raise InputError(f"types={pair!r}; expected COLUMN=TYPE, as in year=BIGINT")
        try:
            with connect() as scratch:
                ((normal,),) = scratch.execute(f"SELECT typeof(NULL::{type_})").fetchall()
        except duckdb.Error as error:
            raise InputError(
                f"types={pair!r}: {str(error).splitlines()[0]}; expected a DuckDB type, "
                "such as VARCHAR, BIGINT, DOUBLE or DATE"
            ) from error
        types[name] = normal
    return types


def stored_type(type_: str) -> str:
    """Type that an index stores a column of a DuckDB type as.

    >>> stored_type("TIMESTAMP WITH TIME ZONE[]"), stored_type("STRUCT(a INTEGER)[]")
    ('TIMESTAMP[]', 'JSON')
    """
    if AS_TEXT.fullmatch(type_):
        return "VARCHAR"
    if AS_JSON.search(type_) or len(type_) > LONGEST_TYPE:
        return "JSON"
    for name, stored in RENAMED.items():
        type_ = type_.replace(name, stored)
    return type_


def read_type(type_: str) -> str:
    """Type that text is read as before it is stored: moments keep their zones until then."""
    return "JSON" if stored_type(type_) == "JSON" else type_


def restore_values(columns: Mapping[str, str], values: Iterable[Any]) -> dict[str, Any]:
    """Convert the columns of a table's row, as DuckDB returned them, to name -> value.

    Raises `InputError` if JSON can't be read, for example because it is nested too deeply.
    """
    restored = dict(zip(columns, values, strict=True))
    for name, type_ in columns.items():
        if type_ == "JSON" and restored[name] is not None:
            try:
                restored[name] = parse_json(restored[name])
            except ValueError as error:
                raise InputError(f"column {name!r}: JSON that can't be read ({error})") from error
    return restored
