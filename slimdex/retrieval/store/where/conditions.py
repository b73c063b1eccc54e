"""Conditions: a tree of comparisons of columns with constants, and its rendering as SQL.

The filters of LangChain, LlamaIndex and Haystack are translated to it. A comparison holds
for values of the constant's own kind: no text equals a number, whatever the column's type is, and
true is 1. It does not hold if the column has no value, or if no document has the column; `Not`
holds whenever its part does not.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from slimdex.errors import InputError, short_repr
from slimdex.system.duckdb_library import identifier, literal

from ...column_types import EXACT, in_utc, read_text
from ...documents import BUILT_IN_COLUMNS
from .operands import NO_VALUE, Operand, json_operand, operand_of

SIGNS = ("=", "<", "<=", ">", ">=")
OPERATORS = {
    "CONTAINS": "contains({text}, {constant})",
    "CONTAINS IN ANY CASE": "contains(lower({text}), lower({constant}))",
}
"""Operator on texts -> SQL. Others are `SIGNS`, "IN", "IS NULL" and "HAS" (an item of a list, or a
part of a text)."""
TEXT_COLUMNS = dict.fromkeys(BUILT_IN_COLUMNS[1:4], "VARCHAR")
"""The columns that every index has: name -> DuckDB type."""
LARGEST = 1 << 127
"""Whole numbers from here on do not fit into DuckDB's largest type."""


@dataclass(frozen=True)
class Compare:
    """Comparison of a column with a constant.

    Attributes
    ----------
    operator : one of `SIGNS` or `OPERATORS`, "IN", "IS NULL" or "HAS".
    value : text, number, boolean, date, or for "=" also a list or dict of these, or None; a
        list of such values for IN.
    path : names that lead to a value inside a column of JSON or structs.
    """

    column: str
    operator: str
    value: Any = None
    path: tuple[str, ...] = ()


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
ALWAYS = And(())
NEVER = Or(())


def as_sql(condition: Condition, columns: Mapping[str, str]) -> str:
    """Render a condition as an expression for `where`.

    `columns` are the user's: name -> DuckDB type. Raises `InputError` if a value is no constant.

    >>> types = {"author": "VARCHAR", "year": "BIGINT"}
    >>> as_sql(And((Compare("author", "=", "O'Brien"), Compare("year", "IN", [1990, 1]))), types)
    '("author" = \\'O\\'\\'Brien\\' AND (false OR "year" IN (1990, 1)))'
    >>> as_sql(Or((Compare("year", "=", "1990"), Not(Compare("year", ">", 1990)))), types)
    '(NULL = \\'1990\\' OR NOT coalesce("year" > 1990, false))'
    """
    if isinstance(condition, Not):
        return f"NOT coalesce({as_sql(condition.part, columns)}, false)"
    if isinstance(condition, Compare):
        type_ = (TEXT_COLUMNS | dict(columns)).get(condition.column)
        column = identifier(condition.column)
        operand = operand_of(column, type_, condition.path) if type_ else NO_VALUE
        return _holds(operand, condition.operator, condition.value)
    if not condition.parts:
        return "true" if condition == ALWAYS else "false"
    word = " AND " if isinstance(condition, And) else " OR "
    return f"({word.join(as_sql(part, columns) for part in condition.parts)})"


def _holds(operand: Operand, operator: str, value: Any) -> str:
    """Return the SQL of a comparison by any operator; see `Compare`."""
    if operator == "IS NULL" or (operator == "=" and value is None):
        return f"NOT ({operand.has_value})"
    if operator == "IN":
        return _is_among(operand, value)
    if operator == "HAS":
        return f"({_has_item(operand, value)} OR {_holds(operand, 'CONTAINS', value)})"
    if operator in OPERATORS:
        if not isinstance(value, str):
            return "false"
        return OPERATORS[operator].format(text=operand.text, constant=literal(value))

    # Lists and dicts can only be compared for equality; other values have an order.
    if isinstance(value, list | tuple | dict):
        if operator != "=":
            raise InputError(f"{operator} {short_repr(value)}; expected a text or a number")
        return _equal_parts(operand, value)
    value = _as_read(operand, value)
    return f"{getattr(operand, kind_of(value))} {operator} {constant(value)}"


