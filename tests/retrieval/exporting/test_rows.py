"""Rows in Parquet, JSONL and CSV, read back by other programs, and built from again."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from slimdex import Collection, GivenEncoder, Hit, Settings, export
from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.base import encode_queries
from slimdex.retrieval.exporting import selection
from slimdex.retrieval.sources.source import Sources
from slimdex.retrieval.sources.tabular.columns import ColumnNames
from slimdex.system.progress import listening
from tests.building import build
from tests.encoders import ReadingEncoder, WordEncoder
from tests.indexes.codes.test_vector_index import limited_files

SETTINGS = Settings(8, beta=0.5, gamma=0.5, kind="flat", candidates=20)
QUERIES = ["the number of bytes in a file", "sort a list", "an error in the network"]


@pytest.fixture(scope="module")
def collection(
    tmp_path_factory: pytest.TempPathFactory, docstrings: list[Document]
) -> Iterator[Collection]:
    """Three hundred docstrings with columns of many types, one without text; two were deleted."""
    with Collection.create(
        tmp_path_factory.mktemp("rows") / "i", WordEncoder(), SETTINGS
    ) as collection:
        documents = [
            Document(
                d.id,
                d.text,
                d.title,
                {
                    "number": i,
                    "share": i / 7,
                    "day": date(2020, 1, 1 + i % 28) if i % 3 else None,
                    "took": timedelta(seconds=i),
                    "key": UUID(int=i),
                    "more": {"a": [i]},
                    "vector": f"v{i}",
                },
            )
            for i, d in enumerate(docstrings[:302])
        ]
        documents.insert(5, Document("empty", "  ", "", {"number": -1}))
        collection.add(documents)
        collection.delete([documents[0].id, documents[77].id])
        yield collection


@pytest.fixture(autouse=True)
def _in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "ROWS_AT_ONCE", 64)


def searched(collection: Collection) -> list[Document]:
    return [document for document in collection if document.text.strip()]


def on_disk(collection: Collection, dim: int = 48) -> dict[str, Matrix]:
    """The vectors of live documents by id, from the bytes of the file."""
    stored = np.fromfile(collection.path / collection.index.state.vectors, np.float16)
    X = stored.astype(np.float32).reshape(-1, dim)
    ids = collection.index.store.ids_by_row()
    gone = set(collection.index.snapshot.deleted.tolist())
    return {id: x for i, (id, x) in enumerate(zip(ids, X, strict=True)) if i not in gone}


def whitened(collection: Collection, X: Matrix) -> Matrix:
    """``(x - shift) components`` of unit length, in float64."""
    reducer: Any = collection.index.snapshot.index.reducer
    Y = (X.astype(np.float64) - reducer.shift_) @ reducer.components_.astype(np.float64)
    out: Matrix = Y / np.linalg.norm(Y, axis=1, keepdims=True)
    return out


def fetched(sql: str) -> list[Any]:
    with duckdb.connect() as connection:
        return connection.execute(sql).fetchall()


def test_parquet_has_what_the_index_has_with_its_types(
    collection: Collection, tmp_path: Path
) -> None:
    done = export(collection, tmp_path / "x.parquet", "parquet", vectors="full")
    expected = searched(collection)
    assert (done.rows, done.documents, done.dim) == (len(expected), len(expected), 48)
    assert len(expected) == len(collection) - 1 == 300
    assert done.notes == ["column 'vector' is 'vector_' in the file"]
    file = pq.ParquetFile(tmp_path / "x.parquet")
    assert file.num_row_groups == 5
    rows = file.read().to_pylist()
    assert [row["id"] for row in rows] == [d.id for d in expected]
    assert [(row["title"], row["text"]) for row in rows] == [(d.title, d.text) for d in expected]
    for row, document in zip(rows, expected, strict=True):
        own = document.metadata
        assert (row["number"], row["share"], row["day"]) == (
            own["number"],
            own["share"],
            own["day"],
        )
        assert (row["key"], row["vector_"]) == (str(own["key"]), own["vector"])
    vectors = on_disk(collection)
    for row in rows:
        np.testing.assert_array_equal(row["vector"], vectors[row["id"]])
    described = fetched(f"DESCRIBE FROM '{tmp_path / 'x.parquet'}'")
    assert {name: type_ for name, type_, *_ in described} == {
        "id": "VARCHAR",
        "title": "VARCHAR",
        "text": "VARCHAR",
        "number": "BIGINT",
        "share": "DOUBLE",
        "day": "DATE",
        "took": "VARCHAR",
        "key": "VARCHAR",
        "more": "JSON",
        "vector_": "VARCHAR",
        "vector": "FLOAT[]",
    }
    (took,) = fetched(f"SELECT took::INTERVAL FROM '{tmp_path / 'x.parquet'}' WHERE number = 90")
    assert took == (timedelta(seconds=90),)


def test_reduced_vectors_are_whitened_and_of_unit_length(
    collection: Collection, tmp_path: Path
) -> None:
    where = "number >= 290"
    export(collection, tmp_path / "x.parquet", "parquet", vectors="reduced", where=where)
    chosen = [d.id for d in searched(collection) if d.metadata["number"] >= 290]
    vectors = on_disk(collection)
    expected = whitened(collection, np.array([vectors[id] for id in chosen]))
    table = pq.read_table(tmp_path / "x.parquet")
    assert table["id"].to_pylist() == chosen
    np.testing.assert_allclose(np.array(table["vector"].to_pylist()), expected, atol=1e-6)


@pytest.mark.parametrize("to", ["parquet", "jsonl", "csv"])
def test_an_index_of_an_export_gives_the_same_answers(
    collection: Collection, tmp_path: Path, to: str
) -> None:
    settings = Settings(8, kind="flat", candidates=20)
    with Collection.create(tmp_path / "i", WordEncoder(), settings) as whole:
        whole.add(searched(collection))
        queries = encode_queries(whole.encoder, QUERIES)
        expected = whole.search_many(queries, 7)
        export(whole, tmp_path / f"x.{to}", to)
    sources = Sources.open(str(tmp_path / f"x.{to}"), ColumnNames(vectors="vector"))
    made, _ = build(tmp_path / "again", sources, lambda: GivenEncoder(48), settings)
    with made:
        found = made.search_many(queries, 7)
    assert [[h.id for h in hits] for hits in found] == [[h.id for h in hits] for hits in expected]
    assert scores(found) == pytest.approx(scores(expected), abs=1e-6)
    assert_same_columns(found[0][0].metadata, expected[0][0].metadata, to)


def assert_same_columns(found: Mapping[str, Any], own: Mapping[str, Any], to: str) -> None:
    assert {found[name] for name in ("number", "day")} == {own[name] for name in ("number", "day")}
    assert found["share"] == pytest.approx(own["share"], abs=1e-15)
    more = json.loads(found["more"]) if to == "csv" else found["more"]
    assert (str(found["key"]), more) == (str(own["key"]), own["more"])


def scores(answers: list[list[Hit]]) -> list[float]:
    return [hit.score for hits in answers for hit in hits]


def test_passages_are_rows_with_their_positions(tmp_path: Path) -> None:
    text = "\n\n".join(f"Part {i} is about {word}." for i, word in enumerate("abcdefghij"))
    with Collection.create(tmp_path / "i", ReadingEncoder(), SETTINGS) as collection:
        collection.add(
            [Document("x", "One short text."), Document("long", text), Document("y", "Another.")]
        )
        for to in ("parquet", "jsonl", "csv"):
            export(collection, tmp_path / f"x.{to}", to, vectors="reduced")
        hits = collection.search("about c", limit=100, group_by="passage")
        count = collection.info()["passages"]["rows"]
    rows = pq.read_table(tmp_path / "x.parquet").to_pylist()
    lines = (tmp_path / "x.jsonl").read_text(encoding="utf-8").split("\n")
    written = [json.loads(line) for line in lines[:-1]]
    assert [{**row, "vector": None} for row in written] == [{**row, "vector": None} for row in rows]
    np.testing.assert_array_equal(
        np.array([row["vector"] for row in written], np.float32), [row["vector"] for row in rows]
    )
    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        for cells, row in zip(csv.DictReader(file), written, strict=True):
            assert cells["text"] == row["text"]
            np.testing.assert_allclose(json.loads(cells["vector"]), row["vector"], rtol=1e-6)
            assert (cells["page"], cells["headings"]) == ("", "[]")
    assert len(rows) == len(hits) == count > 4
    by_place = {(hit.id, hit.start): hit for hit in hits}
    for row in rows:
        hit = by_place[row["id"], row["start"]]
        assert (row["text"], row["end"], row["line"]) == (hit.text, hit.end, hit.line)
        assert row["passage_id"] == f"{row['id']}#{row['passage']}"
    assert [row["passage"] for row in rows if row["id"] == "long"] == [*range(count - 2)]


@pytest.mark.parametrize("to", ["parquet", "csv"])
def test_an_interrupted_export_leaves_nothing(
    collection: Collection, tmp_path: Path, to: str
) -> None:
    def stop(stage: str, done: int, total: int) -> None:
        assert (stage, total) == ("exporting", 300)
        if done == 128:
            assert {path.name[:2] for path in tmp_path.iterdir()} == {".x"}  # hidden
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listening(stop):
        export(collection, tmp_path / "x", to)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("to", ["parquet", "jsonl", "csv", "faiss"])
def test_a_full_disk_leaves_nothing(collection: Collection, tmp_path: Path, to: str) -> None:
    with limited_files(8192), pytest.raises(OSError, match="File too large"):
        export(collection, tmp_path / "x", to)
    assert not [*tmp_path.iterdir()]


def test_an_export_during_a_compaction_is_of_one_state(
    tmp_path: Path, docstrings: list[Document]
) -> None:
    deleted = list[str]()

    def change(stage: str, done: int, total: int) -> None:
        if not deleted:
            deleted.append(docstrings[3].id)
            index.delete(deleted)
            index.compact()

    with Collection.create(tmp_path / "i", WordEncoder(), SETTINGS) as index:
        index.add(docstrings[:200])
        with listening(change):
            export(index, tmp_path / "x", "parquet")
    ids = pq.read_table(tmp_path / "x")["id"].to_pylist()
    before = [document.id for document in docstrings[:200]]
    assert ids in (before, [id for id in before if id not in deleted])
