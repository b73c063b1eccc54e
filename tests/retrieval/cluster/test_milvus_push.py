"""Pushes: what Milvus has after them, whatever happened before and meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.execution.progress import listening
from slimdex.indexes.search.reduced_index import reduced
from slimdex.indexes.settings import Settings
from slimdex.retrieval.cluster import milvus_push, milvus_rows
from slimdex.retrieval.cluster.milvus_push import PushOptions, PushResult, push
from slimdex.retrieval.cluster.milvus_rows import key_of
from slimdex.retrieval.cluster.milvus_search import MilvusCollection
from slimdex.retrieval.cluster.milvus_server import SECONDS, RefusedError, Server
from slimdex.retrieval.cluster.milvus_settings import Names, SettingsTable
from slimdex.retrieval.cluster.milvus_verification import pushed_faults
from slimdex.retrieval.collection import Collection
from tests.encoders import ReadingEncoder

from .conftest import COUNT, document
from .servers import Process, kill, pushing, server_process, written

NAMES = Names.of("notes_index", "")


def pushed(index: Path, server: Server, options: PushOptions | None = None) -> PushResult:
    with Collection.open(index, ReadingEncoder()) as collection:
        return push(collection, server, options=options)


def rows_there(server: Server) -> dict[int, dict[str, Any]]:
    name = server.collection_of("notes_index")
    assert name is not None
    return {row["pk"]: written(row) for part in server.every(name, ["*"]) for row in part}


@pytest.mark.slow
def test_every_passage_is_there_reduced_and_typed(empty: Server, index: Path) -> None:
    done = pushed(index, empty)
    found = rows_there(empty)
    with Collection.open(index, ReadingEncoder()) as collection:
        snapshot, documents = collection.snapshot, list(collection)
        numbers = {d.id: max(len(d.passages), 1) for d in documents}
        assert set(found) == {key_of(id, i) for id, count in numbers.items() for i in range(count)}
        assert done.sent == done.rows == len(found) == sum(numbers.values()) > COUNT
        first = {d.id: i for d, i in zip(documents, snapshot.live_documents(), strict=True)}
        vector = collection.commit_log.vectors().take(np.array([first["d30"]]))
        expected = reduced(snapshot.index.reducer, vector)[0]
    row = found[key_of("d30", 0)]
    np.testing.assert_allclose(row["vector"], expected, atol=1e-6)
    own = {name: row[name] for name in ("id", "n", "year_is_null", "day", "n_is_null")}
    days = 19_723 + 30 % 28
    assert own == {"id": "d30", "n": 30, "year_is_null": True, "day": days, "n_is_null": False}
    assert "tags" not in row  # which has no counterpart


def test_a_file_that_milvus_lite_is_still_writing_is_read_again(
    empty: Server, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from milvus_lite.engine.collection import Collection as Embedded

    load, failures = Embedded.load, list[str]()

    def failing(self: Embedded) -> None:
        if any(segment.num_rows for segment in self._segment_cache.values()) and len(failures) < 2:
            failures.append(self.name)
            raise EOFError("No data left in file")  # what numpy says of a file just begun
        load(self)

    monkeypatch.setattr(Embedded, "load", failing)
    assert pushed(index, empty).sent == len(rows_there(empty))
    assert len(failures) == 2


@pytest.mark.slow
def test_a_second_push_sends_nothing_and_later_ones_what_has_changed(
    empty: Server, index: Path
) -> None:
    first = pushed(index, empty)
    assert pushed(index, empty) == replace(first, sent=0, is_new=False)
    with Collection.open(index, ReadingEncoder()) as collection:
        collection.delete(["d1"])
        collection.add([document(2, "changed"), document(COUNT + 1)], refit="never")
        collection.add([replace(document(4), metadata={**document(4).metadata, "n": -4})])
    done = pushed(index, empty)
    passages = 1 + (2 if (COUNT + 1) % 3 == 0 else 1) + 1
    assert (done.sent, done.removed, done.is_new) == (passages, 1, False)
    found = rows_there(empty)
    assert found[key_of("d4", 0)]["n"] == -4
    assert key_of("d1", 0) not in found
    assert pushed_faults(index, empty.uri) == []


@pytest.mark.slow
def test_a_compacted_index_is_the_same(empty: Server, index: Path) -> None:
    first = pushed(index, empty)
    with Collection.open(index, ReadingEncoder()) as collection:
        assert collection.compact() == 2
    assert pushed(index, empty) == replace(first, sent=0, is_new=False)
    with MilvusCollection(empty.uri, index=index, encoder=ReadingEncoder()) as found:
        assert found.search("word140 word4 word0", 1)[0].id == "d140"


@pytest.mark.slow
def test_an_index_that_is_reduced_again_gets_a_new_collection(empty: Server, index: Path) -> None:
    first = pushed(index, empty)
    with (
        MilvusCollection(empty.uri, index=index, encoder=ReadingEncoder()) as old,
        Server(empty.uri) as own,
    ):
        before = [hit.id for hit in old.search("word8 word3", 5)]
        assert old.folder is not None
        old.folder.close()
        with Collection.open(index, ReadingEncoder()) as collection:
            collection.reduce(Settings(k=16, kind="sq8", candidates=60))
        old.folder = Collection.open(index, ReadingEncoder())
        (stale,) = pushed_faults(index, empty.uri)
        assert stale.endswith("the index has been reduced again; push it again")
        done = pushed(index, own)
        assert done.is_new
        assert done.collection != first.collection
        assert set(empty.collections()) == {done.collection, NAMES.settings}
        # One that was open before goes on, with the new one.
        assert [hit.id for hit in old.search("word8 word3", 5)][:1] == before[:1]
    assert pushed_faults(index, empty.uri) == []


@pytest.mark.slow
def test_what_a_push_left_is_mended(
    empty: Server, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken off at every call that writes: the next push makes it whole."""
    calls = 0

    def counted(name: str) -> None:
        real = getattr(Server, name)

        def call(self: Server, *words: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == stop:
                raise KeyboardInterrupt
            return real(self, *words, **named)

        monkeypatch.setattr(Server, name, call)

    monkeypatch.setattr(milvus_push, "SENT_BYTES", 40_000)
    stop = -1
    for name in ("create", "put", "remove", "point", "drop", "load"):
        counted(name)
    pushed(index, empty)
    whole = calls
    with Collection.open(index, ReadingEncoder()) as collection:
        collection.reduce(Settings(k=16, kind="sq8", candidates=60))
    for at in range(1, whole + 3, 2):
        stop, calls = at, 0
        try:
            pushed(index, empty)
        except KeyboardInterrupt:
            stop = -1
            with MilvusCollection(empty.uri, index=index, encoder=ReadingEncoder()) as found:
                assert found.search("word8 word3", 1)[0].id == "d8"  # the old one, or the new
            with Collection.open(index, ReadingEncoder()) as collection:
                if at % 4 == 1:  # and, half the times, another change comes in between
                    collection.delete([f"d{at + 20}"])
        stop = -1
    pushed(index, empty)
    assert pushed_faults(index, empty.uri) == []


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    monkeypatch.setenv(SECONDS, "3")
    with server_process(tmp_path / "own.db") as process:
        yield process


@pytest.mark.slow
def test_a_server_that_is_killed_while_pushed_to(
    process: Process, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(milvus_push, "SENT_BYTES", 10_000)
    monkeypatch.setattr(milvus_rows, "AT_ONCE", 48)
    with Collection.open(index, ReadingEncoder()) as collection:
        for left in (1, 2, 3):
            with Server(process.uri) as server:

                def fail(stage: str, done: int, total: int, last: int = left) -> None:
                    if done >= 48 * last:
                        process.kill()

                with (
                    pytest.raises(InputError, match=f"^milvus {process.uri}: [^\n]+$"),
                    listening(fail),
                ):
                    push(collection, server)
            process.start()
        with Server(process.uri) as server:
            try:
                rows = push(collection, server).rows
            except RefusedError as error:
                if "faiss::read" in str(error):
                    pytest.skip("the server has torn a file of its own")
                raise
            assert rows == len(rows_there(server))
    assert pushed_faults(index, process.uri) == []
    with MilvusCollection(process.uri, index=index, encoder=ReadingEncoder()) as found:
        process.kill()
        begun = time.monotonic()
        with pytest.raises(InputError, match=f"^milvus {process.uri}: [^\n]+$"):
            found.search("word8", 3)
        assert time.monotonic() - begun < 20


@pytest.mark.slow
def test_the_next_push_mends_what_a_killed_one_left(process: Process, index: Path) -> None:
    one = pushing(index, process.uri)
    assert one.stdout is not None
    assert one.stdout.readline()  # its first rows are there
    kill(one)
    with Server(process.uri) as server:
        pushed(index, server)
    assert pushed_faults(index, process.uri) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (PushOptions(kind="IVF_RABITQ"), "milvus .*IVF_RABITQ"),
        (PushOptions(rescored="everywhere"), "rescore='everywhere'; expected one of here, there"),
        (PushOptions(leave_out=["colour"]), "column 'colour'; expected one of the index's columns"),
    ],
)
def test_what_is_asked_wrongly_is_refused(
    empty: Server, index: Path, options: PushOptions, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        pushed(index, empty, options)
    assert empty.collection_of("notes_index") is None


def test_one_vector_a_row_has_no_room_for_the_full_ones(empty: Server, index: Path) -> None:
    can = empty.can
    try:
        empty.can = replace(can, version="v2.3.5", second_vector=False)
        with pytest.raises(InputError, match=r"Milvus v2\.3\.5 has one vector for a row"):
            pushed(index, empty, PushOptions(rescored="there"))
    finally:
        empty.can = can


@pytest.mark.slow
def test_a_text_that_is_too_long_is_refused_by_name(empty: Server, index: Path) -> None:
    with Collection.open(index, ReadingEncoder()) as collection:
        long = {**document(5).metadata, "note": "ü" * 33_000}
        collection.add([replace(document(5), metadata=long)])
    with pytest.raises(InputError, match=r"document 'd5': note has 66,000 bytes; .*leave_out="):
        pushed(index, empty)
    assert pushed(index, empty, PushOptions(leave_out=["note"])).is_new


def test_a_collection_of_others_is_left_alone(empty: Server, index: Path) -> None:
    empty.create("notes_index", *_others())
    with pytest.raises(InputError, match="is a collection not made by slimdex"):
        pushed(index, empty)
    empty.drop("notes_index")


def _others() -> Any:
    from pymilvus import DataType

    fields = [
        {"field_name": "pk", "datatype": DataType.INT64, "is_primary": True},
        {"field_name": "v", "datatype": DataType.FLOAT_VECTOR, "dim": 2},
    ]
    return fields, {"v": {"index_type": "FLAT", "metric_type": "IP", "params": {}}}


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a" * 101])
def test_a_name_that_milvus_does_not_take(name: str) -> None:
    with pytest.raises(InputError, match="expected letters, digits and underscores"):
        Names.of(name, "")


@pytest.mark.slow
def test_verification_names_what_differs(empty: Server, index: Path) -> None:
    done = pushed(index, empty)
    row = rows_there(empty)[key_of("d1", 0)]
    empty.put(done.collection, [{**row, "digest": 5}, {**row, "pk": 77, "id": "stranger"}])
    empty.remove(done.collection, [key_of("d2", 0)])
    said = pushed_faults(index, empty.uri)
    assert said == [
        f"{done.collection}: 1 passages missing, of 'd2'",
        f"{done.collection}: 1 passages other than in the index, of 'd1'",
        f"{done.collection}: 1 passages that are not in the index",
    ]
    pushed(index, empty)
    assert pushed_faults(index, empty.uri) == []
    turned = [{**row, "vector": row["vector"][::-1]} for row in rows_there(empty).values()]
    empty.put(done.collection, turned)
    (answers,) = pushed_faults(index, empty.uri)
    assert "of the index's own answers" in answers


@pytest.mark.slow
def test_damaged_settings_are_told(empty: Server, index: Path) -> None:
    done = pushed(index, empty)
    table = SettingsTable(empty, NAMES)
    part = f"{done.collection.removeprefix('notes_index_')}:reducer/000000"
    empty.put(NAMES.settings, [{"part": part, "body": "AAAA", "vector": [1.0, 0.0]}])
    assert table.read("nothing") is None
    with pytest.raises(CorruptError, match="wrong checksum; push it again"):
        MilvusCollection(empty.uri, index=index, encoder=ReadingEncoder())
    again = pushed(index, empty)  # nothing is known of the rows that were there: all go over
    assert (again.sent, again.collection) == (done.sent, done.collection)
    assert pushed_faults(index, empty.uri) == []


@pytest.mark.slow
def test_lists_stay_as_many_as_the_collection_was_made_with(empty: Server, index: Path) -> None:
    """Conditions are exact as long as all lists are gone through."""
    first = pushed(index, empty)
    with Collection.open(index, ReadingEncoder()) as collection:
        collection.delete([f"d{i}" for i in range(20, 140)])
        collection.compact()
    assert not pushed(index, empty).is_new
    with MilvusCollection(empty.uri, index=index, encoder=ReadingEncoder()) as found:
        assert found.pushed.rows < 50
        params = found.pushed.index_kind.search(10, filtered=True)
    assert params == {"nprobe": first.rows // 39}
