"""Writers take turns: slow work is done before a turn, and waiting for one ends in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic, sleep

import pytest

from slimdex.errors import InputError, InUseError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.writer import commit_deletion
from tests.encoders import WordEncoder

from ..word_documents import forty


@contextmanager
def held_change(collection: Collection) -> Iterator[Future[None]]:
    """A change that another thread makes meanwhile."""
    begun, is_over = Event(), Event()

    def change() -> None:
        with collection.index.change():
            begun.set()
            is_over.wait(20)

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(change)
        begun.wait(20)
        try:
            yield held
        finally:
            is_over.set()


def wait_until(is_so: Callable[[], object]) -> None:
    end = monotonic() + 20
    while not is_so():
        assert monotonic() < end, "20 seconds are over"
        sleep(0.005)


def test_threads_wait_as_long_as_processes(tmp_path: Path) -> None:
    with Collection.open(forty(tmp_path / "x"), WordEncoder(), wait=0.05) as collection:
        with held_change(collection) as held:
            with pytest.raises(InUseError):
                collection.delete(["3"])
            assert not held.done()
        collection.delete(["3"])
        assert len(collection) == 39


def test_verify_waits_for_no_writer(tmp_path: Path) -> None:
    with (
        Collection.open(forty(tmp_path / "x"), WordEncoder()) as collection,
        held_change(collection) as held,
    ):
        assert collection.verify() == []
        assert not held.done()


def test_verify_finds_no_faults_in_what_writers_remove(tmp_path: Path) -> None:
    with Collection.open(forty(tmp_path / "x"), WordEncoder()) as collection:
        is_over = Event()

        def write() -> int:
            count = 0
            while not is_over.is_set():
                collection.add([Document(f"new{count}", f"word{count}")])
                collection.compact()
                count += 1
            return count

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            try:
                for _ in range(20):
                    assert collection.verify() == []
            finally:
                is_over.set()
            count = writing.result()
        assert len(collection) == 40 + count
        (collection.path / collection.index.state.log.documents).unlink()
        assert collection.verify()


def test_verify_finds_faults_while_others_write(tmp_path: Path) -> None:
    with Collection.open(forty(tmp_path / "x"), WordEncoder()) as collection:
        vectors = collection.path / collection.index.state.vectors
        data = bytearray(vectors.read_bytes())
        data[0] ^= 1
        vectors.write_bytes(data)
        is_over = Event()

        def write() -> None:
            while not is_over.is_set():
                collection.add([Document("new", f"word{monotonic()}")])
                collection.delete(["new"])

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            try:
                assert any(vectors.name in fault for fault in collection.verify())
            finally:
                is_over.set()
            writing.result()


def test_an_id_that_others_delete_before_the_turn_is_unknown(tmp_path: Path) -> None:
    forty(tmp_path / "x")
    with (
        Collection.open(tmp_path / "x", WordEncoder()) as collection,
        Collection.open(tmp_path / "x", WordEncoder()) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        with other.index.change() as change:
            deleting = pool.submit(collection.delete, ["4"])
            wait_until(deleting.running)
            commit_deletion(change, change.base.store.rows_of(["4"]))
        with pytest.raises(InputError, match="unknown id '4'"):
            deleting.result()
