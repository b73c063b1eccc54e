"""What is written as a line comes back as it was, to the type; what would not is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.retrieval.storage.document_lines import UnwritableError, line_of, values_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
MOMENTS = st.dates() | st.datetimes() | st.times() | st.timedeltas()
PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary()
    | st.decimals() | st.uuids() | MOMENTS.filter(lambda moment: not getattr(moment, "fold", 0))
)  # fmt: skip
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(TEXTS | st.sampled_from(["date", "struct"]), inner)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.lists(VALUES))
def test_values_are_restored_exactly(values: list[Any]) -> None:
    line = line_of(values)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert repr(values_of(line)) == repr(values)  # which tells 1 from 1.0 and from True, and NaN


def test_a_line_can_be_read_by_eye() -> None:
    values = ["7", "", "Es regnet \u2014 ja", 1.5, date(2024, 1, 2), b"ab", {"a": (1,)}]
    assert line_of(values).decode() == (
        '["7","","Es regnet \u2014 ja",1.5,{"date":"2024-01-02"},{"bytes":"YWI="},'
        '{"struct":[["a",{"tuple":[1]}]]}]\n'
    )


class Number(int):
    """A number of a library that makes its own."""


@pytest.mark.parametrize(
    "value",
    [
        datetime(2024, 1, 2, tzinfo=UTC),
        time(10, tzinfo=UTC),
        [time(10, tzinfo=UTC)],
        {"a": datetime(2024, 1, 2, tzinfo=UTC)},
        datetime(2024, 1, 2, fold=1),
        Number(3),
        {1},
        object(),
    ],
)
def test_values_that_cannot_be_restored_are_refused(value: Any) -> None:
    with pytest.raises(UnwritableError):
        line_of(["7", value])


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[1,",
        b"\xff",
        b"3",
        b'{"date":"2024-01-02"}',
        b'[{"date":"soon"}]',
        b'[{"date":3}]',
        b'[{"uuid":3}]',
        b'[{"decimal":"x"}]',
        b'[{"timedelta":[1000000000000,0,0]}]',
        b'[{"bytes":"x"}]',
        b'[{"struct":[[[],1]]}]',
        b'[{"other":1}]',
        b'[{"date":"2024-01-02","time":"10:00"}]',
        b"[{}]",
        b"[" * 100_000,
    ],
)
def test_invalid_lines_are_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="no line of a document"):
        values_of(line)


def test_bounds() -> None:
    values = [date.min, date.max, datetime.max, time.max, timedelta.min, timedelta.max]
    values += [Decimal("-0"), Decimal("1E+5"), UUID(int=0), 2**127 - 1, -0.0, 5e-324]
    assert repr(values_of(line_of(values))) == repr(values)
