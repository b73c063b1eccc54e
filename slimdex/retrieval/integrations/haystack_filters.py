"""Haystack's filters as conditions; they hold as for Haystack's own `InMemoryDocumentStore`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
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
"""Fields of a document that are columns; the others are none."""
OTHERS = ("blob", "embedding", "meta", "score", "sparse_embedding")
SHORTEST_DATE = len("2024-12-31")


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
    if field in OTHERS:
        raise FilterError(f"field {field!r}; expected id, content, or meta and a name")

    # Texts that state moments are compared as moments.
    if operator in ORDERED:
        value = _as_moment(operator, value)
    elif OPERATORS[operator] == "IN" and not isinstance(value, list):
        raise FilterError(f"{operator} {value!r:.100}; expected a list")

    comparison: Condition
    if operator in ORDERED and value is None:  # nothing is more or less than None
        comparison = NEVER
    elif field in COLUMNS:
        comparison = _of_column(COLUMNS[field], OPERATORS[operator], value)
    else:
        comparison = _of_metadata(field.removeprefix(META), OPERATORS[operator], value, columns)
    return Not(comparison) if operator in NEGATED else comparison


def _as_moment(operator: str, value: Any) -> Any:
    """Return a value to compare by order: a text as the moment that it states, others unchanged.

    Raises `FilterError` for a list, and for a text that states no moment.
    """
    if value is None or not isinstance(value, list | str):
        return value
    moment = as_moment(value)
    if moment is None:
        raise FilterError(f"{operator} {value!r:.100}; expected a number or a date")
    return moment


def _of_column(column: str, operator: str, value: Any) -> Condition:
    """Compare the id or the content; None is compared as "", which stands for missing content."""
    if operator == "IN":
        value = ["" if item is None else item for item in value]
    return Compare(column, operator, "" if value is None else value)


def _of_metadata(name: str, operator: str, value: Any, columns: Types) -> Condition:
    """Compare metadata of this name with a value or, for IN, with each of a list."""
    comparison = compare(name, operator, value, columns)
    if operator not in ("=", "IN"):
        return comparison

    # Texts that state the same moment are equal.
    same_moments = []
    for constant in value if operator == "IN" else [value]:
        moment = _moment(constant)
        if moment is not None:
            same_moments.append(compare(name, "=", moment, columns))
    return Or((comparison, *same_moments)) if same_moments else comparison


def _moment(value: Any) -> datetime | None:
    """Return the moment that a value states, if any; a short text such as "2024" states none."""
    if isinstance(value, str) and len(value) < SHORTEST_DATE:
        return None
    return as_moment(value)
