"""Rows after the segments: their documents are only in the lines, and all that reads agrees."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.errors import CorruptError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Part
from slimdex.retrieval.ingest.adding import add
from slimdex.retrieval.ingest.addition import Addition
from slimdex.retrieval.ingest.repairing import repair, verify
from slimdex.retrieval.store import document_store, next_commit
from slimdex.retrieval.store.columns import column_facts
from slimdex.retrieval.store.engine import Engine
from slimdex.retrieval.store.lines import (
    DICTIONARY,
)
from tests.chance import CHANCE
from tests.encoders import ReadingEncoder, WordEncoder

from ..forging import rewrite_state

DOCUMENTS = [
    Document(
        f"id{i}",
        f"word{i} cat dog",
        f"title {i % 3}",
        metadata={
            "n": i if i % 4 else None,
            "x": i / 2,
            "on": i % 2 == 0,
            "day": date(2024, 1, 1) + timedelta(i),
            "at": datetime(2024, 1, 1, i % 24),
            "clock": time(i % 24),
            "wait": timedelta(hours=-i),
            "key": UUID(int=i),
            "raw": b"\0" * i,
            "tags": ["a", f"t{i % 3}"],
            "name": f"name {i}\0",
            "more": {"a": 1} if i == 0 else None,
        },
    )
    for i in range(60)
]
CONDITIONS = [
    'n >= 45 AND NOT "on"',
    "list_contains(tags, 't1')",
    "day > DATE '2024-02-20' OR x = 1.5",
    "key = '00000000-0000-0000-0000-000000000037'",
    "wait < INTERVAL (-50) HOURS",
    "title = 'title 2' AND more IS NULL",
]


def made(path: Path, *additions: Sequence[Document]) -> Collection:
    collection = Collection.create(path, WordEncoder())
    for documents in additions:
        collection.add(documents)
    return collection


def trailing(path: Path) -> Collection:
    """Twenty documents after a segment of forty, an addition each."""
    collection = made(path, DOCUMENTS[:40], *([each] for each in DOCUMENTS[40:]))
    assert collection.index.state.segment_rows == 40
    return collection


def told(collection: Collection) -> list[Any]:
    store, rows = collection.index.store, collection.index.state.rows
    found = [
        repr(store.read(range(rows))),
        repr([*collection]),
        store.ids_by_row(rows),
        column_facts(store),
        [store.rows_where(each, rows).tolist() for each in CONDITIONS],
        [hit.id for hit in collection.search("word50", limit=9, where="n > 41", hybrid="off")],
    ]
    with Collection.open(collection.path, WordEncoder()) as other:
        assert len(other) == len(collection)
        assert [other.count(each) for each in CONDITIONS] == [
            collection.count(each) for each in CONDITIONS
        ]
    return found


def test_trailing_documents_are_those_of_one_addition(tmp_path: Path) -> None:
    """After each change, too."""
    one, other = trailing(tmp_path / "one"), made(tmp_path / "other", DOCUMENTS)
    changes: list[Callable[[Collection], object]] = [
        lambda c: c.delete(["id3", "id44"]),
        lambda c: c.undo(),
        lambda c: c.delete(where="n > 50"),
        lambda c: c.compact(),
        lambda c: c.add([DOCUMENTS[59]]),
    ]
    with one, other:
        assert told(one) == told(other)
        for change in changes:
            assert change(one) == change(other)
            assert told(one) == told(other)
            assert verify(one.path) == verify(other.path) == []
        assert one.index.state.segment_rows < one.index.state.rows


@pytest.mark.parametrize(
    "later",
    [
        Document("z", "x", metadata={"n": 1.5}),
        Document("z", "x", metadata={"more": [1]}),
        Document("z", "x" * 20_000),
    ],
    ids=["wider", "JSON", "long"],
)
def test_a_segment_takes_the_trailing_documents(tmp_path: Path, later: Document) -> None:
    with trailing(tmp_path / "x") as collection:
        add(collection.index, Addition([later]))
        assert [(s.first, s.stop) for s in collection.index.state.segments] == [(0, 40), (40, 61)]
        expected = {each.id: each.text for each in [*DOCUMENTS, later]}
        assert {each.id: each.text for each in collection} == expected
        assert collection.count("day > DATE '2024-02-10' AND x >= 20.5") == 19
        assert verify(collection.path) == []


def test_documents_with_passages_parts_and_origins_trail(tmp_path: Path) -> None:
    """They are those of a segment."""
    long = " ".join(f"Sentence {i} of word{i}." for i in range(9))
    later = [
        Document("cut", long, "title", parts=(Part(0, ("A",)), Part(60, ("A", "B"), 2))),
        Document("parts", "x", parts=(Part(0, ("A",)),), metadata={"n": 7}),
        Document("origin", "x y", origin=f"{'0' * 32}/1"),
        Document("all", long, parts=(Part(0, lines=((9, 2), (30, 4))),), origin=f"{'0' * 32}/2"),
    ]
    tables = list[list[Any]]()
    for name, additions in (("trail", [[each] for each in later]), ("segment", [later])):
        path = tmp_path / name
        with Collection.create(path, ReadingEncoder(), passages=16) as collection:
            collection.add(DOCUMENTS[:40])
            with pytest.MonkeyPatch.context() as patch:
                if name == "segment":
                    patch.setattr(next_commit, "MOST_TRAILING", 0)
                for documents in additions:
                    add(collection.index, Addition(documents))
            state = collection.index.state
            rows = len(DOCUMENTS[:40]) if name == "trail" else state.rows
            assert (state.segment_rows, state.rows) == (rows, 49)
            tables.append(
                [
                    *map(repr, collection),
                    collection.index.store.fetch("FROM documents ORDER BY ALL"),
                    collection.index.store.fetch("FROM passages ORDER BY ALL"),
                    collection.index.store.fetch("FROM origins ORDER BY ALL"),
                    [(hit.id, hit.start) for hit in collection.search("word7")],
                ]
            )
            assert verify(path) == []
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    "own",
    [
        {"N": 2**62, "tags": []},
        {"n": True, "x": 3, "name": 5},
        {"day": "2024-02-29", "at": date(2024, 1, 2), "on": None},
        {"n": np.int64(4), "x": np.float32(0.1), "at": np.datetime64("2024-01-02T03:00")},
        {"wait": "3 days, 0:00:02", "clock": "10:00", "key": str(UUID(int=7)), "raw": "YWI="},
        {"small": -(2**31), "large": 2**64 - 1},
    ],
)
def test_values_become_those_of_a_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, Any]
) -> None:
    """Of other types than their columns."""
    numbers = duckdb.sql("SELECT 'y' AS id, 'x' AS text, 1::INTEGER AS small, 2::UBIGINT AS large")
    with made(tmp_path / "one", DOCUMENTS) as one, made(tmp_path / "other", DOCUMENTS) as other:
        for collection in (one, other):
            collection.add(numbers)
        one.add([Document("z", "x", metadata=own)])
        monkeypatch.setattr(next_commit, "MOST_TRAILING", 0)
        other.add([Document("z", "x", metadata=own)])
        assert (one.index.state.segment_rows, other.index.state.segment_rows) == (60, 62)
        assert told(one) == told(other)


def lines_of(collection: Collection) -> Path:
    lines = collection.index.state.lines
    assert lines is not None
    return collection.path / lines.documents


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def test_lines_that_others_rewrite_are_read_again(tmp_path: Path) -> None:
    """The collection has not read the trailing documents of the old ones, which are removed."""
    with trailing(tmp_path / "x") as writer, Collection.open(writer.path, WordEncoder()) as reader:
        assert len(reader.index.snapshot.store.manifest.columns) == 12
        old = lines_of(writer)
        flip(old, 5)
        (fault,) = repair(writer.path)
        assert fault.startswith(f"{old}: damaged in bytes 0 to ")
        assert not old.exists()
        assert reader.count("n > 41") == 14
        assert [each.id for each in writer] == [each.id for each in DOCUMENTS]


@pytest.mark.parametrize("ending", ["documents-*.jsonl", "offsets-*.bin"])
def test_damage_of_trailing_documents_is_found_and_not_repaired(
    tmp_path: Path, ending: str
) -> None:
    with trailing(tmp_path / "x") as collection:
        (path,) = collection.path.glob(ending)
        flip(path, -9)
        (fault,) = verify(collection.path)
        assert "row 59 is damaged" in fault
        assert fault.endswith("; it can't be rebuilt: restore it from a copy")
        with pytest.raises(CorruptError, match=r"row 59 is damaged.*it can't be rebuilt"):
            repair(collection.path)


@pytest.mark.parametrize(
    "type_", ["BIGINT[]) AS n; COPY (SELECT 1) TO 'evil'; --", "DATE", "\ud800"]
)
def test_types_of_lines_are_no_statements(tmp_path: Path, type_: str) -> None:
    trailing(tmp_path / "x").close()

    def change(state: dict[str, Any]) -> dict[str, Any]:
        state["lines"]["columns"]["n"] = type_
        return state

    rewrite_state(tmp_path / "x", change)
    with pytest.raises(CorruptError), Collection.open(tmp_path / "x") as collection:
        collection.count("n > 3")


def test_a_small_addition_asks_duckdb_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the ids are known, which the second addition of a process reads."""
    with made(tmp_path / "x", DOCUMENTS[:40], DOCUMENTS[40:41], DOCUMENTS[41:42]) as collection:
        monkeypatch.setattr(Engine, "working", None)
        before = collection.index.snapshot
        for each in DOCUMENTS[42:46]:  # ten await the lexical index
            collection.add([each])
        assert collection.add([replace(DOCUMENTS[45], text="another")]).replaced == 1
        assert collection.add([replace(DOCUMENTS[7], text="another")]).replaced == 1
        assert collection.add([DOCUMENTS[3], replace(DOCUMENTS[7], text="a third")]).unchanged == 1
        assert collection.delete(["id5", "id44"]) == 2
        assert before.store.rows_of_ids(["new"]) == {}
        assert before.store.rows_of_ids(["id41", "id42"]) == {"id41": 41}
        monkeypatch.undo()
        assert [each.stop for each in collection.index.state.segments] == [40]
        assert collection.count("n > 41") == 3
        assert collection.get("id7").text == "a third"
        assert verify(collection.path) == []


