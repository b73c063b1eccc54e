"""Documents by every way in: one rule for the types of their columns, and all can come again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.indexes.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import _other
from slimdex.retrieval.operations.building import Sources, add, build
from tests.chance import CHANCE
from tests.encoders import WordEncoder
from tests.slow import slow

from ..storage.test_document_file import relation

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
        return dict(collection.store.columns.types), {d.id: dict(d.metadata) for d in collection}


SCALARS = {
    "VARCHAR": st.text("xyz ", max_size=3),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.5),
    "BOOLEAN": st.booleans(),
}


@pytest.mark.parametrize("second", ["dicts", *slow(["pandas", "arrow", "jsonl"])])
@pytest.mark.parametrize("first", ["dicts", "jsonl", *slow(["pandas", "arrow"])])
@settings(max_examples=CHANCE.examples(2), deadline=None)
@given(data=st.data())
def test_a_list_is_a_list_whichever_way_it_comes(
    tmp_path_factory: pytest.TempPathFactory, first: str, second: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("ways") / "x"
    name = data.draw(st.sampled_from([*SCALARS]))
    lists = st.lists(SCALARS[name], min_size=1, max_size=3)
    a, b = data.draw(lists), data.draw(st.one_of(lists, st.just([])))
    WAYS[first](path, [{"id": "a", "text": "one", "tags": a}, {"id": "n", "text": "", "tags": []}])
    WAYS[second](path, [{"id": "b", "text": "two", "tags": b}])
    columns, found = held(path)
    assert columns == {"tags": f"{name}[]"}
    assert found == {"a": {"tags": a}, "n": {"tags": []}, "b": {"tags": b}}
    with Collection.open(path, WordEncoder()) as collection:
        assert [d.id for d in collection.get(where="len(tags) = 0")] == (["n"] if b else ["n", "b"])
        assert collection.add([collection.get("a"), collection.get("b")]).unchanged == 2


@pytest.mark.parametrize("second", ["dicts", *slow(["jsonl", "arrow"])])
@pytest.mark.parametrize("first", ["dicts", "jsonl", *slow(["arrow"])])
def test_empty_lists_alone_take_the_type_of_the_first_item(
    tmp_path: Path, first: str, second: str
) -> None:
    WAYS[first](tmp_path / "x", [{"id": "a", "text": "one", "tags": []}])
    assert held(tmp_path / "x")[0] == {"tags": "VARCHAR[]"}
    WAYS[second](tmp_path / "x", [{"id": "b", "text": "two", "tags": [1, 2]}])
    assert held(tmp_path / "x") == (
        {"tags": "BIGINT[]"},
        {"a": {"tags": []}, "b": {"tags": [1, 2]}},
    )


@pytest.mark.parametrize("way", ["dicts", "jsonl", *slow(["arrow", "pandas"])])
@pytest.mark.parametrize(
    ("type_", "text", "wrong"),
    [
        ("TIMESTAMP", "2024-05-01T10:00:00", "soon"),
        *slow(
            [
                ("DATE", "2024-05-01", "2024-05-32"),
                ("BIGINT", "17", "007"),
                ("DOUBLE", "1.5", "many"),
                ("BOOLEAN", "true", "maybe"),
                ("UUID", "00000000-0000-0000-0000-000000000001", "7"),
                ("DECIMAL(9,2)", "1.50", "1.505"),
                ("TIMESTAMP", "2024-05-01T10:00:00+02:00", "2024-05-01T10:00:00+02:0x"),
                ("DATE[]", ["2024-05-01"], ["soon"]),
            ]
        ),
    ],
)
def test_a_text_is_read_as_the_column_type_or_refused(
    tmp_path: Path, way: str, type_: str, text: Any, wrong: Any
) -> None:
    path = tmp_path / "x"
    with (
        Collection.create(path, WordEncoder()) as collection,
        collection.commit_log.transaction(),
    ):
        collection.store.columns.declare({"v": type_})
    WAYS["dicts"](path, [{"id": "a", "text": "one", "v": text}])
    WAYS[way](path, [{"id": "b", "text": "two", "v": text}])
    columns, found = held(path)
    assert columns == {"v": type_}
    assert found["a"] == found["b"]
    assert not isinstance(found["b"]["v"], str)
    said = wrong if isinstance(wrong, str) else wrong[0]
    rows = [{"id": "c", "text": "three", "v": text}, {"id": "d", "text": "", "v": wrong}]
    with pytest.raises(InputError, match=re.escape(said)) as raised:
        WAYS[way](path, rows)
    assert type_ == "DATE[]" or type_ in str(raised.value)
    assert held(path) == (columns, found)


@pytest.mark.parametrize("way", ["dicts", *slow(["arrow", "jsonl"])])
def test_a_document_of_every_type_can_be_added_again(tmp_path: Path, way: str) -> None:
    path = tmp_path / "x"
    with Collection.create(path, WordEncoder()) as collection:
        collection.add(relation())
    columns, before = held(path)
    left = {name for name, type_ in columns.items() if is_beyond(way, type_)}
    rows = [{"id": f"again {id}", "text": "again"} | without(before[id], *left) for id in before]
    for row in rows:
        WAYS[way](path, [row])
    after, found = held(path)
    if way != "jsonl":  # numbers of files have the widest type of their kind
        assert after == columns
    for id, values in before.items():
        assert found[f"again {id}"] == values | dict.fromkeys(left)


def is_beyond(way: str, type_: str) -> bool:
    """Whether what the way goes through has no such values: Arrow no larger numbers, and texts
    within objects are not read as bytes."""
    if way == "arrow":
        return type_ in ("HUGEINT", "UBIGINT")
    return way == "jsonl" and "BLOB" in type_.removeprefix("BLOB")


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
