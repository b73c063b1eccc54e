"""Types of tables' columns: what an index stores of them, in any time zone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow
import pytest
from pyarrow import parquet

from slimdex import Collection
from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.sources.source import ColumnNames, Sources, open_source
from slimdex.retrieval.sources.tabular.columns import parse_types
from tests.building import add, build
from tests.encoders import WordEncoder

MOMENT = "TIMESTAMPTZ '2024-05-01 22:00:00+09'"
NAIVE = datetime(2024, 5, 1, 13)
WITH_ZONE = "2024-05-01 13:00:00+00"
ONE_ID = "00000000-0000-0000-0000-000000000001"
LARGE = 1234567890123456789012345678901234567890


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


VALUES: dict[str, tuple[str, Any]] = {
    MOMENT: ("TIMESTAMP", NAIVE),
    "'22:00:00+09'::TIMETZ": ("VARCHAR", "22:00:00+09"),
    f"[{MOMENT}, NULL]": ("TIMESTAMP[]", [NAIVE, None]),
    f"[{MOMENT}]::TIMESTAMPTZ[1]": ("TIMESTAMP[]", (NAIVE,)),
    f"{{'seen': {MOMENT}, 'n': 1}}": ("JSON", {"seen": WITH_ZONE, "n": 1}),
    f"MAP {{'a': {MOMENT}}}": ("JSON", {"a": WITH_ZONE}),
    "{'a': [1, 2]}::VARIANT": ("JSON", {"a": [1, 2]}),
    "union_value(n := 5)": ("JSON", {"n": 5}),
    "(1, 'a', NULL)": ("JSON", [1, "a", None]),
    f"{LARGE}::BIGNUM": ("VARCHAR", LARGE),
    "340282366920938463463374607431768211455::UHUGEINT": ("VARCHAR", 2**128 - 1),
    "1.25::DECIMAL(30, 5)": ("DOUBLE", Decimal("1.25000")),
    "'POINT (1 2)'::GEOMETRY": ("VARCHAR", "POINT (1 2)"),
    "'12:00:00.5'::TIME_NS": ("VARCHAR", time(12, 0, 0, 500_000)),
    "'a'::ENUM('a', 'b')": ("VARCHAR", "a"),
    "['a'::ENUM('a', 'b')]": ("VARCHAR[]", ["a"]),
    r"'\xAA'::BLOB": ("VARCHAR", b"\xaa"),
    f"'{ONE_ID}'::UUID": ("VARCHAR", UUID(ONE_ID)),
    "INTERVAL '3 days 2 seconds'": ("VARCHAR", timedelta(3, 2)),
    "DATE '2024-05-01'": ("DATE", date(2024, 5, 1)),
    "[]": ("VARCHAR[]", []),
}
"""Value -> the type of the index's column, and the value of a document."""
COLUMNS = {f"v{number}": type_ for number, (type_, _) in enumerate(VALUES.values())}
METADATA = {f"v{number}": value for number, (_, value) in enumerate(VALUES.values())}
QUERY = "SELECT 1 AS id, 'text' AS text, " + ", ".join(
    f"{value} AS v{number}" for number, value in enumerate(VALUES)
)


