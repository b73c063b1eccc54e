"""Where: a condition of DuckDB's as a filter of Milvus, which holds for the same documents.

DuckDB's conditions may be neither true nor false, where a value is missing; those of older servers
have two values, and no NOT around a field. So a part is translated twice: into a filter for when it
holds, and one for when its contrary does; a missing value has neither. What is not translated is
refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from slimdex.indexes.errors import InputError, shortened

from ..catalog.where.constants import NoConstantError, bound, constants
from .milvus_columns import (
    BITS,
    BOOL,
    DIGITS,
    KEY,
    LARGEST_REAL,
    REAL,
    TEXT,
    WHOLE,
    Field,
    digits,
    units_of,
)

ALL, NONE = f"{KEY} >= 0", f"{KEY} < 0"
"""Filters for every row and for none: keys are not negative, and older servers know no truth."""
EXACT_REAL = 1 << 53
"""From here on doubles are not all the whole numbers that there are."""
_LARGEST_CODE, _SURROGATES = 0x10FFFF, range(0xD800, 0xE000)
_OPERATORS = {
    "COMPARE_EQUAL": "==",
    "COMPARE_NOTEQUAL": "!=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
_CONTRARY = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_TURNED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_PREFIXES = {"starts_with", "prefix", "^@"}


class UntranslatedError(InputError):
    """A condition that DuckDB understands, and of which Milvus has no counterpart."""


def translated(where: str, columns: Mapping[str, str], fields: Sequence[Field]) -> str:
    """The filter that holds for the same documents.

    Parameters
    ----------
    columns : name -> DuckDB type of all that a condition may name.
    fields : those that Milvus has.

    Raises
    ------
    UntranslatedError
        If a part of it has no counterpart.
    InputError
        If it is no condition on the columns.

    >>> from .milvus_columns import fields_of
    >>> columns = {"year": "SMALLINT", "author": "VARCHAR"}
    >>> translated("year > 1990.5 AND author LIKE 'K%'", columns, fields_of(columns))
    '((year_is_null == false and year >= 1991) and (author_is_null == false and (author >= "K" \
and author < "L")))'
    """
    tree = bound(where, columns)
    try:
        return _Translation(columns, fields).holds(tree, True)
    except (_Unlike, NoConstantError) as error:
        raise UntranslatedError(
            f"where {shortened(where)}: {error} has no counterpart in Milvus; expected comparisons "
            "of columns with constants, BETWEEN, IN, IS NULL, LIKE 'begins%', AND, OR, NOT"
        ) from error


class _Unlike(Exception):
    """The part that Milvus has not."""


class _Translation:
    """One condition while it is translated."""

    def __init__(self, columns: Mapping[str, str], fields: Sequence[Field]) -> None:
        self._columns = columns
        self._fields = {field.column.lower(): field for field in fields}

    def holds(self, node: Mapping[str, Any], truth: bool) -> str:
        """The filter for when a part is true, or false."""
        kind, class_ = node["type"], node["class"]
        if class_ == "CONJUNCTION":
            word = "and" if (kind == "CONJUNCTION_AND") == truth else "or"
            return _joined(word, [self.holds(child, truth) for child in node["children"]])
        if kind == "OPERATOR_NOT":
            return self.holds(node["children"][0], not truth)
        if class_ == "COLUMN_REF":
            return self._flag(node, truth)
        if class_ == "CONSTANT":
            return self._constant(node, truth)
        if class_ == "BETWEEN":
            return self._compared(node["input"], "between", [node["lower"], node["upper"]], truth)
        if class_ == "COMPARISON":
            return self._comparison(node, truth)
        if class_ == "OPERATOR":
            return self._operator(node, truth)
        if class_ == "FUNCTION":
            return self._function(node, truth)
        raise _Unlike(kind)

    def _flag(self, node: Mapping[str, Any], truth: bool) -> str:
        field = self._field(node)
        if field.form != BOOL:
            raise _Unlike(f"column {field.column!r} ({field.type}) as a truth")
        return _atom(field, "==", True, truth)

    def _constant(self, node: Mapping[str, Any], truth: bool) -> str:
        _, (value,) = constants([node], "BOOLEAN", [*self._columns])
        return ALL if value is truth else NONE

    def _comparison(self, node: Mapping[str, Any], truth: bool) -> str:
        left, right = _plain(node["left"]), _plain(node["right"])
        operator = _OPERATORS.get(node["type"])
        if operator is None:
            return self._distinct(node, truth)
        if left["class"] != "COLUMN_REF":
            left, right, operator = right, left, _TURNED[operator]
        return self._compared(left, operator, [right], truth)

    def _distinct(self, node: Mapping[str, Any], truth: bool) -> str:
        """IS [NOT] DISTINCT FROM, and IS TRUE, which are never unknown."""
        left, right = _plain(node["left"]), _plain(node["right"])
        if node["type"] not in ("COMPARE_DISTINCT_FROM", "COMPARE_NOT_DISTINCT_FROM"):
            raise _Unlike(node["type"])
        if left["class"] != "COLUMN_REF":
            left, right = right, left
        same = truth == (node["type"] == "COMPARE_NOT_DISTINCT_FROM")
        field = self._field(left)
        _, (value,) = constants([right], field.type, [*self._columns])
        if value is None:
            return _null(field, same)
        found = self._compared(left, "==", [right], same)
        return found if same else _joined("or", [_null(field, True), found])

    def _operator(self, node: Mapping[str, Any], truth: bool) -> str:
        first, *rest = node["children"]
        if node["type"] in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
            return _null(self._field(first), truth == (node["type"] == "OPERATOR_IS_NULL"))
        if node["type"] in ("COMPARE_IN", "COMPARE_NOT_IN"):
            return self._compared(first, "in", rest, truth == (node["type"] == "COMPARE_IN"))
        raise _Unlike(node["type"])

    def _function(self, node: Mapping[str, Any], truth: bool) -> str:
        name = node["function_name"].lower()
        arguments = [argument["expression"] for argument in node["arguments"]]
        if name not in {"~~", "!~~"} | _PREFIXES or len(arguments) != 2:
            raise _Unlike(f"the function {name!r}")
        field = self._field(arguments[0])
        if field.form != TEXT or field.type != "VARCHAR":
            raise _Unlike(f"{name!r} of a column of {field.type}")
        _, (pattern,) = constants(arguments[1:], "VARCHAR", [*self._columns])
        if pattern is None:
            return NONE
        if name in _PREFIXES:
            return _begins(field, pattern, truth)
        truth = truth == (name == "~~")
        prefix = pattern.rstrip("%")
        if {"%", "_"} & set(prefix):
            raise _Unlike(f"the pattern {shortened(pattern, 40)}")
        if prefix == pattern:
            return _known(field, f"{field.name} {'==' if truth else '!='} {quoted(pattern)}")
        return _begins(field, prefix, truth)

    def _field(self, node: Mapping[str, Any]) -> Field:
        """The field of a column, which the node must be."""
        if node["class"] != "COLUMN_REF" or len(node["column_names"]) != 1:
            raise _Unlike(f"{node['type']} in place of a column")
        column = node["column_names"][0]
        field = self._fields.get(column.lower())
        if field is None:
            raise _Unlike(f"column {column!r} ({self._type(column)})")
        return field

    def _type(self, column: str) -> str:
        lower = {name.lower(): type_ for name, type_ in self._columns.items()}
        return lower.get(column.lower(), "none of the index's")

    def _compared(
        self, node: Mapping[str, Any], operator: str, others: Sequence[Any], truth: bool
    ) -> str:
        """A column compared with constants: by an operator, `between` two, or `in` a list."""
        field = self._field(node)
        common, values = constants(others, field.type, [*self._columns])
        _check_comparable(field, common)
        if operator == "in":
            return _listed(field, values, truth)
        if operator == "between":
            low, high = values
            parts = [_atom(field, ">=", low, truth), _atom(field, "<=", high, truth)]
            return _joined("and" if truth else "or", parts)
        return _atom(field, operator, values[0], truth)


def _plain(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part without the cast to a truth that IS TRUE puts around it."""
    is_cast = node["class"] == "CAST" and node["type_expr"]["type_name"].upper() == "BOOLEAN"
    inner: Mapping[str, Any] = node["child"] if is_cast else node
    return inner if inner["class"] == "COLUMN_REF" else node


