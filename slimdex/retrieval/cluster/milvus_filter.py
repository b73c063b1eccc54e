"""Filters of Milvus, rendered from conditions; missing values have a field of their own.

Older servers have no null, no boolean literals and no NOT around a field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from slimdex.indexes.errors import InputError, shortened

from ..catalog.where.conditions import And, Compare, Condition, Not, UnsupportedError
from ..catalog.where.parsing import condition_of
from .milvus_columns import (
    BITS,
    BOOL,
    DIGITS,
    KEY,
    LARGEST_REAL,
    REAL,
    TEXT,
    Field,
    digits,
    units_of,
)

ALL, NONE = f"{KEY} >= 0", f"{KEY} < 0"
"""Filters for all rows and for none: keys are not negative."""
_LARGEST_CODE, _SURROGATES = 0x10FFFF, range(0xD800, 0xE000)
_SIGNS = {
    "=": ("==", "!="),
    "<": ("<", ">="),
    "<=": ("<=", ">"),
    ">": (">", "<="),
    ">=": (">=", "<"),
}
"""Operator -> Milvus' operator, and its negation."""


class UntranslatedError(InputError):
    """A condition valid in DuckDB that Milvus can't express."""


def translated(where: str, columns: Mapping[str, str], fields: Sequence[Field]) -> str:
    """Translate a condition in SQL to a filter for the same documents.

    Parameters
    ----------
    columns : name -> DuckDB type of the columns that a condition may refer to.
    fields : the fields in Milvus.

    Raises
    ------
    UntranslatedError
        If Milvus can't express a part of it.
    InputError
        If it is not a condition on the columns.

    >>> from .milvus_columns import fields_of
    >>> columns = {"year": "SMALLINT", "author": "VARCHAR"}
    >>> translated("year > 1990.5", columns, fields_of(columns))
    '(year_is_null == false and year >= 1991)'
    """
    try:
        return filter_of(condition_of(where, columns), {field.column: field for field in fields})
    except UnsupportedError as error:
        raise UntranslatedError(
            f"where {shortened(where)}: {error} has no counterpart in Milvus; expected comparisons "
            "of columns with constants, BETWEEN, IN, IS NULL, LIKE 'begins%', AND, OR, NOT"
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
        If Milvus can't express a part of it.
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
    if holds or not field.missing:
        return _known(field, filter)
    return ALL if filter == ALL else _joined("or", [_null(field, True), filter])


def _of_values(field: Field, operator: str, value: Any, truth: bool) -> str:
    """Filter for rows with a value for which a comparison is true, or false."""
    if operator == "IN":
        return _listed(field, value, truth)
    if operator == "STARTS WITH":
        return _begins(field, value, truth)
    if operator not in _SIGNS:
        raise UnsupportedError(operator)
    sign = _SIGNS[operator][not truth]
    if field.form == BOOL:
        if operator != "=":
            raise UnsupportedError(f"{operator} of booleans")
        return f"{field.name} {sign} {str(value).lower()}"
    if field.form == TEXT:
        return f"{field.name} {sign} {quoted(str(value))}"
    if field.form == REAL:
        return f"{field.name} {sign} {_real(value)}"
    return _whole(field, operator, _exact(field, value), truth)


def _listed(field: Field, values: Sequence[Any], truth: bool) -> str:
    """Filter for values in a list, or not in it."""
    if field.form == BOOL:
        parts = [_of_values(field, "=", value, truth) for value in values]
        return _joined("or" if truth else "and", parts)
    named = sorted({listed for value in values if (listed := _listed_value(field, value))})
    if not named:
        return NONE if truth else ALL
    return f"{field.name} {'in' if truth else 'not in'} [{', '.join(named)}]"


def _whole(field: Field, operator: str, value: Fraction, truth: bool) -> str:
    """Compare a whole number with any number."""
    if operator == "=":
        if value.denominator != 1:
            return NONE if truth else ALL
        parts = [_at_least(field, int(value), truth), _at_least(field, int(value) + 1, not truth)]
        return _joined("and" if truth else "or", parts)
    start = math.floor(value) + 1 if operator in (">", "<=") else math.ceil(value)
    return _at_least(field, start, truth == (operator in (">", ">=")))


def _at_least(field: Field, value: int, truth: bool) -> str:
    """Filter for values from a whole number on, or for those below."""
    sign = ">=" if truth else "<"
    if field.form == DIGITS:
        return f'{field.name} {sign} "{digits(min(max(value, -(10**40)), 9 * 10**40))}"'
    most = 1 << BITS[field.kind] - 1
    if -most < value < most:
        return f"{field.name} {sign} {value}"
    return ALL if truth == (value < 0) else NONE


def _listed_value(field: Field, value: Any) -> str:
    """Format a value for a list; "" if no row can have it."""
    if field.form == TEXT:
        return quoted(str(value))
    if field.form == REAL:
        return _real(value)
    exact = _exact(field, value)
    if exact.denominator != 1:
        return ""
    if field.form == DIGITS:
        return f'"{digits(int(exact))}"' if abs(exact) < 10**40 else ""
    largest = (1 << BITS[field.kind] - 1) - 1  # the smallest number can't be read by all servers
    if exact == -largest - 1:
        raise UnsupportedError(f"{value} in a list")
    return str(int(exact)) if -largest <= exact <= largest else ""


def _exact(field: Field, value: Any) -> Fraction:
    """Convert a constant to the stored unit."""
    exact: Fraction = Fraction(units_of(value)) * 10**field.scale / field.unit
    return exact


def _real(value: float) -> str:
    if not abs(value) < LARGEST_REAL:
        raise UnsupportedError(f"{value!r}")
    return repr(value + 0.0)


def _begins(field: Field, prefix: str, truth: bool) -> str:
    """Filter for a prefix, as a range: texts from it to the first text after all that begin with
    it."""
    if not prefix:
        return ALL if truth else NONE
    after = _after(prefix)
    low = f"{field.name} {'>=' if truth else '<'} {quoted(prefix)}"
    if not after:
        return low
    high = f"{field.name} {'<' if truth else '>='} {quoted(after)}"
    return _joined("and" if truth else "or", [low, high])


def _after(prefix: str) -> str:
    """The first text after all that begin with the prefix; "" if none exists.

    >>> _after("ab"), _after("a\U0010ffff")
    ('ac', 'b')
    """
    for place in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[place]) + 1
        if code in _SURROGATES:
            code = _SURROGATES.stop
        if code <= _LARGEST_CODE:
            return prefix[:place] + chr(code)
    return ""


def _null(field: Field, truth: bool) -> str:
    if not field.missing:
        return NONE if truth else ALL
    return f"{field.missing} == {str(truth).lower()}"


def _known(field: Field, filter: str) -> str:
    """Restrict a filter to rows with a value."""
    if filter == NONE or not field.missing:
        return filter
    known = _null(field, False)
    return known if filter == ALL else _joined("and", [known, filter])


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
