"""Types that an index stores, and SQL that converts values of DuckDB's other types to them.

Times with zones are stored in UTC, without a zone. A value whose type Python lacks, or that can
have several types, is JSON; all conversions hold within lists, structs, maps and unions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from ...duckdb_library import connected, identifier, literal

LONGEST_TYPE = 1000
"""Longest name of a nested type that is stored as such; longer ones become JSON. Objects with
hundreds of different keys are also better stored as JSON."""
TIMESTAMPTZ, TIMETZ = "TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE"
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


class _Stored(NamedTuple):
    """A stored type, and the conversion of SQL at a depth of lambdas; None for the same type."""

    type: str
    convert: Callable[[str, int], str] | None = None

    def of(self, value: str, depth: int) -> str:
        """SQL of a converted value."""
        return value if self.convert is None else self.convert(value, depth)


def storable(type_: str) -> str:
    """Type that a column of a DuckDB type is stored as.

    >>> storable("TIMESTAMPTZ[]"), storable("MAP(VARCHAR, INTEGER)"), storable("DECIMAL(9, 2)")
    ('TIMESTAMP[]', 'JSON', 'DECIMAL(9,2)')
    """
    return _stored(type_).type


def stored_value(value: str, type_: str) -> str:
    """SQL to convert a value of a DuckDB type to the type that it is stored as.

    >>> stored_value("seen", "TIMESTAMPTZ[]")
    "list_transform(seen, lambda x0: timezone('UTC', x0))"
    """
    return _stored(type_).of(value, 0)


def has_zone(type_: str) -> bool:
    """Return whether a type's times have zones."""
    return bool(ZONED.search(type_))


def zone_note(columns: Iterable[str]) -> list[str]:
    """A note on columns whose times have zones, if there are any.

    >>> zone_note(["sent"])
    ["times of column 'sent' have zones: they are stored in UTC, without a zone"]
    """
    named = ", ".join(map(repr, sorted(columns)))
    said = f"times of column {named} have zones: they are stored in UTC, without a zone"
    return [said] if named else []


@lru_cache(4096)
def _stored(type_: str) -> _Stored:
    with connected() as scratch:
        stored = _of(scratch.sqltype(type_))
        return stored._replace(type=str(scratch.sqltype(stored.type)))


def _of(type_: Any) -> _Stored:
    """The storage of a type parsed by DuckDB."""
    kind = str(type_.id)
    if kind in PLAIN:
        name, sql = PLAIN[kind]
        return _Stored(name, lambda value, _: sql.format(value))
    nested = {"list": _list, "array": _list, "struct": _struct, "tuple": _tuple, "map": _map}
    nested["union"] = _union
    if kind not in nested:
        return _Stored(str(type_))
    stored = nested[kind](type_)
    return _as_json(stored) if len(stored.type) > LONGEST_TYPE else stored


def _as_json(stored: _Stored) -> _Stored:
    return _Stored("JSON", lambda value, depth: f"to_json({stored.of(value, depth)})")


def _list(type_: Any) -> _Stored:
    (_, child), *size = type_.children
    item = _of(child)
    named = f"{item.type}[{size[0][1]}]" if size else f"{item.type}[]"
    whole = _Stored(named, None if item.convert is None else _each(item))
    if item.type == "JSON":
        return _as_json(whole)
    if whole.convert is None:
        return _Stored(str(type_))
    if not size:
        return whole
    return _Stored(named, lambda value, depth: f"CAST({whole.of(value, depth)} AS {named})")


def _each(item: _Stored) -> Callable[[str, int], str]:
    """The conversion of a list of items."""

    def convert(value: str, depth: int) -> str:
        return f"list_transform({value}, lambda x{depth}: {item.of(f'x{depth}', depth + 1)})"

    return convert


def _struct(type_: Any) -> _Stored:
    fields = [(name, _of(child)) for name, child in type_.children]
    if all(field.convert is None and field.type != "JSON" for _, field in fields):
        return _Stored(str(type_))

    def convert(value: str, depth: int) -> str:
        packed = ", ".join(
            f"{identifier(name)} := {field.of(f'struct_extract({value}, {literal(name)})', depth)}"
            for name, field in fields
        )
        return _unless_null(value, f"struct_pack({packed})")

    named = ", ".join(f"{identifier(name)} {field.type}" for name, field in fields)
    whole = _Stored(f"STRUCT({named})", convert)
    return _as_json(whole) if any(field.type == "JSON" for _, field in fields) else whole


def _tuple(type_: Any) -> _Stored:
    items = [_of(child) for _, child in type_.children]

    def convert(value: str, depth: int) -> str:
        parts = (f"struct_extract_at({value}, {i})" for i in range(1, len(items) + 1))
        listed = ", ".join(item.of(part, depth) for item, part in zip(items, parts, strict=True))
        return _unless_null(value, f"json_array({listed})")

    return _Stored("JSON", convert)


def _map(type_: Any) -> _Stored:
    """JSON: DuckDB's Python client returns all keys of a map in every row."""
    keys, values = (_of(child) for _, child in type_.children)
    if keys.convert is None and values.convert is None:
        return _as_json(_Stored(str(type_)))

    def convert(value: str, depth: int) -> str:
        lists = [_each(each)(f"{part}({value})", depth) for part, each in parts]
        return f"to_json(map({', '.join(lists)}))"

    parts = [("map_keys", keys), ("map_values", values)]
    return _Stored("JSON", convert)


def _union(type_: Any) -> _Stored:
    """The type of all members, or JSON: a value has no tag in Python."""
    members = [(name, _of(child)) for name, child in type_.children[1:]]  # the first is the tag
    types = {member.type for _, member in members}
    kept = next(iter(types)) if len(types) == 1 else "JSON"

    def convert(value: str, depth: int) -> str:
        cases = []
        for name, member in members:
            sql = member.of(f"union_extract({value}, {literal(name)})", depth)
            cases.append(
                f"WHEN {literal(name)} THEN {sql if kept != 'JSON' else f'to_json({sql})'}"
            )
        return f"CASE union_tag({value}) {' '.join(cases)} END"

    return _Stored(kept, convert)


def _unless_null(value: str, sql: str) -> str:
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE {sql} END"
