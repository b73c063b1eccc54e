"""Values of all of DuckDB's types: what an index stores of them, in any time zone."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from pyarrow.csv import write_csv

from slimdex import Collection, Document
from slimdex.retrieval.sources.source import ColumnNames, open_source
from slimdex.retrieval.sources.tabular.columns import conversion_sql, has_zone, storable
from slimdex.retrieval.sources.tabular.records import as_documents
from tests.chance import CHANCE
from tests.encoders import WordEncoder

MOMENT = "TIMESTAMPTZ '2024-05-01 22:00:00+09'"
NAIVE = datetime(2024, 5, 1, 13)
ONE_ID = "00000000-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    "values",
    [
        ["9/18/2015 19:39", "12/5/2016 8:00", ""],
        ["28.05.2016 7:30", "1.6.2016"],
        ["5/28/16", "12/31/16 11:59 pm"],
        ["28 May 2016", "1 Jun. 2016"],
        ["May 28, 2016", "June 1, 2016"],
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_dates_that_stay_text_are_noted(tmp_path: Path, name: str, values: list[str]) -> None:
    others = {"version": "1.2.3", "code": "12/5", "said": "on 9/18/2015"}
    rows = [{"text": "x", "at": value, **others} for value in values]
    table = pyarrow.Table.from_pylist(rows)
    if name == "a.parquet":
        parquet.write_table(table, tmp_path / name)
    elif name == "a.jsonl":
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
    else:
        write_csv(table, tmp_path / name)
    source = open_source(str(tmp_path / name))
    assert source.columns["at"] == "VARCHAR"
    dates = [note for note in source.notes if "date" in note]
    assert [note.partition(":")[0] for note in dates] == [
        "column 'at' is stored as text, not as a date"
    ]
    typed = open_source(str(tmp_path / name), ColumnNames(types={"at": "VARCHAR"}))
    assert not [note for note in typed.notes if "date" in note]


ALIKE: list[list[Any]] = [
    [{"Host": "a", "host": "b"}],
    [{"Host": "a"}, {"host": "b"}, None],
    [[{"K": 1}, {"k": 2}]],
    [{"a": {"b": [{"It's": 1.5, "IT'S": "é"}]}}, {"a": {}}],
    [{"Ä": 1, "a": {"x": 1, "X": None}}],
]
"""Values of objects whose keys differ in case only."""


@pytest.mark.parametrize("values", ALIKE)
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.gz"])
def test_nested_keys_may_differ_in_case_only(tmp_path: Path, name: str, values: list[Any]) -> None:
    rows = [
        {"id": str(i), "day": "2024-05-01", "m": value, "tags": ["a"], "text": "x", "n": {"i": i}}
        for i, value in enumerate(values)
    ]
    text = json.dumps(rows) if name == "a.json" else "\n".join(map(json.dumps, rows))
    data = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
    (tmp_path / name).write_bytes(data)
    source = open_source(str(tmp_path / name))
    types = {"day": "DATE", "m": "JSON", "tags": "VARCHAR[]", "n": "STRUCT(i BIGINT)"}
    assert source.columns == types
    (documents,) = source.batches()
    own = {"day": date(2024, 5, 1), "tags": ["a"]}
    assert [document.metadata for document in documents] == [
        {**own, "m": value, "n": {"i": i}} for i, value in enumerate(values)
    ]


VALUES: dict[str, tuple[str, Any]] = {
    MOMENT: ("TIMESTAMP", NAIVE),
    "'22:00:00+09'::TIMETZ": ("TIME", time(13)),
    f"[{MOMENT}, NULL]": ("TIMESTAMP[]", [NAIVE, None]),
    f"[{MOMENT}]::TIMESTAMPTZ[1]": ("TIMESTAMP[1]", (NAIVE,)),
    f"{{'seen': {MOMENT}, 'n': 1}}": ("STRUCT(seen TIMESTAMP, n INTEGER)", {"seen": NAIVE, "n": 1}),
    f"MAP {{'a': {MOMENT}}}": ("JSON", {"a": "2024-05-01 13:00:00"}),
    f"union_value(seen := {MOMENT})": ("TIMESTAMP", NAIVE),
    f"{MOMENT}::UNION(seen TIMESTAMPTZ, n INTEGER)": ("JSON", "2024-05-01 13:00:00"),
    "{'a': [1, 2]}::VARIANT": ("JSON", {"a": [1, 2]}),
    "union_value(n := 5)": ("INTEGER", 5),
    "5::UNION(n INTEGER, s VARCHAR)": ("JSON", 5),
    "(1, 'a', NULL)": ("JSON", [1, "a", None]),
    "1234567890123456789012345678901234567890::BIGNUM": (
        "JSON",
        1234567890123456789012345678901234567890,
    ),
    "340282366920938463463374607431768211455::UHUGEINT": ("UHUGEINT", 2**128 - 1),
    "1.25::DECIMAL(30, 5)": ("DECIMAL(30,5)", Decimal("1.25000")),
    "'POINT (1 2)'::GEOMETRY": ("VARCHAR", "POINT (1 2)"),
    "'12:00:00.5'::TIME_NS": ("TIME", time(12, 0, 0, 500_000)),
    "'a'::ENUM('a', 'b')": ("VARCHAR", "a"),
    r"'\xAA'::BLOB": ("BLOB", b"\xaa"),
    f"'{ONE_ID}'::UUID": ("UUID", UUID(ONE_ID)),
    "INTERVAL '3 days 2 seconds'": ("INTERVAL", timedelta(3, 2)),
    "DATE '2024-05-01'": ("DATE", date(2024, 5, 1)),
    "NULL": ("VARCHAR", None),
}
"""Value -> the type that is stored, and the value of a document."""
COLUMNS = {f"v{number}": stored for number, stored in enumerate(VALUES.values())}
QUERY = "SELECT 1 AS id, 'text' AS text, " + ", ".join(
    f"{value} AS v{number}" for number, value in enumerate(VALUES)
)


def check(columns: dict[str, str], document: Document) -> None:
    assert columns == {name: type_ for name, (type_, _) in COLUMNS.items()}
    assert dict(document.metadata) == {name: value for name, (_, value) in COLUMNS.items()}


@contextmanager
def relation(query: str) -> Iterator[Any]:
    """A relation of a session in Tokyo."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        yield connection.sql(query)


