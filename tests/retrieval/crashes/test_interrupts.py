"""After a failure at the end of a change, memory and manifest agree."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slimdex.indexes.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.operations.repair import repair, verify
from slimdex.retrieval.storage.commit_log import CommitLog
from slimdex.retrieval.storage.manifest import Manifest
from tests.conftest import Copies
from tests.encoders import WordEncoder
from tests.slow import slow

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
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Query interrupted"),  # what DuckDB makes of Ctrl-C
        *slow([KeyboardInterrupt, MemoryError]),
    ],
)
def test_interrupted_after_its_commit_a_change_is_seen(
    collection: Collection,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    error: BaseException | type[BaseException],
) -> None:
    shown = CommitLog._show

    def interrupted(self: CommitLog, manifest: Manifest) -> None:
        patch.undo()
        shown(self, manifest)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "_show", interrupted)
        with pytest.raises((KeyboardInterrupt, RuntimeError, MemoryError)):
            CHANGES[change](collection)
    assert len(collection.search_many("parse a date", limit=700)[0]) == len(collection)
    collection.add([Document("another", "sort a list")])
    assert collection.commit_log.moments().n == len(collection)
    assert len(collection) == collection.state.rows - len(collection.snapshot.deleted)
    collection.compact()
    collection.close()
    assert verify(collection.path) == []


@pytest.mark.slow
def test_processes_that_look_do_not_keep_a_writer_out(collection: Collection) -> None:
    code = (
        "import sys; from slimdex.retrieval.collection import Collection\n"
        "print('on', flush=True)\n"
        "while True:\n"
        "    with Collection.open(sys.argv[1]) as collection:\n"
        "        assert collection.count(\"id = 'again'\") in (0, 1)\n"
    )
    words = [sys.executable, "-c", code, str(collection.path)]
    others = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for other in others:
            assert other.stdout
            assert other.stdout.readline() == "on\n"
        for i in range(10):
            collection.add([Document("again", f"text {i}")])
            collection.compact()
        assert [other.poll() for other in others] == [None, None]
    finally:
        for other in others:
            other.kill()
            other.wait()
            assert other.stdout
            other.stdout.close()
    collection.close()
    assert verify(collection.path) == []


def test_a_collection_that_nobody_closed_lets_go(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path / "x.index", WordEncoder())
    collection.add(NEW)
    del collection
    with Collection.open(tmp_path / "x.index", WordEncoder()) as again:
        assert len(again) == 1


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path / "x.index", WordEncoder())
    collection.add(NEW)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(writing)
        os.read(reading, 1)  # until the parent is done
        os._exit(0)
    collection.close()
    Collection.open(tmp_path / "x.index", WordEncoder()).close()
    os.close(writing)
    os.waitpid(child, 0)
    os.close(reading)


def test_a_closed_collection_says_so(collection: Collection) -> None:
    collection.close()
    for change in CHANGES.values():
        with pytest.raises(InputError, match="was closed; expected an open collection"):
            change(collection)


@pytest.mark.parametrize("few", [0, 1024])
def test_documents_may_change_the_collection_while_they_are_read(
    collection: Collection, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slimdex.retrieval.ingest.preparing.FEW", few)
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
    for i in range(20):
        collection.add([Document(f"{i} {j}", f"text {j}") for j in range(100)])
    over.set()
    thread.join()
    assert len(told) > 3
    assert set(told) == {3.0}  # 24 dimensions by pq
