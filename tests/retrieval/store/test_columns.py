"""Columns: conditions see the same values, whatever files they are in and types these have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from slimdex.errors import UnreadableError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.repairing import repair, verify
from slimdex.retrieval.store import next_commit
from slimdex.retrieval.store.document_store import DocumentStore
from slimdex.retrieval.store.engine import Engine
from slimdex.retrieval.store.state import MOST_TRAILING, ColumnFile
from slimdex.system.duckdb_library import identifier
from tests.chance import CHANCE
from tests.encoders import WordEncoder

from .stores import add, created

EAST = timezone(timedelta(hours=2))
KINDS: dict[str, tuple[list[Any], list[Any]]] = {
    "BOOLEAN": ([True, False], [True, False]),
    "BIGINT": ([2**63 - 1, -(2**63)], [2**63 - 1, -(2**63)]),
    "DOUBLE": ([0.1, 5e-324, 7, Decimal("1.10")], [0.1, 5e-324, 7.0, 1.1]),
    "VARCHAR": (["", "a\0b", "é\u2028'\""], ["", "a\0b", "é\u2028'\""]),
    "as text": (
        [2**100, Decimal("1.01234567890123456789"), UUID(int=7), b"\x00\xff", time(9, 30)],
        [str(2**100), "1.01234567890123456789", str(UUID(int=7)), "AP8=", "09:30:00"],
    ),
    "JSON": (
        [{"é": [1, None]}, [1, "a"], [[date(2024, 1, 2)], []], [2**64]],
        ['{"é":[1,null]}', '[1,"a"]', '[["2024-01-02"],[]]', "[18446744073709551616]"],
    ),
    "DATE": ([date(1, 1, 1), date.max], [date(1, 1, 1), date.max]),
    "TIMESTAMP": (
        [datetime.max, date(2024, 1, 2), datetime(2024, 1, 2, 3, tzinfo=UTC)],
        [datetime.max, datetime(2024, 1, 2), datetime(2024, 1, 2, 3)],
    ),
    "BIGINT[]": ([[1, None], []], [[1, None], []]),
    "DATE[]": ([[date(2024, 1, 2)], []], [[date(2024, 1, 2)], []]),
    "VARCHAR[]": ([[]], [[]]),
}
"""Type of a column -> values as they are given, and as queries see them."""


@pytest.mark.parametrize("more", [0, MOST_TRAILING])
def test_values_of_every_kind_in_queries(tmp_path: Path, more: int) -> None:
    """In the table of few rows, and in a file."""
    most = max(len(values) for values, _ in KINDS.values())
    metadata = [{t: v[i] for t, (v, _) in KINDS.items() if i < len(v)} for i in range(most)]
    documents = [Document(str(i), "x", metadata=each) for i, each in enumerate(metadata)]
    with created(tmp_path / "x") as index:
        add(index, *documents, *(Document(f"more {i}", "x") for i in range(more)))
        assert len(index.state.column_files) == (more > 0)
        types = {name: "VARCHAR" if name == "as text" else name for name in KINDS}
        assert index.store.columns == types
        for name, (_, expected) in KINDS.items():
            column = identifier(name)
            sql = f'SELECT {column} FROM documents WHERE {column} IS NOT NULL ORDER BY "row"'
            assert [value for (value,) in index.store.fetch(sql)] == expected


def test_other_programs_read_the_files(tmp_path: Path) -> None:
    with created(tmp_path / "x") as index:
        add(index, *(Document(f"d{i}", "x", metadata={"n": i}) for i in range(MOST_TRAILING + 1)))
        (file,) = index.state.column_files
        read = duckdb.read_parquet(str(index.path / file.name))
        assert read.aggregate("count(*), sum(n), max(row)").fetchall() == [(257, 32896, 256)]


def test_few_rows_are_in_no_file(tmp_path: Path) -> None:
    """Conditions find them, too."""
    with created(tmp_path / "x") as index:
        for rows, in_files in ((200, 0), (256, 0), (257, 257), (258, 257)):
            new = range(index.state.rows, rows)
            add(index, *(Document(f"d{i}", "x", metadata={"n": i}) for i in new))
            assert index.state.column_rows == in_files
            assert index.store.rows_where(f"n IN (7, {rows - 1})").tolist() == [7, rows - 1]
        add(index, Document("long", "x" * 20_000))
        assert index.state.column_rows == 259


def test_a_column_of_numbers_becomes_text_and_no_value_changes(tmp_path: Path) -> None:
    """Three hundred whole numbers in a file, then 2.5 and "iv" in none."""
    documents = [Document(f"d{i}", f"word{i}", metadata={"n": i}) for i in range(300)]
    more = [Document("half", "x", metadata={"n": 2.5}), Document("four", "y", metadata={"n": "iv"})]
    with Collection.create(tmp_path / "x", WordEncoder()) as collection:

        def ids(where: str) -> list[str]:
            return [each.id for each in collection.get(where=where)]

        collection.add(documents)
        assert ids("n > 297") == ["d298", "d299"]
        collection.add(more[:1])
        assert collection.index.store.columns == {"n": "DOUBLE"}
        assert ids("n > 1.5 AND n < 4") == ["d2", "d3", "half"]
        collection.add(more[1:])
        for _ in range(2):  # the second time in one file
            assert collection.index.store.columns == {"n": "VARCHAR"}
            assert ids("n IN ('2', '2.5', 'iv', '299')") == ["d2", "d299", "half", "four"]
            assert ids("try_cast(n AS DOUBLE) BETWEEN 2 AND 3") == ["d2", "d3", "half"]
            values = {each.id: each.metadata["n"] for each in collection}
            assert repr(values) == repr({each.id: each.metadata["n"] for each in documents + more})
            collection.delete(documents.pop(7).id)
            collection.compact()


def test_a_type_stays_wide_after_undo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose file has values that the narrower one can't hold."""
    monkeypatch.setattr(next_commit, "MOST_TRAILING", 0)
    with Collection.create(tmp_path / "x", WordEncoder()) as collection:
        collection.add([Document("a", "x", metadata={"n": 7})])
        collection.add([Document("b", "y", metadata={"n": "iv"})])
        collection.undo()
        assert [each.id for each in collection.get(where="n = '7'")] == ["a"]
        collection.undo()
        assert collection.count("n IN ('7', 'iv')") == 2
        assert collection.verify() == []


