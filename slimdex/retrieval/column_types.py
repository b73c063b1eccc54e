"""Column types: for conditions, each of the user's columns has a type that holds all its values.

Documents keep their values as they were given. A type only widens: whole numbers become DOUBLE for
the first 2.5, and text for the first "iv".
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from slimdex.errors import InputError
from slimdex.system.json_text import dump_json, parse_json
from slimdex.system.unicode_text import check_unicode

from .documents import BUILT_IN_COLUMNS, Document

BIG = "DECIMAL(38,0)"
"""Type of whole numbers that BIGINT does not hold: HUGEINT would be rounded in Parquet."""
FRACTIONS = "DECIMAL(38,10)"
TYPES: dict[type, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
    datetime: "TIMESTAMP",
    date: "DATE",
    time: "TIME",
    timedelta: "INTERVAL",
    Decimal: FRACTIONS,
    UUID: "UUID",
    bytes: "BLOB",
}
ANY = ("VARCHAR", "JSON")
"""Types that hold any value, as text."""
DEEPEST_LISTS = 8
"""Nesting depth of list types; deeper lists are JSON."""
WITHIN_JSON = {"JSON", "BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR"}
"""Types whose values JSON restores exactly."""
NUMBERS = ("BIGINT", FRACTIONS, "DOUBLE")
"""Types of which each holds the values of those before it."""
LARGEST_WHOLE = 1 << 63
LARGEST_BIG = 10**38
EXACT = 1 << 53
"""Whole numbers from here on are not all in DOUBLE."""
READ: Mapping[str, Callable[[str], Any]] = {
    "BIGINT": int,
    BIG: int,
    FRACTIONS: Decimal,
    "DOUBLE": float,
    "TIMESTAMP": datetime.fromisoformat,
    "DATE": date.fromisoformat,
    "TIME": time.fromisoformat,
    "UUID": UUID,
}
"""Types whose values texts may state, if they write them as `_text` does: so 007 is a text."""
FREE = ("TIMESTAMP", "TIME")
"""Types that texts may write in any form of ISO 8601."""
DECLARED = {
    re.compile(r"U?(TINY|SMALL|BIG)INT|U?INTEGER"): "BIGINT",
    re.compile(r"U?HUGEINT"): BIG,
    re.compile(r"DECIMAL\(\d+, ?0\)"): BIG,
    re.compile(r"DECIMAL.*"): FRACTIONS,
    re.compile(r"FLOAT|DOUBLE"): "DOUBLE",
    re.compile(r"TIMESTAMP.*"): "TIMESTAMP",
    re.compile(r"TIME.*"): "TIME",
}
"""Names of DuckDB's types, and the type of such columns; those of other names are text."""


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
    return None if math.isnan(value) else float(value)


def _plain(value: Any) -> Any:
    """Convert a value as `plain` does; values of Python's own types are returned at once."""
    if type(value) in TYPES:
        return _finite(value) if type(value) is float else value
    try:
        return plain(value)
    except RecursionError:  # reported when it is written
        return value


def declared_type(type_: str) -> str:
    """Type of a column whose source states this DuckDB type.

    >>> declared_type("INTEGER[]"), declared_type("TIMESTAMP_NS"), declared_type("BIT")
    ('BIGINT[]', 'TIMESTAMP', 'VARCHAR')
    """
    base, bracket, _ = type_.partition("[")
    item = base if base in TYPES.values() or base == "JSON" else "VARCHAR"
    for pattern, name in DECLARED.items():
        if pattern.fullmatch(base):
            item = name
            break
    return item + type_.count("[") * "[]" if bracket else item


