"""Columns: id, title, text and the user's values of documents in Parquet, which DuckDB queries.

They are derived from the log, and their files never change. Each has the rows from one to before
another. Values are those of `column_types.stored`, in the types that the columns had when the file
was written; a column whose type has been widened since is converted by each query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from slimdex.indexes.arrays import batches
from slimdex.system.atomic_files import publish
from slimdex.system.duckdb_library import duckdb, identifier, literal, one_file

from ..documents import Document
from .state import ColumnFile

BUILT_IN = {
    "row": "BIGINT",
    "id": "VARCHAR",
    "title": "VARCHAR",
    "text": "VARCHAR",
    "slimdex_origin": "VARCHAR",
}
"""Columns that are not the user's, with their types; a document's row is its first."""
OPTIONS = """FORMAT parquet, PARQUET_VERSION V2, COMPRESSION zstd, COMPRESSION_LEVEL 6,
    ROW_GROUP_SIZE 4096, USE_TMP_FILE false"""
"""Of small groups of rows, since each thread holds one in memory with its texts."""
INSERTED_AT_ONCE = 4096
ALIKE = 8
"""Files of about the same size that become one: so a million rows added by thousands are copied
three times each, and are in at most 22 files."""
Values = Sequence[tuple[str, str, Sequence[Any]]]
"""Columns of documents: name, DuckDB type and values of each."""


def values_of(
    rows: Sequence[int],
    documents: Sequence[Document],
    users: Mapping[str, str],
    stored: Sequence[Sequence[Any]],
) -> Values:
    """The columns of some documents, given by their first rows; columns that none has are left out.

    `users` are the user's columns, name -> type, and `stored` what each document has in these.
    """
    built_in = [
        rows,
        [document.id for document in documents],
        [document.title for document in documents],
        [document.text for document in documents],
        [document.origin or None for document in documents],
    ]
    columns = zip(
        (BUILT_IN | dict(users)).items(), [*built_in, *zip(*stored, strict=True)], strict=True
    )
    values = list[tuple[str, str, Sequence[Any]]]()
    for (name, type_), column in columns:
        if any(value is not None for value in column):
            values.append((name, type_, column))
    return values


def unnest_query(values: Values) -> tuple[str, list[Any]]:
    """A query that returns these columns as the rows of a table, and its parameters: lists."""
    columns = [f"unnest(?::{type_}[]) AS {identifier(name)}" for name, type_, _ in values]
    return f"SELECT {', '.join(columns)}", [[*column] for _, _, column in values]


def write_columns(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    rows: range,
    users: Sequence[tuple[str, str]],
    parts: Iterable[Values],
) -> ColumnFile:
    """Write the file of some rows from their documents, in parts, by a connection of its own.

    `users` are the user's columns, (name, type) each. Raises an error of DuckDB if the disk fails;
    then no file is left.
    """
    columns = BUILT_IN | dict(users)
    definitions = ", ".join(f"{identifier(name)} {type_}" for name, type_ in columns.items())
    connection.execute(f"CREATE TEMP TABLE documents({definitions})")
    for values in parts:
        for few in batches(len(values[0][2]), INSERTED_AT_ONCE):
            some = [(name, type_, column[few]) for name, type_, column in values]
            sql, parameters = unnest_query(some)
            connection.execute(f"INSERT INTO documents BY NAME {sql}", parameters)
    return copy_columns(connection, path, rows, columns)


def copy_columns(
    connection: duckdb.DuckDBPyConnection, path: Path, rows: range, columns: Iterable[str]
) -> ColumnFile:
    """Write some rows to a file, in a connection with a table or view `documents`."""
    sql = f"""SELECT {", ".join(map(identifier, columns))} FROM documents
        WHERE "row" >= {rows.start} AND "row" < {rows.stop}"""
    record = publish(
        path, lambda new: connection.execute(f"COPY ({sql}) TO {literal(str(new))} ({OPTIONS})")
    )
    return ColumnFile(record.name, record.bytes, record.sha256, rows.start, rows.stop)


def to_merge(files: Sequence[ColumnFile]) -> int:
    """Position from which all files should be merged; the number of files if none should.

    From there on, at least `ALIKE` files have over an eighth of the rows of the first one.

    >>> to_merge([ColumnFile("a", 1, "", 0, 9)] + 7 * [ColumnFile("b", 1, "", 9, 10)])
    8
    >>> to_merge([ColumnFile("a", 1, "", 0, 7)] + 7 * [ColumnFile("b", 1, "", 7, 8)])
    0
    """
    for position, first in enumerate(files):
        of_similar_size = sum(ALIKE * len(each) > len(first) for each in files[position:])
        if of_similar_size >= ALIKE:
            return position
    return len(files)


Typed = tuple[str, Mapping[str, str]]
"""A table or the path of a file, and the DuckDB types of its columns."""


def read_parquet(paths: Sequence[Path]) -> str:
    """SQL that reads files; names of folders such as year=2024 are no columns."""
    names = ", ".join(one_file(str(path)) for path in paths)
    return f"read_parquet([{names}], hive_partitioning=false)"


def documents_query(
    files: Sequence[tuple[Path, Mapping[str, str]]],
    users: Mapping[str, str],
    table: Typed | None = None,
) -> str:
    """The query of all documents, with the user's columns in their committed types.

    Columns that a file lacks are NULL.

    Parameters
    ----------
    files : path and columns of each file.
    users : all of the user's columns.
    table : a table of later documents, with its columns.
    """
    # Files with equal columns are read together, which takes half the time.
    sources = list[Typed]()
    for columns, group in groupby(files, key=lambda file: file[1]):
        sources.append((read_parquet([path for path, _ in group]), columns))
    if table is not None:
        sources.append(table)
    queries = [_select(source, columns, users) for source, columns in sources]
    return " UNION ALL ".join(queries or [f"{_select('', {}, users)} WHERE false"])


def _select(source: str, columns: Mapping[str, str], users: Mapping[str, str]) -> str:
    """The query of one table or file."""
    selected = list[str]()
    for name, type_ in [*BUILT_IN.items(), *users.items()]:
        quoted = identifier(name)
        if name in columns:
            selected.append(_as(quoted, columns[name], type_))
        else:
            selected.append(f"NULL::{type_} AS {quoted}")
    return f"SELECT {', '.join(selected)}" + (f" FROM {source}" if source else "")


def _as(column: str, old: str, new: str) -> str:
    """SQL of a quoted column in another type: what `column_types.stored` makes of its values."""
    if old == new:
        return column
    sql = f"{column}::{new}"
    if new == "JSON":
        sql = f"to_json({column})"
    elif (old, new) == ("DOUBLE", "VARCHAR"):
        sql = rf"regexp_replace({sql}, '\.0$', '')"
    return f"{sql} AS {column}"