WIDENED: list[tuple[list[Any], str, list[Any]]] = [
    ([1, 2.5], "DOUBLE", [1.0, 2.5]),
    ([-(2**63), 2.5], "DOUBLE", [-(2.0**63), 2.5]),
    ([1, Decimal("2.5"), 0.1], "DOUBLE", [1.0, 2.5, 0.1]),
    ([1, 2**64, "x"], "VARCHAR", ["1", str(2**64), "x"]),
    ([2.0, 2.5, 1e300, 1e-7, "x"], "VARCHAR", ["2", "2.5", "1e+300", "1e-07", "x"]),
    ([Decimal("2.5"), 7, Decimal("-0.25"), "x"], "VARCHAR", ["2.5", "7", "-0.25", "x"]),
    ([True, 1, 2.5], "VARCHAR", ["true", "1", "2.5"]),
    (
        [date(2024, 1, 2), datetime(1, 1, 1, 3), datetime(2024, 1, 2, tzinfo=EAST)],
        "TIMESTAMP",
        [datetime(2024, 1, 2), datetime(1, 1, 1, 3), datetime(2024, 1, 1, 22)],
    ),
    (
        [datetime(2024, 1, 2, 3), datetime(1, 1, 1, 0, 0, 0, 500_000), "x"],
        "VARCHAR",
        ["2024-01-02 03:00:00", "0001-01-01 00:00:00.5", "x"],
    ),
    (
        [time(3), time(3, 0, 0, 120), b"\xff", UUID(int=7)],
        "VARCHAR",
        ["03:00:00", "03:00:00.000120", "/w==", str(UUID(int=7))],
    ),
    ([b"\xff", "x"], "VARCHAR", ["/w==", "x"]),
    ([{"a": 1}, "x"], "JSON", ['{"a":1}', '"x"']),
    ([datetime(2024, 1, 2, 3, 4, 5, 60), []], "JSON", ['"2024-01-02 03:04:05.00006"', "[]"]),
    ([[1], [2.5, None]], "DOUBLE[]", [[1.0], [2.5, None]]),
    ([[], [1], "x"], "JSON", ["[]", "[1]", '"x"']),
    ([["é", None], {"é": "\u2028"}], "JSON", ['["é",null]', '{"é":"\u2028"}']),
    (
        [[1], date(2024, 1, 2), {"b": 1, "a": "é"}],
        "JSON",
        ["[1]", '"2024-01-02"', '{"b":1,"a":"é"}'],
    ),
]
"""Values, the type of a column that has all, and what queries see."""


@pytest.mark.parametrize(("values", "type_", "expected"), WIDENED)
def test_a_type_widens_in_files_of_the_older_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    values: list[Any],
    type_: str,
    expected: list[Any],
) -> None:
    """As in one file, or in none."""
    documents = [Document(str(i), "x", metadata={"v": value}) for i, value in enumerate(values)]
    for most, batches in ((256, [documents]), (0, [documents]), (0, [[d] for d in documents])):
        monkeypatch.setattr(next_commit, "MOST_TRAILING", most)
        with created(tmp_path / f"{most} {len(batches)}") as index:
            for batch in batches:
                add(index, *batch)
            assert len(index.state.column_files) == (len(batches) if most == 0 else 0)
            assert index.store.columns == {"v": type_}
            seen = index.store.fetch('SELECT v FROM documents ORDER BY "row"')
            assert repr(seen) == repr([(value,) for value in expected])