def _check_comparable(field: Field, common: str) -> None:
    """Raise `_Unlike` where DuckDB compares in a type in which the stored values differ."""
    moments = {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"}
    if field.form in (BOOL, TEXT) or field.type == "TIME":
        fits = common == field.type
    elif field.form == REAL:
        fits = common in ("DOUBLE", "FLOAT")
    elif field.type in moments:
        fits = common in moments
    else:
        is_integer = field.form == WHOLE and not field.type.startswith("DECIMAL")
        fits = common.endswith("INT") or common.startswith(("DECIMAL", "INTEGER", "UINTEGER"))
        fits |= is_integer and common == "DOUBLE"
    if not fits:
        raise _Unlike(f"column {field.column!r} ({field.type}) beside {common}")


def _atom(field: Field, operator: str, value: Any, truth: bool) -> str:
    """The filter for when a comparison is true, or false; neither where a value is missing."""
    if value is None:
        return NONE
    operator = operator if truth else _CONTRARY[operator]
    if field.form == BOOL:
        if operator not in ("==", "!="):
            raise _Unlike(f"{operator} of truths")
        return _known(field, f"{field.name} {operator} {str(value).lower()}")
    if field.form == TEXT:
        return _known(field, f"{field.name} {operator} {quoted(str(value))}")
    if field.form == REAL:
        return _known(field, f"{field.name} {operator} {_real(value)}")
    return _known(field, _whole_atom(field, operator, _exact(field, value)))


def _whole_atom(field: Field, operator: str, value: Fraction) -> str:
    """A whole number compared with any number."""
    if operator in ("==", "!="):
        if value.denominator != 1:
            return NONE if operator == "==" else ALL
        low, high = _at_least(field, int(value)), _at_least(field, int(value) + 1)
        if operator == "!=":
            return _joined("or", [_contrary(low), high])
        return _joined("and", [low, _contrary(high)])
    if operator in (">", "<="):
        over = _at_least(field, math.floor(value) + 1)
        return over if operator == ">" else _contrary(over)
    over = _at_least(field, math.ceil(value))
    return over if operator == ">=" else _contrary(over)


def _at_least(field: Field, value: int) -> str:
    """The filter for values from a whole number on."""
    if field.form == DIGITS:
        return f'{field.name} >= "{digits(min(max(value, -(10**40)), 9 * 10**40))}"'
    bits = BITS[field.kind] - 1
    if value <= -(1 << bits):
        return ALL
    return f"{field.name} >= {value}" if value < 1 << bits else NONE


def _contrary(filter: str) -> str:
    if filter in (ALL, NONE):
        return NONE if filter == ALL else ALL
    return filter.replace(" >= ", " < ", 1)


def _listed(field: Field, values: Sequence[Any], truth: bool) -> str:
    """The filter for when a value is one of a list, or none of it."""
    if not truth and any(value is None for value in values):
        return NONE
    if field.form == BOOL:
        parts = [_atom(field, "==", value, truth) for value in values]
        return _joined("or" if truth else "and", parts)
    found = [_listed_value(field, value) for value in values if value is not None]
    named = sorted({value for value in found if value})
    if not named:
        return NONE if truth else _known(field, ALL)
    return _known(field, f"{field.name} {'in' if truth else 'not in'} [{', '.join(named)}]")


def _listed_value(field: Field, value: Any) -> str:
    """A value as a list has it; "" where no row can have it."""
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
        raise _Unlike(f"{value} in a list")
    return str(int(exact)) if -largest <= exact <= largest else ""


def _exact(field: Field, value: Any) -> Fraction:
    """A constant in the units of what is stored."""
    if isinstance(value, float) and not abs(value) < EXACT_REAL:
        raise _Unlike(f"{value!r} beside whole numbers")
    exact: Fraction = Fraction(units_of(value)) * 10**field.scale / field.unit
    return exact


def _real(value: float) -> str:
    if not abs(value) < LARGEST_REAL:
        raise _Unlike(f"{value!r}")
    return repr(float(value))


def _begins(field: Field, prefix: str, truth: bool) -> str:
    """Texts that begin so are those between it and what comes after all of them."""
    if not prefix:
        return _known(field, ALL if truth else NONE)
    after = _after(prefix)
    low = f"{field.name} {'>=' if truth else '<'} {quoted(prefix)}"
    if not after:
        return _known(field, low)
    high = f"{field.name} {'<' if truth else '>='} {quoted(after)}"
    return _known(field, _joined("and" if truth else "or", [low, high]))


def _after(prefix: str) -> str:
    """The first text after all those that begin so; "" if none is.

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
    """A filter, for rows that have a value."""
    if filter == NONE or not field.missing:
        return filter
    known = _null(field, False)
    return known if filter == ALL else _joined("and", [known, filter])


def _joined(word: str, filters: Sequence[str]) -> str:
    return filters[0] if len(filters) == 1 else f"({f' {word} '.join(filters)})"


def quoted(text: str) -> str:
    """A text as filters have it.

    >>> print(quoted('it"s'))
    "it\\"s"
    """
    for sign, written in _ESCAPES.items():
        text = text.replace(sign, written)
    return f'"{text}"'


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
