"""Quoting of names and texts in SQL."""

from __future__ import annotations

import re


def identifier(name: str) -> str:
    """Quote a column's or table's name.

    >>> print(identifier('odd "name'))
    "odd ""name"
    """
    return '"' + name.replace('"', '""') + '"'


def one_file(path: str) -> str:
    """Escape a path so that DuckDB's readers don't treat it as a pattern."""
    return literal(re.sub(r"[*?[]", r"[\g<0>]", path))


def literal(text: str) -> str:
    """Quote a string.

    >>> print(literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"
