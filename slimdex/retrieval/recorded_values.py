"""Values of metadata that an index's columns would change, as JSON in the column `RECORD`.

`integrations.metadata` decides which these are.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from slimdex.errors import InputError, short_repr


def encode_value(value: Any) -> Any:
    """Convert a value to JSON, from which `decode_value` restores it.

    A dict, or a value of a type that JSON lacks, becomes an object with a single item: the name of
    the type, and the value in JSON.

    Raises `InputError` for a value of another type.
    """
    # Values that JSON has, and dicts.
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [*map(encode_value, value)]
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {"dict": {name: encode_value(item) for name, item in value.items()}}

    # Other values, as a dict with the name of their type.
    for type_, (name, encode, _) in _KINDS.items():
        if isinstance(value, type_):
            return {name: encode(value)}
    raise InputError(
        f"metadata {short_repr(value)}; expected numbers, texts, dates, lists and dicts of these"
    )


def decode_value(value: Any) -> Any:
    """Restore a value from the JSON of `encode_value`."""
    if isinstance(value, list):
        return [*map(decode_value, value)]
    if not isinstance(value, dict):
        return value
    ((name, inner),) = value.items()
    if name == "dict":
        return {key: decode_value(item) for key, item in inner.items()}
    return _DECODED[name](inner)


def _encode_moment(moment: datetime) -> list[Any]:
    """Encode a moment as [text, None], or with a zone as [text in UTC, seconds from UTC, name].

    The name is that of the zone; None if only its offset is known.
    """
    if moment.tzinfo is None:
        return [moment.isoformat(), None]
    zone = getattr(moment.tzinfo, "key", None)
    offset = moment.utcoffset() or timedelta()
    in_utc = moment.astimezone(UTC).replace(tzinfo=None)
    return [in_utc.isoformat(), offset.total_seconds(), zone]


def _moment(parts: list[Any]) -> datetime:
    """Restore a moment from the result of `_encode_moment`."""
    text, offset, *name = parts
    moment = datetime.fromisoformat(text)
    if offset is None:
        return moment
    zone: tzinfo = timezone(timedelta(seconds=offset)) if offset else UTC
    with suppress(KeyError, ValueError, OSError):  # this machine may lack the zone
        zone = ZoneInfo(name[0]) if name and name[0] else zone
    return moment.replace(tzinfo=UTC).astimezone(zone)


def _pairs(value: Mapping[Any, Any]) -> list[Any]:
    return [[encode_value(name), encode_value(item)] for name, item in value.items()]


def _from_pairs(pairs: list[Any]) -> dict[Any, Any]:
    return {decode_value(name): decode_value(item) for name, item in pairs}


_KINDS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    datetime: ("datetime", _encode_moment, _moment),
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
