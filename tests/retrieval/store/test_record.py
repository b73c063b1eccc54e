"""Records: documents and values come back as they were given, with their types."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slimdex.errors import InputError
from slimdex.retrieval.documents import Document, Part
from slimdex.retrieval.passages import Passage
from slimdex.retrieval.store.passages import DocumentPassages
from slimdex.retrieval.store.record import read_document, read_record, record_of, values_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
OFFSETS = st.integers(-80_000, 80_000).map(lambda seconds: timezone(timedelta(seconds=seconds)))
ZONES: st.SearchStrategy[tzinfo] = st.timezones() | OFFSETS
PLAIN = st.one_of(
    *(st.none(), st.booleans(), st.integers(), TEXTS, st.binary(), st.uuids(), st.dates()),
    *(st.floats(allow_nan=False, allow_infinity=False), st.decimals(), st.timedeltas()),
    *(st.times(), st.datetimes()),
    st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=ZONES),
)
KEYS = TEXTS | st.sampled_from(["date", "dict"]) | st.integers() | st.none() | st.dates()
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=8
)
BERLIN = ZoneInfo("Europe/Berlin")
BOUNDS = [
    *(date.min, date.max, datetime.max, time.max, timedelta.min, timedelta.max, timedelta(0)),
    *(Decimal("-0"), Decimal("1E+5"), Decimal("sNaN"), UUID(int=0), 2**127 - 1, -0.0, 5e-324),
    *(1, 1.0, True, "1", "", [], {}, b"", {"date": "2024-12-31"}, {None: {1: {"dict": []}}}),
    *(datetime(2024, 10, 27, 2, 30, fold=fold, tzinfo=BERLIN) for fold in (0, 1)),
]


@given(st.lists(VALUES, max_size=9))
@example(BOUNDS)
def test_values_come_back(values: list[Any]) -> None:
    record = read_record(record_of(Document("7", "x"), None, values))
    back = [record.value(i) for i in range(len(values))]
    if "fold=1" not in repr(values):
        assert repr(back) == repr(values)
    for one, other in zip(back, values, strict=True):
        if isinstance(other, datetime) and other.tzinfo is not None:
            assert (one, one.utcoffset()) == (other, other.utcoffset())
            assert str(one.tzinfo) == str(other.tzinfo)


@given(VALUES, VALUES)
def test_the_json_of_values_is_equal_if_they_are(one: Any, other: Any) -> None:
    """With their types: an addition of equal documents changes nothing."""
    assert (values_json([one]) == values_json([other])) == (repr(one) == repr(other))
    assert values_json([one, None]) == values_json([one])


class Number(int):
    """A number of a library that makes its own."""


def test_a_number_of_a_subclass_is_a_number() -> None:
    assert values_json([Number(3), [Number(4)]]) == "[3,[4]]"


@pytest.mark.parametrize("value", [{1}, object(), 1j, "\ud83d", ["\ud83d"], [10**5000]])
def test_values_that_can_not_be_stored_are_refused(value: Any) -> None:
    with pytest.raises(InputError):
        values_json([value])


SPANS = st.lists(
    st.builds(Passage, st.integers(0, 99), st.integers(0, 99), TEXTS), min_size=1, max_size=3
)
PARTS = st.builds(
    lambda start, headings, page, anchor, line: Part(
        start, tuple(headings), page, anchor, ((start + 1, line), (start + 5, line + 7))
    ),
    *(st.integers(0, 99), st.lists(TEXTS, max_size=2), st.none() | st.integers(1, 9), TEXTS),
    st.integers(1, 10**12),
).map(lambda part: (part,))


@given(
    st.builds(Document, TEXTS, TEXTS, TEXTS),
    st.none() | st.builds(DocumentPassages, SPANS, st.just(()) | PARTS),
    st.sampled_from(["", f"{'0' * 32}/stamp"]),
)
def test_documents_come_back(document: Document, cut: DocumentPassages | None, origin: str) -> None:
    written = record_of(document, cut, [7], origin)
    record = read_record(written)
    given = cut or DocumentPassages()
    assert (record.document.id, record.document.title) == (document.id, document.title)
    assert (record.document.text, record.document.origin) == (document.text, origin)
    assert [*(record.cut or DocumentPassages()).passages] == [*given.passages]
    assert record.parts == tuple(given.parts)
    assert record.row_count == len(record.contents) == max(len(given.passages), 1)

    read = read_document(written, ["n", "none"])
    assert (read.id, read.title, read.text) == (document.id, document.title, document.text)
    assert (read.metadata, read.parts) == ({"n": 7, "none": None}, tuple(given.parts))
    assert [*read.passages] == [(each.start, each.end) for each in given.passages]


@pytest.mark.parametrize(
    "record",
    [
        *(b"", b"\xff", b"3", b"{}", b"[]", b'["a"]', b'["a","",5]', b'[1,"","x"]', b"[" * 100_000),
        *(b'["a","","x",{"date":"soon"}]', b'["a","","x",{"other":1}]', b'["a","","x",{}]'),
        *(b'["a","","x",{"timedelta":[1000000000000,0,0]}]', b'["a","","x",{"dict":[[[],1]]}]'),
        *(b'["a","","x",{"datetime":["2024-01-01",1e9,null]}]', b'["a","",["x"]]'),
    ],
)
def test_invalid_records_are_refused(record: bytes) -> None:
    """A stranger's checksums can be right."""
    for read in (read_record, lambda each: read_document(each, ["n"])):
        with pytest.raises((ValueError, TypeError)):
            read(record)


@pytest.mark.parametrize(
    "text",
    [
        ["x", [[0, "1"]], [], [""], None],
        ["x", [[-1, 1]], [], [""], None],
        ["x", [[0]], [], [""], None],
        ["x", [[0, 1]], [], [], None],
        ["x", [[0, 1]], [], [5], None],
        ["x", [], [[0, [5], None, ""]], [], None],
        ["x", [], [], [], 5],
        [5, [], [], [], None],
    ],
)
def test_invalid_passages_parts_and_origins_are_refused(text: list[Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        read_record(json.dumps(["a", "", text]).encode())
