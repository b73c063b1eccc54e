"""Long additions: what searches find meanwhile, and what errors, kills and undoing leave."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from slimdex.errors import InputError, InUseError
from slimdex.indexes.arrays import Matrix
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import batches, preparing
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
    """Each 16 documents are a batch, of which few are prepared in memory, if a test says so."""
    monkeypatch.setattr(batches, "READ_DOCUMENTS", BATCH)
    monkeypatch.setattr(batches, "FIRST_CHARACTERS", 1)
    monkeypatch.setattr(batches, "GROWTH", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return forty(tmp_path / "i.index")


def answers(collection: Collection) -> list[list[tuple[str, float]]]:
    found = collection.search_many(QUERIES, limit=20)
    return [[(hit.id, round(hit.similarity, 5)) for hit in hits] for hits in found]


def texts(collection: Collection) -> dict[str, str]:
    return {each.id: each.text for each in collection}


@pytest.mark.parametrize("few", [1024, 1])
@pytest.mark.parametrize("kind", ["auto", "pq"])
def test_batches_end_as_one_addition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int, kind: str
) -> None:
    """The kind is trained on all documents, though the first batch has too few for it."""
    new = documents(0, 900)
    monkeypatch.setattr(batches, "READ_DOCUMENTS", 128)
    with monkeypatch.context() as patch:
        patch.setattr(batches, "FIRST_CHARACTERS", 1 << 30)
        one = Collection.create(tmp_path / "one", WordEncoder(), Settings(kind=kind))
        one.add(new, refit="never")
    monkeypatch.setattr(preparing, "MOST_FEW", few)
    many = Collection.create(tmp_path / "many", WordEncoder(), Settings(kind=kind))
    added = many.add(new, refit="never")
    assert (added.documents, added.encoded, added.unchanged) == (900, 900, 0)
    assert many.version > 900 / 128
    assert many.index.state.settings == one.index.state.settings
    assert many.index.state.fit["rows"] == 900
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
        assert len(reader) == 3 * BATCH
        assert reader.search("word40 cat")[0].id == "40"
        assert reader.index.snapshot.unfinished == (
            "48 of about 100 documents are in; the build goes on"
        )
        assert reader.info()["notes"][-1] == reader.index.snapshot.unfinished
        reader.add([Document("own", "of the reader")])  # others write between two batches
        held.goes_on.set()
        thread.join()
        assert len(reader) == 101
        assert reader.search("word99 cat")[0].id == "99"
        assert reader.index.snapshot.unfinished == ""
        assert reader.verify() == []


def test_an_interrupted_addition_goes_on_where_it_was(path: Path) -> None:
    new = documents(30, 200)
    with Collection.open(path, failing(WordEncoder(), after=2 * BATCH)) as collection:
        with pytest.raises(KeyboardInterrupt):
            collection.add(new)
        is_in = len(collection)
        assert 40 < is_in < 200
        assert collection.index.snapshot.unfinished.endswith(
            "last addition was stopped: run it again"
        )
    with Collection.open(path, encoder := WordEncoder()) as collection:
        added = collection.add(new)
        assert (added.documents, added.unchanged) == (200 - is_in, 170 - (200 - is_in))
        assert len(encoder.encoded) == 200 - is_in
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


@pytest.mark.parametrize("few", [1024, 1])
@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input_in_a_later_batch_leaves_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, few: int
) -> None:
    """Documents that were replaced are back, and unchanged ones were never touched."""
    monkeypatch.setattr(preparing, "MOST_FEW", few)
    new = [*documents(30, 40), *(Document(str(i), f"replaced {i}") for i in range(10, 20))]
    new += documents(100, 150)
    with Collection.open(path, WordEncoder()) as collection:
        before, found = texts(collection), answers(collection)
        with pytest.raises(InputError):
            collection.add(FAULTS[fault](new))
        assert (texts(collection), answers(collection)) == (before, found)
        assert collection.index.state.unfinished is None
        assert collection.verify() == []
        assert collection.add(new).documents == 60


def test_a_build_keeps_the_batches_before_bad_input_and_says_so(tmp_path: Path) -> None:
    table = tmp_path / "notes.csv"
    lines = [f"n{i},word{i} cat" for i in range(60)]
    table.write_text("\n".join(["id,text", *lines, "n3,again"]))
    with pytest.raises(InputError, match="'n3' occurs twice, in documents 4 and 61;") as caught:
        build(tmp_path / "i", Sources.open([str(table)]), WordEncoder, Settings())
    assert caught.value.__notes__ == ["48 documents are in: run it again to continue"]
    with Collection.open(tmp_path / "i", WordEncoder()) as collection:
        assert len(collection) == 48


def test_after_bad_input_the_changes_of_others_stay(path: Path) -> None:
    """Then the batches before stay, too, and the error says so."""
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
        assert [note.partition(" documents")[2] for note in caught.value.__notes__] == [
            " are in: run it again to continue"
        ]
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


def test_an_encoder_that_fails_costs_only_the_batch_in_hand(path: Path, tmp_path: Path) -> None:
    class Failing(WordEncoder):
        def encode(self, texts: Sequence[str]) -> Matrix:
            if len(self.encoded) > 2 * BATCH:
                raise InputError("the server is gone")
            return super().encode(texts)

    with Collection.open(path, Failing()) as collection:
        with pytest.raises(InputError, match="the server is gone"):
            collection.add(documents(100, 200))
        assert len(collection) == 40 + 3 * BATCH
        assert collection.undo().removed == 3 * BATCH
    source = tmp_path / "many.txt"
    source.write_text("\n".join(f"word{i} cat" for i in range(100)))
    with pytest.raises(InputError, match="the server is gone") as caught:
        build(tmp_path / "new", Sources.open([str(source)]), Failing, Settings())
    assert caught.value.__notes__ == ["48 documents are in: run it again to continue"]


def test_a_build_goes_on_and_is_refused_while_another_builds(tmp_path: Path) -> None:
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
    with pytest.raises(InUseError, match="another process is building it"):
        build(place, Sources.open([str(folder)]), WordEncoder, Settings())
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
        assert added.unchanged == 2 * BATCH
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
        assert {name: told[name] for name in ("added", "moved", "deleted", "encoded")} == {
            "added": 1,
            "moved": 79,
            "deleted": 1,
            "encoded": 1,
        }
        assert {each.id for each in collection} == {
            "new.txt",
            *(f"b/{i}.txt" for i in range(80) if i != 3),
        }
        moved = collection.get(["b/7.txt"], vectors=True)[0].vectors
        np.testing.assert_array_equal(moved, vectors)
        assert collection.index.snapshot.unfinished == ""
        assert collection.verify() == []