def test_every_type_of_a_query() -> None:
    source = open_source(f"sql:{QUERY}")
    check(dict(source.columns), next(source.batches())[0])


def test_every_type_in_an_index(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "x", WordEncoder()) as collection:
        with relation(QUERY) as given:
            collection.add(given)
        check(collection.info()["columns"], collection.get("1"))
        (hit,) = collection.search("text", 1)
        assert hit.metadata == collection.get("1").metadata


def test_months_stay_text() -> None:
    """Python has no months: one would become 30 days."""
    source = open_source("sql:SELECT 1 AS id, 'x' AS text, INTERVAL 1 MONTH AS v, INTERVAL 1 DAY d")
    assert dict(source.columns) == {"v": "VARCHAR", "d": "INTERVAL"}
    assert next(source.batches())[0].metadata == {"v": "1 month", "d": timedelta(1)}
    (note,) = source.notes
    assert "column 'v' is stored as text: '1 month' would change as INTERVAL" in note


def test_parquet_with_zones(tmp_path: Path) -> None:
    moment = datetime(2024, 5, 1, 22, tzinfo=UTC)
    columns = {
        "id": ["1"],
        "text": ["x"],
        "ns": pyarrow.array([moment], pyarrow.timestamp("ns", "UTC")),
        "us": pyarrow.array([moment], pyarrow.timestamp("us", "Asia/Tokyo")),
        "list": pyarrow.array([[moment]], pyarrow.list_(pyarrow.timestamp("ns", "UTC"))),
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    source = open_source(str(tmp_path / "a.parquet"))
    assert dict(source.columns) == {"ns": "TIMESTAMP", "us": "TIMESTAMP", "list": "TIMESTAMP[]"}
    naive = moment.replace(tzinfo=None)
    assert next(source.batches())[0].metadata == {"ns": naive, "us": naive, "list": [naive]}
    assert source.notes == [
        "times of column 'list', 'ns', 'us' have zones: they are stored in UTC, without a zone"
    ]


REQUESTED: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"t": "TIME", "seen": "DATE"}, {"seen": date(2024, 5, 1), "t": time(13)}),
    ({"all": "VARCHAR"}, {"seen": "2024-05-01 13:00:00", "t": "13:00:00"}),
    ({"seen": "TIMESTAMP WITH TIME ZONE"}, {"seen": NAIVE, "t": time(13)}),
]


@pytest.mark.parametrize(("types", "expected"), REQUESTED)
def test_requested_types_of_times_with_zones(
    types: dict[str, str], expected: dict[str, Any], tmp_path: Path
) -> None:
    query = f"SELECT 1 AS id, 'x' AS text, {MOMENT} AS seen, '22:00:00+09'::TIMETZ AS t"
    with relation(query) as given:
        given.write_parquet(str(tmp_path / "a.parquet"))
    source = open_source(str(tmp_path / "a.parquet"), ColumnNames(types=types))
    assert next(source.batches())[0].metadata == expected
    (tmp_path / "a.csv").write_text("id,text,seen,t\n1,x,2024-05-01T22:00:00+09:00,22:00:00+09\n")
    if types != {"all": "VARCHAR"}:
        source = open_source(str(tmp_path / "a.csv"), ColumnNames(types={"t": "TIME", **types}))
        assert next(source.batches())[0].metadata == expected


