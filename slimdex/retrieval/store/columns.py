"""Columns: the user's columns of documents: their types, facts and values."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from heapq import nlargest
from importlib import import_module
from typing import Any

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import Rows, batches
from slimdex.system.duckdb_library import connect, duckdb, identifier

from ..documents import visible_columns
from .document_store import COLUMNS_AT_ONCE, DocumentStore

TEXTS = ("JSON", "VARCHAR")
"""Types that hold any value as text."""
LISTED_VALUES = 20
"""Largest number of distinct values that are listed."""
FOLDER = "folder"
LISTED_FOLDERS = 50
"""Column of the folders of files, and how many of them are listed."""
LISTED_ITEMS = 50
"""Items of lists that are listed, the most frequent ones."""
ORDERED = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "DATE", "TIME")
"""Parts of the names of ordered types."""
NOT_IN_ARROW = ("INTERVAL", "BIT", "UHUGEINT")
"""Types that Arrow or Parquet can't represent."""


def column_facts(store: DocumentStore) -> list[dict[str, Any]]:
    """Return "name" and "type" of each column, and facts about its values.

    If there are few values, they are listed as "values", each with its number of documents. Many
    numbers, dates or times are described by "least" and "greatest". The column of folders also has
    "folders": see `folder_counts`. For a column of lists, "items" are those that most documents
    have.
    """
    return [_facts(store, name, store.columns[name]) for name in visible_columns(store.columns)]


def _facts(store: DocumentStore, name: str, type_: str) -> dict[str, Any]:
    """Return what `column_facts` says about one column."""
    column = identifier(name)
    facts: dict[str, Any] = {"name": name, "type": type_}

    # Lists of plain values are described by their items; other lists and structs by nothing.
    if type_.endswith("[]") and "[" not in type_[:-2] and "(" not in type_:
        return facts | {"items": _as_counts(_items(store, column))}
    if "[" in type_ or "(" in type_.replace("DECIMAL(", ""):
        return facts

    # Few values are listed with their counts; many are described by their range.
    if name.lower() == FOLDER and type_ == "VARCHAR":
        facts["folders"] = _as_counts(folder_counts(dict(_count_values(store, column))))
    values = _count_values(store, column, f"LIMIT {LISTED_VALUES + 1}")
    if values and len(values) <= LISTED_VALUES:
        return facts | {"values": _as_counts(values)}
    if any(word in type_ for word in ORDERED):
        ((least, greatest),) = store.fetch(
            f"SELECT min({column}), max({column}) FROM {store.live(column)}"
        )
        return facts | {"least": least, "greatest": greatest}
    return facts


def _as_counts(values: Iterable[tuple[Any, int]]) -> list[dict[str, Any]]:
    return [{"value": value, "documents": count} for value, count in values]


def _items(store: DocumentStore, column: str) -> list[tuple[Any, int]]:
    """Items of the lists in a quoted column with their numbers of documents."""
    return store.fetch(
        f"""SELECT item, count(*) FROM (
            SELECT unnest(list_distinct({column})) AS item FROM {store.live(column)}
        ) WHERE item IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {LISTED_ITEMS}"""
    )


def _count_values(store: DocumentStore, column: str, limit: str = "") -> list[tuple[Any, int]]:
    """Values of a quoted column with their numbers of documents, the most frequent first."""
    return store.fetch(
        f"""SELECT {column}, count(*) FROM {store.live(column)}
        WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 {limit}"""
    )


def is_replaceable(type_: str) -> bool:
    """True for a type that was guessed for a column without values, or with empty lists only."""
    return type_ == "JSON" or type_.endswith("[]")


def has_values(store: DocumentStore, column: str) -> bool:
    """True if a column has values other than empty lists."""
    name = identifier(column)
    return bool(store.fetch(f"SELECT 1 FROM documents WHERE {name}::VARCHAR <> '[]' LIMIT 1"))


def has_lists(store: DocumentStore, column: str) -> bool:
    """True if a column has values, or empty lists."""
    name = identifier(column)
    return bool(store.fetch(f"SELECT 1 FROM documents WHERE {name} IS NOT NULL LIMIT 1"))


