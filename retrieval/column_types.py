"""Columns: what Python values the user's own columns take, and how they come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from slimdex.indexes.errors import InputError
from slimdex.indexes.json_text import READABLE, parsed, written

from .documents import OWN_COLUMNS, Document

TYPES: dict[type, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
    datetime: "TIMESTAMP",
    date: "DATE",
    time: "TIME",
    timedelta: "INTERVAL",
    Decimal: "DECIMAL(38, 10)",
    UUID: "UUID",
    bytes: "BLOB",
}

SHOWN_BITS = 256
"""Of a whole number that a message shows: Python refuses to write out much larger ones."""
WITHIN_JSON = {"JSON", "BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR"}
"""Columns of these come back from JSON as they were."""


def by_lower_name(document: Document) -> dict[str, tuple[str, Any]]:
    """A document's metadata by name without case, as DuckDB takes names: (name, value).

    Raises
    ------
    InputError
        If a name is none, is ours, or differs from another one only in case.
    """
    out = dict[str, tuple[str, Any]]()
    for name, value in document.metadata.items():
        if not isinstance(name, str) or not name or name.lower() in OWN_COLUMNS:
            raise InputError(
                f"document {document.id!r}: metadata {name!r}; expected a name other than "
                f"{', '.join(OWN_COLUMNS)}"
            )
        if not _is_unicode(name):
            raise InputError(f"document {document.id!r}: metadata {name!r}; expected Unicode")
        if name.lower() in out:
            raise InputError(
                f"document {document.id!r}: metadata {out[name.lower()][0]!r} and {name!r}; "
                "expected names that differ in more than case"
            )
        out[name.lower()] = name, _plain(value)
    return out


def plain(value: Any) -> Any:
    """A value as Python has it: numpy's and pandas' numbers, moments and arrays know theirs.

    What is missing to them (NaT, NA) is None. Anything else stays as it is.

    >>> import numpy as np
    >>> plain({"a": np.array([1, 2]), "b": np.datetime64("NaT")})
    {'a': [1, 2], 'b': None}
    """
    if type(value).__name__ in ("NaTType", "NAType"):  # which are moments, and unequal to all
        return None
    if isinstance(value, datetime):
        return datetime.combine(value.date(), value.timetz())
    if isinstance(value, timedelta):
        return timedelta(value.days, value.seconds, value.microseconds)
    if str(getattr(value, "dtype", "")).endswith(("[ns]", "[ps]", "[fs]", "[as]")):
        value = value.astype(f"{value.dtype.kind}8[us]")  # finer ones become Python's numbers
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    convert = getattr(value, "tolist", None)  # also of tensors and pandas' series
    if not callable(convert):
        return value
    found = convert()
    return plain(found) if isinstance(found, list) else found


def _plain(value: Any) -> Any:
    if type(value) in TYPES:
        return value
    try:
        return plain(value)
    except RecursionError:  # whoever writes it says so
        return value


def types_of(metadata: Sequence[Mapping[str, tuple[str, Any]]], typed: Set[str]) -> dict[str, str]:
    """Name -> the DuckDB type that holds all the values, for names that have any."""
    values: dict[str, tuple[str, set[str]]] = {}
    for row in metadata:
        for key, (name, value) in row.items():
            if key not in typed and value is not None:
                values.setdefault(key, (name, set()))[1].add(TYPES.get(type(value), "JSON"))
    return {name: _type_of(types) for name, types in values.values()}


def _type_of(types: set[str]) -> str:
    if len(types) == 1:
        return next(iter(types))
    if types <= {"BOOLEAN", "BIGINT", "DOUBLE"}:
        return "DOUBLE" if "DOUBLE" in types else "BIGINT"
    if types == {"DATE", "TIMESTAMP"}:
        return "TIMESTAMP"
    return "JSON" if "JSON" in types and types <= WITHIN_JSON else "VARCHAR"


def as_stored(value: Any, type_: str) -> Any:
    """A value as DuckDB's client takes it for a column of this type."""
    if value is None:
        return None
    if type_ == "JSON":
        return _as_json(value)
    if type_ == "VARCHAR":  # truth as DuckDB writes it where a column becomes text
        return str(value).lower() if isinstance(value, bool) else str(value)
    if type_ == "DOUBLE" and isinstance(value, int) and not _fits_double(value):
        shown = (
            value if value.bit_length() < SHOWN_BITS else f"a number of {value.bit_length()} bits"
        )
        raise InputError(
            f"{shown} would lose digits in a column of DOUBLE; expected a whole number that DOUBLE "
            "holds, or texts in this column"
        )
    return value


def _fits_double(value: int) -> bool:
    try:
        return float(value) == value
    except OverflowError:
        return False


def _as_json(value: Any) -> str:
    try:
        return written(value)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"metadata of {type(value).__name__}: {error}; expected numbers, texts, dates, lists "
            "and dicts of these"
        ) from error


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def restored(columns: Mapping[str, str], values: Sequence[Any]) -> dict[str, Any]:
    """Name -> value of one document, from the columns' types and what DuckDB gave.

    Raises
    ------
    InputError
        If JSON can't be read, being nested too deep for example.
    """
    return {
        name: _from_json(name, value) if type_ == "JSON" and value is not None else value
        for (name, type_), value in zip(columns.items(), values, strict=True)
    }


def _from_json(name: str, text: str) -> Any:
    try:
        return parsed(text, READABLE)
    except ValueError as error:
        raise InputError(f"column {name!r}: JSON that can't be read ({error})") from error
