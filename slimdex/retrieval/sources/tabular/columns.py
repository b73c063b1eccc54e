"""Columns of tables: their names, and the types that an index stores them as.

Times with zones are stored in UTC, without a zone. A value whose type Python lacks, or that can
have several types, is JSON; all conversions hold within lists, structs, maps and unions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from slimdex.errors import InputError
from slimdex.system.duckdb_library import connect, duckdb, identifier, literal

from ...column_types import WRITTEN_DATE
from ...documents import BUILT_IN_COLUMNS

NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*")
"""DuckDB's numeric types."""
LONGEST_TYPE = 1000
"""Longest name of a nested type that is stored as such; longer ones become JSON. Objects with
hundreds of different keys are also better stored as JSON."""
TIMESTAMPTZ = "TIMESTAMP WITH TIME ZONE"
TIMETZ = "TIME WITH TIME ZONE"
MOMENTS = ("DATE", "TIME", "TIMESTAMP", TIMESTAMPTZ)
ZONED = re.compile(rf"\b({TIMESTAMPTZ}|{TIMETZ}|TIMESTAMPTZ_NS)\b")
"""Types of times with zones."""
WITH_ZONES = {"TIMESTAMP": TIMESTAMPTZ, "TIME": TIMETZ}
"""Types whose texts may state a zone, which only the other type reads."""
PLAIN: dict[str, tuple[str, str]] = {
    "timestamp with time zone": ("TIMESTAMP", "timezone('UTC', {})"),
    "timestamptz_ns": ("TIMESTAMP", f"timezone('UTC', CAST({{}} AS {TIMESTAMPTZ}))"),
    "time with time zone": ("TIME", "CAST(timezone('UTC', {}) AS TIME)"),
    "time_ns": ("TIME", "CAST({} AS TIME)"),
    "variant": ("JSON", "to_json({})"),
    "bignum": ("JSON", "to_json({})"),
    **dict.fromkeys(("enum", "geometry", "type", "null"), ("VARCHAR", "CAST({} AS VARCHAR)")),
}
"""DuckDB's name of a type that is not stored -> the type that is, and the conversion.

New categories would not fit an ENUM.
"""
ID_NAMES = ("_id", "id", "doc_id", "docid")
TEXT_NAMES = ("text", "body", "content", "sentence", "document", "passage")
TITLE_NAMES = ("title",)


@dataclass(frozen=True)
class ColumnNames:
    """Columns named by the user; None searches for the usual names.

    A column of vectors is read by `given_vectors` and is not metadata.

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


def usual_column(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """Return the first column with a usual name, ignoring case."""
    lowered = {name.lower(): name for name in reversed(names)}  # the first of equal names wins
    return next((lowered[name] for name in usual if name in lowered), None)


def only_text_column(source: str, types: Mapping[str, str]) -> str:
    """Return the only text column that is not an id; raise `InputError` if there are others."""
    texts = []
    for column, type_ in types.items():
        if type_ == "VARCHAR" and column.lower() not in ID_NAMES:
            texts.append(column)
    if len(texts) == 1:
        return texts[0]
    columns = ", ".join(types)
    raise InputError(f"{source}: which column is the text? Name one by text=NAME: {columns}")


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


def storable(type_: str) -> str:
    """Type that a column of a DuckDB type is stored as.

    >>> storable("TIMESTAMPTZ[]"), storable("MAP(VARCHAR, INTEGER)"), storable("DECIMAL(9, 2)")
    ('TIMESTAMP[]', 'JSON', 'DECIMAL(9,2)')
    """
    return _storage_of(type_).type


def conversion_sql(value: str, type_: str) -> str:
    """SQL to convert a value of a DuckDB type to the type that it is stored as.

    >>> conversion_sql("seen", "TIMESTAMPTZ[]")
    "list_transform(seen, lambda x0: timezone('UTC', x0))"
    """
    return _storage_of(type_).of(value, 0)


def has_zone(type_: str) -> bool:
    """Return whether a type's times have zones."""
    return bool(ZONED.search(type_))


def zone_note(columns: Iterable[str]) -> list[str]:
    """A note on columns whose times have zones, if there are any.

    >>> zone_note(["sent"])
    ["times of column 'sent' have zones: they are stored in UTC, without a zone"]
    """
    shown = ", ".join(map(repr, sorted(columns)))
    note = f"times of column {shown} have zones: they are stored in UTC, without a zone"
    return [note] if shown else []


class _StoredType(NamedTuple):
    """A storage type, and how values are converted to it.

    Attributes
    ----------
    convert : function from the SQL of a value, and the number of lambdas around it, to the SQL of
        the converted value; None if values stay as they are.
    """

    type: str
    convert: Callable[[str, int], str] | None = None

    def of(self, value: str, depth: int) -> str:
        """SQL of a converted value."""
        return value if self.convert is None else self.convert(value, depth)


@lru_cache(4096)
def _storage_of(type_: str) -> _StoredType:
    """The storage of a type, given by its name in SQL."""
    with connect() as scratch:
        stored = _of(scratch.sqltype(type_))
        return stored._replace(type=str(scratch.sqltype(stored.type)))


