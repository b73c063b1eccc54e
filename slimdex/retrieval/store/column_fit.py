"""Conversion of Python values to those that DuckDB's client accepts for a column's type.

Text is parsed as the column's type: an ISO date for DATE, base64 for BLOB, as in documents written
as JSON. Values are never rounded or truncated.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from functools import lru_cache, partial
from os import getpid
from struct import pack, unpack
from threading import get_ident
from typing import Any
from uuid import UUID

from slimdex.errors import InputError, shorten
from slimdex.system.duckdb_library import connect, duckdb
from slimdex.system.json_text import dump_json
from slimdex.system.unicode_text import check_unicode

from ..documents import Document

SHOWN_BITS = 256
"""Largest bit length of a whole number that messages print: Python refuses much larger ones."""
WHOLE = re.compile(r"[+-]?(0|[1-9]\d*)")
NUMBER = re.compile(WHOLE.pattern + r"(\.\d+)?([eE][+-]?\d+)?")
"""A number without leading zeros, which might be part of a name."""
BITS = {"tinyint": 8, "smallint": 16, "integer": 32, "bigint": 64, "hugeint": 128}
"""Bits of the signed whole-number types; unsigned types prepend "u"."""
DIGITS = 38
"""Most digits of a DECIMAL; fractions beyond are rounded."""
MOMENT_STEPS = {"timestamp_s": 1_000_000, "timestamp_ms": 1000}
"""Microseconds per tick of the coarser timestamp types."""
FINER = {"DATE": "TIMESTAMP", "TIMESTAMP_": "TIMESTAMP", "DECIMAL": f"DECIMAL({DIGITS}, 10)"}
"""Prefix of a type's name -> a type of higher precision."""
PRINTED = (str, int, float, date, time, timedelta, Decimal, UUID)
"""Python types that a column of text stores as `str` formats them."""
Fit = Callable[[Any], Any]
"""Converts values to a type; raises `MisfitError` or `ValueError` for values that don't fit."""


class MisfitError(ValueError):
    """A value that does not fit its column's type."""


def as_stored(value: Any, type_: str) -> Any:
    """Convert a value for a column of this type.

    Raises `MisfitError` if it does not fit the type, and `InputError` if no column type can hold
    it.

    >>> as_stored("2024-12-31", "TIMESTAMP"), as_stored(["7", 8], "BIGINT[]")
    (datetime.datetime(2024, 12, 31, 0, 0), [7, 8])
    """
    try:
        return _fit(type_)(value)
    except InputError:
        raise
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise MisfitError(f"{format_value(value)}; expected {type_}") from error


def format_value(value: Any) -> str:
    """Format a value for a message."""
    if isinstance(value, int) and value.bit_length() >= SHOWN_BITS:
        return f"a number of {value.bit_length()} bits"
    text = repr(value) if isinstance(value, str | list | dict) else str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


@lru_cache(4096)
def _fit(type_: str) -> Fit:
    """Return the converter for a DuckDB type; None stays None."""
    with connect() as scratch:  # duckdb's default connection would keep its threads
        return _or_none(_fit_of(scratch.sqltype(type_)))


def _fit_of(type_: Any) -> Fit:
    """Return the converter for a type parsed by DuckDB."""
    # Nested types, from the converters of their parts.
    kind = "json" if str(type_) == "JSON" else str(type_.id)
    if kind in ("list", "array"):
        length = type_.children[1][1] if kind == "array" else None  # lists have any length
        return partial(_list, _or_none(_fit_of(type_.children[0][1])), length)
    if kind == "struct":
        return partial(_struct, {name: _or_none(_fit_of(child)) for name, child in type_.children})

    # Types with limits of their own.
    if kind == "enum":
        return partial(_one_of, frozenset(type_.children[0][1]))
    if kind == "decimal":
        return partial(_decimal, *(number for _, number in type_.children))
    if kind.removeprefix("u") in BITS:
        return partial(_whole, BITS[kind.removeprefix("u")], kind.startswith("u"))
    if kind.startswith("timestamp") and "zone" not in kind:
        return partial(_moment, MOMENT_STEPS.get(kind, 1))
    return _FITS.get(kind, lambda value: value)


def _or_none(fit: Fit) -> Fit:
    return lambda value: None if value is None else fit(value)


