"""MetadataColumns: the user's columns of the documents table, which grow with what is added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import duckdb

from slimdex.indexes.errors import InputError

from ..documents import OWN_COLUMNS
from ..sql import identifier
from .database import Database

HELD_BY_TEXT = ("DATE", "TIME", "TIMESTAMP", "UUID", "BOOLEAN")
"""Types whose values say the same as text: a column of these can become one of texts."""
COLUMNS_FOR_NEW_TABLE = 100
"""So many new columns are cheaper in a new table: each on its own costs all that are there."""


class MetadataColumns:
    """Name -> DuckDB type of the columns that are the user's own.

    Attributes
    ----------
    types : as the transaction that is going on sees them.
    committed : as other threads see them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.read_again()

    def read_again(self) -> None:
        """See in the catalog which columns there are, whatever was thought to be."""
        self.types = self.committed = self._read()

    @contextmanager
    def following(self) -> Iterator[None]:
        """Around a transaction: others see what it made of the columns when it has ended."""
        try:
            yield
        except BaseException:
            self.types = self.committed
            raise
        self.committed = self.types

    def ensure(self, columns: Mapping[str, str], *, declared: bool = False) -> None:
        """Columns that hold values of the given DuckDB types: new ones, or ones made wider.

        Parameters
        ----------
        declared : whether someone wants these types: then anything can become text.

        Raises
        ------
        InputError
            If a column holds another kind of thing: numbers are not mixed with texts.
        """
        existing, new = {name.lower(): name for name in self.types}, dict[str, str]()
        for name, type_ in columns.items():
            if name.lower() not in existing:
                existing[name.lower()] = name
                new[name] = type_
        self._add(new)
        for name, type_ in columns.items():
            column = existing[name.lower()]
            if (type_ := self._wider(column, type_, declared)) != self.types[column]:
                self._check_digits(column, type_)
                self._database.execute(
                    f"ALTER TABLE documents ALTER COLUMN {identifier(column)} TYPE {type_}"
                )
                self._altered()

    def check(self, columns: Mapping[str, str]) -> None:
        """Raise `InputError` if a column can't hold values of the given DuckDB types."""
        existing = {name.lower(): name for name in self.types}
        for name, type_ in columns.items():
            if name.lower() in existing:
                self._wider(existing[name.lower()], type_, declared=False)

    def _add(self, columns: Mapping[str, str]) -> None:
        named = {identifier(name): type_ for name, type_ in columns.items()}
        if len(named) < COLUMNS_FOR_NEW_TABLE:
            for name, type_ in named.items():
                self._database.execute(f"ALTER TABLE documents ADD COLUMN {name} {type_}")
        else:
            empty = ", ".join(f"NULL::{type_} AS {name}" for name, type_ in named.items())
            self._database.execute(
                f"CREATE OR REPLACE TABLE documents AS SELECT *, {empty} FROM documents"
            )
        if named:
            self._altered()

    def _wider(self, column: str, type_: str, declared: bool) -> str:
        """The type that holds a column's values and those of another type."""
        own = self.types[column]
        if type_ == own or own in ("JSON", "VARCHAR"):  # these hold anything, written out
            return own
        found = wider(own, type_)
        if found not in ("JSON", "VARCHAR"):
            return found
        if type_ == "VARCHAR" and (declared or own in HELD_BY_TEXT):
            return type_
        raise InputError(f"column {column!r} holds {own}; the new values are {type_}")

    def _check_digits(self, column: str, type_: str) -> None:
        """Raise `InputError` if numbers that are there lose digits in a wider type."""
        name, own = identifier(column), self.types[column]
        if type_ not in ("FLOAT", "DOUBLE"):
            return
        lost = f"TRY_CAST({name}::{type_} AS {own}) IS DISTINCT FROM {name}"
        if found := self._database.fetch(f"SELECT {name} FROM documents WHERE {lost} LIMIT 1"):
            raise InputError(
                f"column {column!r} holds {own}; the new values are {type_}, in which "
                f"{found[0][0]} would lose digits"
            )

    def _altered(self) -> None:
        self.types = self._read()
        if not self._database.in_transaction:
            self.committed = self.types

    def _read(self) -> dict[str, str]:
        described = self._database.fetch("DESCRIBE documents")
        return {row[0]: row[1] for row in described if row[0] not in OWN_COLUMNS}


def wider(*types: str) -> str:
    """The type that DuckDB holds values of several types in; VARCHAR where it has no better.

    >>> wider("BIGINT", "DOUBLE")
    'DOUBLE'
    """
    values = ", ".join(f"NULL::{type_}" for type_ in types)
    with duckdb.connect() as scratch:  # an error must not abort a transaction
        try:
            ((found,),) = scratch.execute(f"SELECT typeof(coalesce({values}))").fetchall()
        except duckdb.Error:
            return "VARCHAR"
    return str(found)


def widened(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What to say of columns that hold text since an addition and held something else before."""
    return [
        f"column {name!r} was {type_} and is text now"
        for name, type_ in before.items()
        if type_ != "VARCHAR" and after.get(name) == "VARCHAR"
    ]
