"""Haystack's filters as conditions; they hold as for Haystack's own `InMemoryDocumentStore`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from haystack.errors import FilterError

from slimdex.errors import InputError

from ..store.where.conditions import NEVER, And, Compare, Condition, Not, Or, as_sql
from .metadata import Types, as_moment, compare

ORDERED = (">", ">=", "<", "<=")
NEGATED = ("!=", "not in")
OPERATORS = {"==": "=", "!=": "=", "in": "IN", "not in": "IN"} | {sign: sign for sign in ORDERED}
META = "meta."
COLUMNS = {"id": "id", "content": "text"}
"""Fields of a document that are columns, not metadata."""


def filter_sql(filters: Mapping[str, Any], columns: Types) -> str:
    """Render filters as an expression for `where`; raises `FilterError` if they are invalid."""
    try:
        return as_sql(condition(filters, columns), columns)
    except InputError as error:
        raise FilterError(str(error)) from error


def condition(filters: Mapping[str, Any], columns: Types) -> Condition:
    """Translate filters; raises `FilterError` if they are invalid."""
    operator = filters.get("operator")
    if operator is None:
        raise FilterError(f"{filters!r:.200}: no operator; expected one")
    if "field" in filters:
        return _comparison(filters, str(operator), columns)

    # Join several conditions.
    if not filters.get("conditions"):
        raise FilterError(f"{filters!r:.200}: no conditions; expected some")
    parts = tuple(condition(part, columns) for part in filters["conditions"])
    if operator not in ("AND", "OR", "NOT"):
        raise FilterError(f"operator {operator!r}; expected AND, OR or NOT")
    if operator == "OR":
        return Or(parts)
    return And(parts) if operator == "AND" else Not(And(parts))


def _comparison(filters: Mapping[str, Any], operator: str, columns: Types) -> Condition:
    """Translate a filter on one field; raises `FilterError` if it is invalid."""
    if "value" not in filters or operator not in OPERATORS:
        raise FilterError(f"{filters!r:.200}; expected a value, and one of {', '.join(OPERATORS)}")
    field = str(filters["field"])
    value = filters["value"]
    if operator in ORDERED and value is None:  # nothing is more or less than None
        return NEVER
    if operator in ORDERED and isinstance(value, str):
        value = as_moment(value)
        if value is None:
            raise FilterError(f"{filters!r:.200}; expected a number or a date")
    if OPERATORS[operator] == "IN" and not isinstance(value, list):
        raise FilterError(f"{filters!r:.200}; expected a list")
    comparison: Condition
    if field in COLUMNS:
        comparison = Compare(COLUMNS[field], OPERATORS[operator], value)
    else:
        comparison = compare(field.removeprefix(META), OPERATORS[operator], value, columns)
    return Not(comparison) if operator in NEGATED else comparison
