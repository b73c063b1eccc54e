"""Rows after the files of columns: their documents are only in the log, and all reads agree."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Part
from slimdex.retrieval.ingest.adding import add
from slimdex.retrieval.ingest.addition import Addition
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.server.column_facts import column_facts
from slimdex.retrieval.store import document_store, next_commit
from slimdex.retrieval.store.engine import Engine
from tests.chance import CHANCE
from tests.encoders import ReadingEncoder, WordEncoder

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
    "wait < '-2 days'",
    "title = 'title 2' AND more IS NULL",
]


def made(path: Path, *additions: Sequence[Document]) -> Collection:
    collection = Collection.create(path, WordEncoder())
    for documents in additions:
        collection.add(documents)
    return collection


def trailing(path: Path) -> Collection:
    """Twenty documents after a file of forty, an addition each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(next_commit, "MOST_TRAILING", 0)
        collection = made(path, DOCUMENTS[:40])
    for each in DOCUMENTS[40:]:
        collection.add([each])
    assert collection.index.state.column_rows == 40
    return collection


def told(collection: Collection) -> list[Any]:
    store = collection.index.store
    found = [
        repr([*collection]),
        repr(store.fetch('FROM documents ORDER BY "row"')),
        store.ids_by_row(),
        column_facts(store),
        [store.rows_where(each).tolist() for each in CONDITIONS],
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
        assert one.index.state.column_rows < one.index.state.rows


def test_documents_with_passages_parts_and_origins_trail(tmp_path: Path) -> None:
    """As in a file."""
    long = " ".join(f"Sentence {i} of word{i}." for i in range(9))
    later = [
        Document("cut", long, "title", parts=(Part(0, ("A",)), Part(60, ("A", "B"), 2))),
        Document("parts", "x", parts=(Part(0, ("A",)),), metadata={"n": 7}),
        Document("origin", "x y", origin=f"{'0' * 32}/1"),
        Document("all", long, parts=(Part(0, lines=((9, 2), (30, 4))),), origin=f"{'0' * 32}/2"),
    ]
    seen = list[list[Any]]()
    for most in (256, 0):
        path = tmp_path / str(most)
        with Collection.create(path, ReadingEncoder(), passages=16) as collection:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(next_commit, "MOST_TRAILING", most)
                for documents in (DOCUMENTS[:40], *([each] for each in later)):
                    add(collection.index, Addition(documents))
            state = collection.index.state
            assert (state.column_rows, state.rows) == (0 if most else 49, 49)
            seen.append(
                [
                    *map(repr, collection),
                    collection.index.store.fetch("FROM documents ORDER BY ALL"),
                    collection.index.store.origins_of(range(49)),
                    [(hit.id, hit.start) for hit in collection.search("word7")],
                ]
            )
            assert verify(path) == []
    assert seen[0] == seen[1]


def test_a_small_addition_asks_duckdb_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the ids are known, which the second addition of a process reads."""
    with made(tmp_path / "x", DOCUMENTS[:40], DOCUMENTS[40:41], DOCUMENTS[41:42]) as collection:
        monkeypatch.setattr(Engine, "cursor", None)
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
        assert collection.index.state.column_files == []
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
def test_the_log_and_queries_make_the_same_changes(
    changes: list[tuple[str, set[int], int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of documents that are compared with those of their ids, by the log or by DuckDB."""

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
    by_log = results("log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_store, "MOST_FROM_LOG", -1)
        patch.setattr(next_commit, "MOST_TRAILING", 0)
        assert results("queries") == by_log
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ({"x": float("nan")}, {"x": float("nan")}, True),
        ({"x": float("nan")}, {"x": 0.5}, False),
        ({"tags": ["a", None]}, {"tags": ["a", None]}, True),
        ({"tags": []}, {}, False),
        ({"more": {"a": 1}}, {}, False),
        ({"n": 1}, {"n": True}, False),
        ({"x": 1}, {"x": 1.0}, False),
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
