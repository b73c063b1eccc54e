"""Names and texts inside SQL, quoted."""

from __future__ import annotations


def identifier(name: str) -> str:
    """A column's or table's name.

    >>> print(identifier('odd "name'))
    "odd ""name"
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string.

    >>> print(literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"
