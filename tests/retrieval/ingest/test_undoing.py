"""Undoing restores documents, answers, filters and words; undoing again, those after the change."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.index import Index
from slimdex.retrieval.ingest.adding import add
from slimdex.retrieval.ingest.addition import Addition
from slimdex.retrieval.ingest.repairing import repair, verify
from slimdex.retrieval.ingest.undoing import Undone
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.store import index_files
from tests.encoders import ReadingEncoder

LONG = " ".join(f"Sentence {i} of other{i} and word{i}." for i in range(9))
"""Three passages."""
BASE = [
    Document(str(i), f"word{i} word{i % 7} text {LONG * (i in (7, 17))}", metadata={"n": i})
    for i in range(120)
]
MORE = [
    Document(str(i), f"other{i} word{i % 5} {LONG * (i in (110, 125))}", metadata={"n": -i, "m": i})
    for i in range(100, 130)
]
QUERIES = ["word3 text", "other110", "word17"]
Change = Callable[[Collection], object]


def opened(path: Path) -> Collection:
    return Collection.open(path, ReadingEncoder())


def seen(collection: Collection) -> dict[str, Any]:
    """All that a user can see of an index but its version."""
    state = collection.index.state
    words = [found(collection, hybrid) for hybrid in ("auto", "1.0") if state.words]
    return {
        "documents": {d.id: (d.text, d.title, d.passages, dict(d.metadata)) for d in collection},
        "count": collection.count("n >= 50"),
        "settings": (state.settings, state.requested, state.hybrid),
        "meaning": found(collection, "off"),
        "words": words,
    }


def found(collection: Collection, hybrid: str) -> list[list[tuple[Any, ...]]]:
    """Hits of each query, without a filter and with one."""
    vectors = ReadingEncoder().encode(QUERIES)
    return [
        [(hit.id, hit.start, round(hit.similarity, 3), hit.found_by) for hit in hits]
        for where in (None, "n >= 50 OR n < -110")
        for hits in collection.answer(
            SearchRequest(texts=QUERIES, vectors=vectors, limit=1000, where=where, hybrid=hybrid)
        )
    ]


def without_added(seen: dict[str, Any]) -> dict[str, Any]:
    """Leave out the traces of an undone addition: its column, and its number of rows.

    BM25 counts rows without words, and so may weigh words a little differently.
    """
    documents = {
        id: (*facts, {name: value for name, value in values.items() if name != "m"})
        for id, (*facts, values) in seen["documents"].items()
    }
    words = [[sorted(hits) for hits in found] for found in seen["words"]]
    return seen | {"documents": documents, "words": words}


def in_step(collection: Collection) -> object:
    """Add, replace and delete documents in one commit, as `sync` does."""
    gone = Addition(MORE, missing=lambda store, _: store.rows_of(["3", "17"]))
    return add(collection.index, gone)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "x"
    with Collection.create(path, ReadingEncoder(), Settings(k=8, kind="sq8")) as collection:
        collection.add(BASE)
        collection.delete(["5", "50"])
    return path


@pytest.fixture
def path(tmp_path: Path, made: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "x"))


CHANGES: dict[str, Change] = {
    "add": lambda c: c.add(MORE),
    "add with a fit": lambda c: c.add(MORE, refit="always"),
    "replace": lambda c: c.add(
        [Document(str(i), f"other{i}", metadata={"n": 1}) for i in range(9)]
    ),
    "replace most": lambda c: c.add([Document(str(i), f"again{i}") for i in range(100)]),
    "delete": lambda c: c.delete(["3", "7", "99"]),
    "delete all": lambda c: c.delete(where="true"),
    "sync": in_step,
    "reduce": lambda c: c.reduce(Settings(k=7, kind="flat", beta=1.0)),
    "reduce without rescoring": lambda c: c.reduce(Settings(k=7, kind="flat", candidates=0)),
    "no words": lambda c: c.index_lexical(False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_undo_and_redo_restore_everything(name: str, path: Path) -> None:
    with opened(path) as other, opened(path) as collection:
        before = without_added(seen(collection))
        CHANGES[name](collection)
        after, version = seen(collection), collection.version
        collection.undo()
        undone = without_added(seen(collection))
        assert undone == before
        assert collection.version > version
        assert without_added(seen(other)) == before  # another reader
        other.undo()
        assert seen(collection) == after
        assert verify(path) == []
        collection.undo()
    with opened(path) as collection:
        assert without_added(seen(collection)) == before
    assert verify(path) == []


def test_the_first_addition_can_be_undone(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with Collection.create(path, ReadingEncoder()) as collection:
        with pytest.raises(InputError, match="nothing to undo"):
            collection.undo()
        collection.add(BASE)
        after = seen(collection)
        collection.undo()
        assert (len(collection), [*collection]) == (0, [])
        assert verify(path) == []
        collection.undo()
        assert seen(collection) == after
        collection.undo()
        collection.add(MORE)
        assert {document.id for document in collection} == {document.id for document in MORE}
        assert verify(path) == []


@pytest.mark.parametrize(
    "change",
    [lambda c: c.compact(), lambda c: repair(c.path, untrusted=True)],
    ids=["compact", "repair"],
)
def test_compact_and_repair_end_the_history(change: Change, path: Path) -> None:
    with opened(path) as collection:
        change(collection)
        with pytest.raises(InputError, match="nothing to undo; expected a change of documents"):
            collection.undo()
        collection.delete(["9"])
        collection.undo()
        assert "9" in collection


def test_an_addition_sees_documents_restored_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An addition looks up ids before its turn; meanwhile one of them comes back."""
    with opened(path) as collection, opened(path) as other:
        other.delete(["9"])
        turn, undone = Index.turn, list[Undone]()

        def waiting(index: Index) -> Any:
            if index is collection.index and not undone:
                undone.append(Undone(0, 0))
                undone.append(other.undo())
            return turn(index)

        monkeypatch.setattr(Index, "turn", waiting)
        collection.add([Document("9", "a new nine")])
        assert undone[1] == Undone(1, 0)
        assert [document.text for document in collection if document.id == "9"] == ["a new nine"]
        assert verify(path) == []


def test_codes_of_rows_that_came_later_are_saved(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undoing an addition that fits, makes another fit."""
    monkeypatch.setattr(index_files, "TAIL_ROWS", 4)
    monkeypatch.setattr(index_files, "TAIL_SHARE", 1000)
    with opened(path) as collection:
        before = without_added(seen(collection))
        collection.add(MORE, refit="always")
        collection.undo()
        assert collection.index.state.code_rows == collection.index.state.rows
        assert without_added(seen(collection)) == before
        assert np.isfinite(collection.index.snapshot.index.vectors.take(np.arange(9))).all()
