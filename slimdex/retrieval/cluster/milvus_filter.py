"""Filters of Milvus for simple conditions; missing values have a field of their own.

Older servers have no null, no boolean literals and no NOT around a field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from slimdex.indexes.errors import InputError, shortened

from ..catalog.where.conditions import And, Compare, Condition, Not, UnsupportedError
from ..catalog.where.parsing import condition_of
from .milvus_fields import BITS, BOOL, KEY, LARGEST_REAL, REAL, TEXT, WHOLE, Field

ALL, NONE = f"{KEY} >= 0", f"{KEY} < 0"
"""Filters for all rows and for none: keys are not negative."""
_SIGNS = {
    "=": ("==", "!="),
    "<": ("<", ">="),
    "<=": ("<=", ">"),
    ">": (">", "<="),
    ">=": (">=", "<"),
    "IN": ("in", "not in"),
}
"""Operator -> Milvus' operator, and its negation."""


def translated(where: str, columns: Mapping[str, str], fields: Sequence[Field]) -> str:
    """Translate a condition in SQL to a filter for the same documents.

    Parameters
    ----------
    columns : name -> DuckDB type of the columns that a condition may refer to.
    fields : the fields in Milvus.

    Raises
    ------
    InputError
        If it is not a condition on the columns, or has more than simple operators.

    >>> from .milvus_fields import fields_of
    >>> columns = {"year": "SMALLINT", "author": "VARCHAR"}
    >>> translated("year > 1990.5", columns, fields_of(columns))
    '(year_is_null == false and year >= 1991)'
    """
    try:
        return filter_of(condition_of(where, columns), {field.column: field for field in fields})
    except UnsupportedError as error:
        raise InputError(
            f"where {shortened(where)}: {error} has no counterpart in Milvus; expected =, <>, <, "
            "<=, >, >=, IN, BETWEEN and IS NULL of columns and constants, joined by AND, OR and "
            "NOT, or a filter in Milvus' own language: filtered(...)"
        ) from error


def filter_of(condition: Condition, fields: Mapping[str, Field], holds: bool = True) -> str:
    """Render a condition with values of the types of their columns.

    Parameters
    ----------
    fields : column -> its field.
    holds : if False, render the negation.

    Raises
    ------
    UnsupportedError
        If a part of it is not simple.
    """
    if isinstance(condition, Not):
        return filter_of(condition.part, fields, not holds)
    if isinstance(condition, Compare):
        return _comparison(condition, fields, holds)
    is_and = isinstance(condition, And) == holds
    if not condition.parts:
        return ALL if is_and else NONE
    parts = [filter_of(part, fields, holds) for part in condition.parts]
    return _joined("and" if is_and else "or", parts)


def _comparison(condition: Compare, fields: Mapping[str, Field], holds: bool) -> str:
    field = fields.get(condition.column)
    if field is None:
        raise UnsupportedError(f"column {condition.column!r}, which has no field,")
    truth = condition.truth == holds
    if condition.operator == "IS NULL":
        return _null(field, truth)
    filter = _of_values(field, condition.operator, condition.value, truth)
    if not field.missing:
        return filter
    known = _null(field, not holds)
    return _joined("and" if holds else "or", [known, filter])


def _of_values(field: Field, operator: str, value: Any, truth: bool) -> str:
    """Filter for rows with a value for which a comparison is true, or false."""
    if operator not in _SIGNS or (field.form == BOOL and operator not in ("=", "IN")):
        raise UnsupportedError(operator)
    sign = _SIGNS[operator][not truth]
    if operator == "IN" and field.form == BOOL:
        parts = [_of_values(field, "=", each, truth) for each in value]
        return _joined("or" if truth else "and", parts)
    if operator in ("=", "IN"):
        values = value if operator == "IN" else [value]
        constants = sorted({text for each in values if (text := _constant(field, each))})
        if not constants:
            return NONE if truth else ALL
        listed = ", ".join(constants)
        return f"{field.name} {sign} {f'[{listed}]' if operator == 'IN' else listed}"
    if field.form != WHOLE:
        return f"{field.name} {sign} {_constant(field, value)}"
    exact = field.exact(value)
    start = math.floor(exact) + 1 if sign in ("<=", ">") else math.ceil(exact)
    if abs(start) < _end(field):
        return f"{field.name} {'<' if '<' in sign else '>='} {start}"
    return ALL if ("<" in sign) == (start > 0) else NONE


def _constant(field: Field, value: Any) -> str:
    """Format a constant in the field's unit; "" if no row can have it."""
    if field.form == BOOL:
        return str(value).lower()
    if field.form == TEXT:
        return quoted(str(value))
    if field.form == WHOLE:
        exact, end = field.exact(value), _end(field)
        if exact == -end:  # can't be read by all servers
            raise UnsupportedError(f"{value}")
        return str(exact) if exact.denominator == 1 and abs(exact) < end else ""
    if field.form != REAL or not abs(value) < LARGEST_REAL:
        raise UnsupportedError(f"{value!r}")
    return repr(value + 0.0)


def _end(field: Field) -> int:
    """The number after a field's largest."""
    return 1 << BITS[field.kind] - 1


def _null(field: Field, truth: bool) -> str:
    if not field.missing:
        return NONE if truth else ALL
    return f"{field.missing} == {str(truth).lower()}"


def _joined(word: str, filters: Sequence[str]) -> str:
    return filters[0] if len(filters) == 1 else f"({f' {word} '.join(filters)})"


def quoted(text: str) -> str:
    """Quote a text for filters.

    >>> print(quoted('it"s'))
    "it\\"s"
    """
    for sign, written in _ESCAPES.items():
        text = text.replace(sign, written)
    return f'"{text}"'


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
