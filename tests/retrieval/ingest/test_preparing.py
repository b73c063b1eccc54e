"""Additions that are prepared before their turn: what others do meanwhile, and what is left."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from slimdex.errors import InputError, InUseError
from slimdex.indexes.arrays import Matrix
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders import encoding
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.ingest import preparing
from slimdex.retrieval.ingest.adding import add
from slimdex.retrieval.ingest.addition import Addition
from slimdex.retrieval.ingest.preparing import PreparedBatch
from slimdex.retrieval.ingest.repairing import repair
from slimdex.retrieval.sources.source import Sources
from slimdex.retrieval.store import next_commit
from slimdex.retrieval.store.work_folder import work_folder
from tests.building import build
from tests.encoders import WordEncoder
from tests.retrieval.word_documents import documents, forty

FEW, MANY = 5, 50
"""Documents that are encoded in one step during a turn, and in two before it."""


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the sizes of steps to 32 documents, so that tests need few."""
    monkeypatch.setattr(encoding, "WINDOW_TEXTS", 32)
    monkeypatch.setattr(preparing, "READ_AT_ONCE", 32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return forty(tmp_path / "i.index")


def test_repair_of_an_untrusted_index_leaves_running_additions_alone(path: Path) -> None:
    with work_folder(path) as work:
        repair(path, untrusted=True)
        assert work.exists()


def _write(folder: Path, count: int, word: str) -> None:
    folder.mkdir()
    for i in range(count):
        (folder / f"{i}.txt").write_text(f"{word}{i} cat dog {i % 7}")


class Meanwhile(WordEncoder):
    """Lets another process change the index while texts are encoded."""

    def __init__(self, change: Callable[[], object] | None = None) -> None:
        super().__init__()
        self.change = change

    def encode(self, texts: Sequence[str]) -> Matrix:
        change, self.change = self.change, None
        if change is not None:
            change()
        return super().encode(texts)


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("is_compacted", [False, True])
def test_an_addition_during_which_others_change_the_index(
    path: Path, count: int, is_compacted: bool
) -> None:
    """The later commit wins, id by id, and what was there is compared with the newest."""

    def change() -> None:
        other.add([Document("10", "another text"), Document("new", "of the other")])
        other.add([Document("100", "of the other"), documents(101, 102)[0]])
        other.delete(["20", "39"])
        if is_compacted:
            other.compact()

    with Collection.open(path, WordEncoder()) as other:
        with Collection.open(path, Meanwhile(change)) as collection:
            added = collection.add([*documents(10, 30), *documents(100, 100 + count)])
            assert (added.documents, added.replaced, added.unchanged) == (count + 1, 2, 19)
            assert collection.verify() == []
        expected = {each.id: each.text for each in documents(0, 39) + documents(100, 100 + count)}
        assert {each.id: each.text for each in other} == expected | {"new": "of the other"}
        for id, text in [("10", "word10 cat dog"), ("100", "word100 cat dog")]:
            assert id in {hit.id for hit in other.search(text, 3)}


def _columns(documents: Sequence[Document]) -> list[Document]:
    first = date(2024, 1, 1)
    numbers = ((each, int(each.id)) for each in documents)
    return [replace(each, metadata={"n": n, "day": first + timedelta(n)}) for each, n in numbers]


def _compact(other: Collection) -> None:
    other.delete(["3"])
    other.compact()


CHANGES: dict[str, Callable[[Collection], object]] = {
    "nothing": lambda other: None,
    "documents": lambda other: other.add(_columns(documents(9, 12) + documents(90, 99))),
    "same documents": lambda other: other.add(_columns(documents(101, 103))),
    "column": lambda other: other.add([Document("new", "a text", metadata={"more": 1})]),
    "wider column": lambda other: other.add([Document("new", "a text", metadata={"n": 1.5})]),
    "other rows": _compact,
}


@pytest.mark.parametrize(
    ("change", "kind", "most"),
    [
        *((change, "same columns", 0) for change in CHANGES),
        *(("nothing", kind, 0) for kind in ("new column", "misfit", "origins")),
        *(("documents", kind, 256) for kind in ("same columns", "origins")),
    ],
)
def test_an_addition_writes_what_it_writes_without_preparation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, kind: str, most: int
) -> None:
    """Records are made before the turn; others change columns and rows meanwhile."""
    monkeypatch.setattr(next_commit, "MOST_TRAILING", most)
    new = _columns([*documents(10, 13), *documents(100, 110)])
    if kind == "new column":
        new[4] = replace(new[4], metadata={**new[4].metadata, "own": "value"})
    elif kind == "misfit":  # the type of the column is that of whole numbers
        new[4] = replace(new[4], metadata={**new[4].metadata, "n": 4.5})
    elif kind == "origins":
        new = [replace(each, origin=f"{'0' * 32}/{each.id}") for each in new]

    def told(path: Path, encoder: Meanwhile) -> list[Any]:
        with Collection.create(path, WordEncoder()) as other:
            other.add(_columns(documents(0, 40)))
            encoder.change = partial(CHANGES[change], other)
            with Collection.open(path, encoder) as collection:
                add(collection.index, Addition(new))
                snapshot = collection.index.snapshot
                assert collection.verify() == []
                rows = range(snapshot.state.rows)
                return [
                    snapshot.state.column_rows,
                    [each.read_bytes() for each in path.glob("documents-*")],
                    [each.read_bytes() for each in path.glob("offsets-*")],
                    repr(snapshot.store.fetch('FROM documents ORDER BY "row"')),
                    repr(snapshot.store.documents(rows)),
                    snapshot.store.ids_by_row(),
                    snapshot.columns,
                ]

    prepared = told(tmp_path / "prepared", Meanwhile())
    monkeypatch.setattr(PreparedBatch, "holds_for", lambda *_: False)
    assert prepared == told(tmp_path / "other", Meanwhile())