def changed(document: Document, place: int) -> Document:
    """The document with another title, text or value, or without a value."""
    names = [*document.metadata]
    if place == 0:
        return replace(document, title="changed")
    if place == 1:
        return replace(document, text="changed")
    name, values = names[place % len(names)], dict(document.metadata)
    other = DOCUMENTS[int(document.id[2:]) - 1].metadata[name]
    return replace(document, metadata=values | {name: other if place % 2 else None})


any_changes = st.lists(
    st.tuples(
        st.sampled_from(["same", "changed", "changed", "delete", "undo"]),
        st.sets(st.integers(1, 59), min_size=1, max_size=5),
        st.integers(0, 25),
    ),
    min_size=3,
    max_size=9,
)


@given(changes=any_changes)
@settings(max_examples=CHANCE.examples(CHANCE.count(150, 3)), deadline=None)
def test_lines_and_queries_make_the_same_changes(
    changes: list[tuple[str, set[int], int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of documents that are compared with those of their ids, in lines or by DuckDB."""

    def results(name: str) -> list[Any]:
        found = list[Any]()
        with made(folder / name, DOCUMENTS[:40], *([each] for each in DOCUMENTS[40:44])) as one:
            for change, places, place in changes:
                documents = [DOCUMENTS[i] for i in sorted(places)]
                if change == "undo":
                    found.append(one.undo())
                elif change == "delete":
                    found.append(one.delete([each.id for each in documents if each.id in one]))
                else:
                    is_same = change == "same"
                    found.append(one.add([d if is_same else changed(d, place) for d in documents]))
            return [*found, told(one), verify(one.path)]

    folder = tmp_path_factory.mktemp("changed")
    by_lines = results("lines")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_store, "MOST_FROM_LINES", -1)
        patch.setattr(next_commit, "MOST_TRAILING", 0)
        assert results("queries") == by_lines
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ({"x": float("nan")}, {"x": float("nan")}, True),
        ({"x": float("nan")}, {"x": 0.5}, False),
        ({"tags": ["a", None]}, {"tags": ["a", None]}, True),
        ({"tags": []}, {}, False),
        ({"more": {"a": 1}}, {}, False),
        ({"n": 1}, {"n": True}, True),
        ({"day": date(2024, 1, 1)}, {"day": "2024-01-01"}, True),
    ],
)
def test_equal_values_are_unchanged(
    tmp_path: Path, old: dict[str, Any], new: dict[str, Any], is_same: bool
) -> None:
    with made(tmp_path / "x", [*DOCUMENTS, Document("z", "x", metadata=old)]) as collection:
        added = collection.add([Document("z", "x", metadata=new)])
        assert (added.unchanged, added.replaced) == (is_same, not is_same)


def test_texts_that_are_cut_or_have_parts_are_compared(tmp_path: Path) -> None:
    long = " ".join(f"Sentence {i} of word{i}." for i in range(9))
    documents = [Document("a", long), Document("b", long, parts=(Part(0, ("B",)),))]
    documents += [Document("c", "short", parts=(Part(0, ("C",)),)), Document("d", "short")]
    with Collection.create(tmp_path / "x", ReadingEncoder()) as collection:
        collection.add(documents)
        assert collection.add(documents).unchanged == 4
        assert collection.add([replace(each, parts=()) for each in documents]).unchanged == 2
        assert collection.add(documents).unchanged == 2
        assert {each.id: each.parts for each in collection} == {d.id: d.parts for d in documents}
        assert verify(collection.path) == []


def test_ids_of_damaged_lines_are_found_in_the_segments(tmp_path: Path) -> None:
    with made(tmp_path / "x", DOCUMENTS[:40], DOCUMENTS[40:41], DOCUMENTS[41:42]) as collection:
        flip(lines_of(collection), 5)
        assert "id0" in collection
        assert collection.delete(["id0"]) == 1
        assert "id0" not in collection


def _with_dictionary(path: Path) -> Collection:
    """A hundred and five documents whose lines exceed the dictionary; the last four trail."""
    long = [
        Document(
            f"long{i}", f"word{i} cat.", f"title {i}", metadata={"n": i, "note": f"{i} " * 200}
        )
        for i in range(99)
    ]
    cut = Document("cut", "A word. " * 200, parts=(Part(0, ("A",)), Part(800, ("A", "B"))))
    later = [Document(f"late{i}", "dog", metadata={"n": -i, "new": f"x{i}"}) for i in range(5)]
    later[0] = replace(later[0], metadata={"more": [1, "a"]})  # so a segment takes all before it
    collection = Collection.create(path, ReadingEncoder(), passages=16)
    for documents in ([*long[:50], cut], long[50:], later[:1], *([each] for each in later[1:])):
        add(collection.index, Addition(documents))
    state = collection.index.state
    assert state.lines is not None
    assert (state.rows - state.segment_rows, state.lines.bytes > DICTIONARY) == (4, True)
    return collection


@pytest.mark.parametrize("places", [(0,), (9_000,), (32_767,), (3, 20_000, 32_000)])
def test_repair_restores_the_dictionary_of_trailing_documents(
    tmp_path: Path, places: Sequence[int]
) -> None:
    """From the segments, also lines of fewer columns and of texts that are cut."""
    with _with_dictionary(tmp_path / "x") as collection:
        path, expected = lines_of(collection), [*map(repr, collection)]
    for place in places:
        flip(path, place)
    with Collection.open(path.parent, ReadingEncoder()) as collection:
        with pytest.raises(CorruptError, match="see `slimdex repair"):
            collection.count("n > 1")
        assert verify(path.parent)
        (fault,) = repair(path.parent)
        assert fault.startswith(f"{path}: damaged in ")
        assert verify(path.parent) == []
        assert [*map(repr, collection)] == expected  # also where it was open
        assert collection.count("new = 'x4'") == 1
