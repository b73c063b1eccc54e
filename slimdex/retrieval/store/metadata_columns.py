"""MetadataColumns: the user's columns of the table of documents, extended as needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from heapq import nlargest
from typing import Any

from slimdex.indexes.errors import InputError

from ..documents import check_columns
from ..duckdb_library import connected, duckdb
from ..sql import identifier
from .database import Database
from .draft import draft_of

TEXTS = ("JSON", "VARCHAR")
"""Types that hold any value as text."""
LISTED_VALUES = 20
"""Largest number of distinct values that are listed."""
FOLDER, LISTED_FOLDERS = "folder", 50
"""Column of the folders of files, and how many of them are listed."""
ORDERED = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "DATE", "TIME")
"""Parts of the names of ordered types."""


class MetadataColumns:
    """The user's columns: name -> DuckDB type."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._filled = set[str]()

    @property
    def types(self) -> Mapping[str, str]:
        """The columns; in a change, those that it commits."""
        return self._database.types

    def declare(self, columns: Mapping[str, str]) -> None:
        """Create columns of the given DuckDB types; this change's values don't change the
        types.

        Any column can be converted to text.
        """
        self.ensure(columns)
        existing = self.by_lower_name
        for name, type_ in columns.items():
            if type_ == "VARCHAR" and self.types[existing[name.lower()]] != "JSON":
                self._retype(existing[name.lower()], type_)
            self._filled.add(existing[name.lower()])

    def ensure(self, columns: Mapping[str, str]) -> None:
        """Create missing columns of the given DuckDB types; widen others if that loses nothing."""
        existing, new = self.by_lower_name, dict[str, str]()
        for name, type_ in columns.items():
            if name.lower() not in existing:
                existing[name.lower()] = name
                new[name] = type_
        check_columns(len(existing), "the index with these documents")
        draft_of(self._database).types |= new
        draft_of(self._database).add_columns(new)
        for name, type_ in columns.items():
            self.widen(existing[name.lower()], type_)
        self.use({name.lower() for name in columns})

    def use(self, names: Set[str]) -> None:
        """Give the new documents those columns whose lower-case names these are."""
        used = {name: type_ for name, type_ in self.types.items() if name.lower() in names}
        draft_of(self._database).add_columns(used)

    def widen(self, column: str, type_: str) -> bool:
        """Widen a column for values of a DuckDB type; return True if its type changed."""
        widened = self._wider(column, type_)
        if widened == self.types[column]:
            return False
        self._retype(column, widened)
        return True

    @property
    def by_lower_name(self) -> dict[str, str]:
        """Map lower-case names to the names of columns."""
        return {name.lower(): name for name in self.types}

    @property
    def settled(self) -> set[str]:
        """Lower-case names of columns with a known type, not guessed for lack of values."""
        guessed = {n for n, t in self.types.items() if t in ("JSON", "VARCHAR[]")} - self._filled
        return {name.lower() for name in self.types if name not in guessed}

    @property
    def with_values(self) -> dict[str, str]:
        """Columns whose values another type would lose: name -> DuckDB type."""
        return {n: t for n, t in self.types.items() if not self._is_without_values(n, "[]")}

    def facts(self) -> list[dict[str, Any]]:
        """Name and type of each column, and its values if they are few, each with its number of
        documents; otherwise, for numbers, dates and times, the least and the greatest value. The
        column of folders has "folders" too: see `folder_counts`.
        """
        return [self._facts(name, type_) for name, type_ in self.types.items()]

    def _facts(self, name: str, type_: str) -> dict[str, Any]:
        column = identifier(name)
        facts: dict[str, Any] = {"name": name, "type": type_}
        if "[" in type_ or "(" in type_.replace("DECIMAL(", ""):  # lists and structs
            return facts
        if name.lower() == FOLDER and type_ == "VARCHAR":
            counted = folder_counts(dict(self._counted(column)))
            facts["folders"] = [{"value": v, "documents": n} for v, n in counted]
        values = self._counted(column, f"LIMIT {LISTED_VALUES + 1}")
        if values and len(values) <= LISTED_VALUES:
            return facts | {"values": [{"value": v, "documents": n} for v, n in values]}
        if any(word in type_ for word in ORDERED):
            ((least, greatest),) = self._database.fetch(
                f"SELECT min({column}), max({column}) FROM {self._database.live(column)}"
            )
            return facts | {"least": least, "greatest": greatest}
        return facts

    def _counted(self, column: str, limit: str = "") -> list[tuple[Any, int]]:
        """Values of a quoted column with their numbers of documents, the most frequent first."""
        return self._database.fetch(
            f"""SELECT {column}, count(*) FROM {self._database.live(column)}
            WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 {limit}"""
        )

    def new(self, columns: Mapping[str, str]) -> dict[str, str]:
        """Those of the given columns that don't exist yet."""
        existing = self.by_lower_name
        return {name: type_ for name, type_ in columns.items() if name.lower() not in existing}

    def _wider(self, column: str, type_: str) -> str:
        """The type for a column's values and those of another type; its own type if none fits."""
        current = self.types[column]
        if type_ == current or self._is_without_values(column, type_):
            return type_
        common = current if current in TEXTS else wider(current, type_)
        return current if common in TEXTS else common

    def _is_without_values(self, column: str, type_: str) -> bool:
        """True if another type loses nothing: the column has no values, or only empty lists."""
        current = self.types[column]
        if column in self._filled or not (current == "JSON" or current.endswith("[]")):
            return False
        name = identifier(column)
        has_values = f"{name}::VARCHAR <> '[]'"
        if self._database.fetch(f"SELECT 1 FROM documents WHERE {has_values} LIMIT 1"):
            self._filled.add(column)
            return False
        if type_.endswith("[]"):
            return True
        return not self._database.fetch(f"SELECT 1 FROM documents WHERE {name} IS NOT NULL LIMIT 1")

    def _retype(self, column: str, type_: str) -> None:
        if type_ == self.types[column]:
            return
        self._check_digits(column, type_)
        draft_of(self._database).retype(column, type_)

    def _check_digits(self, column: str, type_: str) -> None:
        """Raise `InputError` if existing values don't fit a wider type, or would lose digits."""
        name, current = identifier(column), self.types[column]
        wrong = {"does not fit": f"{name} IS NOT NULL AND TRY_CAST({name} AS {type_}) IS NULL"}
        if type_.rstrip("[]") in ("FLOAT", "DOUBLE"):
            lost = f"TRY_CAST({name}::{type_} AS {current}) IS DISTINCT FROM {name}"
            wrong["would lose digits"] = lost
        for why, which in wrong.items():
            if rows := self._database.fetch(f"SELECT {name} FROM documents WHERE {which} LIMIT 1"):
                raise InputError(
                    f"column {column!r} holds {current}; the new values are {type_}, in which "
                    f"{rows[0][0]} {why}"
                )


