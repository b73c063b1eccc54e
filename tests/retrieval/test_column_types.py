"""Values as users have them: numpy's, pandas' and Python's, or an error with the document's id."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from tests.encoders import WordEncoder


def kept(path: Path, *metadata: dict[str, Any]) -> list[dict[str, Any]]:
    documents = [Document(f"d{i}", "text", metadata=m) for i, m in enumerate(metadata)]
    with Collection.create(path / "x.index", WordEncoder()) as collection:
        collection.add(documents)
        found = collection.index.store.read(range(len(documents)))
    return [dict(found[row].metadata) for row in range(len(documents))]


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
    (datetime(2024, 1, 2, 10, tzinfo=timezone(timedelta(hours=2))), datetime(2024, 1, 2, 8)),
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


@pytest.mark.parametrize(
    "value",
    [
        *(object(), {(1, 2): 3}, [date(2024, 1, 2), "x"], 2**70, Decimal("1e40")),
        *(float("-inf"), [1.5, float("inf")]),
    ],
)
def test_values_that_can_not_be_kept_name_their_document(tmp_path: Path, value: Any) -> None:
    first = {"v": type(value)(1) if isinstance(value, int | Decimal) else None}
    with pytest.raises(InputError, match="document 'd1'"):
        kept(tmp_path, first, {"v": value})


@pytest.mark.parametrize("value", [object(), b"x", {1}, 1j, Path("x"), bytearray(b"x")])
def test_a_column_of_text_refuses_what_is_no_text(tmp_path: Path, value: object) -> None:
    with pytest.raises(InputError, match=f"metadata of {type(value).__name__}"):
        kept(tmp_path, {"v": "text"}, {"v": value})


def test_intervals_and_dates_may_be_text(tmp_path: Path) -> None:
    first = {"wait": timedelta(hours=1), "day": date(2024, 1, 1)}
    texts = [{"wait": f"{90 + i} minutes", "day": f"2024/1/{i + 1}"} for i in range(20)]
    with Collection.create(tmp_path / "x.index", WordEncoder()) as collection:
        collection.add([Document("first", "text", metadata=first)])
        collection.add([Document(str(i), "text", metadata=m) for i, m in enumerate(texts)])
        for i in range(20):
            expected = {"wait": timedelta(minutes=90 + i), "day": date(2024, 1, i + 1)}
            (document,) = collection.get([str(i)])
            assert dict(document.metadata) == expected
