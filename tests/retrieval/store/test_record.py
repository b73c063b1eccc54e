"""Records: documents and values come back as they were given, with their types."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slimdex.retrieval.documents import Document, Part
from slimdex.retrieval.store.record import Record, read_record

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
    columns = [*map(str, range(len(values)))]
    written = Record(Document("7", "x"), values=values).written()
    back = [*read_record(written, columns).document.metadata.values()]
    if "fold=1" not in repr(values):
        assert repr(back) == repr(values)
    for one, other in zip(back, values, strict=True):
        if isinstance(other, datetime) and other.tzinfo is not None:
            assert (one, one.utcoffset()) == (other, other.utcoffset())
            assert str(one.tzinfo) == str(other.tzinfo)


@given(VALUES, VALUES)
def test_what_was_given_is_equal_if_its_values_are(one: Any, other: Any) -> None:
    """With their types: an addition of equal documents changes nothing."""
    assert (given_json(one) == given_json(other)) == (repr(one) == repr(other))
    assert given_json(one, None) == given_json(one)


def given_json(*values: Any) -> str:
    return Record(Document("7", "x"), values=values).given[-1]


class Number(int):
    """A number of a library that makes its own."""


def test_a_number_of_a_subclass_is_a_number() -> None:
    assert given_json(Number(3), [Number(4)]) == "[[],3,[4]]"


CUTS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), TEXTS), max_size=3)
PARTS = st.builds(
    lambda start, headings, page, anchor, line: Part(
        start, tuple(headings), page, anchor, ((start + 1, line), (start + 5, line + 7))
    ),
    *(st.integers(0, 99), st.lists(TEXTS, max_size=2), st.none() | st.integers(1, 9), TEXTS),
    st.integers(1, 10**12),
).map(lambda part: (part,))


@given(
    st.builds(
        Document,
        *(TEXTS, TEXTS, TEXTS),
        parts=st.just(()) | PARTS,
        origin=st.sampled_from(["", f"{'0' * 32}/stamp"]),
    ),
    CUTS,
)
def test_documents_come_back(document: Document, cut: list[tuple[int, int, str]]) -> None:
    document = replace(document, passages=tuple((start, end) for start, end, _ in cut))
    contexts = [context for *_, context in cut]
    record = read_record(Record(document, contexts, [7]).written(), ["n", "none"])
    assert record.document == replace(document, metadata={"n": 7, "none": None})
    assert (record.document.passages, record.document.origin) == (
        document.passages,
        document.origin,
    )
    assert [*record.contexts] == contexts
    assert record.row_count == len(record.contents) == max(len(cut), 1)


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
    with pytest.raises((ValueError, TypeError)):
        read_record(record)


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
