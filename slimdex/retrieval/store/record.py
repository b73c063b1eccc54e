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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from itertools import chain, repeat
from typing import Any
from uuid import UUID

from slimdex.system.unicode_text import check_unicode

from ..column_types import stored
from ..documents import Document, Part, content
from .passages import parts_read, parts_written

_PLAIN = (type(None), bool, int, float, str)


@dataclass(frozen=True)
class Record:
    """A document as it was given, and how it was cut.

    Attributes
    ----------
    document : with its parts, passages and origin, but perhaps without metadata.
    contexts : title and headings that are encoded before each passage.
    values : of the user's columns, in order; those that are missing at the end may be left out.
    """

    document: Document
    contexts: Sequence[str] = ()
    values: Sequence[Any] = ()

    @property
    def row_count(self) -> int:
        """Number of rows: of passages, or one."""
        return max(len(self.contexts), 1)

    @property
    def contents(self) -> list[str]:
        """Texts to encode, one for each row of the document."""
        document = self.document
        if not self.contexts:
            return [document.content]
        spans = zip(self.contexts, document.passages, strict=True)
        return [content(context, document.text[start:end]) for context, (start, end) in spans]

    def stored(self, types: Iterable[str]) -> list[Any]:
        """The values as columns of these types store them; None for missing ones.

        Raises `ValueError` if one does not fit.
        """
        values = zip(types, chain(self.values, repeat(None)), strict=False)
        return [stored(value, type_) for type_, value in values]

    @property
    def given(self) -> tuple[str, str, str]:
        """Title, text, and parts and values as JSON: equal if the same was given, of its types."""
        document = self.document
        return document.title, document.text, _json([parts_written(document.parts), *self.values])

    def written(self) -> bytes:
        """Serialise a document.

        >>> Record(Document("7", "It rained."), values=[date(2024, 12, 31), None]).written()
        b'["7","","It rained.",{"date":"2024-12-31"}]'
        """
        document = self.document
        text: Any = document.text
        if document.passages or document.parts or document.origin:
            spans = [*map(list, document.passages)]
            parts = parts_written(document.parts)
            text = [text, spans, parts, [*self.contexts], document.origin or None]
        return _json([document.id, document.title, text, *self.values]).encode()


def read_record(record: bytes, columns: Iterable[str] = ()) -> Record:
    """Parse what `Record.written` made; the document has the values of `columns` as metadata.

    Raises `ValueError` or `TypeError` if it is invalid.

    >>> read_record(b'["7","","It rained.",{"date":"2024-12-31"}]').values
    [datetime.date(2024, 12, 31)]
    """
    try:
        written = record.decode()
        values, _ = _DECODER.raw_decode(written)
        if "\\u" in written:
            check_unicode(values, "record")
        id, title, text, *values = values
    except (AttributeError, ArithmeticError, LookupError, RecursionError) as error:
        raise ValueError(f"no record of a document ({error})") from error

    # How the text was cut.
    spans: tuple[tuple[int, int], ...] = ()
    parts: tuple[Part, ...] = ()
    contexts: Sequence[Any] = ()
    origin: Any = None
    if type(text) is list:
        text, passages, written_parts, contexts, origin = text
        spans = tuple((start, end) for start, end in passages)
        parts = parts_read(written_parts)
        if not all(type(edge) is int and edge >= 0 for edge in chain.from_iterable(spans)):
            raise ValueError("expected where passages begin and end")
        are_texts = all(type(each) is str for each in (origin or "", *contexts))
        if len(contexts) != len(spans) or not are_texts:
            raise ValueError("expected a text before each passage, and perhaps an origin")
    if not type(id) is type(title) is type(text) is str:
        raise ValueError("expected an id, a title and a text")
    document = Document(
        id=id,
        text=text,
        title=title,
        metadata=dict(zip(columns, chain(values, repeat(None)), strict=False)),
        parts=parts,
        passages=spans,
        origin=origin or "",
    )
    return Record(document, contexts, values)


def _json(values: Iterable[Any]) -> str:
    """Serialise values, without missing ones at the end.

    Values are equal, with their types, if and only if their JSON is.
    """
    items = [*map(_encode, values)]
    while items and items[-1] is None:
        items.pop()
    return _ENCODER.encode(items)


def _encode(value: Any) -> Any:
    """Convert a value that `column_types.storable` returned, for JSON."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list):
        return [*map(_encode, value)]
    for type_, (name, encode, _) in _KINDS.items():
        if isinstance(value, type_):
            return {name: encode(value)}
    return value  # a number or text of a subclass


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
