"""Metadata of frameworks, converted to columns of an index and back.

Metadata may have any names; those of slimdex's own columns get an underscore. A column has one
type, and metadata of one name may have several: 1 and "iv". Each document has a value in the column
that fits best, for conditions, and what the column would change is stored as it was in the column
`RECORD`, as JSON: name -> value. Filters and results use the value there, if there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from slimdex.errors import InputError

from ..column_types import plain, restore_values, type_of
from ..documents import BUILT_IN_COLUMNS, RECORD
from ..recorded_values import decode_value, encode_value
from ..store.column_fit import MisfitError, as_stored
from ..store.where.conditions import SIGNS, And, Compare, Condition, Not, Or

_TAKEN = {name.lower() for name in (*BUILT_IN_COLUMNS, RECORD)}
_NEGATED = {"!=": "=", "NOT IN": "IN", "EXISTS": "IS NULL"}
"""Operator of `compare` -> the one that holds whenever it does not."""
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
"""Types of columns that the index widens for larger numbers."""
Types = Mapping[str, str]
"""Columns of an index: name -> DuckDB type."""


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
    [{'page': 1}, {'page': None, 'slimdex_metadata': {'page': 'iv'}}]
    """
    rows = []
    for values_by_name in metadata:
        row = {column_of(str(name)): plain(value) for name, value in values_by_name.items()}
        rows.append(row)

    # Collect the values of each column, to choose its type. For DuckDB, names that differ only in
    # case are the same column: the first one gets it, and the others get none.
    first_spelling = {column.lower(): column for column in columns}
    values_of = dict[str, list[Any]]()
    for row in rows:
        for name, value in row.items():
            has_column = first_spelling.setdefault(name.lower(), name) == name
            if has_column and value is not None:
                values_of.setdefault(name, []).append(value)
    types = {name: _type_for(values, columns.get(name)) for name, values in values_of.items()}
    return [_as_columns(row, types, columns) for row in rows]


def _type_for(values: Sequence[Any], current: str | None) -> str:
    """Return the type that a column will have with new values: its own, or the first value's.

    `current` is the type of an existing column, None for a new one. An existing column of whole
    numbers keeps its type: as DOUBLE it would return floats.
    """
    filled = [value for value in values if value != []]  # an empty list does not show its type
    type_ = current or type_of(filled[0] if filled else [])
    if type_ not in (*_WHOLE, "FLOAT"):
        return type_
    has_fractions = any(isinstance(value, float) and value % 1 for value in values)
    is_new = current is None
    return "DOUBLE" if type_ == "FLOAT" or (is_new and has_fractions) else "BIGINT"


def _as_columns(row: Mapping[str, Any], types: Types, columns: Types) -> dict[str, Any]:
    """Return a row's values as columns of these types; `RECORD` has values that they would change.

    `columns` are those that the index already has.
    """
    out = dict[str, Any]()
    record = dict[str, Any]()
    for name, value in row.items():
        stored = None
        if value is not None and name in types:
            out[name] = _storable(value, types[name], name in columns)
            stored = _round_trip(out[name], types[name])

        # A value that would come back differently from its column is recorded; None always is.
        if not _is_same(stored, value) or value is None:
            record[name_of(name)] = encode_value(value)
    return out | ({RECORD: record} if record else {})


def _storable(value: Any, type_: str, is_column: bool) -> Any:
    """Return a value as a column of this type can store it, or None if it can't.

    `is_column` is False for a new column.
    """
    if isinstance(value, float) and type_ == "BIGINT" and not value % 1:
        value = int(value)
    try:
        as_stored(value, type_)
    except (MisfitError, InputError):
        return None
    # The index finds the type of a new column by its values, some thousand at a time.
    kinds = {type_of(value), type_}
    is_same_kind = len(kinds) == 1 or kinds in ({"BIGINT", "DOUBLE"}, {"DATE", "TIMESTAMP"})
    return value if is_column or is_same_kind or type_ == "JSON" else None


def _round_trip(value: Any, type_: str) -> Any:
    """Return the value that comes back from a column of this type."""
    (returned,) = restore_values({"": type_}, [as_stored(value, type_)]).values()
    return returned


def _is_same(a: Any, b: Any) -> bool:
    """Return whether two values are equal and of the same types, also inside lists and dicts.

    Moments and times with a zone never count as the same, since a column keeps no zone.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_is_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_is_same(a[name], b[name]) for name in a)
    has_zone = isinstance(b, datetime | time) and b.tzinfo is not None
    return bool(a == b) and not has_zone


def as_metadata(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the columns of a document to its metadata."""
    metadata = {}
    for column, value in columns.items():
        if value is not None and column != RECORD:
            metadata[name_of(column)] = value

    # Values that columns could not store.
    record = columns.get(RECORD) or {}
    for name, value in record.items():
        metadata[name] = decode_value(value)
    return metadata


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
        in_record = Not(Compare(RECORD, "IS NULL", path=self._in_record))
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
        path = self._in_record
        in_record = [Compare(RECORD, operator, _constant(value), path=path)]

        # A moment is compared with the moments and the dates of the record.
        moment = as_moment(value) if operator in SIGNS else None
        if moment is not None:
            in_record.append(Compare(RECORD, operator, moment, path=(*path, "datetime", "0")))
            in_record.append(Compare(RECORD, operator, moment, path=(*path, "date")))
        return Or((And((Not(self._is_recorded), in_column)), *in_record))

    @property
    def _is_recorded(self) -> Condition:
        """Condition that holds where the record has an entry of this name."""
        return Not(Compare(RECORD, "IS NULL", path=(self.name,)))

    @property
    def _in_record(self) -> tuple[str, ...]:
        """Path to the value in the record, where an object is written as {"dict": object}."""
        steps = [self.name]
        for part in self.path:
            steps += ("dict", part)
        return tuple(steps)


def _constant(value: Any) -> Any:
    """Return a constant in the form of the record; moments stay unchanged."""
    if isinstance(value, dict):
        return encode_value(value)
    return [*map(_constant, value)] if isinstance(value, list | tuple) else value


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
