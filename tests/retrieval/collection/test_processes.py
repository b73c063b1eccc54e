"""Several processes that change and search one index at the same time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from slimdex.errors import InUseError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.store.document_store import DocumentStore
from tests import forked
from tests.encoders import WordEncoder

SETTINGS = Settings(kind="flat")


def stop_while_writing(path: Path, told: Connection) -> None:
    """Begin a commit, and be stopped in the middle of it."""
    collection = Collection.open(path, WordEncoder())
    with collection.index.change():
        told.send(os.getpid())
        os.kill(os.getpid(), signal.SIGSTOP)


def test_only_changes_wait_for_a_stopped_process(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with Collection.create(path, WordEncoder(), SETTINGS) as collection:
        collection.add([Document("a", "tea")])
    with Collection.open(path, WordEncoder(), wait=0.5) as collection:
        reader, told = Pipe(duplex=False)
        stopped = forked.process(stop_while_writing, path, told)
        number = reader.recv()
        try:
            assert [hit.id for hit in collection.search("tea", where="id = 'a'")] == ["a"]
            assert collection.count("id = 'a'") == 1
            with pytest.raises(InUseError):
                collection.delete("a")
        finally:
            os.kill(number, signal.SIGKILL)
        forked.exit_code(stopped, 60)
        assert collection.delete("a") == 1


def open_or_create_and_add(folder: Path, name: str, count: int, start: float) -> None:
    """Open or create collections at the same moments as others, and add a note to each."""
    for number in range(count):
        time.sleep(max(0.0, start + number / 2 - time.time()))
        with Collection.open_or_create(folder / str(number), WordEncoder(), SETTINGS) as opened:
            opened.add([Document(name, f"tea {name}")])


def test_processes_can_open_or_create_one_path_at_once(tmp_path: Path) -> None:
    names, count = ["a", "b", "c"], 3
    start = time.time() + 1
    started = [
        forked.process(open_or_create_and_add, tmp_path, name, count, start) for name in names
    ]
    assert [forked.exit_code(process, 300) for process in started] == [0] * len(names)
    for number in range(count):
        with Collection.open(tmp_path / str(number), WordEncoder()) as opened:
            assert sorted(note.id for note in opened) == names
            assert opened.verify() == []
    assert len(list(tmp_path.iterdir())) == count  # and nothing beside


def test_a_snapshot_stays_readable_after_later_commits(tmp_path: Path) -> None:
    """Also after a compaction, which renumbers rows and removes the files that it reads."""
    path = tmp_path / "x"
    with (
        Collection.create(path, WordEncoder(), SETTINGS) as one,
        Collection.open(path, WordEncoder()) as other,
    ):
        one.add([Document(str(n), f"tea {n}", metadata={"n": n}) for n in range(30)])
        snapshot = one.index.snapshot.open()
        before = snapshot.rows_where("n < 20").tolist()
        other.delete([str(n) for n in range(0, 30, 2)])
        other.add([Document("1", "cake", metadata={"n": 0.5, "m": 1})])
        assert other.compact() == 16
        assert one.count("n < 20") == 10
        assert snapshot.rows_where("n < 20").tolist() == before == [*range(20)]
        assert snapshot.store.documents([3])[3].metadata == {"n": 3}
        assert [each.id for each in snapshot.every_document()] == [str(n) for n in range(30)]
        assert one.get("1").metadata == {"n": 0.5, "m": 1}


def test_a_filter_does_not_restart_at_each_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, filtered, waits = tmp_path / "x", DocumentStore.rows_where, list[str]()
    with (
        Collection.create(path, WordEncoder(), Settings(k=4, kind="flat")) as one,
        Collection.open(path, WordEncoder()) as other,
    ):
        one.add([Document(str(n), f"tea {n}", metadata={"n": n}) for n in range(9)])

        def rows_where(store: DocumentStore, *condition: Any) -> Any:
            waits.append("one")
            assert len(waits) < 3, "it starts over at each commit"
            other.add([Document(f"new {len(waits)}", "tea")])
            return filtered(store, *condition)

        monkeypatch.setattr(DocumentStore, "rows_where", rows_where)
        with Collection.open(path, WordEncoder()) as late:
            hits = late.search("tea", limit=20, where="n < 5 OR n IS NULL")
        assert waits == ["one"]
        assert {hit.id for hit in hits} == {str(n) for n in range(5)}


AFTER_THE_MAIN_THREAD = """
import sys, threading
from slimdex import Collection, Document
from tests.encoders import WordEncoder

def change():
    threading.main_thread().join()
    collection.add([Document(str(i), f"tea {i}") for i in range(200)])
    collection.delete("7")
    print(len(collection), collection.verify())

collection = Collection.create(sys.argv[1], WordEncoder())
collection.add([Document("a", "tea"), Document("b", "cake")])
threading.Thread(target=change).start()
"""


def test_a_thread_changes_an_index_after_the_main_thread_has_ended(tmp_path: Path) -> None:
    """Python begins no other threads then."""
    done = subprocess.run(
        [sys.executable, "-c", AFTER_THE_MAIN_THREAD, str(tmp_path / "x")],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == "201 []\n", done.stderr
