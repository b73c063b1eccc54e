"""Documents by every way in: one rule for the types of their columns, and all can come again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import _other
from slimdex.retrieval.sources.source import Sources
from tests.building import add, build
from tests.chance import CHANCE
from tests.encoders import WordEncoder
from tests.slow import slow

Rows = list[dict[str, Any]]


def in_process(given: Callable[[Rows], Any]) -> Callable[[Path, Rows], None]:
    """A way by `Collection.add`."""

    def put(path: Path, rows: Rows) -> None:
        kept = Collection.open if path.exists() else Collection.create
        with kept(path, WordEncoder()) as collection:
            collection.add(given(rows))

    return put


def as_frame(rows: Rows) -> Any:
    return pytest.importorskip("pandas").DataFrame(rows)


def by_file(path: Path, rows: Rows) -> None:
    lines = path.with_suffix(".jsonl")
    lines.write_text("".join(f"{line(row)}\n" for row in rows))
    sources = Sources.open(str(lines))
    if not path.exists():
        build(path, sources, WordEncoder, Settings())[0].close()
        return
    with Collection.open(path, WordEncoder()) as collection:
        add(collection, sources)


WAYS: Mapping[str, Callable[[Path, Rows], None]] = {
    "dicts": in_process(lambda rows: rows),
    "pandas": in_process(as_frame),
    "arrow": in_process(pa.Table.from_pylist),
    "jsonl": by_file,
}


def line(row: Mapping[str, Any]) -> str:
    """A row as JSON, with what a program may write for infinity."""
    return json.dumps(row, default=_other).replace("Infinity", "1e999")


def without(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def held(path: Path) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """The types of the columns, and each document's metadata."""
    with Collection.open(path, WordEncoder()) as collection:
        return dict(collection.index.store.columns), {d.id: dict(d.metadata) for d in collection}


def row(id: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": id, "text": f"text {id}", **columns}


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "VARCHAR": st.text("xyz ", max_size=3),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.5),
    "BOOLEAN": st.booleans(),
}
LISTS = SCALARS.items()


@pytest.mark.parametrize("first", ["dicts", *slow(["jsonl", "pandas", "arrow"])])
@settings(max_examples=CHANCE.examples(2), deadline=None)
@given(data=st.data())
def test_a_list_is_a_list_whichever_way_it_comes(
    tmp_path_factory: pytest.TempPathFactory, first: str, data: st.DataObject
) -> None:
    """A column of lists of each type, begun by one way and gone on with by all."""
    path = tmp_path_factory.mktemp("ways") / "x"
    begun = data.draw(st.fixed_dictionaries({n: st.lists(s, min_size=1) for n, s in LISTS}))
    WAYS[first](path, [row("a", begun), row("n", {name: [] for name in SCALARS})])
    expected: dict[str, Any] = {"a": begun, "n": {name: [] for name in SCALARS}}
    for way, put in WAYS.items():
        expected[way] = data.draw(st.fixed_dictionaries({n: st.lists(s) for n, s in LISTS}))
        put(path, [row(way, expected[way])])
    columns, found = held(path)
    assert columns == {name: f"{name}[]" for name in SCALARS}
    assert found == expected
    with Collection.open(path, WordEncoder()) as collection:
        empty = [id for id, lists in expected.items() if not lists["BIGINT"]]
        assert [d.id for d in collection.get(where='len("BIGINT") = 0')] == empty
        assert collection.add([*collection]).unchanged == len(expected)


def test_empty_lists_alone_are_lists_of_texts(tmp_path: Path) -> None:
    """A list of numbers makes the column one of JSON."""
    path, ways = tmp_path / "x", ("dicts", "jsonl", "arrow")
    WAYS["dicts"](path, [row("a", {way: [] for way in ways})])
    assert held(path)[0] == dict.fromkeys(ways, "VARCHAR[]")
    for way in ways:
        WAYS[way](path, [row(way, {way: ["x"]})])
    assert held(path)[0] == dict.fromkeys(ways, "VARCHAR[]")
    WAYS["dicts"](path, [row("b", {way: [1, 2] for way in ways})])
    columns, found = held(path)
    assert columns == dict.fromkeys(ways, "JSON")
    assert found["a"] == {way: [] for way in ways}
    assert [found[way][way] for way in ways] == [["x"]] * 3
    assert found["b"] == {way: [1, 2] for way in ways}


READ: list[tuple[str, Any, str, str, str]] = [
    (
        "TIMESTAMP",
        datetime(2020, 1, 1, 7),
        "2024-05-01T10:00:00",
        "soon",
        "TIMESTAMP '2024-05-01 10:00:00'",
    ),
    ("DATE", date(2020, 1, 1), "2024-05-01", "2024-05-32", "DATE '2024-05-01'"),
]
"""Types, each with a value, a text that is one, another text, and the value in SQL."""


