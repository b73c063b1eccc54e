"""Names and texts inside SQL, quoted."""

from __future__ import annotations

import re


def identifier(name: str) -> str:
    """A column's or table's name.

    >>> print(identifier('odd "name'))
    "odd ""name"
    """
    return '"' + name.replace('"', '""') + '"'


def one_file(path: str) -> str:
    """A path as DuckDB's readers take it when it is to mean this file and no pattern."""
    return literal(re.sub(r"[*?[]", r"[\g<0>]", path))


def literal(text: str) -> str:
    """A string.

    >>> print(literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"
