"""Limits of ids, texts, columns and values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.cli.console import print_json
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import MOST_COLUMNS, Document, Part, hit_json
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.store import engine
from slimdex.system.json_text import DEEPEST
from tests.chance import CHANCE, sweep
from tests.encoders import WordEncoder

IDS = [
    "😀",
    "a\0b",
    "a\0c",
    "\u202eabc",
    "é",
    "e\u0301",
    "",
    " ",
    "'\"\\",
    "\n",
    "\U0010ffff",
    "\ufeff",
]
IDS += ["x" * 1_000_000, "x" * 999_999 + "y", "A", "a", "ß", "SS", "-1", "NULL"]  # fmt: skip


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    return Collection.create(tmp_path / "x", WordEncoder(8), Settings(kind="flat"))


def test_ids_of_any_unicode_are_kept_apart(collection: Collection) -> None:
    collection.add([Document(id, f"text{i}", metadata={"n": i}) for i, id in enumerate(IDS)])
    for i, id in enumerate(IDS):
        (hit,) = collection.search_many("text", limit=1, where=f"n = {i}")[0]
        assert hit.id == id
    collection.delete(IDS[:3])
    left = {hit.id for hit in collection.search_many("text", limit=len(IDS))[0]}
    assert left == set(IDS[3:])
    assert collection.add([Document(IDS[-1], "new")]).replaced == 1


HALVES = ["cat \ud83d", "\ude00", "caf\udce9"]
CALLS: dict[str, Callable[[Collection, str], Any]] = {
    "search": lambda c, half: c.search(half),
    "search where": lambda c, half: c.search("cat", where=f"kind = '{half}'"),
    "get": lambda c, half: c.get(half),
    "related": lambda c, half: c.related(half),
    "delete": lambda c, half: c.delete(half),
    "add id": lambda c, half: c.add([{"id": half, "text": "x"}]),
    "add text": lambda c, half: c.add([{"id": "2", "text": half}]),
    "add value": lambda c, half: c.add([{"id": "2", "text": "x", "kind": half}]),
    "add name": lambda c, half: c.add([{"id": "2", "text": "x", half: 1}]),
    "add item": lambda c, half: c.add([{"id": "2", "text": "x", "tags": ("a", half)}]),
    "add nested": lambda c, half: c.add([{"id": "2", "text": "x", "more": {"a": [{"b": half}]}}]),
    "add part": lambda c, half: c.add([Document("2", "x", parts=[Part(0, ["a", half])])]),
    "create": lambda c, half: Collection.create(c.path.parent / half, WordEncoder(8)),
}


def test_half_a_character_is_refused_in_any_argument(collection: Collection) -> None:
    collection.add([{"id": "1", "text": "the cat", "kind": "pets", "more": {"a": [{}]}}])
    for call in CALLS.values():
        for half in HALVES:
            with pytest.raises(InputError, match=r"is not Unicode: half a character at \d"):
                call(collection, half)
            assert half not in collection
    assert [document.id for document in collection] == ["1"]


def test_a_list_that_contains_itself_is_refused(collection: Collection) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InputError, match="recursion"):
        collection.add([Document("a", "t", metadata={"x": endless})])


@pytest.mark.parametrize("kind", [tuple, dict])
def test_the_deepest_json_can_be_added_and_printed(
    collection: Collection, capsys: pytest.CaptureFixture[str], kind: type
) -> None:
    """Values that can be added can be printed."""
    value: Any = 1
    for _ in range(DEEPEST):
        value = {"a": value} if kind is dict else kind([value])
    with pytest.raises(InputError, match=f"too deep; expected at most {DEEPEST}"):
        collection.add([Document("a", "t", metadata={"v": [value]})])
    collection.add([Document("a", "t", metadata={"v": value}), Document("b", "u")])
    ((hit,),) = collection.search_many("t", limit=1)
    print_json(hit_json(hit))
    printed = capsys.readouterr().out
    assert json.loads(printed)["metadata"]["v"] == json.loads(json.dumps(value))


@sweep
@pytest.mark.parametrize("count", [100, CHANCE.count(MOST_COLUMNS, 600)])
def test_many_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    # Half of what users have.
    monkeypatch.setitem(engine.LIMITS, "memory_limit", "500MB")
    collection = Collection.create(tmp_path / "x", WordEncoder(8), Settings(kind="flat"))
    collection.add([Document("first", "word1", metadata={"Column 7": 7.5})])
    metadata = {f"column {i}": i for i in range(count)}
    documents = [Document(str(i), f"word{i}", metadata=metadata if i < 2 else {}) for i in range(9)]
    collection.add(documents)
    (hits,) = collection.search_many("word1", limit=9, where='"column 98" = 98')
    assert {hit.id for hit in hits} == {"0", "1"}
    assert {name.lower(): value for name, value in hits[0].metadata.items()} == metadata
    (hits,) = collection.search_many("word1", limit=9, where='"column 7" > 7')
    assert [hit.id for hit in hits] == ["first"]
    collection.compact()
    path = collection.path
    collection.close()
    assert verify(path) == []


@pytest.mark.slow
def test_a_change_in_any_of_many_columns_is_seen(collection: Collection) -> None:
    """Columns are compared in batches."""
    now = dict.fromkeys((f"c{i}" for i in range(600)), 0)
    documents = [Document(str(i), f"word{i}", metadata=now) for i in range(4)]
    collection.add(documents)
    for changed in ("c497", "c498", "title"):
        now = now | ({changed: -1} if changed != "title" else {})
        title = "new" if changed == "title" else ""
        again = [*documents[:2], Document("2", "word2", title, now), documents[3]]
        added = collection.add(again)
        assert (added.replaced, added.unchanged) == (1, 3)
        ((hit,),) = collection.search_many("word2", limit=1)
        assert (hit.id, hit.title, hit.metadata) == ("2", title, now)


def test_new_columns_that_differ_in_case_are_one(collection: Collection) -> None:
    years: list[dict[str, Any]] = [{"Year": 1998}, {"year": 1998.5}]
    collection.add(Document(str(i), "x", metadata=each) for i, each in enumerate(years))
    assert collection.index.store.columns == {"Year": "DOUBLE"}
