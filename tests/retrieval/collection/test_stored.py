"""Vectors stored as int8: every change of an index, against brute force over the stored vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.int8_rows import packed, packed_width, unpacked
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.reencoding import encode_lost
from slimdex.retrieval.operations.building import Sources, build
from slimdex.retrieval.operations.repair import repair, verify
from tests.encoders import WordEncoder, failing

DIM = 48
DOCUMENTS = [Document(str(i), f"word{i} word{i % 7} text", metadata={"n": i}) for i in range(60)]
OWN_ORDER = Settings(reducer="identity", kind="flat", gamma=0.0)
"""The order of plain cosines."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.index"


def kept(X: Matrix) -> Matrix:
    return unpacked(packed(X), X.shape[1])


def by_brute_force(texts: dict[str, str], query: str) -> list[tuple[str, float]]:
    """Ids and cosines of a query with the int8 vectors of the documents, best first."""
    encoder = WordEncoder(DIM)
    X = kept(encoder.encode(list(texts.values()))).astype(np.float64)
    q = encoder.encode([query])[0].astype(np.float64)
    cosines = X @ q / np.linalg.norm(X, axis=1) / np.linalg.norm(q)
    return sorted(zip(texts, cosines.tolist(), strict=True), key=lambda pair: -pair[1])


def check(collection: Collection, texts: dict[str, str]) -> None:
    """The answers are those of brute force, and the file is a row of bytes for each document."""
    for query in ("word3 text", "word17"):
        expected = by_brute_force(texts, query)[:10]
        hits = collection.search(query, limit=10)
        assert [hit.score for hit in hits] == pytest.approx([s for _, s in expected], abs=1e-5)
        assert hits[0].id == expected[0][0]
    vectors = collection.path / collection.state.vectors
    assert vectors.suffix == ".i8"
    assert vectors.stat().st_size == collection.state.rows * packed_width(DIM)
    assert packed_width(DIM) == DIM + 4


@pytest.mark.slow
def test_every_change_of_an_int8_index(path: Path) -> None:
    texts = {document.id: document.text for document in DOCUMENTS}
    with Collection.create(path, WordEncoder(DIM), OWN_ORDER, vector_dtype="int8") as collection:
        collection.add(DOCUMENTS)
        check(collection, texts)
        first = (path / "vectors-000001.i8").read_bytes()
        collection.add([Document("3", "word17 again", metadata={"n": 1})])
        collection.delete(["5", "59"])
        texts = {id: t for id, t in texts.items() if id not in ("3", "5", "59")}
        texts |= {"3": "word17 again"}
        check(collection, texts)
        assert collection.compact() == 3
        check(collection, texts)
        collection.reduce(Settings(kind="sq8", gamma=1.0, k=8))
        collection.reduce(OWN_ORDER)
        check(collection, texts)
        info = collection.info()
        assert info["stored"] == {"vectors": "int8", "bytes_per_vector": DIM + 4}
        assert collection.verify() == []
    width = packed_width(DIM)
    rows = [first[i * width : (i + 1) * width] for i in range(60) if i not in (3, 5, 59)]
    (vectors,) = path.glob("vectors-*")
    assert vectors.read_bytes()[: 57 * width] == b"".join(rows)
    assert vectors.name != "vectors-000001.i8"
    with Collection.open(path, WordEncoder(DIM)) as collection:
        check(collection, texts)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["gone", "damaged", "short"])
def test_lost_int8_vectors_are_rebuilt_to_the_same_bytes(path: Path, loss: str) -> None:
    with Collection.create(path, WordEncoder(DIM), vector_dtype="int8") as collection:
        collection.add(DOCUMENTS)
        before = collection.search_many(["word3 text"])
    vectors = path / "vectors-000001.i8"
    content = vectors.read_bytes()
    if loss == "gone":
        vectors.unlink()
    else:
        damaged = content[:999] if loss == "short" else b"\x80" * 200 + content[200:]
        vectors.write_bytes(damaged)
    assert verify(path)[0].startswith(str(vectors))
    with Collection.open(path, WordEncoder(DIM)) as collection:
        encode_lost(collection)
        assert collection.search_many(["word3 text"]) == before
    assert vectors.read_bytes() == content
    assert verify(path) == repair(path) == []


def test_an_interrupted_int8_build_stays_int8(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slimdex.retrieval.ingest.encoding.WINDOW", 2)
    monkeypatch.setattr("slimdex.retrieval.ingest.preparing.FEW", 0)
    source = tmp_path / "x.txt"
    source.write_text("the cat\nthe dog\nrain\nsnow\n")

    def built(encoder: Callable[[], WordEncoder], stored: str) -> list[str]:
        opened = Sources.open(str(source))
        collection, added = build(path, opened, encoder, Settings(), vector_dtype=stored)
        collection.close()
        return added.notes

    with pytest.raises(KeyboardInterrupt):
        built(lambda: failing(WordEncoder(DIM), after=0), "int8")
    notes = built(lambda: WordEncoder(DIM), "fp16")
    assert "stored as int8 like the vectors before, not as fp16" in notes
    (vectors,) = path.glob("vectors-*")
    assert vectors.name == "vectors-000001.i8"
    assert (
        vectors.read_bytes()
        == packed(WordEncoder(DIM).encode(["the cat", "the dog", "rain", "snow"])).tobytes()
    )
    assert verify(path) == []


def test_an_unknown_vector_dtype_is_refused(path: Path) -> None:
    with pytest.raises(InputError, match="vector_dtype='int4'; expected fp16 or int8"):
        Collection.create(path, WordEncoder(DIM), vector_dtype="int4")
    assert not path.exists()