@contextmanager
def relation(query: str) -> Iterator[Any]:
    """A relation of a session in Tokyo."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        yield connection.sql(query)


def test_every_type_of_a_query() -> None:
    source = open_source(f"sql:{QUERY}")
    assert next(source.batches())[0].metadata == METADATA


def test_every_type_in_an_index() -> None:
    in_tokyo: dict[str, Any] = {"v4": {"seen": "2024-05-01 22:00:00+09", "n": 1}}
    in_tokyo["v5"] = {"a": "2024-05-01 22:00:00+09"}
    moment = NAIVE.replace(tzinfo=UTC)
    in_tokyo |= {"v0": moment, "v2": [moment, None], "v3": [moment]}
    with Collection.create("x", WordEncoder()) as collection:
        with relation(QUERY) as given:
            collection.add(given)
        assert collection.info()["columns"] == COLUMNS
        assert collection.get("1").metadata == METADATA | in_tokyo
        (hit,) = collection.search("text", 1)
        assert hit.metadata == collection.get("1").metadata


def test_parquet_with_zones() -> None:
    moment = datetime(2024, 5, 1, 22, tzinfo=UTC)
    columns = {
        "id": ["1"],
        "text": ["x"],
        "ns": pyarrow.array([moment], pyarrow.timestamp("ns", "UTC")),
        "us": pyarrow.array([moment], pyarrow.timestamp("us", "Asia/Tokyo")),
        "list": pyarrow.array([[moment]], pyarrow.list_(pyarrow.timestamp("ns", "UTC"))),
    }
    parquet.write_table(pyarrow.table(columns), "a.parquet")
    source = open_source("a.parquet")
    naive = moment.replace(tzinfo=None)
    assert next(source.batches())[0].metadata == {"ns": naive, "us": naive, "list": [naive]}


def csv(name: str, *values: str) -> str:
    rows = "".join(f"{name[0]}{i},the text,{v}\n" for i, v in enumerate(values))
    Path(name).write_text(f"id,text,v\n{rows}")
    return name


def jsonl(name: str, *values: Any) -> str:
    rows = ({"id": f"{name[0]}{i}", "text": "x", "v": v} for i, v in enumerate(values))
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def opened(*specs: str, types: str = "") -> Sources:
    return Sources.open(specs, ColumnNames(types=parse_types([types] if types else [])))


def indexed(*specs: str, types: str = "") -> Collection:
    path = Path("-".join(specs) + ".index")
    return build(path, opened(*specs, types=types), WordEncoder, Settings())[0]


def stored(collection: Collection) -> dict[str, Any]:
    return {document.id: document.metadata.get("v") for document in collection}


def values(sources: Sources) -> list[Any]:
    return [document.metadata["v"] for document in sources.documents()]


LATER = datetime(2024, 1, 3, 10)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((csv, "1", "2"), (csv, "many", "1.50"), [1, 2, "many", "1.50"]),
        ((csv, "1"), (csv, "2.5"), [1, 2.5]),
        ((csv, ""), (csv, "5"), [None, 5]),
        (
            (csv, "2024-01-02"),
            (csv, "2024-01-03 10:00"),
            [date(2024, 1, 2), datetime(2024, 1, 3, 10)],
        ),
        ((csv, "007", "8"), (jsonl, 5), ["007", "8", 5]),
        ((jsonl, {"a": 1}), (jsonl, {"b": "x"}, [1, "2"]), [{"a": 1}, {"b": "x"}, [1, "2"]]),
        ((jsonl, None), (jsonl, 5), [None, 5]),
    ],
)
def test_files_with_a_column_of_several_types(
    first: tuple[Any, ...], second: tuple[Any, ...], expected: list[Any]
) -> None:
    """The column takes the values of all files as they are, whichever comes first."""
    specs = []
    for name, (write, *column) in zip("ab", (first, second), strict=True):
        specs.append(write(f"{name}.{write.__name__}", *column))
    with indexed(*specs) as collection, indexed(*reversed(specs)) as turned:
        assert [*stored(collection).values()] == expected
        assert stored(turned) == stored(collection)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [("1.5", "2", 2), ("1", "2.5", 2.5), ("x", "1.50", "1.50"), ("2024-01-02", "", None)],
)
def test_a_later_file_keeps_its_values(old: str, new: str, expected: Any) -> None:
    with indexed(csv("a.csv", old)) as collection:
        add(collection, opened(csv("b.csv", new)))
        assert stored(collection)["b0"] == expected


@pytest.mark.parametrize(
    ("old", "new", "type_"),
    [
        ("2024-01-03", "soon", "DATE"),
        ("2", "many", "BIGINT"),
        ("12345", "01234", "BIGINT"),
    ],
)
def test_an_index_column_becomes_text_for_other_values(old: str, new: str, type_: str) -> None:
    """The values stay as they were, also numbers with zeros before them."""
    with indexed(csv("a.csv", old)) as collection:
        assert collection.info()["columns"] == {"v": type_}
        before = stored(collection)
        add(collection, opened(csv("b.csv", old, new)))
        assert collection.info()["columns"] == {"v": "VARCHAR"}
        assert stored(collection) == {**before, "b0": old, "b1": new}
        assert collection.count(f"v = '{new}'") == 1


NOON = datetime(2024, 5, 1, 12)


@pytest.mark.parametrize("write", [csv, jsonl])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["2024-05-01", "2024-05-01T12:00:00"], [datetime(2024, 5, 1), NOON]),
        (["2024-05-01 12:00", "2024-05-01T14:00:00+02:00"], [NOON, NOON]),
        (["2024-05-01T12:00:00Z", "", " "], [NOON, None, None]),
        (["2024-5-1", ""], [date(2024, 5, 1), None]),
        (["12:00", ""], [time(12), None]),
        (["2016-12-31T23:59:60", "20240501T120000Z", "2024-05-01"], None),
        (["2024-05-01", "11/6/18", "epoch"], None),
    ],
)
def test_times_may_be_mixed_and_lack(
    write: Callable[..., str], given: list[str], expected: list[Any] | None
) -> None:
    """A day is midnight, a time without a zone is in UTC; other columns stay as they are."""
    sources = opened(write(f"a.{write.__name__}", *given))
    assert values(sources) == (expected or given)
    is_noted = any("'v' is stored as text" in note for note in sources.notes)
    assert is_noted == (given[-1] == "2024-05-01")


@pytest.mark.parametrize(
    ("given", "example"), [(["1.5", "1.10"], "1.10"), (["1", "2", "?"], "?"), (["yes", "No"], "No")]
)
def test_columns_that_are_nearly_typed_are_noted_and_are_not_the_text(
    given: list[str], example: str
) -> None:
    Path("a.csv").write_text("name,v\n" + "".join(f"x,{value}\n" for value in given))
    sources = opened("a.csv")
    assert [d.text for d in sources.documents()] == ["x"] * len(given)
    assert values(sources) == given
    assert any(f"'{example}'" in note for note in sources.notes)


def test_quotes_in_tabs_are_signs_if_more_rows_are_read_so() -> None:
    head = "id\ttext\n"
    Path("a.tsv").write_text(head + '1\t"He said\n2\tb"\n3\t"c" d\n')
    Path("b.tsv").write_text(head + '1\t"a ""b"""\n2\t"c\td"\n')
    texts = [document.text for document in opened("a.tsv", "b.tsv").documents()]
    assert texts == ['"He said', 'b"', '"c" d', 'a "b"', "c\td"]


