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
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from slimdex.errors import InputError, short_repr
from slimdex.system.duckdb_library import identifier, literal

from ...documents import BUILT_IN_COLUMNS
from .operands import NO_VALUE, JsonOperand, Operand, as_moment, operand_of

SIGNS = ("=", "<", "<=", ">", ">=")
OPERATORS = {
    **{sign: f"{{value}} {sign} {{constant}}" for sign in SIGNS},
    "IN": "{value} IN ({constant})",
    "CONTAINS": "contains({value}, {constant})",
    "CONTAINS IN ANY CASE": "contains(lower({value}), lower({constant}))",
}
"""Operator -> SQL. Others are "IS NULL" and "HAS" (an item of a list, or a part of a text)."""
TEXT_COLUMNS = dict.fromkeys(BUILT_IN_COLUMNS[1:4], "VARCHAR")
"""The columns that every index has: name -> DuckDB type."""
EXACT = 1 << 53
"""Whole numbers from here on are not all in DOUBLE."""


@dataclass(frozen=True)
class Compare:
    """Comparison of a column with a constant.

    Attributes
    ----------
    operator : one of `OPERATORS`, "IS NULL" or "HAS".
    value : text, number, boolean, date, time, or for "=" also a list or dict of these, or None; a
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
    '("author" = \\'O\\'\\'Brien\\' AND "year" IN (1990, 1))'
    >>> as_sql(Or((Compare("year", "=", "1990"), Not(Compare("year", ">", 1990)))), types)
    '(false OR NOT coalesce("year" > 1990, false))'
    """
    if isinstance(condition, Not):
        return f"NOT coalesce({as_sql(condition.part, columns)}, false)"
    if isinstance(condition, Compare):
        return _compare(condition, columns)
    if not condition.parts:
        return "true" if condition == ALWAYS else "false"
    word = " AND " if isinstance(condition, And) else " OR "
    return f"({word.join(as_sql(part, columns) for part in condition.parts)})"


def _compare(condition: Compare, columns: Mapping[str, str]) -> str:
    """Render a comparison as SQL; see `as_sql`."""
    type_ = (TEXT_COLUMNS | dict(columns)).get(condition.column)
    column = identifier(condition.column)
    operand = operand_of(column, type_, condition.path) if type_ else NO_VALUE
    return _holds(operand, condition.operator, condition.value)


def _holds(operand: Operand, operator: str, value: Any) -> str:
    """Return the SQL of a comparison by any operator; see `Compare`."""
    # Missing values, and lists of values.
    if operator == "IS NULL" or (operator == "=" and value is None):
        return f"NOT ({operand.has_value})"
    if operator == "IN":
        return _is_among(operand, value)
    if operator == "HAS":
        part_of_text = _scalar(operand, "CONTAINS", value) if isinstance(value, str) else "false"
        return f"({_has_item(operand, value)} OR {part_of_text})"

    # Lists and dicts can only be compared for equality; other values have an order.
    if isinstance(value, list | tuple | dict):
        if operator != "=":
            raise InputError(f"{operator} {short_repr(value)}; expected a text or a number")
        return _equal_parts(operand, value)
    return _scalar(operand, operator, value)


def _has_item(operand: Operand, value: Any) -> str:
    """SQL: the operand is a list that has an item which equals a value."""
    wanted = ", ".join(f"CAST({literal(each)} AS JSON)" for each in _spellings(value))
    if not isinstance(operand, JsonOperand):
        return "false"
    items = f"TRY_CAST(json_extract({operand.place}) AS JSON[])"
    return f"coalesce(list_has_any({items}, [{wanted}]), false)"


def _equal_parts(operand: Operand, value: Any) -> str:
    """SQL: the operand equals a list or dict."""
    if not isinstance(operand, JsonOperand):
        return "false"

    # There must be as many parts, each equal to the one of this number or name.
    if isinstance(value, dict):
        parts = value
        sql = [f"{operand.type} = 'OBJECT'", f"len(json_keys({operand.place})) = {len(value)}"]
    else:
        parts = dict(enumerate(value))
        count = f"json_array_length({operand.place})"
        sql = [f"{operand.type} = 'ARRAY'", f"{count} = {len(value)}"]
    for name, part in parts.items():
        inside = JsonOperand(operand.json, (*operand.path, str(name)))
        sql.append(_holds(inside, "=", part))
    return f"({' AND '.join(sql)})"


def _scalar(operand: Operand, operator: str, value: Any) -> str:
    """Return the SQL of a comparison with one text, number, moment or time.

    It is false for an operand without values of this kind, and for a text operator if the operand
    reads texts as another type.
    """
    sql = operand.of_kind(kind_of(value))
    is_of_texts = operator not in (*SIGNS, "IN")
    if sql is None or (is_of_texts and operand.reads_texts_as):
        return "false"

    # Long whole numbers in JSON are compared as texts, too, since DOUBLE rounds them.
    compared = OPERATORS[operator].format(value=sql, constant=_constant_for(operand, value))
    is_long = isinstance(value, int) and abs(value) >= EXACT and operator == "="
    if isinstance(operand, JsonOperand) and is_long:
        return f"({compared} AND {operand.text} = {literal(str(value))})"
    return compared


def _constant_for(operand: Operand, value: Any) -> str:
    """SQL of a constant, as the operand's type: NULL if a text can't be read as it."""
    type_ = operand.reads_texts_as
    if kind_of(value) != "text" or not type_:
        return constant(value)
    if type_ == "TIMESTAMP":
        return as_moment(constant(value))
    return f"TRY_CAST({constant(value)} AS {type_})"


def _is_among(operand: Operand, values: Any) -> str:
    """SQL: the operand equals one of several values; those of one kind are compared at once."""
    if not isinstance(values, list | tuple):
        raise InputError(f"value {short_repr(values)}; expected a list of values")

    # Constants of one kind are compared by one IN, all other values one by one.
    by_kind = defaultdict[str, list[Any]](list)
    parts = list[str]()
    for value in values:
        if value is None or isinstance(value, list | tuple | dict):
            parts.append(_holds(operand, "=", value))
        else:
            by_kind[kind_of(value)].append(value)
    for kind, values_of_kind in by_kind.items():
        sql = operand.of_kind(kind)
        if sql is not None:
            constants = ", ".join(_constant_for(operand, value) for value in values_of_kind)
            parts.append(OPERATORS["IN"].format(value=sql, constant=constants))

    if not parts:
        return "false"
    return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"


def kind_of(value: Any) -> str:
    """Kind of a constant: "number", "text", "moment" or "time".

    Raises `InputError` if it is none of these.
    """
    kinds: dict[str, Any] = {
        "number": bool | int | float | Decimal,
        "text": str | UUID,
        "moment": date,
        "time": time,
    }
    is_finite = not isinstance(value, float | Decimal) or isfinite(value)
    for kind, types in kinds.items():
        if isinstance(value, types) and is_finite:
            return kind
    raise _no_constant(value)


def _no_constant(value: Any) -> InputError:
    return InputError(f"value {short_repr(value)}; expected a text, a number or a truth")


def constant(value: Any) -> str:
    """SQL of a constant; moments with a zone are in UTC, as in columns."""
    kind = kind_of(value)
    if kind == "number":
        return str(int(value)) if isinstance(value, bool) else str(value)
    if kind != "moment":
        return literal(str(value))
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return f"TIMESTAMP {literal(value.isoformat())}"


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