def _has_item(operand: Operand, value: Any) -> str:
    """SQL: the operand is a list that has an item which equals a value."""
    wanted = ", ".join(f"CAST({literal(each)} AS JSON)" for each in _spellings(value))
    if not operand.json:
        return "false"
    items = f"TRY_CAST(json_extract({operand.place}) AS JSON[])"
    return f"coalesce(list_has_any({items}, [{wanted}]), false)"


def _equal_parts(operand: Operand, value: Any) -> str:
    """SQL: the operand equals a list or dict."""
    if not operand.json:
        return "false"

    # There must be as many parts, each equal to the one of this number or name.
    if isinstance(value, dict):
        parts = value
        type_, count = "OBJECT", f"len(json_keys({operand.place}))"
    else:
        parts = dict(enumerate(value))
        type_, count = "ARRAY", f"json_array_length({operand.place})"
    sql = [f"json_type({operand.place}) = '{type_}'", f"{count} = {len(value)}"]
    for name, part in parts.items():
        inside = json_operand(operand.json, (*operand.path, str(name)))
        sql.append(_holds(inside, "=", part))
    return f"({' AND '.join(sql)})"


def _is_among(operand: Operand, values: Any) -> str:
    """SQL: the operand equals one of several values; those of one kind are compared at once."""
    if not isinstance(values, list | tuple):
        raise InputError(f"value {short_repr(values)}; expected a list of values")
    by_kind = defaultdict[str, list[str]](list)
    parts = ["false"]
    for value in values:
        if value is None or isinstance(value, list | tuple | dict):
            parts.append(_holds(operand, "=", value))
        else:
            value = _as_read(operand, value)
            by_kind[kind_of(value)].append(constant(value))
    for kind, constants in by_kind.items():
        parts.append(f"{getattr(operand, kind)} IN ({', '.join(constants)})")
    return f"({' OR '.join(parts)})"


def _as_read(operand: Operand, value: Any) -> Any:
    """A text as a column of moments reads it: in ISO 8601, as one."""
    return read_text(value, "TIMESTAMP") if operand.text == NO_VALUE.text else value


def kind_of(value: Any) -> str:
    """Kind of a constant: "number", "long", "text" or "moment".

    Raises `InputError` if it is none of these.
    """
    is_long = isinstance(value, int) and abs(value) >= EXACT
    if is_long and abs(value) < LARGEST:
        return "long"
    if isinstance(value, int | float | Decimal) and not is_long and isfinite(value):
        return "number"
    if isinstance(value, str | UUID | time):
        return "text"
    if isinstance(value, date):
        return "moment"
    raise _no_constant(value)


def _no_constant(value: Any) -> InputError:
    return InputError(f"value {short_repr(value)}; expected a text, a number or a truth")


def constant(value: Any) -> str:
    """SQL of a constant; moments with a zone are in UTC, as in columns."""
    if isinstance(value, date):
        return f"TIMESTAMP {literal(in_utc(value).isoformat())}"
    if isinstance(value, int | float | Decimal):
        return str(int(value)) if isinstance(value, bool) else str(value)
    return literal(str(value))


def _spellings(value: Any) -> Sequence[str]:
    """JSON texts that equal a value: 1, 1.0 and true for any of these three."""
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if not is_whole:
        try:
            return [json.dumps(value, ensure_ascii=False, allow_nan=False)]
        except (TypeError, ValueError) as error:
            raise _no_constant(value) from error
    spellings = [str(int(value)), f"{int(value)}.0"]
    if value in (0, 1):
        spellings.append("true" if value else "false")
    return spellings
