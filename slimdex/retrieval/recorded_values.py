"""Values of metadata that an index's columns would change, stored as they were in one column.

`integrations.metadata` decides which these are. The column is JSON, name -> value, and no user has
to know of it: commands and services show the values under their names.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from slimdex.indexes.errors import InputError, shortened_repr

RECORD = "slimdex_metadata"
"""Column of the values that the other columns would change."""
MALFORMED = (ArithmeticError, AttributeError, KeyError, TypeError, ValueError)
"""Errors of `decoded` for JSON that `encoded` has not made."""


def shown_columns(columns: Iterable[str]) -> list[str]:
    """Return the columns that a user is to see.

    >>> shown_columns(["year", "slimdex_metadata"])
    ['year']
    """
    return [name for name in columns if name != RECORD]


def shown_values(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a document's columns as they were given, those that it has.

    >>> shown_values({"year": 1990, "pages": None, "slimdex_metadata": {"page": "iv"}})
    {'year': 1990, 'page': 'iv'}
    """
    values, record = dict(columns), columns.get(RECORD)
    for name, value in record.items() if isinstance(record, dict) else ():
        with suppress(*MALFORMED):  # anyone may write such a column
            values[name] = decoded(value)
    return {name: value for name, value in values.items() if value is not None and name != RECORD}


def encoded(value: Any) -> Any:
    """A value as JSON: what JSON lacks, and objects, are objects of one item that names the type.

    Raises `InputError` for a value of another type.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [*map(encoded, value)]
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {"dict": {name: encoded(item) for name, item in value.items()}}
    for type_, (name, encode, _) in _KINDS.items():
        if isinstance(value, type_):
            return {name: encode(value)}
    raise InputError(
        f"metadata {shortened_repr(value)}; expected numbers, texts, dates, lists and dicts of "
        "these"
    )


def decoded(value: Any) -> Any:
    """The value that `encoded` has made JSON of."""
    if isinstance(value, list):
        return [*map(decoded, value)]
    if not isinstance(value, dict):
        return value
    ((name, inner),) = value.items()
    if name == "dict":
        return {key: decoded(item) for key, item in inner.items()}
    return _DECODED[name](inner)


def _encoded_moment(moment: datetime) -> list[Any]:
    """The moment in UTC, and its zone: a name, seconds from UTC, or None."""
    if moment.tzinfo is None:
        return [moment.isoformat(), None]
    zone, offset = getattr(moment.tzinfo, "key", None), moment.utcoffset() or timedelta()
    in_utc = moment.astimezone(UTC).replace(tzinfo=None)
    return [in_utc.isoformat(), offset.total_seconds(), zone]


def _moment(parts: list[Any]) -> datetime:
    text, offset, *name = parts
    moment = datetime.fromisoformat(text)
    if offset is None:
        return moment
    zone: tzinfo = timezone(timedelta(seconds=offset)) if offset else UTC
    with suppress(KeyError, ValueError, OSError):  # this machine may lack the zone
        zone = ZoneInfo(name[0]) if name and name[0] else zone
    return moment.replace(tzinfo=UTC).astimezone(zone)


def _pairs(value: Mapping[Any, Any]) -> list[Any]:
    return [[encoded(name), encoded(item)] for name, item in value.items()]


def _from_pairs(pairs: list[Any]) -> dict[Any, Any]:
    return {decoded(name): decoded(item) for name, item in pairs}


_KINDS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    datetime: ("datetime", _encoded_moment, _moment),
    date: ("date", date.isoformat, date.fromisoformat),
    time: ("time", time.isoformat, time.fromisoformat),
    timedelta: (
        "timedelta",
        lambda v: [v.days, v.seconds, v.microseconds],
        lambda v: timedelta(*v),
    ),
    Decimal: ("decimal", str, Decimal),
    UUID: ("uuid", str, UUID),
    bytes: ("bytes", lambda v: b64encode(v).decode(), b64decode),
    dict: ("pairs", _pairs, _from_pairs),
}
"""Type -> its name, serialisation and parsing."""
_DECODED = {name: decode for name, _, decode in _KINDS.values()}
