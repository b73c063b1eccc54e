"""Segments: immutable DuckDB files of documents, checked before anything is read from them.

A segment may be untrusted. Views, generated columns or indexes would run with our queries, so it
may contain plain tables only. Its macros and types can't: they are not in the schema that our
queries use.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from secrets import randbelow, token_hex
from typing import Any

from slimdex.errors import CorruptError
from slimdex.system.append_only import sync
from slimdex.system.atomic_files import FileRecord, file_name, publish, sha256
from slimdex.system.duckdb_library import connect, duckdb, identifier, literal
from slimdex.system.json_text import parse_json

from ..column_types import TYPES
from ..documents import Document
from .passages import DocumentPassages, parts_written
from .state import Segment

TABLES = {
    "documents": '"row" BIGINT, id VARCHAR, title VARCHAR, text VARCHAR, slimdex_origin VARCHAR',
    "passages": """"row" BIGINT, starts BIGINT[], ends BIGINT[], contexts VARCHAR[],
        parts VARCHAR""",
}
"""Table -> its columns. The table of documents also has the user's columns.

`passages` has an entry for each document that is cut or has parts, by its first row.
"""
BARE_DOCUMENTS = '(SELECT "row", id, title, text FROM documents)'
"""The documents without the user's columns, whose names may be any word of our queries.

Queries read `documents` itself only for those columns, and then without a join.
"""
TRAILING = "trailing_"
"""Prefix of the names of tables in memory of the documents after the segments."""
GONE = '(SELECT unnest(?::BIGINT[]) AS "row")'
CHANGED = '(SELECT unnest(?::BIGINT[]) AS "row", unnest(?::VARCHAR[]) AS slimdex_origin)'
FEW_ROWS = 1024
PLAIN = " USING COMPRESSION uncompressed"
"""Of few documents, until their segment is merged: choosing a compression takes three quarters of a
checkpoint."""
SMALL_BLOCKS = 16_384
BLOCKS = 65_536
"""Bytes of a block in small segments, DuckDB's least, and in others: texts of a kilobyte and more
take half as many bytes in these, and a document alone four times as many."""
PLAIN_TYPES = {"JSON", "JSON[]", *TYPES.values(), *(f"{type_}[]" for type_ in TYPES.values())}
"""Types of most columns."""
Values = Sequence[tuple[str, str, Sequence[Any]]]
"""Columns of a table: name, type and values of each."""
Origins = Mapping[int, str | None]
"""Document -> its origin, if that differs from the one in its segment."""
_KINDS = {
    "view": "SELECT database_name, view_name FROM system.main.duckdb_views() WHERE NOT internal",
    "index": "SELECT database_name, index_name FROM system.main.duckdb_indexes() WHERE true",
    "constraint": "SELECT database_name, constraint_text FROM system.main.duckdb_constraints() "
    "WHERE true",
    "trigger": "SELECT database_name, trigger_name FROM system.main.duckdb_triggers() WHERE true",
    "schema": "SELECT database_name, schema_name FROM system.main.duckdb_schemas() "
    "WHERE NOT internal AND schema_name <> 'main'",
    "computed column": "SELECT database_name, column_name FROM system.main.duckdb_columns() "
    "WHERE NOT internal AND (is_generated OR column_default IS NOT NULL)",
}
"""Kinds of objects that a valid segment lacks, and the queries that list them."""
_COLUMNS = """
    SELECT database_name, table_name, column_name, data_type FROM system.main.duckdb_columns()
    WHERE NOT internal
"""


def read_columns(
    connection: duckdb.DuckDBPyConnection, files: Mapping[str, Path]
) -> dict[str, dict[str, str]]:
    """The user's columns of each attached file, by its name there: name -> DuckDB type.

    Raises `CorruptError` unless its tables are those of `TABLES`, plus the user's columns, and
    nothing else is in it; evaluates none of it. All files are asked about at once, since each
    question goes through all that are attached.
    """
    # Anything but plain tables is foreign.
    inside = f"AND database_name IN ({', '.join(map(literal, files))})"
    queries = []
    for kind, sql in _KINDS.items():
        queries.append(f"SELECT {literal(kind)}, * FROM ({sql} {inside})")
    for kind, file, name in connection.execute(" UNION ALL ".join(queries)).fetchall():
        raise _foreign(files[file], f"it has a {kind}, {name!r}; expected plain tables")
    columns_by_file = _columns(connection, inside)
    return {file: _check(path, columns_by_file.get(file, {})) for file, path in files.items()}


def _check(path: Path, columns: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the user's columns of a file, given those of each of its tables.

    Raises `CorruptError` unless the tables are those of a segment, with the columns of `TABLES`.
    """
    tables = _expected()
    if columns.keys() != tables.keys():
        listed = ", ".join(columns)
        expected = ", ".join(tables)
        raise _foreign(path, f"its tables are {listed}; expected {expected}")
    for table, expected_columns in tables.items():
        odd = {name for name, _ in expected_columns.items() - columns[table].items()}
        if table != "documents":  # which has the user's columns, too
            odd |= columns[table].keys() - expected_columns.keys()
        if odd:
            raise _foreign(
                path, f"column {min(odd)!r} of the table {table!r} was not made by slimdex"
            )
    built_in = tables["documents"]
    return {name: type_ for name, type_ in columns["documents"].items() if name not in built_in}


