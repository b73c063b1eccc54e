"""Metadata of frameworks come back as they went in, and filters compare values of one kind."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from slimdex import Collection, Document, GivenEncoder, InputError
from slimdex.retrieval import commands
from slimdex.retrieval.documents import RECORD, document_json, hit_json, visible_values
from slimdex.retrieval.integrations.metadata import as_columns, as_metadata, compare
from slimdex.retrieval.server.column_facts import column_facts
from slimdex.retrieval.store.where.conditions import as_sql

PARIS = ZoneInfo("Europe/Paris")
EAST = timezone(timedelta(hours=2))
BATCHES: list[list[dict[str, Any]]] = [
    [{"page": 1}, {"page": "iv"}, {"page": 2.0}, {"page": True}, {"page": "1"}, {"page": None}],
    [{"page": [1, "a"]}, {"page": {"of": "a"}}, {"page": date(2024, 5, 1)}],
    [{"when": datetime(2024, 1, 1, 12, tzinfo=EAST)}, {"when": datetime(2024, 7, 1, tzinfo=PARIS)}],
    [{"when": datetime(2024, 1, 1, 9)}, {"when": "2024-01-01"}, {"when": datetime.now(UTC)}],
    [{"day": date(2024, 1, 1)}, {"day": datetime(2024, 1, 1)}],
    [{"tags": []}, {"tags": ["a", "b"]}, {"tags": [1, 2.5]}, {"tags": [date(2024, 1, 1)]}],
    [{"author": {"name": "Ann", "born": date(1900, 1, 1)}}, {"author": "Bob"}],
    [{"author": {1: "one"}}, {"author": {"name": "Cy", "born": 1950}}, {"author.name": "Dee"}],
    [{"id": 7, "text": "t", "slimdex_metadata": {"a": 1}}, {"Page": 3}, {"huge": 2**70}],
    [{"size": 1}, {"size": 3}],
    [{"size": 2.5}, {"size": 4.0}, {"size": 5}],
    [{"raw": b"\x00", "hour": time(9, 30), "long": timedelta(2, 3), "cost": Decimal("1.25")}],
]
METADATA = [row for batch in BATCHES for row in batch]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    made = Collection.create(tmp_path_factory.mktemp("metadata") / "i", GivenEncoder(2))
    for batch in BATCHES:
        add(made, batch)
    yield made
    made.close()


def add(collection: Collection, metadata: list[dict[str, Any]]) -> None:
    rows = as_columns(metadata, collection.index.snapshot.columns)
    start = len(collection)
    documents = [Document(str(start + i), "a text", metadata=row) for i, row in enumerate(rows)]
    collection.add(documents, vectors=np.eye(len(rows), 2) + 1)


@pytest.mark.parametrize("number", range(len(METADATA)))
def test_values_come_back_as_they_went_in(collection: Collection, number: int) -> None:
    found = as_metadata(collection.get(str(number)).metadata)
    assert found == METADATA[number]
    for name, value in METADATA[number].items():
        assert type(found[name]) is type(value)
        if isinstance(value, datetime):
            assert found[name].utcoffset() == value.utcoffset()
            assert str(found[name].tzinfo) == str(value.tzinfo)


COMPARISONS: list[tuple[str, str, Any, list[Any]]] = [
    ("page", "=", 1, [1, True]),
    ("page", "=", "1", ["1"]),
    ("page", "=", "iv", ["iv"]),
    ("page", ">", 1, [2.0]),
    ("page", "IN", ["iv", 2, "none"], ["iv", 2.0]),
    ("page", "=", [1, "a"], [[1, "a"]]),
    ("page", "=", {"of": "a"}, [{"of": "a"}]),
    ("page", "=", date(2024, 5, 1), [date(2024, 5, 1)]),
    ("page", "HAS", "a", [[1, "a"]]),
    ("page.of", "=", "a", [{"of": "a"}]),
    ("Page", "=", 3, [3]),
    ("when", "=", datetime(2024, 1, 1, 10), [datetime(2024, 1, 1, 12, tzinfo=EAST)]),
    ("when", "=", "2024-01-01", ["2024-01-01"]),
    ("tags", "=", ["a", "b"], [["a", "b"]]),
    ("tags", "HAS", 2.5, [[1, 2.5]]),
    ("author.name", "=", "Ann", [{"name": "Ann", "born": date(1900, 1, 1)}]),
    ("author.name", "=", "Dee", ["Dee"]),
    ("author.born", ">", 1900, [{"name": "Cy", "born": 1950}]),
    ("author", "=", "Bob", ["Bob"]),
    ("id", "=", 7, [7]),
    ("size", ">", 2, [3, 2.5, 4.0, 5]),
    ("size", "=", 2.5, [2.5]),
    ("huge", "=", 2**70, [2**70]),
    ("huge", "IN", [2**70 + 1, 1], []),
    ("huge", ">", 2**70 - 1, [2**70]),
    ("huge", ">", 2**70, []),
    ("huge", "=", 2**70 + 1, []),
    ("none", "=", 1, []),
]
"""Comparisons, and the values for which they hold."""


@pytest.mark.parametrize(("name", "operator", "value", "expected"), COMPARISONS)
def test_comparisons(
    collection: Collection, name: str, operator: str, value: Any, expected: list[Any]
) -> None:
    columns = collection.index.snapshot.columns
    where = as_sql(compare(name, operator, value, columns), columns)
    found = [as_metadata(document.metadata) for document in collection.get(where=where)]
    assert [next(iter(row.values())) for row in found] == expected


def test_a_missing_value_is_null_and_empty(collection: Collection) -> None:
    columns = collection.index.snapshot.columns
    missing: dict[str, list[Any]] = {"IS NULL": [None], "IS EMPTY": [None, "", []]}
    for operator, values in missing.items():
        where = as_sql(compare("tags", operator, None, columns), columns)
        found = {document.id for document in collection.get(where=where)}
        assert found == {str(i) for i, row in enumerate(METADATA) if row.get("tags") in values}


def test_no_user_sees_the_column_of_recorded_values(collection: Collection) -> None:
    fetched = document_json(commands.fetch(collection.index, "1"))
    assert fetched["metadata"] == {"page": "iv"}
    assert RECORD not in collection.info()["columns"]
    assert RECORD not in [each["name"] for each in column_facts(collection.index.store)]
    hits = collection.search(np.ones(2), limit=50)
    values = {hit.id: hit_json(hit)["metadata"] for hit in hits}
    assert values["1"] == {"page": "iv"}
    assert not any(RECORD in each for each in values.values())


@pytest.mark.parametrize("record", ["text", [1], None])
def test_a_record_that_others_have_written_is_left_out(record: Any) -> None:
    assert visible_values({"year": 1990, RECORD: record}) == {"year": 1990}


def test_large_additions_have_mixed_values(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", GivenEncoder(2)) as large:
        add(large, [*({"page": i} for i in range(10_000)), {"page": "iv"}, {"page": 0.5}])
        found = [as_metadata(large.get(id).metadata)["page"] for id in ("7", "10000", "10001")]
        assert found == [7, "iv", 0.5]
        assert large.count("page < 1") == 2


def test_infinity_is_refused() -> None:
    with pytest.raises(InputError, match="inf; expected a finite number"):
        as_columns([{"a": float("inf")}], {})
