"""Records: documents as they were given, as JSON in UTF-8.

A record is a list: id, title, text, then the values of the user's columns in the manifest's order,
without missing ones at the end. If a document has passages, parts or an origin, its text is a list
of these.

Numbers, texts, booleans, lists and null are JSON's own. Other values are objects of one item that
names the type: {"date": "2024-12-31"}.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

from slimdex.errors import InputError, short_repr
from slimdex.system.unicode_text import check_unicode

from ..documents import Document, Part
from ..passages import Passage
from .passages import DocumentPassages, parts_read, parts_written

_PLAIN = (type(None), bool, int, float, str)


def record_of(
    document: Document, cut: DocumentPassages | None, values: Sequence[Any], origin: str = ""
) -> bytes:
    """Serialise a document.

    Parameters
    ----------
    cut : its passages and parts; None for a text of one passage without parts.
    values : of the user's columns, in order.

    Raises `InputError` if a value can't be stored.

    >>> record_of(Document("7", "It rained."), None, [date(2024, 12, 31), None])
    b'["7","","It rained.",{"date":"2024-12-31"}]'
    """
    text: Any = document.text
    if cut is not None or origin:
        text = _text_with_parts(text, cut or DocumentPassages(), origin or None)
    return values_json([document.id, document.title, text, *values]).encode()


def values_json(values: Sequence[Any]) -> str:
    """Serialise values, without missing ones at the end; raises as `record_of`.

    Values are equal, with their types, if and only if their JSON is.

    >>> values_json([1, 1.0, Decimal("1.0"), None])
    '[1,1.0,{"decimal":"1.0"}]'
    """
    count = len(values)
    while count and values[count - 1] is None:
        count -= 1
    items = [value if type(value) in _PLAIN else _encode(value) for value in values[:count]]
    try:
        text = _ENCODER.encode(items)
        text.encode()
    except ValueError as error:  # half a character, or a number of too many digits
        check_unicode(items, "metadata")
        raise InputError(f"metadata: {error}") from error
    return text


def _text_with_parts(text: str, cut: DocumentPassages, origin: str | None) -> list[Any]:
    """The text, spans, parts and contexts of passages, and the origin of a document."""
    spans = [[passage.start, passage.end] for passage in cut.passages]
    contexts = [passage.context for passage in cut.passages]
    parts = parts_written(cut.parts)
    return [text, spans, json.loads(parts) if parts else [], contexts, origin]


@dataclass(frozen=True)
class Record:
    """A document as it was given.

    Attributes
    ----------
    document : id, title, text and origin.
    cut : its passages and parts; None for a text of one passage without parts.
    values : of the user's columns, without missing ones at the end.
    """

    document: Document
    cut: DocumentPassages | None
    values: Sequence[Any]

    @property
    def row_count(self) -> int:
        """Number of rows: of passages, or one."""
        return max(len(self.cut.passages), 1) if self.cut else 1

    @property
    def parts(self) -> Sequence[Part]:
        """Parts of the text."""
        return () if self.cut is None else self.cut.parts

    def value(self, position: int) -> Any:
        """The value of the column at a position; None if it is missing."""
        return self.values[position] if position < len(self.values) else None

    @property
    def contents(self) -> list[str]:
        """Texts to encode, one for each row of the document."""
        if self.cut is None:
            return [self.document.content]
        return self.cut.contents(self.document.text)


def read_record(record: bytes) -> Record:
    """Parse what `record_of` made; raises `ValueError` or `TypeError` if it is invalid.

    >>> read_record(b'["7","","It rained.",{"date":"2024-12-31"}]').values
    [datetime.date(2024, 12, 31)]
    """
    id, title, text, spans, parts, contexts, origin, values = _parse(record)
    if len(contexts) != len(spans) or not all(isinstance(each, str) for each in contexts):
        raise ValueError("expected a text before each passage")
    if not isinstance(origin or "", str):
        raise TypeError("expected an origin")
    passages = [Passage(s, e, c) for (s, e), c in zip(spans, contexts, strict=True)]
    return Record(
        document=Document(id, text, title, origin=origin or ""),
        cut=DocumentPassages(passages, parts) if passages or parts else None,
        values=values,
    )


def read_document(record: bytes, columns: Sequence[str]) -> Document:
    """Parse what `record_of` made, as `read_record` does, to a document with these columns."""
    id, title, text, spans, parts, _, _, values = _parse(record)
    values += [None] * (len(columns) - len(values))
    metadata = dict(zip(columns, values, strict=True))
    return Document(id, text, title, metadata, parts=parts, passages=spans)


def _parse(record: bytes) -> tuple[Any, ...]:
    """Id, title, text, spans, parts, contexts, origin and values of a record."""
    try:
        written = record.decode()
        values, _ = _DECODER.raw_decode(written)
        if "\\u" in written:
            check_unicode(values, "record")
        id, title, text, *values = values
    except (AttributeError, ArithmeticError, LookupError, RecursionError) as error:
        raise ValueError(f"no record of a document ({error})") from error
    spans: tuple[tuple[int, int], ...] = ()
    parts: tuple[Part, ...] = ()
    contexts: Sequence[Any] = ()
    origin = None
    if type(text) is list:
        text, passages, written, contexts, origin = text
        spans = tuple((start, end) for start, end in passages)
        parts = parts_read(written)
        if not all(type(edge) is int and edge >= 0 for edge in chain.from_iterable(spans)):
            raise ValueError("expected where passages begin and end")
    if not type(id) is type(title) is type(text) is str:
        raise ValueError("expected an id, a title and a text")
    return id, title, text, spans, parts, contexts, origin, values


def _encode(value: Any) -> Any:
    """Convert a value for JSON; raises `InputError` for a type that can't be stored."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list):
        return [*map(_encode, value)]
    for type_, (name, encode, _) in _KINDS.items():
        if isinstance(value, type_):
            return {name: encode(value)}
    if isinstance(value, bool | int | float | str):  # of a subclass
        return value
    raise InputError(
        f"metadata {short_repr(value)}; expected numbers, texts, dates, lists and dicts of these"
    )