def test_requested_types_are_read() -> None:
    a = csv("a.csv", "1.10", "2")
    assert values(opened(a, types="v=DOUBLE")) == [1.1, 2.0]
    assert values(opened(csv("b.csv", "2", ""), types="all=text")) == ["2", None]
    c = jsonl("c.jsonl", "2024-01-02", None)
    assert values(opened(c)) == [date(2024, 1, 2), None]
    assert values(opened(c, types="all=VARCHAR")) == ["2024-01-02", None]
    assert values(opened(jsonl("d.jsonl", "5", 6), types="v=BIGINT")) == [5, 6]
    assert values(opened(csv("f.csv", '"[1, 2]"'), types="v=INT[]")) == [[1, 2]]
    g = csv("g.csv", "2024-05-01T22:00:00+09:00")
    for type_ in ("TIMESTAMP", "TIMESTAMPTZ"):
        assert values(opened(g, types=f"v={type_}")) == [NAIVE]
    with relation(f"SELECT 1 AS id, 'x' AS text, {MOMENT} AS v") as given:
        given.write_parquet("e.parquet")
    assert values(opened("e.parquet", types="v=DATE")) == [date(2024, 5, 1)]
    assert values(opened("e.parquet", types="v=VARCHAR")) == [WITH_ZONE]


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ("w=VARCHAR", "types: no column 'w'; expected one of id, text, v"),
        ("v=NOPE", "types='v=NOPE': Catalog Error: Type with name NOPE does not exist!"),
        ("v", "types='v'; expected COLUMN=TYPE"),
        ("v=INT; DROP TABLE x", "expected COLUMN=TYPE"),
    ],
)
def test_invalid_types_are_refused(types: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        opened(csv("a.csv", "1"), types=types)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("numbers", [[0, -1], [-(2**63), 2**63 - 1], [0, 2**63]])
def test_whole_numbers_of_json_stay_whole(numbers: list[Any]) -> None:
    assert repr(values(opened(jsonl("a.jsonl", *numbers)))) == repr(numbers)


@pytest.mark.parametrize(
    "column", [[{"Host": "a", "host": "b"}], [[{"K": 1}, {"k": 2}]], [{"Ä": {"x": 1, "X": None}}]]
)
def test_nested_keys_may_differ_in_case_only(column: list[Any]) -> None:
    sources = opened(jsonl("a.jsonl", *column))
    assert values(sources) == column


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
        "SELECT 'a' AS id, 'x' AS text, TIMESTAMPTZ '2024-05-01 12:00:00+00' AS seen"
    ))
    collection.add({"id": "b", "text": "x", "seen": noon, "clock": noon.replace(hour=12).time()})
    collection.add({"id": "c", "text": "x", "seen": "2024-05-01 21:00+09", "clock": "12:00:00"})
    documents = [Document("d", "x", metadata={"seen": noon, "old": noon})]
    add(collection.index, Addition(documents))
    for where in sys.argv[2:]:
        print(collection.count(where))
"""
CONDITIONS = {
    "seen = '2024-05-01 12:00'": 4,
    "seen = TIMESTAMPTZ '2024-05-01 21:00:00+09'": 4,
    "seen < TIMESTAMPTZ '2024-05-01 12:00:00'": 0,
    "hour(seen::TIMESTAMPTZ) = 12": 4,
    "clock = '12:00:00'": 2,
    "old < '2024-05-01 12:01'": 1,
    "old::VARCHAR = '2024-05-01 12:00:00'": 1,
    "old::DATE = '2024-05-01'": 1,
}


@pytest.mark.slow
def test_conditions_hold_in_every_time_zone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_ZONE, str(tmp_path / "x"), *CONDITIONS],
        env={**os.environ, "TZ": "Asia/Tokyo"},
        cwd=Path(__file__).parents[4],  # for the tests' encoders
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    zone, *counts = done.stdout.split()
    assert zone == "Asia/Tokyo"
    assert dict(zip(CONDITIONS, map(int, counts), strict=True)) == CONDITIONS
