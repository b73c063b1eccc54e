"""Column facts: what clients and agents are told about columns, to write conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Any

from slimdex.system.duckdb_library import identifier

from ..documents import visible_columns
from ..store.document_store import LIVE, DocumentStore

LISTED_VALUES = 20
"""Largest number of distinct values that are listed."""
FOLDER = "folder"
LISTED_FOLDERS = 50
"""Column of the folders of files, and how many of them are listed."""
LISTED_ITEMS = 50
"""Items of lists that are listed, the most frequent ones."""
ORDERED = ("BIGINT", "DOUBLE", "DATE", "TIMESTAMP")
"""Types whose least and greatest values are listed."""


def column_facts(store: DocumentStore) -> list[dict[str, Any]]:
    """Return "name" and "type" of each column, and facts about its values.

    If there are few values, they are listed as "values", each with its number of documents. Many
    numbers, dates or moments are described by "least" and "greatest". The column of folders also
    has "folders": see `folder_counts`. For a column of lists, "items" are those that most
    documents have.
    """
    facts = []
    for name in visible_columns(store.columns):
        facts.append(_facts(store, name, store.columns[name]))
    return facts


def _facts(store: DocumentStore, name: str, type_: str) -> dict[str, Any]:
    """Return what `column_facts` says about one column."""
    column = identifier(name)
    facts: dict[str, Any] = {"name": name, "type": type_}

    if type_ == "JSON":
        return facts
    if type_.endswith("[]"):
        items = store.fetch(
            f"""SELECT item, count(*) FROM (
                SELECT unnest(list_distinct({column})) AS item FROM {LIVE}
            ) WHERE item IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {LISTED_ITEMS}"""
        )
        return facts | {"items": _as_counts(items)}

    # Few values are listed with their counts; many are described by their range.
    if name.lower() == FOLDER and type_ == "VARCHAR":
        facts["folders"] = _as_counts(folder_counts(dict(_count_values(store, column))))
    values = _count_values(store, column, f"LIMIT {LISTED_VALUES + 1}")
    if values and len(values) <= LISTED_VALUES:
        return facts | {"values": _as_counts(values)}
    if type_ in ORDERED:
        ((least, greatest),) = store.fetch(f"SELECT min({column}), max({column}) FROM {LIVE}")
        return facts | {"least": least, "greatest": greatest}
    return facts


def _as_counts(values: Iterable[tuple[Any, int]]) -> list[dict[str, Any]]:
    return [{"value": value, "documents": count} for value, count in values]


def _count_values(store: DocumentStore, column: str, limit: str = "") -> list[tuple[Any, int]]:
    """Values of a quoted column with their numbers of documents, the most frequent first."""
    return store.fetch(
        f"""SELECT {column}, count(*) FROM {LIVE}
        WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 {limit}"""
    )


def folder_counts(documents: Mapping[str, int]) -> list[tuple[str, int]]:
    """Count the documents in each folder and below it; "" has those in no folder.

    Listed are the folders with the most documents, `LISTED_FOLDERS` of them, and so all those
    around them.

    >>> folder_counts({"": 1, "tea": 2, "tea/green": 3, "cake/old/burnt": 1})
    [('', 1), ('cake', 1), ('cake/old', 1), ('cake/old/burnt', 1), ('tea', 5), ('tea/green', 3)]
    """
    counts = Counter[str]()
    for folder, count in documents.items():
        counts[folder] += count
        for end, character in enumerate(folder):
            if character == "/" and end:
                counts[folder[:end]] += count
    listed = nsmallest(LISTED_FOLDERS, counts, key=lambda folder: (-counts[folder], folder))

    # A folder comes before those in it.
    in_order = sorted(listed, key=lambda folder: folder.split("/"))
    return [(folder, counts[folder]) for folder in in_order]