def _foreign(path: Path, why: str) -> CorruptError:
    return CorruptError(f"{path}: not a segment of slimdex: {why}")


def _columns(
    connection: duckdb.DuckDBPyConnection, inside: str
) -> dict[str, dict[str, dict[str, str]]]:
    """Map each file to its tables, each table to its columns, and each column to its type.

    `inside` is an SQL condition on the names of files.
    """
    files: dict[str, dict[str, dict[str, str]]] = {}
    for file, table, column, type_ in connection.execute(_COLUMNS + inside).fetchall():
        files.setdefault(file, {}).setdefault(table, {})[column] = type_
    return files


@cache
def _expected() -> dict[str, dict[str, str]]:
    """Columns of each table, as this DuckDB reports them."""
    with connect() as connection:
        for table, columns in TABLES.items():
            connection.execute(f"CREATE TABLE {table}({columns})")
        return _columns(connection, "AND database_name = 'memory'")["memory"]


def attaching(new: Path, name: str, rows: int) -> str:
    """SQL statement that creates a file for `rows` rows and attaches it as `name`."""
    block = SMALL_BLOCKS if rows < FEW_ROWS else BLOCKS
    path = literal(str(new.absolute()))
    options = f"TYPE duckdb, BLOCK_SIZE {block}, RECOVERY_MODE no_wal_writes"
    return f"ATTACH {path} AS {name} ({options})"


def publish_segment(new: Path, path: Path, first: int, stop: int) -> Segment:
    """Make a closed file durable, and rename it to a segment's path."""
    sync(new)
    segment = Segment(path.name, new.stat().st_size, sha256(new), first, stop)
    os.replace(new, path)
    return segment


def read_origins(folder: Path, record: FileRecord | None) -> Origins:
    """Read the origins that differ from those in the segments.

    There are none without a file. If the file is damaged, this also returns none: a sync then finds
    other origins and reads its files again.
    """
    if record is not None:
        record.check_size(folder)  # an older state's may be gone
        with suppress(CorruptError, ValueError, AttributeError):
            record.check(folder)
            read = parse_json((folder / record.name).read_text())
            return {int(row): str(origin) for row, origin in read.items()}
    return {}


def write_origins(path: Path, origins: Origins) -> FileRecord:
    """Write origins to a file."""
    text = json.dumps({str(row): origin for row, origin in origins.items()})
    return publish(path, lambda new: new.write_text(text))


def views_of(
    tables: Sequence[tuple[str, Mapping[str, str]]],
    columns: Mapping[str, str],
    changed: str | None = None,
) -> dict[str, str]:
    """Map the names of views of all documents, passages and origins to their queries.

    Parameters
    ----------
    tables : tables of documents, each with a table of passages beside it, and the user's columns in
        each.
    columns : all of the user's columns.
    changed : the table of origins that differ from those in the segments, if any do.
    """
    passages = [f"FROM {name.removesuffix('documents')}passages" for name, _ in tables]
    return {
        "documents": _union(tables, columns),
        "passages": " UNION ALL ".join(passages) or _empty(built_in_columns("passages")),
        "origins": _origins(changed),
    }


def _union(tables: Sequence[tuple[str, Mapping[str, str]]], columns: Mapping[str, str]) -> str:
    """The query of all documents, with the committed columns and types; see `views_of`.

    Columns that a table lacks are NULL.
    """
    # Columns that were widened later are converted.
    parts = list[str]()
    missing = dict(columns)
    for name, types in tables:
        casts = list[str]()
        for column, type_ in types.items():
            missing.pop(column, None)
            committed = columns.get(column, type_)
            if committed != type_:
                quoted = identifier(column)
                casts.append(f"CAST({quoted} AS {check_type(committed)}) AS {quoted}")
        replaced = f" REPLACE ({', '.join(casts)})" if casts else ""
        parts.append(f"SELECT *{replaced} FROM {name}")

    # Columns that no table has come from an empty one; without tables, all of them do.
    empty = [] if tables else [*built_in_columns("documents")]
    empty += missing.items()
    if empty:
        parts.append(_empty(empty))
    return " UNION ALL BY NAME ".join(parts)


def unnest_query(values: Values) -> tuple[str, list[Any]]:
    """A query that returns these columns as the rows of a table, and its parameters: lists."""
    columns = [f"unnest(?::{type_}[]) AS {identifier(name)}" for name, type_, _ in values]
    return f"SELECT {', '.join(columns)}", [[*column] for _, _, column in values]


