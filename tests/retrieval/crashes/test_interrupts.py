"""After a failure at the end of a change, memory and manifest agree."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.index import Index
from slimdex.retrieval.ingest.repairing import repair, verify
from slimdex.retrieval.store.manifest import Manifest
from tests.conftest import Copies
from tests.encoders import WordEncoder

NEW = [Document("new", "parse a date")]
CHANGES: dict[str, Callable[[Collection], object]] = {
    "add": lambda collection: collection.add(NEW),
    "delete": lambda collection: collection.delete(where="kind = 'class'"),
    "reduce": lambda collection: collection.reduce(Settings(kind="sq8", k=8)),
    "compact": lambda collection: collection.compact(),
}


@pytest.fixture
def collection(tmp_path: Path, copied: Copies, docstrings: list[Document]) -> Iterator[Collection]:
    with Collection.open(copied(tmp_path / "x.index", 700), WordEncoder()) as collection:
        collection.delete([docstrings[0].id])
        yield collection


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("add", RuntimeError("Query interrupted")),  # what DuckDB makes of Ctrl-C
        ("delete", KeyboardInterrupt()),
        ("reduce", MemoryError()),
        ("compact", KeyboardInterrupt()),
    ],
    ids=CHANGES,
)
def test_interrupted_after_its_commit_a_change_is_seen(
    collection: Collection,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    error: BaseException,
) -> None:
    shown = Index._show

    def interrupted(self: Index, manifest: Manifest, index: Any = None) -> None:
        patch.undo()
        shown(self, manifest, index)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Index, "_show", interrupted)
        with pytest.raises((KeyboardInterrupt, RuntimeError, MemoryError)):
            CHANGES[change](collection)
    assert len(collection.search_many("parse a date", limit=700)[0]) == len(collection)
    collection.add([Document("another", "sort a list")])
    assert collection.index.snapshot.moments().n == len(collection)
    assert len(collection) == collection.index.state.rows - len(collection.index.snapshot.deleted)
    collection.compact()
    collection.close()
    assert verify(collection.path) == []


def test_a_collection_that_nobody_closed_lets_go(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path / "x.index", WordEncoder())
    collection.add(NEW)
    del collection
    with Collection.open(tmp_path / "x.index", WordEncoder()) as again:
        assert len(again) == 1


def test_a_closed_collection_says_so(collection: Collection) -> None:
    documents = iter(collection)
    collection.close()
    with pytest.raises(InputError, match="was closed; expected an open collection"):
        next(documents)
    with pytest.raises(InputError, match="was closed; expected an open collection"):
        collection.search_many("parse a date")
    answers: list[Callable[[], object]] = [
        collection.count,
        collection.info,
        lambda: collection.version,
        lambda: len(collection),
        lambda: collection.copy_to(f"{collection.path}.copy"),
    ]
    for answer in answers:
        with pytest.raises(InputError, match="was closed; expected an open collection"):
            answer()
    for change in CHANGES.values():
        with pytest.raises(InputError, match="was closed; expected an open collection"):
            change(collection)


@pytest.mark.parametrize("late", [0, 64])
def test_documents_may_change_the_collection_while_they_are_read(
    collection: Collection, late: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slimdex.retrieval.store.derived_files.MOST_LATE", late)
    gone = next(iter(collection)).id

    def documents() -> Iterator[Document]:
        yield Document("one", "text")
        collection.delete([gone])

    assert collection.add(documents()).documents == 1
    assert gone not in collection
    assert len(collection) == 699
    assert collection.verify() == []


def test_an_index_without_rows_is_repaired(tmp_path: Path, docstrings: list[Document]) -> None:
    path = tmp_path / "x.index"
    with Collection.create(path, WordEncoder()) as collection:
        collection.add(docstrings[:200])
        collection.delete(where="true")
        collection.compact()
    (file,) = path.glob("reducer*")
    file.write_bytes(file.read_bytes()[:-1])
    assert len(verify(path)) == 1
    assert len(repair(path)) == 1
    assert verify(path) == []
    with Collection.open(path, WordEncoder()) as collection:
        collection.add(docstrings[:3])
        assert len(collection.search_many("parse", limit=9)[0]) == 3


@pytest.mark.slow
def test_memory_is_told_while_documents_are_added(collection: Collection) -> None:
    over, told = threading.Event(), list[float]()

    def tell() -> None:
        while not over.is_set():
            told.append(collection.info()["memory"]["ram_bytes_per_vector"])

    thread = threading.Thread(target=tell)
    thread.start()
    for i in range(5):
        collection.add([Document(f"{i} {j}", f"text {j}") for j in range(20)])
    over.set()
    thread.join()
    assert len(told) > 3
    assert set(told) == {3.0}  # 24 dimensions by pq
