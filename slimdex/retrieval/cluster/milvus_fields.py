"""Fields of a collection in Milvus for columns with DuckDB's types, which preserve their order.

Whole numbers, and values counted in units (days, microseconds, the last digit of a decimal), are
integers; a column of numbers beyond Milvus' integers has no field. Infinity and NaN become the
largest double, which no translated condition can distinguish. A second field states whether the
value is missing, since older servers have no null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from fractions import Fraction
from typing import Any

from slimdex.indexes.errors import InputError

from ..documents import Document

LONGEST_TEXT = 65_535
"""Largest text of Milvus in bytes."""
LARGEST_REAL = 1.7976931348623157e308
BITS = {"INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64}
BOOL, WHOLE, REAL, TEXT = ("bool", "whole", "real", "text")
"""Comparison of a field's values."""
KEY, DIGEST, VECTOR, FULL, HIT, ID = "pk", "digest", "vector", "full", "hit", "id"
WORDS, BM25 = "words", "bm25"
OURS = (KEY, DIGEST, VECTOR, FULL, HIT, ID, WORDS, BM25)
"""slimdex's own fields."""
_TYPES: dict[str, tuple[str, str]] = {
    "BOOLEAN": (BOOL, "BOOL"),
    "TINYINT": (WHOLE, "INT8"),
    "SMALLINT": (WHOLE, "INT16"),
    "INTEGER": (WHOLE, "INT32"),
    "BIGINT": (WHOLE, "INT64"),
    "UTINYINT": (WHOLE, "INT16"),
    "USMALLINT": (WHOLE, "INT32"),
    "UINTEGER": (WHOLE, "INT64"),
    "FLOAT": (REAL, "DOUBLE"),
    "DOUBLE": (REAL, "DOUBLE"),
    "VARCHAR": (TEXT, "VARCHAR"),
    "UUID": (TEXT, "VARCHAR"),
    "DATE": (WHOLE, "INT32"),
    "TIME": (WHOLE, "INT64"),
    "TIMESTAMP": (WHOLE, "INT64"),
    "TIMESTAMP_S": (WHOLE, "INT64"),
    "TIMESTAMP_MS": (WHOLE, "INT64"),
}
_EPOCH = datetime(1970, 1, 1)
DAY = 86_400_000_000
"""Microseconds per day."""


@dataclass(frozen=True)
class Field:
    """A column as stored in Milvus.

    Attributes
    ----------
    column, type : its name and DuckDB type.
    name : name of the field.
    form : comparison of its values: "bool", "whole", "real" or "text".
    kind : Milvus' type.
    scale : decimal places of the stored whole number.
    missing : name of the field that states that the value is missing; "" if it never is.
    """

    column: str
    type: str
    name: str
    form: str
    kind: str
    scale: int = 0
    missing: str = ""

    def stored(self, value: Any) -> Any:
        """Convert a value for storage; a missing value becomes a placeholder of the same type.

        >>> field_of("n", "DECIMAL(5,2)", "n").stored(-1.5)
        -150
        """
        if value is None:
            return _EMPTY[self.form]
        if self.form == BOOL:
            return bool(value)
        if self.form == REAL:
            return _finite(float(value))
        if self.form == TEXT:
            return str(value)
        return int(self.exact(value))

    def exact(self, value: Any) -> Fraction:
        """Convert a number, date or time to the stored unit."""
        exact: Fraction = Fraction(_units_of(value)) * 10**self.scale
        return exact / DAY if self.type == "DATE" else exact


_EMPTY: dict[str, Any] = {BOOL: False, WHOLE: 0, REAL: 0.0, TEXT: ""}
ID_FIELD = Field("id", "VARCHAR", ID, TEXT, "VARCHAR")


def field_of(column: str, type_: str, name: str) -> Field | None:
    """Return the field for a column of a DuckDB type; None if Milvus has no counterpart.

    >>> field_of("year", "SMALLINT", "year").kind, field_of("tags", "VARCHAR[]", "tags")
    ('INT16', None)
    """
    missing = f"{name}_is_null"
    if found := re.fullmatch(r"DECIMAL\((\d+), ?(\d+)\)", type_):
        if int(found[1]) > 18:
            return None
        return Field(column, type_, name, WHOLE, "INT64", int(found[2]), missing)
    if type_ not in _TYPES:
        return None
    form, kind = _TYPES[type_]
    return Field(column, type_, name, form, kind, 0, missing)


def fields_of(columns: Mapping[str, str], left_out: Iterable[str] = ()) -> list[Field]:
    """Return the fields for columns, name -> DuckDB type, that have a counterpart.

    Names that Milvus accepts are kept; the others become column_1, column_2, ...

    Raises `InputError` if a column in `left_out` does not exist.
    """
    absent = {name.lower() for name in left_out}
    if unknown := sorted(absent - {name.lower() for name in columns}):
        known = ", ".join(columns) or "none"
        raise InputError(f"column {unknown[0]!r}; expected one of the index's columns: {known}")
    taken = set(OURS)
    found = list[Field]()
    for number, (column, type_) in enumerate(columns.items(), start=1):
        name = column
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,200}", column) or column.lower() in _RESERVED:
            name = f"column_{number}"
        while {name, f"{name}_is_null"} & taken:
            name = f"{name}_{number}"
        field = field_of(column, type_, name)
        if field is not None and column.lower() not in absent:
            taken |= {name, field.missing}
            found.append(field)
    return found


_RESERVED = {
    *("and", "or", "not", "in", "like", "is", "null", "true", "false", "exists", "between"),
    *("json_contains", "array_contains", "count", "text_match", "phrase_match", "id"),
}
"""Keywords of Milvus' filters."""


def stored_values(fields: Sequence[Field], document: Document) -> dict[str, Any]:
    """Return the values of a document's fields.

    Raises `InputError` if a text is too long for Milvus.
    """
    values: dict[str, Any] = {ID: _short(document, "id", document.id)}
    for field in fields:
        value = document.metadata.get(field.column)
        stored = field.stored(value)
        values[field.name] = _short(document, field.column, stored)
        values[field.missing] = value is None
    return values


def _units_of(value: Any) -> Any:
    """Convert dates and times to microseconds since 1970 or midnight; keep numbers."""
    if isinstance(value, datetime):
        since = value - _EPOCH
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if isinstance(value, date):
        return (value - _EPOCH.date()).days * DAY
    if isinstance(value, time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 1_000_000 + value.microsecond
    return value


def _finite(value: float) -> float:
    if math.isnan(value):
        return LARGEST_REAL
    return min(max(value, -LARGEST_REAL), LARGEST_REAL) + 0.0  # Milvus can't find -0.0 in lists


def _short(document: Document, column: str, value: Any) -> Any:
    if isinstance(value, str) and len(value) * 4 > LONGEST_TEXT:
        size = len(value.encode())
        if size > LONGEST_TEXT:
            raise InputError(
                f"document {document.id!r:.80}: {column} has {size:,} bytes; Milvus takes "
                f"{LONGEST_TEXT:,} (leave_out={column!r} pushes the others)"
            )
    return value