def _decode(item: Mapping[str, Any]) -> Any:
    """Restore what `_encode` wrote as an object of one item, {type: value}."""
    ((name, value),) = item.items()
    return _DECODED[name](value)


def _encode_clock(value: datetime | time) -> Any:
    """A moment's or time's text; with a named zone, this and the zone's name."""
    name = getattr(value.tzinfo, "key", None)
    text = value.isoformat()
    return text if name is None else [text, name]


def _moment(written: Any) -> datetime:
    """Restore a moment; without its zone, which this machine may lack, it has an offset."""
    if isinstance(written, str):
        return datetime.fromisoformat(written)
    moment = datetime.fromisoformat(written[0])
    with suppress(KeyError, OSError, OverflowError, ValueError):
        moment = moment.astimezone(_zone(written[1]))
    return moment


def _time(written: Any) -> time:
    """Restore a time of day."""
    if isinstance(written, str):
        return time.fromisoformat(written)
    return time.fromisoformat(written[0]).replace(tzinfo=_zone(written[1]))


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo  # loads more than most indexes need

    return ZoneInfo(name)


def _dict(pairs: Sequence[Any]) -> dict[Any, Any]:
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


_KINDS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    datetime: ("datetime", _encode_clock, _moment),
    date: ("date", date.isoformat, date.fromisoformat),
    time: ("time", _encode_clock, _time),
    timedelta: (
        "timedelta",
        lambda v: [v.days, v.seconds, v.microseconds],
        lambda v: timedelta(*v),
    ),
    Decimal: ("decimal", str, Decimal),
    UUID: ("uuid", str, UUID),
    bytes: ("bytes", lambda v: b64encode(v).decode(), b64decode),
    # Keys and values in turn: a dict may have any keys, such as the names of these types.
    dict: ("dict", lambda v: [*map(_encode, chain.from_iterable(v.items()))], _dict),
}
"""Type -> its name, serialisation and parsing; a moment is a date, so it comes first."""
_DECODED = {name: decode for name, _, decode in _KINDS.values()}
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(object_hook=_decode)