@pytest.mark.parametrize("way", ["dicts", *slow(["jsonl", "arrow", "pandas"])])
def test_conditions_read_a_text_as_the_column_type(tmp_path: Path, way: str) -> None:
    """Documents keep it, and another one makes the column one of text."""
    path = tmp_path / "x"
    WAYS["dicts"](path, [row("first", {f"v{i}": value for i, (_, value, *_) in enumerate(READ)})])
    right = {f"v{i}": text for i, (*_, text, _, _) in enumerate(READ)}
    WAYS["dicts"](path, [row("a", right)])
    WAYS[way](path, [row("b", right)])
    columns, found = held(path)
    assert [*columns.values()] == ["TIMESTAMP", "DATE"]
    assert found["a"] == right
    assert found["b"] == right or way == "jsonl"  # which reads dates
    with Collection.open(path) as collection:
        for i, (*_, value) in enumerate(READ):
            assert collection.count(f"v{i} = {value}") == 2
    wrong = {f"v{i}": text for i, (*_, text, _) in enumerate(READ)}
    WAYS[way](path, [row("c", wrong)])
    columns, found = held(path)
    assert [*columns.values()] == ["VARCHAR"] * 2
    assert (found["a"], found["c"]) == (right, wrong)


TYPES = {
    "BOOLEAN": "true",
    "UTINYINT": "255",
    "BIGINT": "-9223372036854775808",
    "UBIGINT": "18446744073709551615",
    "HUGEINT": "170141183460469231731687303715884105727",
    "FLOAT": "0.1",
    "DOUBLE": "5e-324",
    "DECIMAL(18,3)": "1.5",
    "VARCHAR": "chr(8232) || chr(10) || chr(0)",
    "BLOB": r"'\x00\xFF'",
    "DATE": "'0001-01-01'",
    "TIME": "'23:59:59.999999'",
    "TIMESTAMP": "'2024-01-02 03:04:05.000006'",
    "TIMESTAMP_NS": "'2024-01-02 03:04:05.000006007'",
    "TIMESTAMP WITH TIME ZONE": "'2024-01-02 03:04:05+02'",
    "INTERVAL": "'5 microseconds'",
    "UUID": "'00000000-0000-0000-0000-000000000001'",
    "BIT": "'10101'",
    "VARCHAR[]": "['a', NULL]",
    "DATE[][]": "[['2024-01-02'], NULL]",
    "STRUCT(day DATE, inner_ STRUCT(n BIGINT))[]": "[{'day': '2024-01-02', 'inner_': {'n': 1}}]",
    "MAP(VARCHAR, BIGINT)": "MAP {'a': 1}",
    "JSON": "'{\"a\": [1, null, 2.50]}'",
}
"""Types of DuckDB, each with a value."""


@pytest.mark.parametrize("way", ["dicts", *slow(["arrow"])])
def test_a_document_of_every_type_can_be_added_again(tmp_path: Path, way: str) -> None:
    path = tmp_path / "x"
    selected = [
        f"CAST({value} AS {type_}) AS v{i}" for i, (type_, value) in enumerate(TYPES.items())
    ]
    with Collection.create(path, WordEncoder()) as collection:
        collection.add(duckdb.sql(f"SELECT 'a' AS id, 'text a' AS text, {', '.join(selected)}"))
    columns, before = held(path)
    left = {name for name, value in before["a"].items() if way == "arrow" and is_large(value)}
    WAYS[way](path, [row("again", without(before["a"], *left))])
    after, found = held(path)
    assert after == columns
    assert found == before | {"again": before["a"] | dict.fromkeys(left)}


def is_large(value: Any) -> bool:
    """Whether it is a whole number that Arrow can't infer."""
    return isinstance(value, int) and value >= 2**63


@pytest.mark.parametrize("way", ["dicts", "jsonl", *slow(["pandas"])])
def test_a_number_is_finite_or_missing(tmp_path: Path, way: str) -> None:
    """NaN is a missing number, as dataframes have it; infinity is refused."""
    path = tmp_path / "x"
    put = WAYS[way]
    put(path, [{"id": "a", "text": "one", "n": 1}, {"id": "b", "text": "two", "n": float("nan")}])
    assert held(path)[1] == {"a": {"n": 1}, "b": {"n": None}}
    with pytest.raises(InputError, match=r"document 'c', column 'n': inf; expected a finite"):
        put(path, [{"id": "c", "text": "three", "n": float("inf")}])
    assert [*held(path)[1]] == ["a", "b"]