Example = tuple[str, Any, Any, bool]
"""SQL of a value, the value, its value within JSON, and whether it is stored as JSON."""
LEAVES: list[Example] = [
    (MOMENT, NAIVE, "2024-05-01 13:00:00", False),
    ("'22:00:00+09'::TIMETZ", time(13), "13:00:00", False),
    ("7", 7, 7, False),
    ("'it''s'", "it's", "it's", False),
    ("34::VARIANT", 34, 34, True),
    ("NULL::TIMESTAMPTZ", None, None, False),
]


def nested(inner: st.SearchStrategy[Example]) -> st.SearchStrategy[Example]:
    def listed(example: Example) -> Example:
        sql, value, json, is_json = example
        return f"[{sql}]", [json if is_json else value], [json], is_json

    def packed(first: Example, second: Example) -> Example:
        is_json = first[3] or second[3]
        json = {"a b": first[2], "c": second[2]}
        plain = {"a b": first[1], "c": second[1]}
        return f"{{'a b': {first[0]}, 'c': {second[0]}}}", json if is_json else plain, json, is_json

    def mapped(example: Example) -> Example:
        return f"MAP {{'k': {example[0]}}}", {"k": example[2]}, {"k": example[2]}, True

    def tupled(first: Example, second: Example) -> Example:
        return f"({first[0]}, {second[0]})", [first[2], second[2]], [first[2], second[2]], True

    def joined(example: Example) -> Example:
        return f"union_value(m := {example[0]})", *example[1:]

    return st.one_of(
        inner.map(listed),
        st.builds(packed, inner, inner),
        inner.map(mapped),
        st.builds(tupled, inner, inner),
        inner.map(joined),
    )


@pytest.mark.slow
@settings(max_examples=CHANCE.examples(20))
@given(st.recursive(st.sampled_from(LEAVES), nested, max_leaves=5))
def test_values_within_others_are_converted(example: Example) -> None:
    sql, value, json, is_json = example
    with relation(f"SELECT 1 AS id, 'x' AS text, {sql} AS v") as given:
        read = as_documents(given)
        (document,) = read.documents
        ((type_,),) = given.query("r", "SELECT typeof(v) FROM r").fetchall()
    assert document.metadata == {"v": json if is_json else value}
    assert read.columns == [{"v": storable(type_)}]
    assert not has_zone(storable(type_))
    assert storable(storable(type_)) == storable(type_)
    assert conversion_sql("v", storable(type_)) == "v"


IN_A_ZONE = """
import sys
from datetime import datetime, timedelta, timezone
import duckdb
from slimdex import Collection, Document
from slimdex.retrieval.ingest.adding import add
from slimdex.retrieval.ingest.addition import Addition
from tests.chance import CHANCE
from tests.encoders import WordEncoder

with duckdb.connect() as connection:
    ((zone,),) = connection.execute("SELECT current_setting('TimeZone')").fetchall()
    print(zone)
noon = datetime(2024, 5, 1, 21, tzinfo=timezone(timedelta(hours=9)))
with Collection.create(sys.argv[1], WordEncoder()) as collection:
    collection.add(duckdb.sql(
        "SELECT 'a' AS id, 'x' AS text, TIMESTAMPTZ '2024-05-01 12:00:00+00' AS seen, "
        "'12:00:00+00'::TIMETZ AS clock"
    ))
    collection.add({"id": "b", "text": "x", "seen": noon, "clock": noon.timetz()})
    collection.add({"id": "c", "text": "x", "seen": "2024-5-1 21:00+09", "clock": "21:00:00+09"})
    documents = [Document("d", "x", metadata={"seen": noon, "old": noon})]
    add(collection.index, Addition(documents, [{"old": "TIMESTAMPTZ_NS"}]))
    for where in sys.argv[2:]:
        print(collection.count(where))
"""
CONDITIONS = {
    "seen = '2024-05-01 12:00'": 4,
    "seen = TIMESTAMPTZ '2024-05-01 21:00:00+09'": 4,
    "seen < TIMESTAMPTZ '2024-05-01 12:00:00'": 0,
    "hour(seen::TIMESTAMPTZ) = 12": 4,
    "strftime(seen::TIMESTAMPTZ, '%H') = '12'": 4,
    "clock = '12:00'": 3,
    "old < '2024-05-01 12:01'": 1,
    "old::VARCHAR = '2024-05-01 12:00:00+00'": 1,
    "old::DATE = '2024-05-01'": 1,
}


@pytest.mark.slow
def test_conditions_hold_in_every_time_zone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_ZONE, str(tmp_path / "x"), *CONDITIONS],
        env={**os.environ, "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    zone, *counts = done.stdout.split()
    assert zone == "Asia/Tokyo"
    assert dict(zip(CONDITIONS, map(int, counts), strict=True)) == CONDITIONS