def check_digits(store: DocumentStore, column: str, type_: str) -> None:
    """Raise `InputError` if existing values don't fit a wider type, or would lose digits."""
    name = identifier(column)
    current = store.columns[column]

    # What may be wrong with a value -> the SQL condition of such values.
    wrong = {"does not fit": f"{name} IS NOT NULL AND TRY_CAST({name} AS {type_}) IS NULL"}
    if type_.rstrip("[]") in ("FLOAT", "DOUBLE"):
        loses_digits = f"TRY_CAST({name}::{type_} AS {current}) IS DISTINCT FROM {name}"
        wrong["would lose digits"] = loses_digits
    for why, condition in wrong.items():
        rows = store.fetch(f"SELECT {name} FROM documents WHERE {condition} LIMIT 1")
        if rows:
            raise InputError(
                f"column {column!r} holds {current}; the new values are {type_}, in which "
                f"{rows[0][0]} {why}"
            )


def arrow_table(store: DocumentStore, rows: Rows) -> Any:
    """Id, title, text and the user's columns of documents, given their rows (n,) in order.

    Returns a `pyarrow.Table`; requires pyarrow. Values of JSON, UUID and `NOT_IN_ARROW` are
    text.
    """
    types = dict.fromkeys(("id", "title", "text"), "VARCHAR") | dict(store.columns)
    selected = []
    for name, type_ in types.items():
        column = identifier(name)
        selected.append(f"{column}::VARCHAR AS {column}" if type_ in NOT_IN_ARROW else column)

    condition = '"row" BETWEEN ? AND ? AND "row" IN (SELECT unnest(?::BIGINT[]))'
    first, last = (int(rows[0]), int(rows[-1])) if len(rows) else (0, 0)
    values = [first, last, rows.tolist()]

    # Fetch some columns at a time, and join them into one table.
    parts = list[Any]()
    for few in batches(len(selected), COLUMNS_AT_ONCE):
        sql = f'SELECT {", ".join(selected[few])} FROM documents WHERE {condition} ORDER BY "row"'
        parts.append(_fetch_table(store, sql, values))
        if len(parts[-1]) != len(rows):
            raise CorruptError(f"{store.path}: several documents have the same row")
    table = parts[0]
    for part in parts[1:]:
        for name in part.column_names:
            table = table.append_column(name, part[name])
    return table


def _fetch_table(store: DocumentStore, sql: str, values: list[Any]) -> Any:
    """All rows of a query as a `pyarrow.Table`; requires pyarrow."""
    import_module("duckdb")  # the package adds relations to the connections of its extension
    with store.reading() as cursor:
        return cursor.sql(sql, params=values).to_arrow_table()


def folder_counts(
    documents: Mapping[str, int], most: int = LISTED_FOLDERS
) -> list[tuple[str, int]]:
    """Count the documents in each folder and below it; "" has those in no folder.

    Folders are listed level by level as long as all of a level fit into `most`; of the first level,
    those with the most documents.

    >>> folder_counts({"": 1, "tea": 2, "tea/green": 3, "cake/old/burnt": 1}, 5)
    [('', 1), ('cake', 1), ('cake/old', 1), ('tea', 5), ('tea/green', 3)]
    """
    # The documents of a folder count for all folders around it.
    counts = Counter[str]()
    for folder, count in documents.items():
        counts[folder] += count
        for end, character in enumerate(folder):
            if character == "/" and end:
                counts[folder[:end]] += count

    # Levels of folders from the top, as long as they fit.
    levels = defaultdict[int, list[str]](list)
    for folder in counts:
        levels[folder.count("/")].append(folder)
    listed = list[str]()
    for _, folders in sorted(levels.items()):
        if listed and len(listed) + len(folders) > most:
            break
        listed += nlargest(most, folders, key=lambda folder: counts[folder])

    # A folder comes before those in it.
    in_order = sorted(listed, key=lambda folder: folder.split("/"))
    return [(folder, counts[folder]) for folder in in_order]


def wider(*types: str) -> str:
    """The type in which DuckDB combines several types; VARCHAR if it has none.

    >>> wider("BIGINT", "DOUBLE")
    'DOUBLE'
    """
    values = ", ".join(f"NULL::{type_}" for type_ in types)
    with connect() as scratch:  # an error must not abort a transaction
        try:
            ((common,),) = scratch.execute(f"SELECT typeof(coalesce({values}))").fetchall()
        except duckdb.Error:
            return "VARCHAR"
    return str(common)


def widening_notes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Messages about columns that became text."""
    notes = []
    for name, type_ in before.items():
        if type_ not in TEXTS and after.get(name) == "VARCHAR":
            notes.append(f"column {name!r} was {type_} and is text now")
    return notes
