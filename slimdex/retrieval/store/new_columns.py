"""New columns: the types that new documents give the user's columns, and their values there.

A column that the index lacks gets the type of its values. A value that does not fit its column
widens the column if that loses nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

from slimdex.errors import InputError, shorten
from slimdex.indexes.arrays import batches
from slimdex.system.duckdb_library import duckdb

from ..column_types import by_lower_name, type_of, types_of
from ..documents import Document, check_columns
from .column_fit import BITS, MisfitError, as_stored, format_value, misfit
from .columns import TEXTS, check_digits, has_lists, has_values, is_replaceable, wider
from .document_store import COLUMNS_AT_ONCE, DocumentStore
from .engine import disk_errors, one_line
from .segments import check_type, unnest_query

TYPED_AT_ONCE = 1024
"""Documents by whose values the type of a new column is chosen; later ones may widen it."""


@dataclass(frozen=True)
class ColumnValues:
    """The values of new documents in a column, as DuckDB accepts them."""

    name: str
    type: str
    values: Sequence[Any]

    @property
    def is_exact(self) -> bool:
        """Whether DuckDB returns exactly these values, with the same Python types."""
        # `type_of` is BIGINT for values of all types of whole numbers up to 64 bits.
        is_whole_number = BITS.get(self.type.lower().removeprefix("u"), 128) < 128
        expected = "BIGINT" if is_whole_number else self.type
        return all(value is None or type_of(value) == expected for value in self.values)

    def select(self, is_chosen: Sequence[bool]) -> ColumnValues:
        """Return the values of some of the documents."""
        return ColumnValues(self.name, self.type, [*compress(self.values, is_chosen)])


class NewColumns:
    """The user's columns, with those that new documents add to an index.

    Attributes
    ----------
    types : name -> DuckDB type.
    """

    def __init__(self, store: DocumentStore, declared: Iterable[Mapping[str, str]] = ()) -> None:
        self._store = store
        self.types: dict[str, str] = dict(store.columns)
        self._filled = set[str]()  # columns that are known to have values
        self._with_values = set[str]()  # columns in which new documents have values
        self._with_lists = set[str]()  # columns in which they have values, or empty lists
        self._used = set[str]()  # lower-case names of the new documents' columns
        for columns in declared:
            self._declare(columns)

    def values_of(self, documents: Sequence[Document]) -> list[ColumnValues]:
        """Return the values of documents in each of their columns.

        Raises `InputError` if a value fits no column, or a column's name is invalid.
        """
        metadata = [by_lower_name(document) for document in documents]
        for part in batches(len(documents), TYPED_AT_ONCE):
            self._ensure(types_of(metadata[part], self._with_known_type))
            self._see(metadata[part])

        # The values of each used column; None for a document that lacks it.
        columns = []
        for name in [*self.types]:
            key = name.lower()
            if key in self._used:
                values = [document.get(key, ("", None))[1] for document in metadata]
                stored = self._to_stored(name, values, documents)  # may widen the column
                columns.append(ColumnValues(name, self.types[name], stored))
        return columns

    def _declare(self, columns: Mapping[str, str]) -> None:
        """Create columns of the given DuckDB types, which the documents' values don't change.

        An existing column is widened; one that is declared as text becomes text unless it is JSON.
        """
        self._ensure(columns)
        existing = self._by_lower_name
        for name, type_ in columns.items():
            column = existing[name.lower()]
            if type_ == "VARCHAR" and self.types[column] != "JSON":
                self._retype(column, type_)
            self._filled.add(column)

    def _ensure(self, columns: Mapping[str, str]) -> None:
        """Create missing columns of the given DuckDB types; widen others if that loses nothing."""
        existing = self._by_lower_name
        for name, type_ in columns.items():
            if name.lower() not in existing:
                existing[name.lower()] = name
                self.types[name] = _normal(type_)
        check_columns(len(existing), "the index with these documents")
        for name, type_ in columns.items():
            self._widen(existing[name.lower()], _normal(type_))
            self._used.add(name.lower())

    def _see(self, metadata: Sequence[Mapping[str, tuple[str, Any]]]) -> None:
        """Note the columns in which documents have values.

        `metadata` maps lower-case names to (name, value) for each document.
        """
        for values in metadata:
            self._used |= values.keys()
            for name, (_, value) in values.items():
                if value is not None:
                    self._with_lists.add(name)
                    if value not in ([], ()):
                        self._with_values.add(name)

    def _to_stored(
        self, column: str, values: Sequence[Any], documents: Sequence[Document]
    ) -> list[Any]:
        """Return values as DuckDB accepts them for a column, which is widened if necessary."""
        stored = list[Any]()
        for document, value in zip(documents, values, strict=True):
            try:
                stored.append(as_stored(value, self.types[column]))
            except MisfitError as error:
                # Earlier values are converted to the wider type, too.
                if self._widen(column, type_of(value)):
                    return self._to_stored(column, values, documents)
                raise InputError(
                    f"document {shorten(document.id)}: {format_value(value)} in column {column!r}; "
                    f"expected {self.types[column]}"
                ) from error
            except InputError as error:
                raise InputError(
                    f"document {shorten(document.id)}, column {column!r}: {error}"
                ) from error
        return stored

    def _widen(self, column: str, type_: str) -> bool:
        """Widen a column for values of a DuckDB type; return True if its type changed."""
        widened = self._wider(column, type_)
        if widened == self.types[column]:
            return False
        self._retype(column, widened)
        return True

    def _wider(self, column: str, type_: str) -> str:
        """The type for both a column's values and those of a type; the column's own if none fits.

        Text fits all values, but a column does not become text unless that is declared.
        """
        current = self.types[column]
        if type_ == current or self._is_without_values(column, type_):
            return type_
        if current in TEXTS:
            return current
        common = wider(current, type_)
        return current if common in TEXTS else common

    def _is_without_values(self, column: str, type_: str) -> bool:
        """True if another type loses nothing: the column has no values, or only empty lists."""
        if column in self._filled or not is_replaceable(self.types[column]):
            return False
        is_old = column in self._store.columns
        if column.lower() in self._with_values or (is_old and has_values(self._store, column)):
            self._filled.add(column)
            return False

        # A type of lists holds the empty lists that the column may have; other types don't.
        if type_.endswith("[]"):
            return True
        may_have_lists = column.lower() in self._with_lists
        return not may_have_lists and not (is_old and has_lists(self._store, column))

    def _retype(self, column: str, type_: str) -> None:
        """Give a column another type; raises `InputError` if an existing value would be lost."""
        if type_ == self.types[column]:
            return
        if column in self._store.columns:
            check_digits(self._store, column, type_)
        self.types[column] = type_

    @property
    def _with_known_type(self) -> set[str]:
        """Lower-case names of columns with a known type, not guessed for lack of values."""
        known = set()
        for name, type_ in self.types.items():
            if name in self._filled or type_ not in ("JSON", "VARCHAR[]"):
                known.add(name.lower())
        return known

    @property
    def _by_lower_name(self) -> dict[str, str]:
        """Map lower-case names to the names of columns."""
        return {name.lower(): name for name in self.types}


def _normal(type_: str) -> str:
    """Write a type as DuckDB does.

    >>> _normal("DECIMAL(38, 10)"), _normal("INT")
    ('DECIMAL(38,10)', 'INTEGER')
    """
    normal = check_type(type_)
    return normal.replace(", ", ",") if normal.startswith("DECIMAL") else normal


def values_as_returned(
    store: DocumentStore, columns: Sequence[ColumnValues], documents: Sequence[Document]
) -> list[ColumnValues]:
    """Return columns with the values that DuckDB will return for them.

    Raises `InputError` if it can't store one.
    """
    changed = [column for column in columns if not column.is_exact]
    if not changed:
        return [*columns]

    # DuckDB converts some columns and some documents at a time.
    returned = defaultdict[str, list[Any]](list)
    with store.reading() as cursor:
        try:
            for few in batches(len(changed), COLUMNS_AT_ONCE):
                for part in batches(len(documents), TYPED_AT_ONCE):
                    values = [(c.name, c.type, c.values[part]) for c in changed[few]]
                    sql, parameters = unnest_query(values)
                    rows = cursor.execute(sql, parameters).fetchall()
                    for column, read in zip(changed[few], zip(*rows, strict=True), strict=True):
                        returned[column.name] += read
        except disk_errors():
            raise
        except (duckdb.Error, TypeError, OverflowError) as error:
            # Name the document whose value failed.
            of_values = [(column.name, column.type, [*column.values]) for column in changed]
            raise InputError(
                f"{misfit(documents, of_values)}a column's value does not fit its type: "
                f"{one_line(error)}"
            ) from error
    return [replace(column, values=returned.get(column.name, column.values)) for column in columns]
