"""Pushes: what Milvus has after them, whatever happened before and meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.cluster import milvus_push, milvus_server
from slimdex.retrieval.cluster.milvus_push import PushResult, push
from slimdex.retrieval.cluster.milvus_search import MilvusCollection
from slimdex.retrieval.cluster.milvus_server import BM25, HIT, VECTOR, Server, model_of
from slimdex.retrieval.collection import Collection
from slimdex.system.progress import listening
from tests.chance import CHANCE, sweep
from tests.encoders import ReadingEncoder

from .conftest import COUNT, document
from .servers import Process, pushing, server_process

pytestmark = pytest.mark.slow

NAME = "notes_index"
WRITING = {"create_collection", "create_alias", "alter_alias", "drop_collection"}
WRITING |= {"upsert", "delete", "flush", "load_collection"}


def pushed(index: Path, server: Server, name: str = NAME, **options: Any) -> PushResult:
    with Collection.open(index, ReadingEncoder()) as collection:
        return push(collection.index, server, name, **options)


def rows_there(server: Server, name: str = NAME) -> dict[str, dict[str, Any]]:
    """The rows of an index, without the field that Milvus computes."""
    target = server.collection_of(name)
    assert target is not None
    rows = {row["_pk"]: row for row in server.every(target, ["*"])}
    return {key: {n: v for n, v in row.items() if n != BM25} for key, row in rows.items()}


def check_fresh(index: Path, server: Server, name: str = NAME) -> None:
    """Assert that what is there is the same as after one push of the whole index."""
    pushed(index, server, "fresh")
    ours, fresh = rows_there(server, name), rows_there(server, "fresh")
    assert ours.keys() == fresh.keys()
    for key, row in fresh.items():
        assert ours[key] == row | {VECTOR: pytest.approx(row[VECTOR], abs=1e-6)}


def test_every_passage_is_there_as_it_is_ranked(empty: Server, index: Path) -> None:
    done = pushed(index, empty)
    found = rows_there(empty)
    with Collection.open(index, ReadingEncoder()) as collection:
        snapshot, documents = collection.index.snapshot, list(collection)
        numbers = {d.id: max(len(d.passages), 1) for d in documents}
        assert set(found) == {f"{i}:{id}" for id, count in numbers.items() for i in range(count)}
        assert done.sent == done.rows == len(found) == sum(numbers.values()) > COUNT
        rows = snapshot.store.rows_of(["d30", "d8"])
        metric, vectors = snapshot.index.metric, snapshot.vectors().take(rows)
        assert metric is not None
        probe = metric.rescorer.probes(vectors[:1])
        cosines = metric.scores(probe, rows)[0]
    first, second = found["0:d30"], found["0:d8"]
    products = [np.dot(probe.vectors[0], row[VECTOR]) for row in (first, second)]
    np.testing.assert_allclose(products, cosines, atol=2e-6)
    expected = {"id": "d30", "n": 30, "day": "2024-01-03", "price": 3.75, "author": 'O"30'}
    assert expected.items() <= first.items()
    assert first.get("year") is None


def test_later_pushes_send_what_has_changed(empty: Server, index: Path) -> None:
    first = pushed(index, empty)
    assert pushed(index, empty) == replace(first, sent=0, is_new=False)
    with Collection.open(index, ReadingEncoder()) as collection:
        assert collection.compact() == 2
        assert push(collection.index, empty, NAME) == replace(first, sent=0, is_new=False)
        collection.delete(["d1"])
        collection.add([document(2, "changed"), document(COUNT + 1)], refit="never")
        collection.add([replace(document(4), metadata={**document(4).metadata, "n": -4})])
    done = pushed(index, empty)
    assert (done.sent, done.removed, done.is_new) == (3, 1, False)
    found = rows_there(empty)
    assert found["0:d4"]["n"] == -4
    assert "0:d1" not in found
    check_fresh(index, empty)


def test_an_index_that_is_reduced_again_gets_a_new_collection(empty: Server, index: Path) -> None:
    first = pushed(index, empty)
    with MilvusCollection(empty.uri, NAME, ReadingEncoder()) as old, Server(empty.uri) as own:
        before = old.search("word8 word3", 5)
        with Collection.open(index, ReadingEncoder()) as collection:
            collection.reduce(Settings(k=16, beta=0.5, gamma=0.5, kind="sq8", candidates=60))
            expected = collection.search("word8 word3", 5, hybrid="off")
        done = pushed(index, own)
        assert done.is_new
        assert {*empty.ask("list_collections")} == {done.collection, model_of(done.collection)}
        assert done.collection != first.collection
        # One that was open before goes on, with the new one.
        assert old.search("word8 word3", 5)[0].id == before[0].id
        scores = [hit.score for hit in old.search("word8 word3", 5, hybrid="off")]
        assert scores == pytest.approx([hit.score for hit in expected], abs=5e-3)


def test_what_a_push_left_is_mended(
    empty: Server, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken off at calls that write: the next push makes it whole."""
    calls, stop = 0, -1
    real = Server.ask

    def ask(self: Server, call: str, *values: Any, **named: Any) -> Any:
        nonlocal calls
        calls += call in WRITING
        if calls == stop:
            raise KeyboardInterrupt
        return real(self, call, *values, **named)

    monkeypatch.setattr(Server, "ask", ask)
    monkeypatch.setattr(milvus_push, "AT_ONCE", 100)
    pushed(index, empty)
    whole = calls
    with Collection.open(index, ReadingEncoder()) as collection:
        collection.reduce(Settings(k=16, beta=0.5, kind="sq8", candidates=60))
    for at in range(1, whole + 3, 2):
        stop, calls = at, 0
        try:
            pushed(index, empty)
        except KeyboardInterrupt:
            stop = -1
            with MilvusCollection(empty.uri, NAME, ReadingEncoder()) as found:
                assert found.search("word8 word3", 5)[0].id == "d8"  # the old one, or the new
            with Collection.open(index, ReadingEncoder()) as collection:
                if at % 4 == 1:  # and, half the times, another change comes in between
                    collection.delete([f"d{at + 20}"])
        stop = -1
    pushed(index, empty)
    check_fresh(index, empty)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with server_process(tmp_path_factory.mktemp("own") / "own.db") as process:
        yield process


