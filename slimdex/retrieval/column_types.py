"""Column types: conversion of Python values to the user's columns and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from slimdex.errors import InputError
from slimdex.system.json_text import parse_json
from slimdex.system.unicode_text import check_unicode

from .documents import BUILT_IN_COLUMNS, Document

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

DEEPEST_LISTS = 8
"""Nesting depth of list types; deeper lists are JSON."""
WITHIN_JSON = {"JSON", "BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR"}
"""Types whose values JSON restores exactly."""


def by_lower_name(document: Document) -> dict[str, tuple[str, Any]]:
    """Map lower-case names to a document's metadata (name, value): DuckDB ignores case.

    Raises `InputError` if a name is invalid, reserved, or differs from another only in case.
    """
    out = dict[str, tuple[str, Any]]()
    for name, value in document.metadata.items():
        if not isinstance(name, str) or not name or name.lower() in BUILT_IN_COLUMNS:
            raise InputError(
                f"document {document.id!r}: metadata {name!r}; expected a name other than "
                f"{', '.join(BUILT_IN_COLUMNS)}"
            )
        check_unicode(name, f"document {document.id!r}, metadata")
        if name.lower() in out:
            raise InputError(
                f"document {document.id!r}: metadata {out[name.lower()][0]!r} and {name!r}; "
                "expected names that differ in more than case"
            )
        try:
            out[name.lower()] = name, _plain(value)
        except InputError as error:
            raise InputError(f"document {document.id!r}, column {name!r}: {error}") from error
    return out


def plain(value: Any) -> Any:
    """Convert numbers, times and arrays of numpy and pandas to Python's own.

    Missing values (NaT, NA, NaN) become None. Other values are unchanged.

    Raises `InputError` for infinity, which JSON can't express.

    >>> import numpy as np
    >>> plain({"a": np.array([1, 2]), "b": np.datetime64("NaT")})
    {'a': [1, 2], 'b': None}
    """
    if type(value).__name__ in ("NaTType", "NAType"):  # unequal to everything
        return None
    if isinstance(value, float):
        return _finite(value)
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
    converted = convert()
    may_lack_values = isinstance(converted, list | float)  # NaN, or items of an array
    return plain(converted) if may_lack_values else converted


def _finite(value: float) -> float | None:
    """Return None for NaN, a missing value; raise `InputError` for infinity."""
    if math.isinf(value):
        raise InputError(f"{value}; expected a finite number")
    return None if math.isnan(value) else value


def _plain(value: Any) -> Any:
    """Convert a value as `plain` does; values of Python's own types are returned at once."""
    if type(value) in TYPES:
        return _finite(value) if type(value) is float else value
    try:
        return plain(value)
    except RecursionError:  # reported when it is written
        return value


def types_of(metadata: Sequence[Mapping[str, tuple[str, Any]]], known: Set[str]) -> dict[str, str]:
    """Map names that have values to the DuckDB type that fits all of their values.

    `known` are lower-case names to omit.
    """
    columns: dict[str, tuple[str, set[str]]] = {}  # lower-case name -> name, kinds of its values
    for row in metadata:
        for key, (name, value) in row.items():
            if key not in known and value is not None:
                _, kinds = columns.setdefault(key, (name, set()))
                kinds.add(_kind(value))
    return {name: _type_name(_joint(kinds)) for name, kinds in columns.values()}


def type_of(value: Any) -> str:
    """The DuckDB type of a value; a list is JSON unless its items have a common type.

    >>> type_of([1, 2.5]), type_of([1, "a"]), type_of([])
    ('DOUBLE[]', 'JSON', 'VARCHAR[]')
    """
    return _type_name(_kind(value))


def _kind(value: Any, depth: int = DEEPEST_LISTS) -> str:
    """A DuckDB type, with "[]" for an empty list, whose items have no type."""
    if not isinstance(value, list):
        return TYPES.get(type(value), "JSON")
    if not depth:
        return "JSON"
    return _list_of({_kind(item, depth - 1) for item in value if item is not None})


def _type_name(kind: str) -> str:
    return f"VARCHAR{kind}" if kind.startswith("[") else kind


def _list_of(kinds: set[str]) -> str:
    """The type of lists whose items have these types."""
    joint = _joint(kinds) if kinds else ""

    # A list type would change true to 1, or numbers to texts; JSON keeps mixed items as they are.
    changes_items = len(kinds) > 1 and ("BOOLEAN" in kinds or joint == "VARCHAR")
    return "JSON" if joint == "JSON" or changes_items else f"{joint}[]"


def _joint(kinds: set[str]) -> str:
    """The type of a column whose values have these types."""
    # Numbers and times.
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds <= {"BOOLEAN", "BIGINT", "DOUBLE"}:
        return "DOUBLE" if "DOUBLE" in kinds else "BIGINT"
    if kinds == {"DATE", "TIMESTAMP"}:
        return "TIMESTAMP"

    # Lists; "" stands for the items of an empty list.
    if all(kind.endswith("[]") for kind in kinds):
        return _list_of({kind.removesuffix("[]") for kind in kinds} - {""})

    # Anything else: JSON if there are lists or dicts and JSON keeps all values, else text.
    leaves = {kind.replace("[]", "") for kind in kinds}
    is_nested = "JSON" in kinds or any(kind.endswith("[]") for kind in kinds)
    return "JSON" if is_nested and leaves <= {"", *WITHIN_JSON} else "VARCHAR"


def restore_values(columns: Mapping[str, str], values: Sequence[Any]) -> dict[str, Any]:
    """Convert the columns of one document, as DuckDB returned them, to name -> value.

    Raises `InputError` if JSON can't be read, for example because it is nested too deeply.
    """
    restored = dict(zip(columns, values, strict=True))
    for name, type_ in columns.items():
        if type_ == "JSON" and restored[name] is not None:
            restored[name] = _from_json(name, restored[name])
    return restored


def _from_json(name: str, text: str) -> Any:
    """Parse a value of a JSON column; raise `InputError` with the column's name if it is broken."""
    try:
        return parse_json(text)
    except ValueError as error:
        raise InputError(f"column {name!r}: JSON that can't be read ({error})") from error
