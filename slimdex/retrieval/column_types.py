"""Column types: for conditions, each of the user's columns has a type that holds all its values.

Documents keep their values as they were given. A type only widens: whole numbers become DOUBLE for
the first 2.5, and text for the first "iv".
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable, Set
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from slimdex.errors import InputError, short_repr
from slimdex.system.json_text import dump_json
from slimdex.system.unicode_text import check_unicode

KINDS: dict[type, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    Decimal: "DOUBLE",
    str: "VARCHAR",
    datetime: "TIMESTAMP",
    date: "DATE",
    dict: "JSON",
}
"""Python's types and those of columns; other values, such as times and UUIDs, are text."""
ANY = ("VARCHAR", "JSON")
"""Types that hold any value, as text."""
FIXED = {*KINDS.values()} - {*ANY}
"""Types of values that always fit them."""
TYPES = {type_ + end for type_ in KINDS.values() for end in ("", "[]")} - {"JSON[]"}
"""All types of columns: of one value, of lists of such values, and JSON."""
WIDER = {frozenset({"BIGINT", "DOUBLE"}): "DOUBLE", frozenset({"DATE", "TIMESTAMP"}): "TIMESTAMP"}
LARGEST_WHOLE = 1 << 63
EXACT = 1 << 53
"""Whole numbers from here on are not all in DOUBLE."""


def plain(value: Any) -> Any:
    """Convert numbers, times and arrays of numpy and pandas to Python's own.

    Missing values (NaT, NA, NaN) become None. Other values are unchanged.

    Raises `InputError` for infinity, which JSON can't express.

    >>> import numpy as np
    >>> plain({"a": np.array([1, 2]), "b": np.datetime64("NaT")})
    {'a': [1, 2], 'b': None}
    """
    if type(value) in (str, int, bool):
        return value
    if type(value).__name__ in ("NaTType", "NAType"):  # unequal to everything
        return None
    if isinstance(value, float):
        if math.isinf(value):
            raise InputError(f"{value}; expected a finite number")
        return None if math.isnan(value) else float(value)
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


def storable(value: Any) -> Any:
    """Return a value as `plain` does; raises `InputError` if it can't be stored."""
    value = plain(value)
    if value is not None and kind_of(value) not in FIXED:
        try:
            stored(value, "VARCHAR")
        except (TypeError, ValueError) as error:
            raise InputError(
                f"metadata of {type(value).__name__}: {error}; expected numbers, texts, dates, "
                "lists and dicts of these"
            ) from error
        check_unicode(value, "metadata")
    return value


def widen(current: str | None, values: Iterable[Any]) -> str:
    """Return the type of a column with some more values.

    `current` is its type so far; None for a new column, which has a value. In a column of dates or
    moments, a text in ISO 8601 is one.

    >>> widen(None, [1, 2.5]), widen("BIGINT", ["7", "iv"]), widen("DATE", ["2024-12-31"])
    ('DOUBLE', 'VARCHAR', 'DATE')
    """
    if current in ANY:
        return str(current)
    kinds = {kind_of(read_text(value, current)) for value in values}
    type_ = joint(kinds if current is None else {current, *kinds})
    return "VARCHAR[]" if type_ == "[]" else type_  # of lists without any item


def is_type(type_: Any) -> bool:
    """True for the type of a column; in an untrusted manifest, it may be anything."""
    return isinstance(type_, str) and type_ in TYPES


def read_text(value: Any, type_: str | None) -> Any:
    """Read a text as a column of dates or moments does; other values are returned unchanged.

    >>> read_text("2024-12-31", "DATE"), read_text("soon", "DATE")
    (datetime.date(2024, 12, 31), 'soon')
    """
    if isinstance(value, str) and type_ in ("DATE", "TIMESTAMP"):
        with suppress(ValueError):
            return (date if type_ == "DATE" else datetime).fromisoformat(value)
    return value


