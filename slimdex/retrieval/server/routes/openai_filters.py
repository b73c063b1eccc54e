"""Filters in OpenAI's format, as conditions on an index's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slimdex.indexes.errors import InputError

from ...collection import Collection
from ...documents import OWN_COLUMNS
from ...store.where.conditions import And, Compare, Condition, Or, as_sql
from .failures import unknown

OPERATORS = {
    "eq": ("=", True),
    "ne": ("=", False),
    "gt": (">", True),
    "gte": (">=", True),
    "lt": ("<", True),
    "lte": ("<=", True),
    "in": ("IN", True),
    "nin": ("IN", False),
}
"""Type -> operator, and the truth of the comparison."""
JOINED = ("and", "or")
DEEPEST = 20
"""Largest nesting depth of filters."""
EXPECTED = f"a filter of type {', '.join([*OPERATORS, *JOINED])}"


def where_of(asked: str | dict[str, Any] | None, collection: Collection) -> str | None:
    """Render a filter for a collection; a condition in SQL stays as it is."""
    if not isinstance(asked, dict):
        return asked
    return as_sql(condition(asked, [*OWN_COLUMNS[1:4], *collection.index.snapshot.columns]))


def condition(filter: Any, columns: Sequence[str], depth: int = 0) -> Condition:
    """Translate a filter; raises `InputError` if it is invalid, or refers to an unknown column.

    >>> condition({"type": "ne", "key": "author", "value": "Woolf"}, ["author"])
    Compare(column='author', operator='=', value='Woolf', truth=False)
    """
    if not isinstance(filter, dict) or depth > DEEPEST:
        raise InputError(f"filter {str(filter)[:100]!r}; expected {EXPECTED}")
    kind = filter.get("type")
    if not isinstance(kind, str) or kind not in (*OPERATORS, *JOINED):
        raise InputError(f"filter of type {kind!r}; expected {EXPECTED}")
    if kind in JOINED:
        parts = filter.get("filters")
        if not isinstance(parts, list) or not parts:
            raise InputError(f"filter of type {kind!r} without filters; expected some")
        inner = tuple(condition(part, columns, depth + 1) for part in parts)
        return And(inner) if kind == "and" else Or(inner)
    key, value = filter.get("key"), filter.get("value")
    if not isinstance(key, str) or key not in columns:
        raise InputError(f"filter key {unknown(str(key), columns)}")
    operator, truth = OPERATORS[kind]
    return Compare(key, operator, value, truth)
