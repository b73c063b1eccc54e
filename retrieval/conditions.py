"""Conditions: comparisons of columns with constants, as text that `where` takes.

For what others write as trees: OpenAI's filters, LangChain's, LlamaIndex's and Haystack's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from slimdex.indexes.errors import InputError

from .sql import identifier, literal

MEMBERSHIPS = ("IN", "NOT IN")


def compared(column: str, operator: str, value: Any) -> str:
    """A column beside a constant, or a list of them.

    Raises
    ------
    InputError
        If the value is no constant of SQL's.

    >>> compared("author", "=", "O'Brien"), compared("year", "IN", [1990, 2001])
    ('"author" = \\'O\\'\\'Brien\\'', '"year" IN (1990, 2001)')
    """
    if operator in MEMBERSHIPS:
        if not isinstance(value, list | tuple) or not value:
            raise InputError(f"{column}: value {value!r}; expected a list of values")
        return f"{identifier(column)} {operator} ({', '.join(map(constant, value))})"
    return f"{identifier(column)} {operator} {constant(value)}"


def joined(operator: str, parts: Sequence[str]) -> str:
    """Several conditions as one, by AND or OR.

    >>> joined("AND", ["a > 1", "b > 2"])
    '(a > 1 AND b > 2)'
    """
    return f"({f' {operator} '.join(parts)})"


def negated(condition: str) -> str:
    """A condition that holds where another one does not, also where that is not known.

    >>> negated("a > 1")
    'NOT coalesce(a > 1, false)'
    """
    return f"NOT coalesce({condition}, false)"


def constant(value: Any) -> str:
    """A text, a number, a truth or a date as SQL has it.

    Raises
    ------
    InputError
        If it is none of these, or not finite.
    """
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float) and value == value and abs(value) != float("inf"):
        return repr(value)
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, date | datetime):
        return literal(value.isoformat())
    raise InputError(f"value {value!r}; expected a text, a number or a truth")
