"""Filters of OpenAI's vector stores, as conditions on an index's columns."""

from __future__ import annotations

from collections.abc import Collection as Names
from typing import Any

from slimdex.indexes.errors import InputError

from ..sql import identifier, literal

COMPARISONS = {"eq": "=", "ne": "<>", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
MEMBERSHIPS = {"in": "IN", "nin": "NOT IN"}
JOINED = {"and": " AND ", "or": " OR "}
DEEPEST = 20
"""Filters inside filters."""
EXPECTED = f"a filter of type {', '.join([*COMPARISONS, *MEMBERSHIPS, *JOINED])}"


def condition(filter: Any, columns: Names[str], depth: int = 0) -> str:
    """A condition that holds where a filter does.

    Raises
    ------
    InputError
        If it is none, or names a column that is not there.

    >>> condition({"type": "eq", "key": "author", "value": "O'Brien"}, ["author"])
    '"author" = \\'O\\'\\'Brien\\''
    >>> pairs = ("gte", 1990), ("ne", 2)
    >>> years = [{"type": kind, "key": "year", "value": v} for kind, v in pairs]
    >>> condition({"type": "and", "filters": years}, ["year"])
    '("year" >= 1990 AND "year" <> 2)'
    """
    if not isinstance(filter, dict) or depth > DEEPEST:
        raise InputError(f"filter {str(filter)[:100]!r}; expected {EXPECTED}")
    kind = filter.get("type")
    if kind in JOINED:
        parts = filter.get("filters")
        if not isinstance(parts, list) or not parts:
            raise InputError(f"filter of type {kind!r} without filters; expected some")
        joined = JOINED[kind].join(condition(part, columns, depth + 1) for part in parts)
        return f"({joined})"
    key, value = filter.get("key"), filter.get("value")
    if not isinstance(kind, str) or kind not in COMPARISONS | MEMBERSHIPS:
        raise InputError(f"filter of type {kind!r}; expected {EXPECTED}")
    if not isinstance(key, str) or key not in columns:
        raise InputError(f"filter key {key!r}; expected one of {', '.join(columns)}")
    if kind in COMPARISONS:
        return f"{identifier(key)} {COMPARISONS[kind]} {_constant(value)}"
    if not isinstance(value, list) or not value:
        raise InputError(f"filter of type {kind!r}, value {value!r}; expected a list of values")
    return f"{identifier(key)} {MEMBERSHIPS[kind]} ({', '.join(map(_constant, value))})"


def _constant(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float) and value == value and abs(value) != float("inf"):
        return repr(value)
    if isinstance(value, str):
        return literal(value)
    raise InputError(f"filter value {value!r}; expected a text, a number or a truth")