def test_the_next_push_mends_what_a_killed_one_left(process: Process, index: Path) -> None:
    with pushing(index, process.uri) as one:
        assert one.stdout is not None
        assert one.stdout.readline()  # its first rows are there
        one.kill()
    with Server(process.uri) as server:
        pushed(index, server)
        check_fresh(index, server)


@sweep
def test_a_server_that_is_killed_while_pushed_to(
    process: Process, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(milvus_server, "SECONDS", 3.0)
    monkeypatch.setattr(milvus_push, "AT_ONCE", 48)
    with Collection.open(index, ReadingEncoder()) as collection:
        for left in CHANCE.sample((3, 1), 1):
            with Server(process.uri) as server:

                def fail(stage: str, done: int, total: int, last: int = left) -> None:
                    if done >= 48 * last:
                        process.kill()

                with (
                    pytest.raises(InputError, match=f"^milvus {process.uri}: [^\n]+$"),
                    listening(fail),
                ):
                    push(collection.index, server, "killed")
            process.start()
    with Server(process.uri) as server:
        try:
            pushed(index, server, "killed")
        except InputError as error:
            if "faiss::read" in str(error):
                pytest.skip("the server has torn a file of its own")
            raise
        check_fresh(index, server, "killed")
    with MilvusCollection(process.uri, "killed", ReadingEncoder()) as found:
        process.kill()
        begun = time.monotonic()
        with pytest.raises(InputError, match=f"^milvus {process.uri}: [^\n]+$"):
            found.search("word8", 3)
        assert time.monotonic() - begun < 20


def test_columns_are_left_out_or_refused_by_name(empty: Server, index: Path) -> None:
    with pytest.raises(InputError, match="column 'colour'; expected one of the index's columns"):
        pushed(index, empty, leave_out=["colour"])
    assert empty.collection_of(NAME) is None
    assert pushed(index, empty, leave_out=["author"]).is_new
    row = rows_there(empty)["0:d5"]
    assert "author" not in row
    assert "author" not in row[HIT]["metadata"]


def test_a_collection_of_others_is_left_alone(empty: Server, index: Path) -> None:
    empty.prepare(NAME, 2, words=False)
    with pytest.raises(InputError, match="is a collection not made by slimdex"):
        pushed(index, empty)
    assert empty.ask("list_collections") == [NAME]
