"""What programs have in memory: dicts, dataframes, Arrow tables and relations of DuckDB's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pytest

from slimdex import Collection, Document, InputError
from slimdex.retrieval.sources.tabular.records import as_documents
from tests.encoders import WordEncoder

COLUMNS = {
    "id": [1, 2],
    "title": ["Weather", None],
    "text": ["it rained", "the cat sat"],
    "year": [2001, None],
    "tags": [["a", "b"], []],
    "seen": [datetime(2024, 1, 2, 3, tzinfo=UTC), None],
}
EXPECTED = [
    Document(
        "1",
        "it rained",
        "Weather",
        {"year": 2001, "tags": ["a", "b"], "seen": datetime(2024, 1, 2, 3, tzinfo=UTC)},
    ),
    Document("2", "the cat sat", "", {"year": None, "tags": [], "seen": None}),
]
FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pandas.DataFrame(COLUMNS).astype({"year": "Int64"}),
    "polars": lambda: polars.DataFrame(COLUMNS),
    "pyarrow": lambda: pyarrow.table(COLUMNS),
    "duckdb": lambda: duckdb.connect().from_arrow(pyarrow.table(COLUMNS)),
}


@pytest.mark.slow
@pytest.mark.parametrize("frame", FRAMES)
def test_dataframes_of_every_library_are_read_alike(frame: str, tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add(FRAMES[frame]())
        assert [*collection] == EXPECTED
        assert collection.info()["columns"] == {
            "year": "BIGINT",
            "tags": "VARCHAR[]",
            "seen": "TIMESTAMP",
        }
        assert [hit.id for hit in collection.search("rained", 1, "year = 2001")] == ["1"]


def test_dicts_in_a_dataframe_are_read_as_json(tmp_path: Path) -> None:
    """DuckDB reads dicts of different keys, and lists of different types, as texts."""
    rows: list[dict[str, Any]] = [
        {"id": "1", "text": "a", "who": {"name": "Ann", "born": 1950}, "mixed": [1, "a"], "n": 1.5},
        {"id": "2", "text": "b", "who": {"tags": ["x", {}]}, "mixed": [], "n": None},
        {"id": "3", "text": "c", "who": None, "mixed": [None, True], "n": 2.0},
        {"id": "4", "text": "d", "who": [7], "mixed": ["a"], "n": 3.0},
    ]
    found = []
    for name, given in (("frame", pandas.DataFrame(rows)), ("dicts", rows)):
        with Collection.create(tmp_path / name, WordEncoder()) as collection:
            collection.add(given)
            found.append(([d.metadata for d in collection], collection.info()["columns"]))
            assert collection.count("who.born = 1950") == 1
    of_frame, of_dicts = found
    assert of_frame == of_dicts
    assert of_frame[1] == {"who": "JSON", "mixed": "JSON", "n": "DOUBLE"}
    expected = [{key: row[key] for key in ("who", "mixed", "n")} for row in rows]
    assert of_frame[0] == expected


def test_dicts(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        collection.add({"_id": 5, "Text": "a cat", "n": 1})
        collection.add({"id": str(i), "text": f"number {i}", "n": i} for i in range(3))
        collection.add([Document("x", "mixed"), {"id": "y", "body": "with dicts", "text_": "?"}])
        assert {document.id for document in collection} == {"5", "0", "1", "2", "x", "y"}
        assert collection.get("5") == Document("5", "a cat", "", {"n": 1, "text_": None})


REFUSED: list[tuple[Any, str]] = [
    ("a text", "'a text'; expected documents, dicts with an id and a text"),
    ([7], "int 7; expected documents"),
    ({"text": "x"}, "a dict of text has no id"),
    ({"id": 1, "words": "x"}, "a dict of id, words has no text"),
    (pandas.DataFrame({"id": [1], "words": ["x"]}), "a dict of id, words has no text"),
    (polars.DataFrame({"id": ["a", None], "text": ["x", "y"]}), "row 2 has no id"),
    ([], "no documents; expected at least one"),
]


def test_objects_without_documents_are_refused(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        for given, message in REFUSED:
            with pytest.raises(InputError) as raised:
                collection.add(given)
            assert message in str(raised.value)
        assert len(collection) == 0


@pytest.mark.parametrize("last", [4, [4]], ids=["numbers", "lists"])
def test_columns_whose_names_are_the_same_or_no_texts(last: Any) -> None:
    """Of two columns of a name, the first was lost if another column had lists."""
    names = ["id", "text", "a", "a", "A", 2023]
    frame = pandas.DataFrame([[1, "x", 1, 2, 3, last]], columns=names)
    (document,) = as_documents(frame)
    assert document.metadata == {"a": 1, "a_1": 2, "A_2": 3, "2023": last}
    arrays = [pyarrow.array([value]) for value in (1, "x", 1, 2)]
    table = pyarrow.Table.from_arrays(arrays, names=["id", "text", "a", "a"])
    for given in (table, duckdb.sql("SELECT 1 AS id, 'x' AS text, 1 AS a, 2 AS a")):
        (document,) = as_documents(given)
        assert document.metadata == {"a": 1, "a_1": 2}


def test_times_with_zones_of_a_program(tmp_path: Path) -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    moment = datetime(2024, 5, 1, 3, tzinfo=zone)
    naive, clock = datetime(2024, 4, 30, 21, 30), "03:00:00+05:30"
    with Collection.create(tmp_path / "i", WordEncoder()) as collection:
        given = {"id": "a", "text": "x", "at": moment, "list": [moment], "clock": moment.timetz()}
        collection.add(given)
        assert [d.metadata for d in collection] == [
            {"at": moment, "list": [moment], "clock": moment.timetz()},
        ]
        assert collection.count(f"\"at\" = '{naive}' AND clock = '{clock}'") == 1


def test_a_stream_that_can_be_read_once() -> None:
    table = pyarrow.table({"id": ["a", "b"], "text": ["x", "y"]})
    assert [d.id for d in as_documents(table.to_reader())] == ["a", "b"]


def test_one_frame_is_read_by_parts() -> None:
    read = as_documents(
        polars.DataFrame({"id": [*range(5000)], "text": ["x"] * 5000, "row": [*range(5000)]})
    )
    found = [*read]
    assert [d.id for d in found] == [str(i) for i in range(5000)]
    assert found[-1].metadata == {"row_": 4999}


def test_tables_are_read_in_a_process_that_has_not_imported_duckdb() -> None:
    program = """
import sys, pyarrow
from slimdex.retrieval.sources.tabular.records import as_documents
assert not {"duckdb", "_duckdb"} & {*sys.modules}
(document,) = as_documents(pyarrow.table({"id": ["a"], "text": ["b"]}))
print(document.id, document.text)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "a b\n", done.stderr