def _of(type_: Any) -> _StoredType:
    """The storage of a type parsed by DuckDB."""
    kind = str(type_.id)
    if kind in PLAIN:
        name, sql = PLAIN[kind]
        return _StoredType(name, lambda value, _: sql.format(value))
    nested = {"list": _list, "array": _list, "struct": _struct, "tuple": _tuple, "map": _map}
    nested["union"] = _union
    if kind not in nested:
        return _StoredType(str(type_))
    stored = nested[kind](type_)
    return _as_json(stored) if len(stored.type) > LONGEST_TYPE else stored


def _as_json(stored: _StoredType) -> _StoredType:
    """Store as JSON what would be stored as another type."""
    return _StoredType("JSON", lambda value, depth: f"to_json({stored.of(value, depth)})")


def _list(type_: Any) -> _StoredType:
    """The storage of a list or an array; the second child of an array is its size."""
    (_, child), *size = type_.children
    item = _of(child)
    name = f"{item.type}[{size[0][1]}]" if size else f"{item.type}[]"
    stored = _StoredType(name, None if item.convert is None else _each(item))
    if item.type == "JSON":
        return _as_json(stored)
    if stored.convert is None:
        return _StoredType(str(type_))
    if not size:
        return stored
    # The conversion makes a list, so cast it to an array again.
    return _StoredType(name, lambda value, depth: f"CAST({stored.of(value, depth)} AS {name})")


def _each(item: _StoredType) -> Callable[[str, int], str]:
    """The conversion of a list of items."""

    def convert(value: str, depth: int) -> str:
        return f"list_transform({value}, lambda x{depth}: {item.of(f'x{depth}', depth + 1)})"

    return convert


def _struct(type_: Any) -> _StoredType:
    """The storage of a struct: with converted fields, or JSON if a field is JSON."""
    fields = [(name, _of(child)) for name, child in type_.children]
    if all(field.convert is None and field.type != "JSON" for _, field in fields):
        return _StoredType(str(type_))

    def convert(value: str, depth: int) -> str:
        packed = []
        for name, child in fields:
            sql = child.of(f"struct_extract({value}, {literal(name)})", depth)
            packed.append(f"{identifier(name)} := {sql}")
        return _unless_null(value, f"struct_pack({', '.join(packed)})")

    types = ", ".join(f"{identifier(name)} {field.type}" for name, field in fields)
    stored = _StoredType(f"STRUCT({types})", convert)
    return _as_json(stored) if any(field.type == "JSON" for _, field in fields) else stored


def _tuple(type_: Any) -> _StoredType:
    """The storage of a struct without names: an array in JSON."""
    items = [_of(child) for _, child in type_.children]

    def convert(value: str, depth: int) -> str:
        listed = []
        for number, item in enumerate(items, start=1):
            listed.append(item.of(f"struct_extract_at({value}, {number})", depth))
        return _unless_null(value, f"json_array({', '.join(listed)})")

    return _StoredType("JSON", convert)


def _map(type_: Any) -> _StoredType:
    """JSON: DuckDB's Python client returns all keys of a map in every row."""
    (_, key_type), (_, value_type) = type_.children
    keys = _of(key_type)
    values = _of(value_type)
    if keys.convert is None and values.convert is None:
        return _as_json(_StoredType(str(type_)))

    def convert(value: str, depth: int) -> str:
        key_list = _each(keys)(f"map_keys({value})", depth)
        value_list = _each(values)(f"map_values({value})", depth)
        return f"to_json(map({key_list}, {value_list}))"

    return _StoredType("JSON", convert)


def _union(type_: Any) -> _StoredType:
    """The type of all members, or JSON: a value has no tag in Python."""
    members = [(name, _of(child)) for name, child in type_.children[1:]]  # the first is the tag
    types = {member.type for _, member in members}
    stored_type = next(iter(types)) if len(types) == 1 else "JSON"

    def convert(value: str, depth: int) -> str:
        cases = []
        for name, member in members:
            sql = member.of(f"union_extract({value}, {literal(name)})", depth)
            sql = f"to_json({sql})" if stored_type == "JSON" else sql
            cases.append(f"WHEN {literal(name)} THEN {sql}")
        return f"CASE union_tag({value}) {' '.join(cases)} END"

    return _StoredType(stored_type, convert)


def _unless_null(value: str, sql: str) -> str:
    """SQL that is NULL if the value is; `sql` alone would make an object of its NULL parts."""
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE {sql} END"


def is_read_from_text(type_: str) -> bool:
    """Return whether values of a type have several spellings."""
    return bool(NUMBERS.fullmatch(type_)) or type_ in MOMENTS or type_ == "BOOLEAN"


def as_written(column: str, type_: str) -> str:
    """SQL condition: casting a column's text to a type and back gives an equivalent text."""
    text = f"trim({identifier(column)})"
    if type_ in MOMENTS:  # excludes "inf"; 01/02/2024 is ambiguous
        is_moment = f"regexp_matches({text}, '\\d') AND TRY_CAST({text} AS {type_}) IS NOT NULL"
        return f"coalesce({text} = '' OR ({is_moment}), true)"
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


def looks_like_date(column: str) -> str:
    """SQL: a value of a text column if all look like dates that are not in ISO 8601; else NULL."""
    name = identifier(column)
    is_date = f"regexp_full_match(trim({name}), {literal(WRITTEN_DATE)})"
    return f"CASE WHEN bool_and({is_date}) FILTER ({name} <> '') THEN min({name}) END"


def is_nested(type_: str) -> bool:
    """Return whether a type is nested."""
    return any(mark in type_ for mark in ("(", "[", "JSON")) and not type_.startswith("DECIMAL")