def table_values(
    rows: Sequence[int],
    documents: Sequence[Document],
    cuts: Sequence[DocumentPassages | None],
    columns: Values,
) -> tuple[Values, Values]:
    """Values in both tables of a segment: of documents and of passages.

    Parameters
    ----------
    rows : first row of each document.
    cuts : of each; None for a text of one passage without parts.
    columns : the user's.
    """
    # Passages of documents that were cut.
    cut_rows = list[int]()
    starts = list[list[int]]()
    ends = list[list[int]]()
    contexts = list[list[str]]()
    parts = list[str | None]()
    for row, cut in zip(rows, cuts, strict=True):
        if cut:
            cut_rows.append(row)
            starts.append([each.start for each in cut.passages])
            ends.append([each.end for each in cut.passages])
            contexts.append([each.context for each in cut.passages])
            parts.append(parts_written(cut.parts))

    return [
        ("row", "BIGINT", rows),
        ("id", "VARCHAR", [document.id for document in documents]),
        ("title", "VARCHAR", [document.title for document in documents]),
        ("text", "VARCHAR", [document.text for document in documents]),
        ("slimdex_origin", "VARCHAR", [document.origin or None for document in documents]),
        *columns,
    ], [
        ("row", "BIGINT", cut_rows),
        ("starts", "BIGINT[]", starts),
        ("ends", "BIGINT[]", ends),
        ("contexts", "VARCHAR[]", contexts),
        ("parts", "VARCHAR", parts),
    ]


def write_segment(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    rows: range,
    columns: Sequence[tuple[str, str]],
    parts: Iterable[tuple[Values, Values]],
) -> Segment:
    """Write a segment of some rows from values of its two tables, in parts.

    `columns` are the user's, (name, DuckDB type) each. Raises an error of DuckDB if the disk fails;
    then no file is left.
    """
    # A unique name: DuckDB may keep the file of a failed change open for a while.
    file = path.with_name(f"{file_name('segment', randbelow(10**12))}.tmp")
    database = f"new_{token_hex(4)}"
    try:
        # The tables.
        connection.execute(attaching(file, database, len(rows)))
        connection.execute("BEGIN TRANSACTION")
        compression = PLAIN if len(rows) < FEW_ROWS else ""
        for table in TABLES:
            built_in = [(name, f"{type_}{compression}") for name, type_ in built_in_columns(table)]
            users = columns if table == "documents" else ()
            definitions = [f"{identifier(name)} {type_}" for name, type_ in [*built_in, *users]]
            connection.execute(f"CREATE TABLE {database}.{table}({', '.join(definitions)})")

        # Their rows.
        for part in parts:
            for table, values in zip(TABLES, part, strict=True):
                sql, parameters = unnest_query(values)
                connection.execute(f"INSERT INTO {database}.{table} BY NAME {sql}", parameters)

        # After an error, this query fails; `COMMIT` alone would roll back without an error.
        connection.execute(f"SELECT count(*) FROM {database}.documents").fetchall()
        connection.execute("COMMIT")
        connection.execute(f"CHECKPOINT {database}")
        connection.execute(f"DETACH {database}")
    except BaseException:
        for sql in ("ROLLBACK", f"DETACH {database}"):
            with suppress(duckdb.Error):
                connection.execute(sql)
        for left in file.parent.glob(f"{file.name}*"):
            with suppress(OSError):
                left.unlink()
        raise
    return publish_segment(file, path, rows.start, rows.stop)


def built_in_columns(table: str) -> list[tuple[str, str]]:
    """Names and types of the columns that a table has in every segment."""
    columns = TABLES[table].replace('"', "").split(",")
    return [(name, type_) for name, type_ in map(str.split, columns)]


def _empty(columns: Sequence[tuple[str, str]]) -> str:
    """Query that returns no rows, with columns of these names and types."""
    nulls = ", ".join(f"NULL::{check_type(type_)} AS {identifier(name)}" for name, type_ in columns)
    return f"SELECT {nulls} WHERE false"


@cache
def check_type(text: str) -> str:
    """Return a type as DuckDB writes it; raises `CorruptError` if a manifest has anything else."""
    if text in PLAIN_TYPES:  # another DuckDB takes many milliseconds
        return text
    with connect() as scratch:
        try:
            return str(scratch.sqltype(text))
        except duckdb.Error as error:
            raise CorruptError(f"{text!r} in the manifest; expected a type of DuckDB") from error


def _origins(changed: str | None) -> str:
    """The query of the row, id and origin of each document; see `views_of`."""
    if changed is None:
        return 'SELECT "row", id, slimdex_origin FROM documents'
    return f"""SELECT "row", id, CASE WHEN changed."row" IS NULL THEN documents.slimdex_origin
        ELSE changed.slimdex_origin END AS slimdex_origin
        FROM (SELECT "row", id, slimdex_origin FROM documents) documents
        LEFT JOIN {changed} changed USING ("row")"""
