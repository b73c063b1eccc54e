"""Additions of several batches: what searches find meanwhile, what errors, kills, undoing leave."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import adding, addition, encode
from slimdex.retrieval.ingest.adding import counts
from slimdex.retrieval.ingest.adding import sync as sync_index
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.sources.source import Sources
from tests.building import build
from tests.encoders import WordEncoder, failing
from tests.retrieval.word_documents import documents, forty

BATCH = 16
QUERIES = ["word3 cat", "word150 dog 4", "word777 cat dog", "3 dog"]


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each 16 documents are entered together, and then encoded together."""
    monkeypatch.setattr(addition, "MOST_DOCUMENTS", BATCH)
    monkeypatch.setattr(adding, "MOST_ENCODED_FIRST", -1)
    encode_each(monkeypatch, BATCH)


def encode_each(monkeypatch: pytest.MonkeyPatch, documents: int) -> None:
    """Commit the vectors of so many documents at a time."""
    monkeypatch.setattr(encode, "LEAST_ROWS", documents)
    monkeypatch.setattr(encode, "FIRST_CHARACTERS", 1)
    monkeypatch.setattr(encode, "GROWTH", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return forty(tmp_path / "i.index")


def answers(collection: Collection) -> list[list[tuple[str, float]]]:
    found = collection.search_many(QUERIES, limit=20)
    return [[(hit.id, round(hit.similarity, 5)) for hit in hits] for hits in found]


def texts(collection: Collection) -> dict[str, str]:
    return {each.id: each.text for each in collection}


@pytest.mark.parametrize("kind", ["auto", "pq"])
def test_batches_end_as_one_addition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The kind is trained on all documents, though the first batch has too few for it."""
    new = documents(0, 900)
    monkeypatch.setattr(addition, "MOST_DOCUMENTS", 128)
    encode_each(monkeypatch, 128)
    with monkeypatch.context() as patch:
        patch.setattr(addition, "MOST_DOCUMENTS", 900)
        encode_each(patch, 900)
        one = Collection.create(tmp_path / "one", WordEncoder(), Settings(kind=kind))
        one.add(new, refit="never")
    many = Collection.create(tmp_path / "many", WordEncoder(), Settings(kind=kind))
    added = many.add(new, refit="never")
    assert (added.documents, added.encoded, added.unchanged) == (900, 900, 0)
    assert many.version > 900 / 128
    assert many.index.state.settings == one.index.state.settings
    assert many.index.state.fit_rows == 900
    assert answers(many) == answers(one)
    assert many.verify() == []
    assert many.info()["notes"] == one.info()["notes"]
    assert many.undo().removed == 900
    assert (len(many), many.undo().restored) == (0, 900)
    assert answers(many) == answers(one)


class Held(WordEncoder):
    """Waits after some texts until it is let go on."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after, self.is_there, self.goes_on = after, Event(), Event()

    def encode(self, texts: Sequence[str]) -> Matrix:
        if len(self.encoded) >= self.after:
            self.is_there.set()
            assert self.goes_on.wait(60)
        return super().encode(texts)


def test_searches_find_what_is_in_while_an_addition_goes_on(tmp_path: Path) -> None:
    writer = Collection.create(tmp_path / "i", held := Held(3 * BATCH))
    thread = Thread(target=writer.add, args=[documents(0, 100)])
    with Collection.open(tmp_path / "i", WordEncoder()) as reader:
        assert reader.search("word3 cat") == []
        thread.start()
        assert held.is_there.wait(60)
        assert len(reader) == 100
        for name in ("word40", "word99"):  # one with a vector, one without
            assert reader.search(f"{name} cat")[0].id == name.removeprefix("word")
        assert reader.search("word99 cat", hybrid="off")[0].id != "99"
        waits = reader.index.snapshot.unfinished
        assert waits.startswith("48 of 100 documents have vectors yet;")
        assert waits in reader.info()["notes"]
        reader.add([Document("own", "of the reader")], encode=False)
        held.goes_on.set()
        thread.join()
        assert reader.info()["encoded"] == len(reader) == 101
        assert reader.search("word99 cat", hybrid="off")[0].id == "99"
        assert reader.index.snapshot.unfinished == ""
        assert reader.verify() == []


def test_an_interrupted_addition_goes_on_where_it_was(path: Path) -> None:
    new = documents(30, 200)
    with Collection.open(path, failing(WordEncoder(), after=2 * BATCH)) as collection:
        with pytest.raises(KeyboardInterrupt):
            collection.add(new)
        assert len(collection) == 200
        encoded = collection.info()["encoded"]
        assert 40 < encoded < 200
    with Collection.open(path, encoder := WordEncoder()) as collection:
        added = collection.add(new)
        assert (added.documents, added.unchanged) == (0, 170)
        assert added.encoded == len(encoder.encoded) == 200 - encoded
        assert texts(collection) == {each.id: each.text for each in documents(0, 200)}
        assert collection.index.snapshot.unfinished == ""
        assert collection.verify() == []


def bad(new: list[Document]) -> Iterator[Document]:
    yield from new
    raise InputError("row 7,001: no JSON")


FAULTS: dict[str, Callable[[list[Document]], object]] = {
    "unreadable": bad,
    "malformed": lambda new: [*new, Document("x", None)],  # type: ignore[arg-type]
    "misfit": lambda new: [*new, Document("x", "text", metadata={"n": object()})],
    "twice in a batch": lambda new: [*new, Document("x", "a"), Document("x", "b")],
    "twice": lambda new: [*new, replace(new[3], text="another")],
    "twice the same": lambda new: [*new, new[3]],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input_in_a_later_batch_keeps_those_before(path: Path, fault: str) -> None:
    new = [*documents(30, 40), *(Document(str(i), f"replaced {i}") for i in range(10, 20))]
    new += documents(100, 150)
    whole = {each.id: each.text for each in [*documents(0, 40), *new]}
    with Collection.open(path, WordEncoder()) as collection:
        with pytest.raises(InputError) as caught:
            collection.add(FAULTS[fault](new))
        (note,) = caught.value.__notes__
        entered = int(note.split()[0])
        assert entered in (3 * BATCH, 4 * BATCH)
        assert texts(collection).items() <= whole.items()
        assert {each.id for each in new[:entered]} <= texts(collection).keys()
        assert collection.verify() == []
        assert collection.add(new).unchanged == entered
        assert texts(collection) == whole
        assert collection.verify() == []


def test_a_build_keeps_the_batches_before_bad_input_and_says_so(tmp_path: Path) -> None:
    table = tmp_path / "notes.csv"
    lines = [f"n{i},word{i} cat" for i in range(60)]
    table.write_text("\n".join(["id,text", *lines, "n3,again"]))
    with pytest.raises(InputError, match="'n3' occurs twice;") as caught:
        build(tmp_path / "i", Sources.open([str(table)]), WordEncoder, Settings())
    assert caught.value.__notes__ == ["48 documents are in: run it again to continue"]
    with Collection.open(tmp_path / "i", WordEncoder()) as collection:
        assert len(collection) == 48


def test_after_bad_input_the_changes_of_others_stay(path: Path) -> None:
    with Collection.open(path, WordEncoder()) as other:

        def read() -> Iterator[Document]:
            yield from documents(100, 150)
            other.add([Document("other", "of another")])
            raise InputError("no JSON")

        with (
            Collection.open(path, WordEncoder()) as collection,
            pytest.raises(InputError) as caught,
        ):
            collection.add(read())
        assert "other" in other
        assert caught.value.__notes__ == ["48 documents are in: run it again to continue"]
        assert {each.id for each in documents(0, 40)} <= texts(other).keys()
        assert other.undo().removed == 1  # that of the other
        assert other.verify() == []


def test_undoing_after_others_have_changed_undoes_their_change_alone(path: Path) -> None:
    with Collection.open(path, WordEncoder()) as other:

        def read() -> Iterator[Document]:
            yield from documents(100, 140)
            other.add([Document("other", "of another")])
            yield from documents(140, 200)

        with Collection.open(path, WordEncoder()) as collection:
            collection.add(read())
            before = len(collection)
            assert before == 141
            collection.undo()
            assert "other" in collection
            assert len(collection) < before
            assert collection.verify() == []


def test_undoing_leaves_what_others_did_before_an_unchanged_batch(path: Path) -> None:
    with Collection.open(path, WordEncoder()) as collection:
        collection.delete(["39"])
        collection.add([*documents(0, BATCH), *documents(100, 100 + BATCH)])
        assert collection.undo().removed == BATCH
        assert "39" not in collection


@pytest.mark.parametrize("gives_vectors", [False, True])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_the_fit_at_the_end_is_of_all_documents(
    tmp_path: Path, gives_vectors: bool, is_replaced: bool
) -> None:
    """Also of a small index, and if all its documents are replaced."""
    with Collection.create(tmp_path / "i", WordEncoder(), Settings(k=8)) as collection:
        collection.add(documents(0, 100 if is_replaced else 4))
        new = [Document(each.id, f"{each.text} again") for each in documents(0, 100)]
        vectors = WordEncoder().encode([each.text for each in new]) if gives_vectors else None
        collection.add(new, vectors=vectors, refit="never")
        assert collection.index.state.fit_rows == 100
        assert not collection.index.state.is_provisional
        assert collection.verify() == []


def test_an_encoder_that_fails_costs_only_the_batch_in_hand(path: Path, tmp_path: Path) -> None:
    class Failing(WordEncoder):
        def encode(self, texts: Sequence[str]) -> Matrix:
            if len(self.encoded) > 2 * BATCH:
                raise InputError("the server is gone")
            return super().encode(texts)

    with Collection.open(path, Failing()) as collection:
        with pytest.raises(InputError, match="the server is gone"):
            collection.add(documents(100, 200))
        assert len(collection) == 140
        assert collection.info()["encoded"] == 40 + 3 * BATCH
    source = tmp_path / "many.txt"
    source.write_text("\n".join(f"word{i} cat" for i in range(100)))
    with pytest.raises(InputError, match="the server is gone"):
        build(tmp_path / "new", Sources.open([str(source)]), Failing, Settings())
    with Collection.open(tmp_path / "new", encoder := WordEncoder()) as collection:
        assert len(collection) == 100
        assert collection.encode() == len(encoder.encoded) == 100 - 3 * BATCH


def test_a_build_goes_on_after_a_kill(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for i in range(100):
        (folder / f"{i}.txt").write_text(f"word{i} cat dog {i % 7}")
    place, held = tmp_path / "i", Held(2 * BATCH)

    def run() -> None:
        build(place, Sources.open([str(folder)]), lambda: held, Settings())[0].close()

    thread = Thread(target=run)
    thread.start()
    assert held.is_there.wait(60)
    shutil.copytree(place, tmp_path / "killed")  # as a kill at this moment leaves it
    held.goes_on.set()
    thread.join()
    again, added = build(
        tmp_path / "killed",
        Sources.open([str(folder)]),
        encoder := WordEncoder,
        Settings(kind="sq8"),
    )
    with again, Collection.open(place, encoder()) as whole:
        assert added.unchanged == 100
        assert added.encoded == 100 - 2 * BATCH
        assert texts(again) == texts(whole)
        assert again.index.state.settings.kind == "sq8"  # type: ignore[union-attr]
        with pytest.raises(InputError, match="exists; expected a new folder"):
            build(again.path, Sources.open([str(folder)]), WordEncoder, Settings())
    assert verify(place) == []


def test_a_sync_of_moved_files_encodes_nothing(tmp_path: Path) -> None:
    folder, place = tmp_path / "notes", tmp_path / "i"
    (folder / "a").mkdir(parents=True)
    for i in range(80):
        (folder / "a" / f"{i}.txt").write_text(f"word{i} cat dog {i % 7}")
    collection, _ = build(place, Sources.open([str(folder)]), WordEncoder, Settings())
    with collection:
        vectors = collection.get(["a/7.txt"], vectors=True)[0].vectors
        (folder / "a").rename(folder / "b")
        (folder / "b" / "3.txt").unlink()
        (folder / "new.txt").write_text("quite another text")
        done = sync_index(collection.index, Sources.open([str(folder)]))
        told = counts(done, len(collection))
        assert [told[name] for name in ("added", "deleted", "encoded")] == [80, 80, 1]
        assert {each.id for each in collection} == {
            "new.txt",
            *(f"b/{i}.txt" for i in range(80) if i != 3),
        }
        moved = collection.get(["b/7.txt"], vectors=True)[0].vectors
        np.testing.assert_array_equal(moved, vectors)
        assert collection.index.snapshot.unfinished == ""
        assert collection.verify() == []
