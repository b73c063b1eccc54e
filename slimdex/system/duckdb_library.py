"""DuckDB's extension module, imported when it is first used, and the quoting of names and texts.

Most searches use no DuckDB, which takes 10 MB of memory. The package `duckdb` around the module
takes four times as long to import: it adds relations and expressions in Python, and imports most of
the standard library for them. slimdex runs SQL only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

from slimdex.system.forks import not_inherited

if TYPE_CHECKING:
    import duckdb as duckdb
else:

    class _Library:
        """Stand-in for the module, which imports it when one of its names is first used."""

        def __getattr__(self, name: str) -> Any:
            try:
                import _duckdb as library  # most searches need none
            except ImportError:
                import duckdb as library  # another release may name the module otherwise
            return getattr(library, name)

    duckdb = _Library()


_STARTING = Lock()
"""Held while DuckDB starts: its own locks would stay held in a fork amid that."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_STARTING.acquire,
        after_in_parent=_STARTING.release,
        after_in_child=_STARTING.release,
    )


def connect(config: Mapping[str, Any] | None = None) -> duckdb.DuckDBPyConnection:
    """Start DuckDB in memory, in UTC, so that no cast depends on the machine's time zone.

    >>> connect().execute("SELECT TIMESTAMPTZ '2024-05-01 22:00+09' < '2024-05-02'").fetchall()
    [(True,)]
    """
    with _STARTING:
        connection = not_inherited(duckdb.connect(config=dict(config or {})))
    connection.execute("SET GLOBAL TimeZone = 'UTC'")  # of all its cursors
    return connection


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
