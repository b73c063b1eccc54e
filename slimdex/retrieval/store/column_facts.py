"""Columns: the user's columns of documents: their types, facts and values."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from heapq import nlargest
from importlib import import_module
from typing import Any

from slimdex.indexes.arrays import Rows, batches
from slimdex.system.duckdb_library import identifier

from ..column_types import ANY, sql_type
from ..documents import visible_columns
from .document_store import AMONG, COLUMNS_AT_ONCE, DocumentStore, among

LISTED_VALUES = 20
"""Largest number of distinct values that are listed."""
FOLDER = "folder"
LISTED_FOLDERS = 50
"""Column of the folders of files, and how many of them are listed."""
LISTED_ITEMS = 50
"""Items of lists that are listed, the most frequent ones."""
ORDERED = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "DATE", "TIME")
"""Parts of the names of ordered types."""
NOT_IN_ARROW = "INTERVAL"
"""Type that Arrow can't represent."""


def column_facts(store: DocumentStore) -> list[dict[str, Any]]:
    """Return "name" and "type" of each column, and facts about its values.

    If there are few values, they are listed as "values", each with its number of documents. Many
    numbers, dates or times are described by "least" and "greatest". The column of folders also has
    "folders": see `folder_counts`. For a column of lists, "items" are those that most documents
    have.
    """
    facts = []
    for name in visible_columns(store.columns):
        facts.append(_facts(store, name, sql_type(store.columns[name])))
    return facts


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


def arrow_table(store: DocumentStore, rows: Rows) -> Any:
    """Id, title, text and the user's columns of documents, given their rows (n,) in order.

    Returns a `pyarrow.Table`; requires pyarrow. Values of JSON, UUID and `NOT_IN_ARROW` are
    text.
    """
    types = dict.fromkeys(("id", "title", "text"), "VARCHAR") | dict(store.columns)
    selected = []
    for name, type_ in types.items():
        column = identifier(name)
        selected.append(f"{column}::VARCHAR AS {column}" if type_ == NOT_IN_ARROW else column)

    # Fetch some columns at a time, and join them into one table.
    parts = list[Any]()
    for few in batches(len(selected), COLUMNS_AT_ONCE):
        sql = f'SELECT {", ".join(selected[few])} FROM documents WHERE {AMONG} ORDER BY "row"'
        parts.append(_fetch_table(store, sql, among(rows)))
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


def widening_notes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Messages about columns that became text."""
    notes = []
    for name, type_ in before.items():
        if type_ not in ANY and after.get(name) == "VARCHAR":
            notes.append(f"column {name!r} was {type_} and is text now")
    return notes
