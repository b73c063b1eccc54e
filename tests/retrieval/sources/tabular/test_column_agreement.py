"""Columns of one name in several files, and in an index: one type, and nothing is lost by it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.ingest.addition_report import AdditionReport
from slimdex.retrieval.sources.source import ColumnNames, Sources
from slimdex.retrieval.sources.tabular.columns import parse_types
from slimdex.retrieval.sources.tabular.tables import TableSource
from tests.building import add, build
from tests.encoders import WordEncoder


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def csv(name: str, *values: str, column: str = "v") -> str:
    rows = "".join(f"{name[0]}{i},the text,{v}\n" for i, v in enumerate(values))
    Path(name).write_text(f"id,text,{column}\n{rows}")
    return name


def jsonl(name: str, *values: Any) -> str:
    rows = ({"id": f"{name[0]}{i}", "text": "x", "v": v} for i, v in enumerate(values))
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def parquet(name: str, value: str) -> str:
    row = f"SELECT '{name[0]}0' AS id, 'x' AS text, '{value}' AS v"
    duckdb.connect().sql(row).write_parquet(name)
    return name


def opened(*specs: str, types: str = "") -> Sources:
    return Sources.open(specs, ColumnNames(types=parse_types([types] if types else [])))


def values(sources: Sources) -> dict[str, Any]:
    return {d.id: d.metadata["v"] for d in sources.documents()}


def held(collection: Collection) -> dict[str, Any]:
    with collection:
        snapshot = collection.index.snapshot
        rows = [row for row in range(snapshot.state.rows) if row not in snapshot.deleted]
        found = collection.index.store.read(rows)
        return {d.id: d.metadata.get("v") for d in found.values()}


def built(*specs: str, types: str = "") -> dict[str, Any]:
    path = Path("-".join(specs) + ".index")
    return held(build(path, opened(*specs, types=types), WordEncoder, Settings())[0])


@pytest.mark.parametrize(
    ("write", "first", "second"),
    [
        (csv, ["2024-01-02"], ["soon"]),
        (csv, ["1", "2"], ["many", "1.50"]),
        (csv, ["12345678901234567"], ["1.5"]),
        (csv, ["1"], ["1.5"]),
        (csv, ["2024-01-02"], ["2024-01-03 10:00:00"]),
        (csv, [""], ["5"]),
        (jsonl, [5, 1.5], ["x", "5"]),
        (jsonl, [True], [7]),
        (jsonl, [None], [5]),
    ],
)
def test_two_files_behave_like_one_with_all_their_rows(
    write: Callable[..., str], first: list[Any], second: list[Any]
) -> None:
    ending = write.__name__
    both = list(values(opened(write(f"c.{ending}", *first, *second))).values())
    a, b = write(f"a.{ending}", *first), write(f"b.{ending}", *second)
    for order in ((a, b), (b, a)):
        found = values(opened(*order))
        assert [found[f"a{i}"] for i in range(len(first))] == both[: len(first)]
        assert [found[f"b{i}"] for i in range(len(second))] == both[len(first) :]
        assert opened(*order).notes == [] or first[0]


def about_columns(added: AdditionReport) -> list[str]:
    return [note for note in added.notes if "column" in note]


@pytest.mark.parametrize("value", ["5", "2024-01-02", "word"])
def test_an_empty_column_leaves_the_index_column_as_it_is(value: str) -> None:
    collection = indexed(value)
    before = collection.index.store.columns
    for source in (csv("c.csv", "", ""), jsonl("d.jsonl", None)):
        assert not about_columns(add(collection, opened(source)))
        assert collection.index.store.columns == before
    found = held(collection)
    assert (found["c0"], found["d0"]) == (None, None)


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_the_row_of_a_misfit_in_a_long_file(ending: str) -> None:
    value = "CASE WHEN i IN (250001, 250002) THEN 'no' ELSE i::VARCHAR END"
    rows = f"SELECT i AS id, 'x' AS text, {value} AS v"
    kind = {".csv": "CSV, HEADER", ".jsonl": "JSON", ".parquet": "PARQUET"}[ending]
    rows += " FROM range(300000) t(i)"
    duckdb.connect().execute(f"COPY ({rows}) TO 'b{ending}' (FORMAT {kind})")
    (source,) = opened(f"b{ending}").opened
    assert isinstance(source, TableSource)
    assert source.misfit("v", "BIGINT") == (250002, "no")


def test_files_of_different_kinds() -> None:
    a, b = csv("a.csv", "007", "8"), jsonl("b.jsonl", 5, "x")
    assert built(a, b) == {"a0": "007", "a1": "8", "b0": 5, "b1": "x"}
    c, d = csv("c.csv", "2024-01-02"), jsonl("d.jsonl", 5)
    assert built(c, d) == values(opened(d, c)) == {"c0": "2024-01-02", "d0": "5"}
    notes = opened(c, d).notes
    assert notes == ["column 'v' is BIGINT, DATE in different files; it is stored as VARCHAR"]


def indexed(*values: str) -> Collection:
    return build(Path("x"), opened(csv("a.csv", *values)), WordEncoder, Settings())[0]


@pytest.mark.parametrize(
    ("old", "new", "type_"),
    [
        ("2024-01-03", "soon", "DATE"),
        ("10:00", "late", "TIME"),
    ],
)
def test_a_column_of_days_refuses_words_and_stays(old: str, new: str, type_: str) -> None:
    collection = indexed(old)
    with pytest.raises(InputError) as raised:
        add(collection, opened(csv("b.csv", old, new)))
    assert str(raised.value).startswith(f"b.csv, row 2: {new!r} in column 'v' is not {type_}: ")
    assert collection.index.store.columns["v"] == type_
    assert list(held(collection)) == ["a0"]


def test_a_column_of_numbers_refuses_words_with_file_row_value_and_a_way_out() -> None:
    collection = indexed("1", "2")
    source = csv("b.csv", "3", "many")
    with pytest.raises(InputError) as raised:
        add(collection, opened(source))
    assert str(raised.value) == (
        "b.csv, row 2: 'many' in column 'v' is not BIGINT: column 'v' holds BIGINT; the new values "
        "are VARCHAR (types=v=VARCHAR makes the whole column text, types=v=BIGINT reads "
        "matching values)"
    )
    with pytest.raises(InputError, match=r"b\.csv: .*many.*"):
        add(collection, opened(source, types="v=BIGINT"))
    add(collection, opened(source, types="v=VARCHAR"))
    assert held(collection) == {"a0": "1", "a1": "2", "b0": "3", "b1": "many"}


def test_zeros_before_a_number_are_not_lost_in_a_column_of_numbers() -> None:
    collection = indexed("12345")
    with pytest.raises(InputError, match=r"b\.csv, row 2: '01234' in column 'v' is not BIGINT"):
        add(collection, opened(csv("b.csv", "5", "01234")))
    add(collection, opened("b.csv", types="v=VARCHAR"))
    assert held(collection) == {"a0": "12345", "b0": "5", "b1": "01234"}


MOMENTS = (datetime(2024, 1, 4), datetime(2024, 1, 4, 12))


@pytest.mark.parametrize(
    ("old", "write", "new", "expected"),
    [
        ("1.5", csv, ["1.10"], [1.1]),
        ("x", csv, ["1.5", "2"], ["1.5", "2"]),
        ("x", jsonl, [{"k": [1, "2"]}], ['{"k":[1,"2"]}']),
        ("2024-01-02", parquet, ["2024-01-03"], [date(2024, 1, 3)]),
        ("2024-01-02 10:00", jsonl, ["2024-01-04", "2024-01-04T12:00:00"], [*MOMENTS]),
    ],
)
def test_values_become_those_of_the_index_column(
    old: str, write: Callable[..., str], new: list[Any], expected: list[Any]
) -> None:
    collection = indexed(old)
    notes = about_columns(add(collection, opened(write(f"b.{write.__name__}", *new))))
    is_rewritten = "b.csv: column 'v' holds DOUBLE: stored as numbers, not as written"
    assert notes == [is_rewritten] * (old == "1.5")
    assert [*held(collection).values()][1:] == expected


def test_requested_types_are_read() -> None:
    a = csv("a.csv", "1.10", "2")
    assert values(opened(a)) == {"a0": "1.10", "a1": "2"}
    assert values(opened(a, types="v=DOUBLE")) == {"a0": 1.1, "a1": 2.0}
    b = csv("b.csv", "2", "")
    assert values(opened(b, types="v=VARCHAR")) == {"b0": "2", "b1": None}
    assert values(opened(b, types="all=text")) == {"b0": "2", "b1": None}
    c = jsonl("c.jsonl", "2024-01-02", None)
    assert values(opened(c)) == {"c0": date(2024, 1, 2), "c1": None}
    assert values(opened(c, types="all=VARCHAR")) == {"c0": "2024-01-02", "c1": None}
    d = jsonl("d.jsonl", "5", 6)
    assert values(opened(d, types="v=BIGINT")) == {"d0": 5, "d1": 6}
    duckdb.connect().sql("SELECT 'e0' AS id, 'x' AS text, 5 AS v").write_parquet("e.parquet")
    assert values(opened("e.parquet", types="v=VARCHAR")) == {"e0": "5"}
    assert values(opened(csv("f.csv", '"[1, 2]"'), types="v=INT[]")) == {"f0": [1, 2]}


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


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([0, -1], "BIGINT"),
        ([-(2**63), 2**63 - 1], "BIGINT"),
        ([0, 2**63], "HUGEINT"),
        ([[0, -1], [7]], "BIGINT[]"),
        ([[0], [2**63]], "HUGEINT[]"),
    ],
)
def test_whole_numbers_of_json_are_wide_only_if_they_must_be(
    numbers: list[Any], expected: str
) -> None:
    sources = opened(jsonl("a.jsonl", *numbers))
    assert dict(sources.opened[0].columns) == {"v": expected}
    assert [*values(sources).values()] == numbers
