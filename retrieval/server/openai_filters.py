"""Filters of OpenAI's vector stores, as conditions on an index's columns."""

from __future__ import annotations

from collections.abc import Collection as Names
from typing import Any

from slimdex.indexes.errors import InputError

from ..conditions import compared, joined

OPERATORS = {"eq": "=", "ne": "<>", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
OPERATORS |= {"in": "IN", "nin": "NOT IN"}
JOINED = {"and": "AND", "or": "OR"}
DEEPEST = 20
"""Filters inside filters."""
EXPECTED = f"a filter of type {', '.join([*OPERATORS, *JOINED])}"


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
        return joined(JOINED[kind], [condition(part, columns, depth + 1) for part in parts])
    key, value = filter.get("key"), filter.get("value")
    if not isinstance(kind, str) or kind not in OPERATORS:
        raise InputError(f"filter of type {kind!r}; expected {EXPECTED}")
    if not isinstance(key, str) or key not in columns:
        raise InputError(f"filter key {key!r}; expected one of {', '.join(columns)}")
    return compared(key, OPERATORS[kind], value)
