"""Metadata of frameworks, converted to columns of an index and back.

Metadata may have any names; those of slimdex's own columns get an underscore. For conditions, a
column has one type, and metadata of one name may have several: 1 and "iv". Values of another kind
than their column's are in the column `RECORD`, a dict. Filters and results use the value there, if
there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from ..column_types import ANY, EXACT, joint, kind_of, plain
from ..documents import BUILT_IN_COLUMNS, RECORD
from ..store.where.conditions import SIGNS, And, Compare, Condition, Not, Or

_TAKEN = {name.lower() for name in (*BUILT_IN_COLUMNS, RECORD)}
_NEGATED = {"!=": "=", "NOT IN": "IN", "EXISTS": "IS NULL"}
"""Operator of `compare` -> the one that holds whenever it does not."""
Types = Mapping[str, str]
"""Columns of an index: name -> type."""


def column_of(name: str) -> str:
    """Column for a name of metadata.

    >>> column_of("year"), column_of("id"), column_of("ID_")
    ('year', 'id_', 'ID__')
    """
    return f"{name}_" if name.rstrip("_").lower() in _TAKEN else name


def name_of(column: str) -> str:
    """Name of metadata for a column.

    >>> [name_of(column_of(name)) for name in ("year", "id", "Text_")]
    ['year', 'id', 'Text_']
    """
    bare = column.rstrip("_").lower()
    return column[:-1] if bare in _TAKEN and column.endswith("_") else column


def as_columns(metadata: Sequence[Mapping[str, Any]], columns: Types) -> list[dict[str, Any]]:
    """Convert the metadata of documents that are added together to columns.

    `columns` are those of the index. Raises `InputError` if a value can't be stored.

    >>> as_columns([{"page": 1}, {"page": "iv"}], {})
    [{'page': 1}, {'slimdex_metadata': {'page': 'iv'}}]
    """
    rows = []
    for values_by_name in metadata:
        row = {column_of(str(name)): plain(value) for name, value in values_by_name.items()}
        rows.append(row)

    # A new column has the type of its first value. For DuckDB, names that differ only in case are
    # the same column: the first one gets it, and the others get none.
    types = dict(columns)
    spellings = {column.lower(): column for column in columns}
    for row in rows:
        for name, value in row.items():
            if value not in (None, []) and spellings.setdefault(name.lower(), name) == name:
                types.setdefault(name, kind_of(value))
    return [_as_columns(row, types) for row in rows]


def _as_columns(row: Mapping[str, Any], types: Types) -> dict[str, Any]:
    """Return a row's values as columns of these types, and those that do not suit in `RECORD`."""
    out = dict[str, Any]()
    record = dict[str, Any]()
    for name, value in row.items():
        if value is not None and name in types and _suits(value, types[name]):
            out[name] = value
        else:
            record[name_of(name)] = value
    return out | ({RECORD: record} if record else {})


def _suits(value: Any, type_: str) -> bool:
    """Whether a column of this type can be compared with a value of this kind."""
    kind = kind_of(value)
    if isinstance(value, int) and abs(value) >= EXACT and type_ != "JSON":
        return kind == type_ == "BIGINT"
    return kind == type_ or type_ == "JSON" or joint({kind, type_}) not in ANY


def as_metadata(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the columns of a document to its metadata."""
    metadata = {}
    for column, value in columns.items():
        if value is not None and column != RECORD:
            metadata[name_of(column)] = value
    record = columns.get(RECORD)
    return metadata | (record if isinstance(record, dict) else {})


def compare(
    name: str, operator: str, value: Any, columns: Types, *, nested: bool = True
) -> Condition:
    """Compare metadata of a name with a constant, by an operator of `Compare` or of `_NEGATED`.

    If `nested`, a name with dots, such as author.name, may also lead into an object.
    """
    if operator in _NEGATED:
        return Not(compare(name, _NEGATED[operator], value, columns, nested=nested))

    # The value may be under the whole name, or inside an object.
    places = [Place(name)]
    if nested and "." in name:
        first, *path = name.split(".")
        places.append(Place(first, tuple(path)))
    has_value = [place.has_value(columns) for place in places]
    is_missing = Not(Or(tuple(has_value)))
    if operator == "IS NULL" or (operator == "=" and value is None):
        return is_missing
    if operator == "IS EMPTY":
        empty = [place.compare("IN", ["", []], columns) for place in places]
        return Or((is_missing, *empty))
    comparisons = [place.compare(operator, value, columns) for place in places]
    holds = Or(tuple(comparisons))
    # A list with None also matches a missing value.
    has_none = operator == "IN" and isinstance(value, list | tuple) and None in value
    return Or((is_missing, holds)) if has_none else holds


@dataclass(frozen=True)
class Place:
    """Where a value of metadata may be: under a name, or inside the object there."""

    name: str
    path: tuple[str, ...] = ()

    def has_value(self, columns: Types) -> Condition:
        """Return a condition that holds where the value exists, in the record or else a column."""
        in_column = Not(Compare(column_of(self.name), "IS NULL", path=self.path))
        if RECORD not in columns:
            return in_column
        in_record = Not(Compare(RECORD, "IS NULL", path=(self.name, *self.path)))
        by_record = And((self._is_recorded, in_record))
        by_column = And((Not(self._is_recorded), in_column))
        return Or((by_record, by_column))

    def compare(self, operator: str, value: Any, columns: Types) -> Condition:
        """Return a condition on the value in the record or, if not recorded, in the column."""
        if operator == "IN" and isinstance(value, list | tuple):
            value = [item for item in value if item is not None]
        in_column = Compare(column_of(self.name), operator, value, path=self.path)
        if RECORD not in columns:
            return in_column
        path = (self.name, *self.path)
        in_record = [Compare(RECORD, operator, value, path=path)]

        # A moment is compared with the moments and the dates of the record.
        moment = as_moment(value) if operator in SIGNS else None
        if moment is not None:
            in_record.append(Compare(RECORD, operator, moment, path=path))
        return Or((And((Not(self._is_recorded), in_column)), *in_record))

    @property
    def _is_recorded(self) -> Condition:
        """Condition that holds where the record has an entry of this name."""
        return Not(Compare(RECORD, "IS NULL", path=(self.name,)))


def as_moment(value: Any) -> datetime | None:
    """Return the moment that a date or a text in ISO 8601 states; None for other values.

    A date without a time stands for its midnight.

    >>> as_moment("2024-12-31"), as_moment("31.12.")
    (datetime.datetime(2024, 12, 31, 0, 0), None)
    """
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    with suppress(ValueError):
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    return None