def _list(fit: Fit, length: int | None, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple) or length not in (None, len(value)):
        raise MisfitError
    return [fit(item) for item in value]


def _struct(fits: Mapping[str, Fit], value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() - fits.keys():
        raise MisfitError
    return {name: fit(value.get(name)) for name, fit in fits.items()}


def _one_of(values: frozenset[str], value: Any) -> str:
    if not isinstance(value, str) or value not in values:
        raise MisfitError
    return value


def _boolean(value: Any) -> bool:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    return bool(_is(bool, value))


def _whole(bits: int, unsigned: bool, value: Any) -> int:
    """Convert a whole number, or its text, for a column of `bits` bits."""
    if isinstance(value, str) and WHOLE.fullmatch(value):
        value = int(value)
    least = 0 if unsigned else -1 << bits - 1
    stop = 1 << (bits if unsigned else bits - 1)
    if not least <= _is(int, value) < stop:
        raise MisfitError
    return int(value)


def _double(value: Any) -> float:
    """Convert a number, or its text, for a column of DOUBLE; whole numbers are never rounded."""
    if isinstance(value, str):
        return _number(value)
    if isinstance(value, int) and not _is_exact(float, value):
        raise InputError(
            f"{format_value(value)} would lose digits in a column of DOUBLE; expected a whole "
            "number that DOUBLE holds, or texts in this column"
        )
    return float(_is((int, float, Decimal), value))


def _single(value: Any) -> float:
    """Convert a number for a column of FLOAT, which has four bytes."""
    if isinstance(value, str):
        return _number(value)
    number = _is((int, float), value)
    if not _is_exact(lambda x: unpack("f", pack("f", x))[0], number):
        raise MisfitError
    return float(value)


def _number(text: str) -> float:
    """Convert a text to a finite number; raises `MisfitError` if it is none."""
    if not NUMBER.fullmatch(text):
        raise MisfitError
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise MisfitError
    return number


def _is_exact(convert: Callable[[Any], float], number: float) -> bool:
    """True if a conversion leaves a number as it is."""
    try:
        return convert(number) == number
    except OverflowError:
        return False


def _decimal(digits: int, fraction: int, value: Any) -> Decimal:
    """Convert a number to `digits` digits, `fraction` of them after the point.

    It is rounded only if these are the most digits that a DECIMAL can have.
    """
    if isinstance(value, str) and NUMBER.fullmatch(value):
        value = Decimal(value)
    number = Decimal(_is((int, Decimal), value))
    rounded = number.quantize(Decimal(1).scaleb(-fraction), context=Context(prec=digits))
    if rounded != number and digits < DIGITS:
        raise MisfitError
    return rounded


def _moment(step: int, value: Any) -> datetime:
    """Convert to UTC if a zone is given: DuckDB's own result depends on the machine's zone."""
    if isinstance(value, str):
        value = _read(value, datetime.fromisoformat, "TIMESTAMPTZ")
    elif not isinstance(value, datetime):
        value = datetime.combine(_is(date, value), time())

    # Moments are stored in UTC, without a zone.
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        if value.microsecond % step:
            raise MisfitError
    moment: datetime = value
    return moment


def _time_of_day(value: Any) -> Any:
    """Convert to UTC if a zone is given, which DuckDB would drop; 24:00 stays text."""
    read = _as(time, time.fromisoformat, "TIMETZ", value)
    if not isinstance(read, time) or read.tzinfo is None:
        return read
    offset = read.utcoffset()
    if offset is None:  # it depends on the day
        raise MisfitError
    on_some_day = datetime.combine(date(2000, 1, 2), read.replace(tzinfo=None))
    return (on_some_day - offset).time()


def _day(value: Any) -> date:
    if isinstance(value, datetime):
        raise MisfitError
    day: date = _as(date, date.fromisoformat, "DATE", value)
    return day


def _bytes(value: Any) -> bytes:
    """Bytes, or text in base64."""
    if isinstance(value, str):
        return b64decode(value, validate=True)
    return bytes(_is(bytes, value))


def _as(type_: type, read: Callable[[str], Any], name: str, value: Any) -> Any:
    """Accept a value of a Python type, or text that DuckDB can convert to it."""
    return _read(value, read, name) if isinstance(value, str) else _is(type_, value)


def _read(text: str, read: Callable[[str], Any], type_: str) -> Any:
    """Parse text with a Python function or, if that fails, as DuckDB parses this type."""
    try:
        return read(text)
    except ValueError:
        return _read_by_duckdb(text, type_)


@lru_cache(4096)
def _read_by_duckdb(text: str, type_: str) -> Any:
    """Parse text that Python can't: DuckDB's other formats and years beyond Python's range."""
    sql = f"SELECT CAST(value AS {type_}) FROM (SELECT ? AS value) WHERE NOT ({misfits(type_)})"
    rows = _scratch((getpid(), get_ident())).execute(sql, [text]).fetchall()
    if not rows:
        raise MisfitError
    return rows[0][0]


@lru_cache(4)
def _scratch(owner: tuple[int, int]) -> duckdb.DuckDBPyConnection:
    """A DuckDB for a process and thread: starting one takes longer than parsing a hundred texts."""
    return connect({"threads": 1})  # it has no threads of its own


def misfits(type_: str) -> str:
    """SQL condition: the text `value` does not fit a type, or would lose precision in it."""
    if type_ == "BLOB":
        return "TRY(from_base64(value)) IS NULL"
    wrong = f"TRY_CAST(value AS {type_}) IS NULL"
    if type_ in ("DATE", "TIME", "TIMETZ") or type_.startswith("TIMESTAMP"):
        wrong += r" OR NOT regexp_matches(value, '\d')"  # "infinity" is not a date
    if type_ in ("TIME", "TIMETZ"):
        return f"{wrong} OR TRY_CAST(value AS DATE) IS NOT NULL"
    if type_.lower().removeprefix("u") in BITS:
        return wrong + r" OR NOT regexp_full_match(trim(value), '[+-]?\d+')"
    for start, finer in FINER.items():
        if type_.startswith(start):
            wrong += f" OR TRY_CAST(value AS {finer}) <> TRY_CAST(value AS {type_})"
    return wrong


def _is(type_: type | tuple[type, ...], value: Any) -> Any:
    """Return a value unchanged; raises `MisfitError` unless it has this Python type."""
    if not isinstance(value, type_):
        raise MisfitError
    return value


def _text(value: Any) -> str:
    """Convert a value for a column of text: as Python prints it, or as JSON."""
    if not isinstance(value, PRINTED):
        return _json(value)  # an error, unless it is a list or a dict
    check_unicode(value, "metadata")
    return str(value).lower() if isinstance(value, bool) else str(value)  # as DuckDB does


def _json(value: Any) -> str:
    """Convert a value to JSON; raises `InputError` if that is not possible."""
    try:
        text = dump_json(value)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"metadata of {type(value).__name__}: {error}; expected numbers, texts, dates, lists "
            "and dicts of these"
        ) from error
    if r"\u" in text:  # as it writes half characters, and others
        check_unicode(value, "metadata")
    return text


_FITS: Mapping[str, Fit] = {
    "json": _json,
    "varchar": _text,
    "boolean": _boolean,
    "float": _single,
    "double": _double,
    "date": _day,
    "time": _time_of_day,
    "time with time zone": partial(_as, time, time.fromisoformat, "TIMETZ"),
    # also as Python writes it: "3 days, 0:00:02"
    "interval": partial(
        _as, timedelta, lambda text: _read_by_duckdb(text.replace(",", ""), "INTERVAL"), "INTERVAL"
    ),
    "uuid": partial(_as, UUID, UUID, "UUID"),
    "blob": _bytes,
}


def misfit(documents: Sequence[Document], columns: Sequence[tuple[str, str, list[Any]]]) -> str:
    """Name the first document with a value that its column can't hold, to start an error message.

    Returns "" if there is none. `columns` are tuples (name, DuckDB type, values).
    """
    with connect() as scratch:  # an error must not abort our transaction
        for column, type_, values in columns:
            for document, value in zip(documents, values, strict=True):
                try:
                    scratch.execute(f"SELECT ?::{type_}", [value])
                except (duckdb.Error, TypeError, OverflowError):
                    return f"document {document.id!r}, {column}={shorten(str(value), 40)}: "
    return ""
