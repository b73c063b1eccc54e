"""Conditions: a tree of comparisons of columns with constants, and its rendering as SQL.

The filters of OpenAI, LangChain, LlamaIndex and Haystack are translated to it. A comparison does
not hold if the column has no value; `Not` holds whenever its part does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from slimdex.indexes.errors import InputError

from ...duckdb_library import identifier, literal

OPERATORS = {
    **{sign: f"{{column}} {sign} {{value}}" for sign in ("=", "<", "<=", ">", ">=", "IN")},
    "IS NULL": "{column} IS NULL",
    "STARTS WITH": "starts_with({column}, {value})",
    "CONTAINS": "contains({column}, {value})",
    "CONTAINS IN ANY CASE": "contains(lower({column}), lower({value}))",
}
"""Operator -> SQL."""


@dataclass(frozen=True)
class Compare:
    """Comparison of a column with a constant.

    Attributes
    ----------
    operator : one of `OPERATORS`.
    value : text, number, boolean or date; a list of them for IN, None for IS NULL.
    truth : if False, holds if the column has a value for which the comparison is false.
    """

    column: str
    operator: str
    value: Any = None
    truth: bool = True


@dataclass(frozen=True)
class And:
    """Holds if all parts do."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Or:
    """Holds if any part does."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Not:
    """Holds if the part does not."""

    part: Condition


Condition = Compare | And | Or | Not
ALWAYS, NEVER = And(()), Or(())


def as_sql(condition: Condition) -> str:
    """Render a condition as an expression for `where`.

    Raises `InputError` if a value is no constant of SQL.

    >>> as_sql(And((Compare("author", "=", "O'Brien"), Compare("year", "IN", [1990, 2001]))))
    '("author" = \\'O\\'\\'Brien\\' AND "year" IN (1990, 2001))'
    >>> as_sql(Or((Compare("year", ">", 1990, False), Not(Compare("year", "IN", [2001])))))
    '(NOT ("year" > 1990) OR NOT coalesce("year" IN (2001), false))'
    """
    if isinstance(condition, Not):
        return f"NOT coalesce({as_sql(condition.part)}, false)"
    if isinstance(condition, Compare):
        sql = OPERATORS[condition.operator].format(
            column=identifier(condition.column), value=_values(condition)
        )
        return sql if condition.truth else f"NOT ({sql})"
    if not condition.parts:
        return "true" if condition == ALWAYS else "false"
    word = " AND " if isinstance(condition, And) else " OR "
    return f"({word.join(map(as_sql, condition.parts))})"


def _values(condition: Compare) -> str:
    value = condition.value
    if condition.operator == "IS NULL":
        return ""
    if condition.operator != "IN":
        return _constant(value)
    if not isinstance(value, list | tuple) or not value:
        raise InputError(f"{condition.column}: value {value!r}; expected a list of values")
    return f"({', '.join(map(_constant, value))})"


def _constant(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float) and value == value and abs(value) != float("inf"):
        return repr(value)
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, date):
        return literal(value.isoformat())
    raise InputError(f"value {value!r}; expected a text, a number or a truth")