def kind_of(value: Any) -> str:
    """The narrowest type that holds a value; "[]" for a list without items.

    Numbers whose digits neither BIGINT nor DOUBLE keeps are text. A list is JSON unless its items
    have a common type.

    >>> kind_of([1, 2.5]), kind_of([1, "a"]), kind_of([]), kind_of(10**20)
    ('DOUBLE[]', 'JSON', '[]', 'VARCHAR')
    """
    if type(value) is list:
        return _list_of({kind_of(item) for item in value if item is not None})
    if type(value) is int and not -LARGEST_WHOLE <= value < LARGEST_WHOLE:
        return "VARCHAR"
    if type(value) is Decimal and not (value.is_finite() and Decimal(repr(float(value))) == value):
        return "VARCHAR"
    return KINDS.get(type(value), "VARCHAR")


def _list_of(kinds: set[str]) -> str:
    """The type of lists whose items have these types."""
    items = joint(kinds) if kinds else ""

    # A list type would change numbers to texts; JSON keeps mixed items, and lists, as they are.
    changes_items = len(kinds) > 1 and items == "VARCHAR"
    is_json = items == "JSON" or items.endswith("]") or changes_items
    return "JSON" if is_json else f"{items}[]"


def joint(kinds: Set[str]) -> str:
    """The type of a column whose values have these types."""
    if len(kinds) == 1:
        return next(iter(kinds))
    if frozenset(kinds) in WIDER:
        return WIDER[frozenset(kinds)]
    are_lists = [kind.endswith("[]") for kind in kinds]
    if all(are_lists):  # "" stands for the items of an empty one
        return _list_of({kind.removesuffix("[]") for kind in kinds} - {""})
    return "JSON" if "JSON" in kinds or any(are_lists) else "VARCHAR"


def stored(value: Any, type_: str) -> Any:
    """Convert a value to what DuckDB stores in a column of this type.

    Raises `ValueError` if it does not fit, and `TypeError` or `ValueError` if it can't be stored.

    >>> stored(7, "DOUBLE"), stored(["a", None], "VARCHAR[]"), stored({"a": 1}, "JSON")
    (7.0, ['a', None], '{"a":1}')
    """
    if value is None:
        return None
    if type_ in ANY:
        return _json(value) if type_ == "JSON" else _text(value)
    value = read_text(value, type_)
    if joint({kind_of(value), type_}) != type_:
        raise ValueError(f"{short_repr(value)} in a column of {type_}")
    if type_.endswith("[]"):
        return [stored(item, type_[:-2]) for item in value]
    if type_ == "TIMESTAMP":
        return in_utc(value)
    return float(value) if type_ == "DOUBLE" else value


def in_utc(moment: date) -> datetime:
    """A moment without a zone: in UTC, if it had one. A date is its midnight.

    >>> in_utc(datetime.fromisoformat("2024-12-31T10:00+02:00"))
    datetime.datetime(2024, 12, 31, 8, 0)
    """
    if not isinstance(moment, datetime):
        return datetime(moment.year, moment.month, moment.day)
    with suppress(OverflowError):  # in the first or last hours of all years
        moment = moment.astimezone(UTC) if moment.tzinfo else moment
    return moment.replace(tzinfo=None)


def _text(value: Any) -> str:
    """Text of a value: lists as JSON, bytes in base64, others as DuckDB prints its types.

    But whole numbers have no ".0". Raises `TypeError` for another type, `ValueError` for a number
    of too many digits, or JSON that is nested too deep.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list | dict):
        return _json(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind_of(value) == "DOUBLE":
        return repr(float(value)).removesuffix(".0")
    if isinstance(value, datetime):
        text = str(in_utc(value))
        return text.rstrip("0") if value.microsecond else text
    if not isinstance(value, int | Decimal | date | time | timedelta | UUID):
        raise TypeError("can't be stored")
    return str(value)


def _json(value: Any) -> str:
    return dump_json(value, _text, ensure_ascii=False, separators=(",", ":"))
