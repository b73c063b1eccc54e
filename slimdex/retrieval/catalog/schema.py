"""Schema: the tables of a catalog, checked before anything is read from it.

A catalog may be untrusted. Its macros, views, triggers, generated columns or defaults would run
with our queries, so it may contain plain tables only. DuckDB's own functions are called by their
full names, as a macro may shadow a short one.
"""

from __future__ import annotations

from functools import cache

from slimdex.indexes.errors import CorruptError

from ..duckdb_library import duckdb

TABLES = {
    "documents": """"row" BIGINT, id VARCHAR, title VARCHAR, text VARCHAR, deleted BOOLEAN,
        slimdex_origin VARCHAR""",
    "passages": """"row" BIGINT, starts BIGINT[], ends BIGINT[], contexts VARCHAR[],
        parts VARCHAR""",
    "partly_read": '"row" BIGINT, tokens BIGINT, read BIGINT',
    "blocks": "file VARCHAR, block BIGINT, sha256 VARCHAR",
    "state": 'format INTEGER, "rows" BIGINT, epoch BIGINT, version BIGINT, body JSON',
}
"""Table -> its columns. The table of documents also has the user's columns.

`passages` has an entry for each document that is cut or has parts, by its first row.
"""
SCHEMA = "".join(f"CREATE TABLE {table}({columns});" for table, columns in TABLES.items())
OWN = '(SELECT "row", id, title, text, deleted, slimdex_origin FROM documents)'
"""The table of documents without the user's columns, whose names may be any word of our queries.

Queries read the table itself only for those columns, and then without a join.
"""
IS_LIVE = 'NOT deleted AND "row" < (SELECT state."rows" FROM state)'
"""Condition on documents visible to readers."""
LIVE = f"(FROM {OWN} WHERE {IS_LIVE})"
"""Documents visible to readers, without the user's columns."""
_KINDS = {
    "macro": "SELECT function_name FROM system.main.duckdb_functions() WHERE NOT internal",
    "type": "SELECT type_name FROM system.main.duckdb_types() WHERE NOT internal",
    "schema": "SELECT schema_name FROM system.main.duckdb_schemas() WHERE NOT internal "
    "AND database_name NOT IN ('system', 'temp') AND schema_name <> 'main'",
    "sequence": "SELECT sequence_name FROM system.main.duckdb_sequences()",
    "trigger": "SELECT trigger_name FROM system.main.duckdb_triggers()",
    "index": "SELECT index_name FROM system.main.duckdb_indexes()",
    "constraint": "SELECT constraint_text FROM system.main.duckdb_constraints()",
    "view": "SELECT view_name FROM system.main.duckdb_views() WHERE NOT internal",
    "computed column": "SELECT column_name FROM system.main.duckdb_columns() "
    "WHERE NOT internal AND (is_generated OR column_default IS NOT NULL) "
    "AND table_name IN (SELECT table_name FROM system.main.duckdb_tables() WHERE NOT internal)",
}
"""Kinds of objects that a valid catalog lacks, and the queries that list them."""
_COLUMNS = """
    SELECT table_name, column_name, data_type FROM system.main.duckdb_columns()
    WHERE NOT internal AND table_name IN
        (SELECT table_name FROM system.main.duckdb_tables() WHERE NOT internal)
"""


def check_plain(connection: duckdb.DuckDBPyConnection) -> None:
    """Raise `CorruptError` if a catalog contains anything but tables; evaluate none of it."""
    for kind, sql in _KINDS.items():
        if rows := connection.execute(sql).fetchall():
            raise CorruptError(f"it has a {kind}, {rows[0][0]!r}; expected plain tables")


def check_schema(connection: duckdb.DuckDBPyConnection) -> None:
    """Raise `CorruptError` unless the tables are those of `SCHEMA`, plus the user's columns."""
    tables, columns = _expected(), _columns(connection)
    if columns.keys() != tables.keys():
        raise CorruptError(f"its tables are {', '.join(columns)}; expected {', '.join(tables)}")
    for table, expected in tables.items():
        missing = expected.items() - columns[table].items()
        more = columns[table].keys() - expected.keys() if table != "documents" else set()
        if missing or more:
            odd = min([*more, *(name for name, _ in missing)])
            raise CorruptError(f"column {odd!r} of the table {table!r} was not made by slimdex")


def _columns(connection: duckdb.DuckDBPyConnection) -> dict[str, dict[str, str]]:
    types: dict[str, dict[str, str]] = {}
    for table, column, type_ in connection.execute(_COLUMNS).fetchall():
        types.setdefault(table, {})[column] = type_
    return types


@cache
def _expected() -> dict[str, dict[str, str]]:
    """Columns of each table, as this DuckDB reports them."""
    with duckdb.connect() as connection:
        connection.execute(SCHEMA)
        return _columns(connection)
