"""Vectors from elsewhere: a .npy file, a Parquet column, an array."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex import Collection, Document, GivenEncoder
from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.settings import Settings
from slimdex.retrieval.sources import given_vectors
from slimdex.retrieval.sources.given_vectors import (
    open_vectors,
)

N, D = 50, 12
PLAIN = Settings(D, 0.0, 0.0, "flat", 0)


@pytest.fixture
def X(rng: np.random.Generator) -> Matrix:
    return rng.normal(size=(N, D)).astype(np.float32)


@pytest.fixture
def documents() -> list[Document]:
    return [Document(f"d{i}", f"text {i}", metadata={"year": 2000 + i}) for i in range(N)]


def nearest(X: Matrix, query: Matrix, k: int) -> list[str]:
    cosines = normalize_rows(X) @ (query / np.linalg.norm(query))
    return [f"d{i}" for i in np.argsort(-cosines)[:k]]


@pytest.mark.parametrize(
    ("dim", "kind"), [(1, "pq"), (1, "rabitq"), (2, "auto"), (3, "sq4"), (5, "pq"), (7, "rabitq")]
)
def test_few_and_odd_dimensions(dim: int, kind: str, tmp_path: Path) -> None:
    """Enough rows to train each kind; the best are rescored with their full vectors."""
    rows = np.random.default_rng(dim).normal(size=(640, dim)).astype(np.float32)
    texts = [{"id": f"d{i}", "text": "a"} for i in range(len(rows))]
    settings = Settings(kind=kind, beta=0.0, gamma=0.0)
    with Collection.create(tmp_path / "i", GivenEncoder(dim), settings, lexical=False) as index:
        index.add(texts, vectors=rows.tolist())
        (hits,) = index.search_many(rows[:1], limit=3)
        best = np.sort(normalize_rows(rows) @ (rows[0] / np.linalg.norm(rows[0])))[::-1]
        np.testing.assert_allclose([hit.score for hit in hits], best[:3], atol=2e-3)


@pytest.mark.parametrize(("count", "dim"), [(1, 1), (2, 3), (640, 1), (640, 8)])
def test_one_document_and_equal_ones(count: int, dim: int, tmp_path: Path) -> None:
    texts = [{"id": f"d{i}", "text": "a"} for i in range(count)]
    with Collection.create(tmp_path / "i", GivenEncoder(dim), lexical=False) as index:
        index.add(texts, vectors=np.ones((count, dim)))
        hits = index.search(np.ones(dim), limit=5)
        assert [hit.id for hit in hits] == [f"d{i}" for i in range(min(count, 5))]
        np.testing.assert_allclose([hit.score for hit in hits], 1, atol=1e-3)


FORMS: dict[str, Callable[[Matrix], Any]] = {
    "array": lambda X: X.astype(np.float64),
    "lists": lambda X: X.tolist(),
    "Arrow": lambda X: pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), D).to_pylist(),
}


@pytest.mark.parametrize(
    ("form", "stored"), [("array", "int8"), ("array", "int4"), *((f, "fp16") for f in FORMS)]
)
def test_the_same_documents_with_the_same_vectors_are_unchanged(
    form: str, stored: str, X: Matrix, documents: list[Document], tmp_path: Path
) -> None:
    made, path = FORMS[form], tmp_path / "i"
    frame = pd.DataFrame({"id": [d.id for d in documents], "text": "a", "year": range(N)})
    with Collection.create(path, GivenEncoder(D), PLAIN, vector_dtype=stored) as index:
        index.add(frame, vectors=made(X))
        file = path / index.index.state.vectors
        size = file.stat().st_size
        again = index.add(frame, vectors=made(X))
        assert (again.documents, again.replaced, again.unchanged) == (0, 0, N)
        assert file.stat().st_size == size
        frame.loc[7, "year"] = -1
        X[[3, 41]] *= -1
        third = index.add(frame, vectors=made(X))
        assert (third.documents, third.replaced, third.unchanged) == (3, 3, N - 3)
        assert [hit.id for hit in index.search(X[41], limit=1)] == ["d41"]
        assert index.search(X[7], limit=1)[0].metadata["year"] == -1
        kept = {d.id: d.vectors for d in index.get(limit=N, vectors=True)}
        step = np.abs(X).max() / 8 if stored == "int4" else 0.03
        for i, row in enumerate(X):
            np.testing.assert_allclose(np.asarray(kept[f"d{i}"])[0], row, atol=step)
        assert index.verify() == []


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0.25, 0.5, 0.75])), max_size=12),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0.25, 0.5, 0.75])), max_size=12),
)
@settings(max_examples=8, deadline=None)
def test_what_is_replaced_is_what_differs(
    first: list[tuple[int, float]], second: list[tuple[int, float]]
) -> None:
    """Against dictionaries from ids to numbers."""
    before, after = dict(first), dict(second)
    with (
        TemporaryDirectory() as folder,
        Collection.create(Path(folder) / "i", GivenEncoder(2), lexical=False) as index,
    ):
        for numbers in (before, after):
            if numbers:
                texts = [{"id": id, "text": "a"} for id in numbers]
                added = index.add(texts, vectors=[[1, number] for number in numbers.values()])
        if after:
            same = {id for id in after if before.get(id) == after[id]}
            assert added.unchanged == len(same)
            assert added.replaced == len((before.keys() & after.keys()) - same)
        for id, number in (before | after).items():
            (vector,) = np.asarray(index.get(id, vectors=True).vectors)
            assert vector.tolist() == [1, number]
        assert {d.id for d in index} == {str(id) for id in before | after}


def test_search_equals_brute_force(X: Matrix, documents: list[Document], tmp_path: Path) -> None:
    with Collection.create(tmp_path / "i", GivenEncoder(D), PLAIN) as collection:
        assert collection.add(documents, vectors=X).documents == N
    with Collection.open(tmp_path / "i") as collection:
        queries = X[:5] + 0.1
        for hits, query in zip(collection.search_many(queries, limit=4), queries, strict=True):
            assert [hit.id for hit in hits] == nearest(X, query, 4)
        (hits,) = collection.search_many(X[:1], limit=1, where="year > 2010")
        allowed = np.where(np.arange(N)[:, None] > 10, X, -X[0])
        assert hits[0].id == nearest(allowed, X[0], 1)[0]
        with pytest.raises(InputError, match="built from given vectors and has no encoder"):
            collection.search_many("text 3")
        with pytest.raises(InputError, match="query 3; expected a text or a vector"):
            collection.search(3)
        with pytest.raises(InputError, match="query 3; expected texts or vectors"):
            collection.search_many([3])
        assert collection.search(X[0], 1) == collection.search_many(X[:1], 1)[0]
        with pytest.raises(InputError, match="3 dimensions; expected 12"):
            collection.search_many(X[:1, :3])


MISFITS: list[tuple[Callable[[Matrix], Any], str]] = [
    (lambda X: X[:-1], "49 rows for 50 documents"),
    (lambda X: X[:, :5], "5 dimensions; expected 12$"),
    (
        lambda X: np.where(np.arange(N)[:, None] == 7, np.nan, X),
        "row 8, value 1 is nan; .*counted from 1",
    ),
    (lambda X: X * 1e6, "expected finite numbers up to 65504"),
    (lambda X: X * 1e-30, "row 1 has no value above .*; expected some of at least 6.10352e-05"),
    (lambda X: X[0], "expected numbers"),
    (lambda X: X.astype(str), "expected numbers"),
    (lambda X: None, "expected vectors for these"),
]


def test_vectors_that_do_not_fit_leave_nothing(
    X: Matrix, documents: list[Document], tmp_path: Path
) -> None:
    with Collection.create(tmp_path / "i", GivenEncoder(D), PLAIN) as collection:
        collection.add({"id": "a", "text": "b"}, vectors=X[:1])
        for change, message in MISFITS:
            with pytest.raises(InputError, match=message):
                collection.add(documents, vectors=change(X))
            assert len(collection) == 1
        collection.add(documents, vectors=X)
        assert len(collection) == N + 1


def test_given_vectors_and_encoded_texts_mix(
    documents: list[Document], tmp_path: Path, encoder: Any
) -> None:
    own = encoder.encode([d.content for d in documents])
    encoder.encoded.clear()
    with Collection.create(tmp_path / "i", encoder, Settings(kind="flat", k=8)) as collection:
        collection.add(documents[:30], vectors=own[:30])
        assert not encoder.encoded
        collection.add(documents[30:])
        assert len(encoder.encoded) == 20
        assert collection.search_many("text 7", limit=1)[0][0].id == "d7"


def test_from_a_parquet_column_in_parts(
    X: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_vectors, "CHUNK", 7)
    path = write_parquet(tmp_path / "d.parquet", X)
    vectors = open_vectors("emb", [str(path)])
    assert (len(vectors), vectors.dim) == (N, D)
    np.testing.assert_array_equal(vectors.rows(0, 20), X[:20])
    np.testing.assert_array_equal(vectors.rows(20, N), X[20:])
    np.testing.assert_array_equal(vectors.rows(3, 5), X[3:5])
    two = open_vectors("emb", [str(path), str(path)])
    np.testing.assert_array_equal(two.rows(45, 55), np.concatenate([X[45:], X[:5]]))


def write_parquet(path: Path, X: Matrix, column: str = "emb", type_: str = f"FLOAT[{D}]") -> Path:
    """id, text, year and the vectors, as DuckDB writes them."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t(id VARCHAR, text VARCHAR, year INT, {column} {type_})")
        rows = [(f"d{i}", f"text {i}", 2000 + i, x.tolist()) for i, x in enumerate(X)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
        connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
    return path


def test_invalid_sources_of_vectors_are_refused(
    X: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_parquet(Path("d.parquet"), X)
    Path("bad.npy").write_bytes(b"junk")
    np.save("objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    ragged = "SELECT * FROM (VALUES ([1.0]), ([1.0, 2.0])) t(ragged)"
    duckdb.connect().execute(f"COPY ({ragged}) TO 'r.parquet'")
    np.savez("a.npz", X)
    np.savez("b.npz", vectors=X, ids=np.arange(N))
    Path("c.npz").write_bytes(Path("b.npz").read_bytes()[:900])
    for spec, source, message in (
        ("nowhere.npy", "d.parquet", r"nowhere\.npy: no such file"),
        ("text", "d.parquet", "expected lists"),
        ("nothing", "d.parquet", "expected lists of numbers"),
        ("bad.npy", "d.parquet", r"or a \.npy file of numbers"),
        ("objects.npy", "d.parquet", r"or a \.npy file of numbers"),
        ("ragged", "r.parquet", "lists of 1 to 2"),
        ("a.npz", "d.parquet", "expected a .npz file with 'vectors'"),
        ("b.npz", "d.parquet", r"'ids' is int64 \(50,\); expected strings"),
        ("c.npz", "d.parquet", "expected a .npz file with 'vectors'"),
        ("emb", "notes.csv", "or a column of Parquet, JSONL or CSV sources"),
    ):
        with pytest.raises(InputError, match=message):
            open_vectors(spec, [source])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_ids_in_an_archive_are_compared(X: Matrix, tmp_path: Path, save: Any) -> None:
    ids = np.array([f"d{i}" for i in range(N)])
    save(tmp_path / "a.npz", other=ids[:2], vectors=X, ids=ids)
    save(tmp_path / "b.npz", vectors=np.asfortranarray(X.astype(np.float64)))
    for name in ("a.npz", "b.npz"):
        given = open_vectors(str(tmp_path / name), [])
        np.testing.assert_array_equal(given.rows(3, N), X[3:])
        given.check_id(7, "d7")
    with pytest.raises(
        InputError, match=r"a\.npz: row 8 has id 'd7', document 8 has id 'x'; expected"
    ):
        open_vectors(str(tmp_path / "a.npz"), []).check_id(7, "x")