def folder_counts(
    documents: Mapping[str, int], most: int = LISTED_FOLDERS
) -> list[tuple[str, int]]:
    """Count the documents in each folder and below it; "" has those in no folder.

    Folders are listed level by level as long as all of a level fit into `most`; of the first level,
    those with the most documents.

    >>> folder_counts({"": 1, "tea": 2, "tea/green": 3, "cake/old/burnt": 1}, 5)
    [('', 1), ('cake', 1), ('cake/old', 1), ('tea', 5), ('tea/green', 3)]
    """
    counts = Counter[str]()
    for folder, count in documents.items():
        ends = [i for i, sign in enumerate(folder) if sign == "/" and i]
        for end in [*ends, len(folder)]:
            counts[folder[:end]] += count
    listed = list[str]()
    for level in sorted({folder.count("/") for folder in counts}):
        own = [folder for folder in counts if folder.count("/") == level]
        if listed and len(listed) + len(own) > most:
            break
        listed += nlargest(most, own, key=lambda folder: counts[folder])
    return [(folder, counts[folder]) for folder in sorted(listed, key=lambda it: it.split("/"))]


def wider(*types: str) -> str:
    """The type in which DuckDB combines several types; VARCHAR if it has none.

    >>> wider("BIGINT", "DOUBLE")
    'DOUBLE'
    """
    values = ", ".join(f"NULL::{type_}" for type_ in types)
    with connected() as scratch:  # an error must not abort a transaction
        try:
            ((common,),) = scratch.execute(f"SELECT typeof(coalesce({values}))").fetchall()
        except duckdb.Error:
            return "VARCHAR"
    return str(common)


def widened(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Messages about columns that became text."""
    return [
        f"column {name!r} was {type_} and is text now"
        for name, type_ in before.items()
        if type_ not in TEXTS and after.get(name) == "VARCHAR"
    ]
