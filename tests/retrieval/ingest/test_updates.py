"""Replacing documents, skipping unchanged ones, and compacting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.errors import CorruptError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.index import Index
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.store.manifest import Manifest
from tests.conftest import Copies
from tests.encoders import WordEncoder
from tests.slow import slow

QUERIES = ["parse a date", "remove a directory", "sort a list"]
KINDS = [
    Settings(),
    Settings(kind="rabitq", candidates=0),
    Settings(kind="ivf-pq"),
    Settings(kind="hnsw"),
    Settings(kind="flat", reducer="all-but-the-top", k=32),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "my.index"


@pytest.fixture
def collection(path: Path, copied: Copies) -> Iterator[Collection]:
    with Collection.open(copied(path), WordEncoder()) as collection:
        yield collection


def encoded(collection: Collection) -> list[str]:
    texts: list[str] = collection.encoder.encoded  # type: ignore[attr-defined]
    return texts


def answers(collection: Collection, where: str | None = None) -> list[list[tuple[str, float]]]:
    results = collection.search_many(QUERIES, 30, where, hybrid="off")
    return [[(hit.id, round(hit.score, 4)) for hit in hits] for hits in results]


def test_the_same_documents_again_change_nothing(
    collection: Collection, docstrings: list[Document]
) -> None:
    before, files = collection.index.state, {p.name for p in collection.path.iterdir()}
    added = collection.add(docstrings)
    assert (added.documents, added.replaced, added.unchanged) == (0, 0, 1200)
    assert encoded(collection) == []
    assert collection.index.state == before
    assert {p.name for p in collection.path.iterdir()} == files


def test_changed_metadata_keep_the_vector(
    collection: Collection, docstrings: list[Document]
) -> None:
    old = docstrings[5]
    vector = collection.index.snapshot.vectors().take(np.array([5]))
    changed = Document(old.id, old.text, old.title, {**old.metadata, "kind": "new kind"})
    added = collection.add([docstrings[4], changed, docstrings[6], Document("new", "a new one")])
    assert (added.documents, added.replaced, added.unchanged) == (2, 1, 2)
    assert encoded(collection) == ["a new one"]
    np.testing.assert_array_equal(
        collection.index.snapshot.vectors().take(np.array([1200])), vector
    )
    (hit,) = collection.search_many(old.content, limit=1, where="kind = 'new kind'")[0]
    assert hit.id == old.id
    assert len(collection) == collection.index.snapshot.moments().n == 1201


def test_a_changed_title_or_text_is_encoded(
    collection: Collection, docstrings: list[Document]
) -> None:
    a, b = docstrings[:2]
    collection.add([Document(a.id, a.text, "title"), Document(b.id, "text", b.title, b.metadata)])
    assert sorted(encoded(collection)) == sorted([f"title {a.text}", f"{b.title} text"])


def test_given_vectors_replace_those_of_an_unchanged_text(path: Path) -> None:
    documents = [Document("a", "one"), Document("b", "two")]
    with Collection.create(path, GivenEncoder(4)) as collection:
        collection.add(documents, vectors=np.eye(2, 4, dtype=np.float32))
        added = collection.add(documents, vectors=np.eye(2, 4, dtype=np.float32)[::-1])
        assert (added.replaced, added.unchanged) == (2, 0)
        hits = collection.search_many(np.eye(1, 4, dtype=np.float32), limit=1)
        assert hits[0][0].id == "b"


@pytest.mark.parametrize("is_other", [False, True])
def test_ids_that_come_and_go_one_by_one(collection: Collection, is_other: bool) -> None:
    """Another collection of the folder may add some of them."""
    rng, expected = np.random.default_rng(0), {d.id: d.text for d in collection}
    with Collection.open(collection.path, WordEncoder()) as other:
        both = [collection, other if is_other else collection]
        for number in range(40):
            id, writer = f"n{rng.integers(12)}", both[rng.integers(2)]
            if id in expected and rng.random() < 0.3:
                writer.delete([id])
                del expected[id]
            else:
                added = writer.add([Document(id, text := f"text {number}")])
                assert added.replaced == (id in expected)
                expected[id] = text
        assert {d.id: d.text for d in other} == expected


def sizes(path: Path) -> dict[str, int]:
    """Bytes of each file, by the word its name begins with."""
    return {re.split(r"[-.]", file.name)[0]: file.stat().st_size for file in path.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [KINDS[0], *slow(KINDS[1:])], ids=lambda s: s.kind)
def test_compact_keeps_answers_and_frees_space(
    path: Path, docstrings: list[Document], settings: Settings
) -> None:
    with Collection.create(path, WordEncoder(), settings) as collection:
        collection.add(docstrings)
        collection.delete([d.id for d in docstrings[::3]])
        collection.add([Document(d.id, d.text + " again") for d in docstrings[1:200:3]])
        before = answers(collection)
        functions = answers(collection, "kind = 'function'")
        size, ram = sizes(path), collection.index.snapshot.index.nbytes
        documents = collection.index.store.documents(range(collection.index.state.rows))
        live = np.setdiff1d(
            np.arange(collection.index.state.rows), collection.index.snapshot.deleted
        )
        assert collection.compact() == 400 + 67
        assert collection.compact() == 0
        assert (
            len(collection)
            == len(collection.index.snapshot.vectors())
            == len(collection.index.snapshot.index)
            == 800
        )
        if settings.kind != "hnsw":  # its graph is another one
            assert answers(collection) == before
            assert answers(collection, "kind = 'function'") == functions
        moved = collection.index.store.documents(range(800))
        assert [moved[i] for i in range(800)] == [documents[int(row)] for row in live]
        after_sizes = sizes(path)
        assert after_sizes["vectors"] * 1267 == size["vectors"] * 800
        assert "norms" not in size or after_sizes["norms"] * 1267 == size["norms"] * 800
        assert collection.index.snapshot.index.nbytes < ram
        after = answers(collection)
    assert verify(path) == []
    with Collection.open(path, WordEncoder()) as again:
        assert answers(again) == after


def test_compact_does_not_hide_damage(collection: Collection, docstrings: list[Document]) -> None:
    collection.delete([docstrings[0].id])
    for role in ("vectors", "norms"):
        (file,) = collection.path.glob(f"{role}*")
        sound = file.read_bytes()
        damaged = bytearray(sound)
        damaged[len(damaged) // 2] ^= 1
        file.write_bytes(damaged)
        with pytest.raises(CorruptError, match=role):
            collection.compact()
        assert len(list(collection.path.glob(f"{role}*"))) == 1
        file.write_bytes(sound)
    assert collection.compact() == 1


def test_what_a_failed_change_has_committed_is_seen(
    collection: Collection, docstrings: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later, if the disk can't be read at first."""
    first, second = (document.id for document in docstrings[:2])

    def unreadable(*_: Any) -> None:
        raise OSError("Input/output error")

    with monkeypatch.context() as patch:

        def interrupted(*_: Any) -> None:
            patch.setattr(Manifest, "read_current", unreadable)
            raise KeyboardInterrupt

        patch.setattr(Index, "_show", interrupted)
        with pytest.raises(KeyboardInterrupt):
            collection.delete(first)
        assert len(collection) == 1200  # as far as can be told
        with pytest.raises(OSError, match="Input/output"):
            collection.delete(second)
    assert len(collection) == 1199
    assert first not in collection
    assert second in collection
