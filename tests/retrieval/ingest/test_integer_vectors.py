"""Vectors stored as int8 or int4, less a center that the first addition chooses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from slimdex import Collection, Document, GivenEncoder, Settings
from slimdex.indexes.arrays import Matrix
from tests.encoders import WordEncoder

COUNT, DIM = 300, 48
LARGEST_ERROR = {"int8": 0.51 / 127, "int4": 1.01 / 8}
"""As a share of a row's largest number."""
either = pytest.mark.parametrize("dtype", LARGEST_ERROR)


def anisotropic(rng: np.random.Generator) -> Matrix:
    """Rows whose cosines lie between .99 and 1."""
    mean = rng.normal(size=DIM)
    return (mean + 0.05 * rng.normal(size=(COUNT, DIM))).astype(np.float32)


def stored(collection: Collection, ids: list[int]) -> Matrix:
    documents = collection.get([str(id) for id in ids], vectors=True)
    return np.concatenate([each.vectors for each in documents if each.vectors is not None])


def add(collection: Collection, X: Matrix, start: int, stop: int) -> None:
    documents = [Document(str(row), f"text {row}") for row in range(start, stop)]
    collection.add(documents, vectors=X[start:stop])


@either
def test_close_vectors_are_distinguished(
    tmp_path: Path, rng: np.random.Generator, dtype: str
) -> None:
    """A step is a share of the differences, not of the mean, through all that copies vectors."""
    X = anisotropic(rng)
    tolerance = LARGEST_ERROR[dtype] * np.abs(X - X[:200].mean(axis=0)).max()
    settings = Settings(kind="flat")
    path = tmp_path / "i"
    with Collection.create(path, GivenEncoder(DIM), settings, vector_dtype=dtype) as collection:
        add(collection, X, 0, 200)
        add(collection, X, 200, 300)
        collection.delete([str(row) for row in range(0, 100, 2)])
        assert collection.compact() == 50
        left = [*range(1, 100, 2), *range(100, 300)]
        np.testing.assert_allclose(stored(collection, left), X[left], rtol=0, atol=tolerance)
        collection.delete(["7"])
        collection.undo()
        assert collection.verify() == []
    with Collection.open(path) as collection:
        np.testing.assert_allclose(stored(collection, left), X[left], rtol=0, atol=tolerance)
        (hits,) = collection.search_many(X[[150]], limit=10)
        assert hits[0].id == "150"


@either
def test_a_rescored_search_finds_what_is_asked(
    tmp_path: Path, rng: np.random.Generator, dtype: str
) -> None:
    """In a thread of its own, whose buffers no other search has enlarged."""
    X = rng.normal(size=(COUNT, DIM)).astype(np.float32)
    settings = Settings(kind="sq4", k=DIM // 2, candidates=COUNT)
    path = tmp_path / "i"
    with (
        ThreadPoolExecutor(1) as thread,
        Collection.create(path, GivenEncoder(DIM), settings, vector_dtype=dtype) as collection,
    ):
        add(collection, X, 0, COUNT)
        found = thread.submit(collection.search_many, X[:50], limit=3).result()
        stored_rows = stored(collection, [*range(COUNT)])
    cosines = X[:50] @ (stored_rows / np.linalg.norm(stored_rows, axis=1, keepdims=True)).T
    expected = np.argsort(-cosines, axis=1)[:, :3]
    for hits, rows in zip(found, expected.tolist(), strict=True):
        assert [int(hit.id) for hit in hits] == rows


@either
def test_a_new_beginning_has_a_new_center(
    tmp_path: Path, rng: np.random.Generator, dtype: str
) -> None:
    X = anisotropic(rng)
    with Collection.create(tmp_path / "i", GivenEncoder(DIM), vector_dtype=dtype) as collection:
        add(collection, -X, 0, 2)
        collection.delete(["0", "1"])
        collection.compact()
        add(collection, X, 0, COUNT)
        tolerance = LARGEST_ERROR[dtype] * np.abs(X - X.mean(axis=0)).max()
        np.testing.assert_allclose(stored(collection, [3, 299]), X[[3, 299]], atol=tolerance)


@either
def test_a_migration_has_a_center_of_its_own(tmp_path: Path, dtype: str) -> None:
    texts = [f"word{row} of text {row % 7}" for row in range(300)]
    new = WordEncoder(24)
    with Collection.create(tmp_path / "i", WordEncoder(16), vector_dtype=dtype) as collection:
        collection.add([Document(str(row), text) for row, text in enumerate(texts)])
        before = collection.index.state.center
        while not collection.reencode(new, minutes=0).finished:
            pass
        assert collection.index.state.center not in ("", before)
        assert collection.verify() == []
        vectors = collection.index.snapshot.vectors().take(np.arange(300))
        expected = new.encode(texts)
        center = expected.mean(axis=0)
        tolerance = LARGEST_ERROR[dtype] * np.abs(expected - center).max()
        np.testing.assert_allclose(vectors, expected, atol=tolerance)
