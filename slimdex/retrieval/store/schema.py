"""Schema: the tables of a segment, checked before anything is read from it.

A segment may be untrusted. Views, generated columns or indexes would run with our queries, so it
may contain plain tables only. Its macros and types can't: they are not in the schema that our
queries use.
"""

from __future__ import annotations

from functools import cache

from slimdex.indexes.errors import CorruptError

from ..duckdb_library import connected, duckdb
from ..sql import literal

TABLES = {
    "documents": '"row" BIGINT, id VARCHAR, title VARCHAR, text VARCHAR, slimdex_origin VARCHAR',
    "passages": """"row" BIGINT, starts BIGINT[], ends BIGINT[], contexts VARCHAR[],
        parts VARCHAR""",
}
"""Table -> its columns. The table of documents also has the user's columns.

`passages` has an entry for each document that is cut or has parts, by its first row.
"""
OWN = '(SELECT "row", id, title, text FROM documents)'
"""The documents without the user's columns, whose names may be any word of our queries.

Queries read `documents` itself only for those columns, and then without a join.
"""
_KINDS = {
    "view": "SELECT view_name FROM system.main.duckdb_views() WHERE NOT internal",
    "index": "SELECT index_name FROM system.main.duckdb_indexes() WHERE true",
    "constraint": "SELECT constraint_text FROM system.main.duckdb_constraints() WHERE true",
    "trigger": "SELECT trigger_name FROM system.main.duckdb_triggers() WHERE true",
    "schema": "SELECT schema_name FROM system.main.duckdb_schemas() "
    "WHERE NOT internal AND schema_name <> 'main'",
    "computed column": "SELECT column_name FROM system.main.duckdb_columns() "
    "WHERE NOT internal AND (is_generated OR column_default IS NOT NULL)",
}
"""Kinds of objects that a valid segment lacks, and the queries that list them."""
_COLUMNS = """
    SELECT table_name, column_name, data_type FROM system.main.duckdb_columns()
    WHERE NOT internal AND database_name =
"""


def checked_columns(connection: duckdb.DuckDBPyConnection, file: str) -> dict[str, str]:
    """The user's columns of an attached file: name -> DuckDB type.

    Raises `CorruptError` unless its tables are those of `TABLES`, plus the user's columns, and
    nothing else is in it; evaluates none of it.
    """
    each = " UNION ALL ".join(
        f"SELECT {literal(kind)}, * FROM ({sql} AND database_name = {literal(file)})"
        for kind, sql in _KINDS.items()
    )
    for kind, name in connection.execute(each).fetchall():
        raise CorruptError(f"it has a {kind}, {name!r}; expected plain tables")
    tables, columns = _expected(), _columns(connection, file)
    if columns.keys() != tables.keys():
        raise CorruptError(f"its tables are {', '.join(columns)}; expected {', '.join(tables)}")
    for table, expected in tables.items():
        missing = expected.items() - columns[table].items()
        more = columns[table].keys() - expected.keys() if table != "documents" else set()
        if missing or more:
            odd = min([*more, *(name for name, _ in missing)])
            raise CorruptError(f"column {odd!r} of the table {table!r} was not made by slimdex")
    own = tables["documents"]
    return {name: type_ for name, type_ in columns["documents"].items() if name not in own}


def _columns(connection: duckdb.DuckDBPyConnection, file: str) -> dict[str, dict[str, str]]:
    types: dict[str, dict[str, str]] = {}
    for table, column, type_ in connection.execute(_COLUMNS + literal(file)).fetchall():
        types.setdefault(table, {})[column] = type_
    return types


@cache
def _expected() -> dict[str, dict[str, str]]:
    """Columns of each table, as this DuckDB reports them."""
    with connected() as connection:
        for table, columns in TABLES.items():
            connection.execute(f"CREATE TABLE {table}({columns})")
        return _columns(connection, "memory")