def test_files_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of different columns and types."""
    monkeypatch.setattr(next_commit, "MOST_TRAILING", 0)
    values = [*range(9), *(i + 0.5 for i in range(9)), *"abcdefghij"]
    with created(tmp_path / "x") as index:
        for i, value in enumerate(values):
            add(index, Document(str(i), f"text {i}", metadata={"v": value, f"v{i % 5}": i}))
        assert len(index.state.column_files) < 10
        texts = [*map(str, range(9)), *(f"{i}.5" for i in range(9)), *"abcdefghij"]
        seen = index.store.fetch('SELECT id, text, v, v3 FROM documents ORDER BY "row"')
        assert seen == [
            (str(i), f"text {i}", text, i if i % 5 == 3 else None) for i, text in enumerate(texts)
        ]


WHOLE = st.integers(-(2**53) + 1, 2**53 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text("xyzé '\"\0\n", max_size=3)  # none is a number or a date
ZONES: st.SearchStrategy[tzinfo] = st.sampled_from([UTC, EAST])
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "numbers": WHOLE | FLOATS | st.decimals(-(10**6), 10**6, places=2),
    "texts": WHOLE | FLOATS | TEXTS | st.booleans() | st.dates() | st.uuids() | st.binary(),
    "times": st.datetimes() | st.times() | TEXTS,
    "moments": st.dates() | st.datetimes() | st.datetimes(datetime(2, 1, 1), timezones=ZONES),
    "JSON": WHOLE | TEXTS | st.lists(WHOLE) | st.dictionaries(TEXTS, WHOLE | st.booleans()),
    "lists": st.lists(st.lists(st.dates() | st.none(), max_size=2), max_size=2),
    "large": st.integers(-(2**90), 2**90),
    "intervals": st.timedeltas(timedelta(-(10**6)), timedelta(10**6)),
}
METADATA = st.fixed_dictionaries({}, optional=COLUMNS)


def seen(collection: Collection) -> list[str]:
    """The values of each document as a condition reads them."""
    sql = 'SELECT * EXCLUDE ("row") FROM documents ORDER BY "row"'
    return [*map(repr, collection.index.store.fetch(sql))]


def told(metadata: dict[str, Any]) -> list[str]:
    """Metadata with types, without the summer time that times without a zone don't have."""
    return sorted(repr(item).replace(", fold=1", "") for item in metadata.items())


# Without shrinking, which takes minutes.
@settings(max_examples=CHANCE.examples(8), phases=[Phase.generate])
@given(st.lists(st.lists(METADATA, min_size=1, max_size=4), min_size=1, max_size=9), st.data())
def test_columns_derived_again_are_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[dict[str, Any]]],
    data: st.DataObject,
) -> None:
    """By `repair` and by `compact`."""
    path = tmp_path_factory.mktemp("derived") / "x"
    metadata = [each for batch in batches for each in batch]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(next_commit, "MOST_TRAILING", data.draw(st.sampled_from([0, 3])))
        with Collection.create(path, WordEncoder(8)) as collection:
            for batch in batches:
                first = len(collection)
                collection.add(
                    Document(f"d{i}", "text", metadata=each) for i, each in enumerate(batch, first)
                )
            expected = seen(collection)
            names = [each.name for each in collection.index.state.column_files]
    if names:
        name = data.draw(st.sampled_from(names))
        (path / name).unlink()
        assert [fault.partition(":")[0] for fault in verify(path)] == [str(path / name)]
        repair(path)
        assert verify(path) == []
    with Collection.open(path, WordEncoder(8)) as collection:
        assert seen(collection) == expected
        collection.delete("d0")
        collection.compact()
        assert seen(collection) == expected[1:]
        for document in collection:
            given = metadata[int(document.id[1:])]
            known = {name: value for name, value in document.metadata.items() if value is not None}
            assert told(known) == told(given)


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.of_place("notes"),
        lambda store: store.fetch("SELECT id FROM documents"),
        lambda store: store.rows_where("true"),
    ],
)
def test_files_that_others_have_removed_are_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[DocumentStore], object]
) -> None:
    """So a reader tries again with the newest commit."""
    monkeypatch.setattr(next_commit, "MOST_TRAILING", 0)
    path = tmp_path / "i"
    with Collection.create(path, WordEncoder()) as writer, Collection.open(path) as reader:
        writer.add([Document(str(i), f"word{i}") for i in range(9)])
        writer.delete(["3"])
        columns = Engine.columns

        def columns_then_compact(engine: Engine, files: Sequence[ColumnFile]) -> Any:
            found = columns(engine, files)
            monkeypatch.setattr(Engine, "columns", columns)
            writer.compact()
            return found

        monkeypatch.setattr(Engine, "columns", columns_then_compact)
        with pytest.raises(UnreadableError):
            read(reader.index.snapshot.store)
        read(reader.index.snapshot.store)