def test_an_addition_while_the_encoder_is_replaced(path: Path) -> None:
    """Its vectors are those of the new one."""
    with Collection.open(path, WordEncoder()) as other:

        def change() -> None:
            other.reencode(WordEncoder(40))

        with Collection.open(path, Meanwhile(change)) as collection:
            collection.index.encoders.give(WordEncoder(40))
            assert collection.add(documents(100, 100 + MANY)).documents == MANY
            assert collection.index.state.dim == 40
            assert collection.verify() == []
        assert other.search("word149 cat", 1)[0].id == "149"


def test_two_large_additions_at_once(path: Path) -> None:
    """The first to commit uses what it prepared; the other starts over."""
    barrier = threading.Barrier(2)

    def add(start: int) -> None:
        with Collection.open(path, Meanwhile(barrier.wait)) as collection:
            collection.add(documents(start, start + MANY))

    with ThreadPoolExecutor(2) as pool:
        [*pool.map(add, (1000, 1000 + MANY))]
    with Collection.open(path, WordEncoder()) as collection:
        assert {int(each.id) for each in collection} == {*range(40), *range(1000, 1000 + 2 * MANY)}
        assert collection.verify() == []


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("is_sync", [True, False])
@pytest.mark.slow
def test_files_of_one_name_that_two_add_at_once_get_ids_of_their_own(
    path: Path, tmp_path: Path, count: int, is_sync: bool
) -> None:
    one, two, encoder = tmp_path / "one", tmp_path / "two", Meanwhile()
    _write(one, count, "alpha")
    _write(two, 10, "beta")

    def add(collection: Collection, folder: Path) -> None:
        from tests.building import add

        if is_sync:
            collection.sync(str(folder))
        else:
            add(collection, Sources.open([str(folder)]))

    with Collection.open(path, WordEncoder()) as other, Collection.open(path, encoder) as mine:
        encoder.change = lambda: add(other, two)
        add(mine, one)
        texts = [document.text for document in mine]
        assert sum(text.startswith("alpha") for text in texts) == count
        assert sum(text.startswith("beta") for text in texts) == 10
        assert mine.verify() == []
        for folder in (one, two):
            assert other.sync(str(folder))["unchanged"] == len(other)


def test_one_process_builds_an_index(tmp_path: Path) -> None:
    """Another one is refused, and the index stays that of the first, also if that fails."""
    source, path = tmp_path / "d.jsonl", tmp_path / "i.index"
    lines = [json.dumps({"id": str(i), "text": f"word{i} cat"}) for i in range(MANY)]
    source.write_text("\n".join(lines))

    def built(encoder: WordEncoder) -> None:
        build(path, Sources.open([str(source)]), lambda: encoder, Settings())[0].close()

    def refused() -> None:
        with pytest.raises(InUseError):
            built(WordEncoder())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        built(Meanwhile(refused))
    assert not path.exists()
    built(WordEncoder())
    with Collection.open(path) as collection:
        assert len(collection) == MANY
        assert collection.verify() == []


@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_closed_or_moved_index_is_noticed_before_texts_are_encoded(
    path: Path, count: int
) -> None:
    collection = Collection.open(path, encoder := WordEncoder())
    path.rename(path.with_name("moved"))
    with pytest.raises(InputError, match="was moved or replaced"):
        collection.add(documents(100, 100 + count))
    path.with_name("moved").rename(path)
    collection.close()
    with pytest.raises(InputError, match="was closed"):
        collection.add(documents(100, 100 + count))
    assert encoder.encoded == []


@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_disk_that_fails_while_columns_are_written_is_an_error_of_the_system(
    path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise duckdb.IOException("IO Error: Could not write file: Input/output error")

    with Collection.open(path, WordEncoder()) as collection:
        with monkeypatch.context() as patch:
            patch.setattr(next_commit, "MOST_TRAILING", 0)
            patch.setattr(next_commit, "write_columns", broken)
            with pytest.raises(OSError, match="Input/output error"):
                collection.add(documents(100, 100 + count))
        assert len(collection) == 40
        assert not [*path.glob("work-*")]
        assert collection.add(documents(100, 100 + count)).documents == count
        assert collection.verify() == []


@pytest.mark.parametrize("dtype", ["fp16", "int8", "int4"])
def test_given_vectors_are_compared_while_others_compact(tmp_path: Path, dtype: str) -> None:
    """That removes the file of the stored ones."""
    vectors = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float16)
    step = float(np.abs(vectors).max()) / 8 if dtype == "int4" else 0.02
    given = [*documents(0, 30), *documents(40, 90)]
    with Collection.create(tmp_path / "x", GivenEncoder(8), vector_dtype=dtype) as other:
        other.add(documents(0, 40), vectors=vectors[:40])
        other.delete(["39"])

        def read_while_compacting() -> Iterator[Document]:
            yield from given
            other.compact()

        with Collection.open(tmp_path / "x") as collection:
            new = vectors[[int(each.id) for each in given]]
            new[7] = -new[7]
            added = collection.add(read_while_compacting(), vectors=new)
            assert (added.documents, added.replaced, added.unchanged) == (51, 1, 29)
            assert collection.verify() == []
            expected = {each.id: vector for each, vector in zip(given, new, strict=True)}
            for document in collection.get([*expected], vectors=True):
                assert document.vectors is not None
                assert document.vectors[0] == pytest.approx(expected[document.id], abs=step)
