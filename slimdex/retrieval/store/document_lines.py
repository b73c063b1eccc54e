"""Lines: the values of a document as one line of JSON, restored exactly.

Numbers, texts, booleans, lists and null are JSON's own. Other values are objects of one item
that names the type: {"date": "2024-12-31"}. Infinity and NaN are written as Python's json does,
which other readers of JSON may refuse.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID


class UnwritableError(TypeError):
    """A value that a line can't restore exactly."""


_PLAIN = {type(None), bool, int, float, str}
_KINDS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    date: ("date", date.isoformat, date.fromisoformat),
    datetime: ("datetime", lambda v: _unzoned(v).isoformat(), datetime.fromisoformat),
    time: ("time", lambda v: _unzoned(v).isoformat(), time.fromisoformat),
    timedelta: (
        "timedelta",
        lambda v: [v.days, v.seconds, v.microseconds],
        lambda v: timedelta(*v),
    ),
    Decimal: ("decimal", str, Decimal),
    UUID: ("uuid", str, UUID),
    bytes: ("bytes", lambda v: b64encode(v).decode(), b64decode),
    tuple: ("tuple", lambda v: [*map(_jsonable, v)], tuple),
    # Pairs, since the names of a struct could be those of our types.
    dict: ("struct", lambda v: [[*map(_jsonable, item)] for item in v.items()], dict),
}
"""Type -> its name, serialisation and parsing."""
_READ = {name: read for name, _, read in _KINDS.values()}


def line_of(values: Sequence[Any]) -> bytes:
    """Serialise values as a line of JSON in UTF-8, with its end.

    Raises `UnwritableError` if `values_of` could not restore a value: a time with a zone, for
    example.

    >>> line_of([7, None, date(2024, 12, 31)])
    b'[7,null,{"date":"2024-12-31"}]\\n'
    """
    items = [value if type(value) in _PLAIN else _jsonable(value) for value in values]
    return f"{_ENCODER.encode(items)}\n".encode()


def values_of(line: bytes) -> list[Any]:
    """Parse a line of `line_of`; raises `ValueError` if it is invalid.

    >>> values_of(line_of([7, None, date(2024, 12, 31)]))
    [7, None, datetime.date(2024, 12, 31)]
    """
    try:
        values, _ = _DECODER.raw_decode(line.decode())
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"no line of a document ({error})") from error
    if not isinstance(values, list):
        raise ValueError("no line of a document (expected a list)")
    return values


def _jsonable(value: Any) -> Any:
    type_ = type(value)
    if type_ in _PLAIN:
        return value
    if type_ is list:
        return [*map(_jsonable, value)]
    if type_ not in _KINDS:
        raise UnwritableError(f"a value of {type_.__name__}")
    name, written, _ = _KINDS[type_]
    return {name: written(value)}


def _unzoned(value: Any) -> Any:
    if value.tzinfo is not None or value.fold:  # zones have no names that every machine knows
        raise UnwritableError(f"{value!r}, of a zone")
    return value


def _restored(item: dict[str, Any]) -> Any:
    ((name, value),) = item.items()
    if name not in _READ:
        raise ValueError(f"a value of {name!r}")
    return _READ[name](value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(object_hook=_restored)