def widen(current: str | None, values: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return the type of a column with some more values, and these as it stores them.

    `current` is its type so far; None for a new column, which has a value. A text that states a
    value of the type, such as an ISO date, does not widen it. Missing values stay None. Raises
    `InputError` if a value can't be stored.

    >>> widen(None, [1, None, 2.5]), widen("BIGINT", ["7", "iv"])
    (('DOUBLE', [1.0, None, 2.5]), ('VARCHAR', ['7', 'iv']))
    >>> widen("DATE", ["2024-12-31"])
    ('DATE', [datetime.date(2024, 12, 31)])
    """
    kinds = set[str]() if current is None else {current}
    if current not in ANY:
        for value in values:
            if value is not None and (current is None or not _fits(value, current)):
                kinds.add(kind_of(value))
    type_ = joint(kinds)
    return type_, [stored(value, type_) for value in values]


def is_type(type_: Any) -> bool:
    """True for the type of a column; in an untrusted manifest, it may be anything."""
    return isinstance(type_, str) and re.sub(r"(\[\]){1,8}$", "", type_) in {"", *_STORED}


def sql_type(type_: str) -> str:
    """DuckDB's name of a column's type: lists whose items are not known yet are of texts.

    >>> sql_type("[]"), sql_type("BIGINT")
    ('VARCHAR[]', 'BIGINT')
    """
    return f"VARCHAR{type_}" if type_.startswith("[") else type_


def _fits(value: Any, type_: str) -> bool:
    """Whether a column of this type can store a value."""
    try:
        stored(value, type_)
    except InputError:
        raise
    except (ArithmeticError, TypeError, ValueError):
        return False
    return True


def kind_of(value: Any) -> str:
    """The narrowest type that holds a value; "[]" for an empty list, whose items have none.

    A list is JSON unless its items have a common type.

    >>> kind_of([1, 2.5]), kind_of([1, "a"]), kind_of([]), kind_of(10**20)
    ('DOUBLE[]', 'JSON', '[]', 'DECIMAL(38,0)')
    """
    return _kind(value, DEEPEST_LISTS)


def _kind(value: Any, depth: int) -> str:
    if isinstance(value, list):
        if not depth:
            return "JSON"
        return _list_of({_kind(item, depth - 1) for item in value if item is not None})
    type_ = TYPES.get(type(value), "JSON" if isinstance(value, dict) else "VARCHAR")
    for wider in (type_, BIG):
        if _fits(value, wider):
            return wider
    return "VARCHAR"


def _list_of(kinds: set[str]) -> str:
    """The type of lists whose items have these types."""
    items = joint(kinds) if kinds else ""

    # A list type would change numbers to texts; JSON keeps mixed items as they are.
    changes_items = len(kinds) > 1 and items == "VARCHAR"
    return "JSON" if items == "JSON" or changes_items else f"{items}[]"


def joint(kinds: set[str]) -> str:
    """The type of a column whose values have these types."""
    # Numbers and times.
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds <= {*NUMBERS}:
        return max(kinds, key=NUMBERS.index)
    if kinds == {"BIGINT", BIG}:
        return BIG
    if kinds == {"DATE", "TIMESTAMP"}:
        return "TIMESTAMP"

    # Lists; "" stands for the items of an empty list.
    if all(kind.endswith("[]") for kind in kinds):
        return _list_of({kind.removesuffix("[]") for kind in kinds} - {""})

    # Anything else: JSON if there are lists or dicts and JSON keeps all values, else text.
    leaves = {kind.replace("[]", "") for kind in kinds}
    is_nested = "JSON" in kinds or any(kind.endswith("[]") for kind in kinds)
    return "JSON" if is_nested and leaves <= {"", *WITHIN_JSON} else "VARCHAR"


def stored(value: Any, type_: str) -> Any:
    """Convert a value to what DuckDB stores in a column of this type.

    Raises `ArithmeticError`, `TypeError` or `ValueError` if it does not fit, of which `InputError`
    if no type holds it.

    >>> stored(7, "DOUBLE"), stored([1, None], "VARCHAR[]"), stored({"a": 1}, "JSON")
    (7.0, ['1', None], '{"a":1}')
    """
    if value is None:
        return None
    if type_.endswith("[]"):
        has_items = isinstance(value, list) and value != [None] * len(value)
        if not isinstance(value, list) or (type_ == "[]" and has_items):
            raise TypeError
        return [stored(item, type_[:-2]) for item in value]
    if isinstance(value, str) and type_ in READ:
        text = value
        value = READ[type_](text)
        if type_ not in FREE and _text(value) != text:
            raise ValueError
    return _STORED[type_](value)


def _only(*types: type) -> Callable[[Any], Any]:
    """Return a function that returns values of some types; it raises `TypeError` for others."""

    def same(value: Any) -> Any:
        if type(value) not in types:
            raise TypeError
        return value

    return same


def _whole(least: int, stop: int) -> Callable[[Any], int]:
    """Return a function that returns whole numbers from `least` to before `stop`."""

    def whole(value: Any) -> int:
        number: int = _only(int)(value)
        if not least <= number < stop:
            raise ValueError
        return number

    return whole


def _double(value: Any) -> float:
    number = float(_only(int, float, Decimal)(value))
    if not math.isfinite(number) or (isinstance(value, int) and not _is_bigint(value)):
        raise ValueError
    return number


def _decimal(value: Any) -> Decimal:
    number = Decimal(_only(int, Decimal)(value))
    if not number.is_finite() or (isinstance(value, int) and not _is_bigint(value)):
        raise InvalidOperation
    rounded = number.quantize(Decimal("1e-10"), context=Context(prec=38))
    if rounded != number:
        raise ValueError
    return rounded


def _is_bigint(value: int) -> bool:
    return -LARGEST_WHOLE <= value < LARGEST_WHOLE


def _moment(value: Any) -> datetime:
    """Moments in a zone are stored in UTC; a date is its midnight."""
    moment: datetime = _only(datetime, date)(value)
    if not isinstance(moment, datetime):
        return datetime.combine(moment, time())
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _time_of_day(value: Any) -> time:
    """Times are stored in UTC; one in a zone, whose offset depends on the day, does not fit."""
    clock: time = _only(time)(value)
    if clock.tzinfo is None:
        return clock
    offset = clock.utcoffset()
    if offset is None:
        raise ValueError
    return (datetime.combine(date(2000, 1, 2), clock.replace(tzinfo=None)) - offset).time()


def _text(value: Any) -> str:
    """Text of a value: as Python prints it, but of whole numbers without ".0"; lists as JSON.

    Raises `InputError` for another type, or half a character.
    """
    if isinstance(value, str):
        check_unicode(value, "metadata")
        return str(value)
    if isinstance(value, list | dict):
        return _json(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
        return str(int(value))
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value.normalize():f}"
    if not isinstance(value, tuple(TYPES)):
        raise _refusal(value, "can't be stored")
    try:
        return str(_moment(value) if type(value) is datetime else value)
    except OverflowError:  # before the first year in UTC
        return str(value)
    except ValueError as error:  # a number of too many digits
        raise _refusal(value, error) from error


def _json(value: Any) -> str:
    """Convert a value to JSON, other types to text; raises `InputError` if that is impossible."""
    try:
        text = dump_json(value, _text, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise _refusal(value, error) from error
    check_unicode(text, "metadata")
    return text


def _refusal(value: Any, why: object) -> InputError:
    return InputError(
        f"metadata of {type(value).__name__}: {why}; expected numbers, texts, dates, lists and "
        "dicts of these"
    )


_STORED: Mapping[str, Callable[[Any], Any]] = {
    "BOOLEAN": _only(bool),
    "BIGINT": _whole(-LARGEST_WHOLE, LARGEST_WHOLE),
    BIG: _whole(1 - LARGEST_BIG, LARGEST_BIG),
    FRACTIONS: _decimal,
    "DOUBLE": _double,
    "VARCHAR": _text,
    "JSON": _json,
    "TIMESTAMP": _moment,
    "DATE": _only(date),
    "TIME": _time_of_day,
    "INTERVAL": _only(timedelta),
    "UUID": _only(UUID),
    "BLOB": _only(bytes),
}
"""Type -> conversion to it."""


def restore_values(columns: Mapping[str, str], values: Iterable[Any]) -> dict[str, Any]:
    """Convert the columns of a table's row, as DuckDB returned them, to name -> value.

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
