"""Values as users have them: numpy's, pandas' and Python's, or an error with the document's id.

Documents keep them as they were given; columns have types, by which conditions compare them.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.errors import InputError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.column_types import joint, kind_of, stored, widen
from slimdex.retrieval.documents import Document
from tests.encoders import WordEncoder


def kept(path: Path, *metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """The metadata that documents have in an index, once it is opened again."""
    documents = [Document(f"d{i}", "text", metadata=m) for i, m in enumerate(metadata)]
    with Collection.create(path / "x.index", WordEncoder()) as collection:
        collection.add(documents)
    with Collection.open(path / "x.index", WordEncoder()) as collection:
        return [dict(document.metadata) for document in collection]


def test_names_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="document 'd1'"):
        kept(tmp_path, {"Name": 1}, {"Name": 1, "name": 2})


VALUES: list[tuple[Any, Any]] = [
    (np.datetime64("2024-01-02"), date(2024, 1, 2)),
    (np.datetime64("2024-01-02T10:00:00", "ns"), datetime(2024, 1, 2, 10)),
    (np.timedelta64(1500, "ms"), timedelta(seconds=1.5)),
    (np.datetime64("NaT"), None),
    (np.array([1, 2]), [1, 2]),
    (np.array([[1.5], [2.0]]), [[1.5], [2.0]]),
    (np.array(7), 7),
    (np.bool_(True), True),
    ([np.int64(1), {"a": np.float64(2)}], [1, {"a": 2.0}]),
    ((1, 2), [1, 2]),
]


def test_values_of_numpy(tmp_path: Path) -> None:
    (found, _) = kept(tmp_path, {f"v{i}": v for i, (v, _) in enumerate(VALUES)}, {"other": 2})
    for i, (_, expected) in enumerate(VALUES):
        assert found.get(f"v{i}") == expected
        assert type(found.get(f"v{i}")) is type(expected)


def test_values_of_pandas(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    moment = pandas.Timestamp("2024-01-02 10:00:00.000000001")
    found = kept(
        tmp_path,
        {"t": moment, "d": pandas.Timedelta("1s"), "n": 1, "s": pandas.Series([1, 2])},
        {"t": pandas.NaT, "d": pandas.NaT, "n": pandas.NA, "s": None},
    )
    first = {"t": datetime(2024, 1, 2, 10), "d": timedelta(seconds=1), "n": 1, "s": [1, 2]}
    assert found == [first, dict.fromkeys(first)]


BERLIN = ZoneInfo("Europe/Berlin")
GIVEN = [
    *(7, 7.0, -0.0, True, "7", "iv", "", 2**53 + 1, 2**70, -(10**40), 1e300),
    *(Decimal("1.10"), Decimal("1e40"), UUID(int=7), b"\x00\xff", timedelta(-3, 2, 1)),
    *(date(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), time(23, 59, 0, 1)),
    *(datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN), time(1, tzinfo=UTC)),
    datetime(2024, 1, 2, 10, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
    *([], [1, None, "a"], [[date(2024, 1, 2)], []], {}, {"date": "x", "b": [{"a": 1.5}]}),
    *({1: "a", None: b"x"}, [date(2024, 1, 2), "x"]),
]


def test_values_come_back_as_they_were_given(tmp_path: Path) -> None:
    """Also those that share a column, with their types, zones and digits."""
    metadata = [{"all": value, f"own{i}": value} for i, value in enumerate(GIVEN)]
    for i, (found, value) in enumerate(zip(kept(tmp_path, *metadata), GIVEN, strict=True)):
        for back in (found["all"], found[f"own{i}"]):
            assert repr(back) == repr(value)
            if isinstance(value, datetime) and value.tzinfo is not None:
                assert back.utcoffset() == value.utcoffset()


@pytest.mark.parametrize(
    "value",
    [
        *(object(), {(1, 2): 3}, float("-inf"), [1.5, float("inf")], {1}, 1j, Path("x")),
        *(bytearray(b"x"), "\ud83d", {"a": ["\ud83d"]}, {"\ud83d": 1}, 10**5000, [10**5000]),
        *({date(2024, 1, 2): 3}, [{1}], [1j]),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("first", [None, "text", 1])
def test_values_that_can_not_be_kept_name_their_document(
    tmp_path: Path, first: Any, value: Any
) -> None:
    with pytest.raises(InputError, match="document 'd1'"):
        kept(tmp_path, {"v": first}, {"v": value})


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1, 2], "BIGINT"),
        ([1, 2.5], "DOUBLE"),
        ([True, 2], "VARCHAR"),
        ([1.5, -(2**63)], "DOUBLE"),
        ([Decimal("2.5"), 2**64], "VARCHAR"),
        ([1, Decimal("2.50")], "DOUBLE"),
        ([Decimal("0.12345678901234567890"), 1], "VARCHAR"),
        ([Decimal("1e400"), 1], "VARCHAR"),
        ([1, 2**64], "VARCHAR"),
        ([time(9), UUID(int=7), b"x"], "VARCHAR"),
        ([2.5, 2**64], "VARCHAR"),
        ([1, "iv"], "VARCHAR"),
        ([1, "7"], "VARCHAR"),
        ([date(2024, 1, 2), datetime(2024, 1, 2)], "TIMESTAMP"),
        ([date(2024, 1, 2), 7], "VARCHAR"),
        ([[], [1]], "BIGINT[]"),
        ([[1], [2.5, None]], "DOUBLE[]"),
        ([[1], ["a"]], "JSON"),
        ([[1], 2], "JSON"),
        ([[], []], "VARCHAR[]"),
        ([[], ["a"], [None]], "VARCHAR[]"),
        ([[[1]], [1]], "JSON"),
        ([{"a": 1}, {"b": []}], "JSON"),
        ([{"a": 1}, date(2024, 1, 2)], "JSON"),
    ],
)
def test_a_new_column_has_the_type_of_all_its_values(values: list[Any], type_: str) -> None:
    for order in permutations(values):
        assert widen(None, order) == type_


SCALARS = st.one_of(
    *(st.booleans(), st.integers(-(2**80), 2**80), st.floats(allow_nan=False, width=32)),
    *(st.text(max_size=3), st.dates(), st.datetimes(), st.decimals(allow_nan=False, places=2)),
    *(st.times(), st.uuids(), st.binary(max_size=3), st.timedeltas()),
    st.sampled_from(["7", "-0", "1e5", "true", "2024-01-02", "2024-01-02T10:00Z", "10:00"]),
)
ANY_VALUE = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=1), SCALARS)


@given(st.lists(ANY_VALUE.filter(lambda value: "inf" not in repr(value)), min_size=1, max_size=6))
def test_a_type_only_widens(values: list[Any]) -> None:
    """Value by value, and each of them can be stored in the last type."""
    type_: str | None = None
    for value in values:
        wider = widen(type_, [value])
        assert type_ is None or wider == type_ or wider == joint({type_, kind_of(value)})
        type_ = wider
    assert widen(type_, values) == type_


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        ("DATE", "2024-12-31", date(2024, 12, 31)),
        ("TIMESTAMP", "2024-12-31T10:00+02:00", datetime(2024, 12, 31, 8)),
    ],
)
def test_a_date_as_text_does_not_widen_a_column_of_dates(
    type_: str, text: str, expected: Any
) -> None:
    assert widen(type_, [text]) == type_
    assert stored(text, type_) == expected
    assert widen(type_, [text, "007x"]) == "VARCHAR"
