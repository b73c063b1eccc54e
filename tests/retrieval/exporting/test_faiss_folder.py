"""Codes behind the reducer, read back by plain FAISS."""

from __future__ import annotations

import json
from pathlib import Path

import faiss
import numpy as np
import pytest

from slimdex import Collection, InputError, Settings, export
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.retrieval.encoders.base import encode_queries
from tests.conftest import Copies
from tests.encoders import ReadingEncoder, WordEncoder

TOLERANCE = 1e-5
"""Of scores: FAISS takes the mean away after the product, slimdex before it. A fast scan's own
tables are of 8 bits, whose last one may round to the other side."""
QUERIES = ["the number of bytes in a file", "sort a list", "an error in the network", "threads"]


def read(folder: Path) -> tuple[faiss.Index, list[str]]:
    index = faiss.read_index(str(folder / "index.faiss"))
    lines = (folder / "ids.jsonl").read_text().splitlines()
    assert index.ntotal == len(lines)
    return index, [json.loads(line)["id"] for line in lines]


def check_answers(
    collection: Collection, folder: Path, k: int = 10, where: str | None = None
) -> None:
    """Ids and scores of plain FAISS, from the encoder's vectors, are those of the codes."""
    index, ids = read(folder)
    queries = encode_queries(collection.encoder, QUERIES)
    assert index.d == queries.shape[1]
    scores, rows = index.search(queries, k)
    if index.metric_type == faiss.METRIC_L2:
        scores = 1.25 - scores  # of rows that are kept at half their length
    found = collection.search_many(queries, k, where, candidates=0)
    for hits, own, numbers in zip(found, scores, rows, strict=True):
        np.testing.assert_allclose(own, [hit.score for hit in hits], atol=TOLERANCE)
        score_of = {hit.id: hit.score for hit in hits}
        for id, score in zip([ids[i] for i in numbers], own, strict=True):  # ties in any order
            assert abs(score_of.get(id, hits[-1].score) - score) <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        Settings(16),
        Settings(12, beta=1.0, gamma=1.0, kind="sq8"),
        Settings(kind="fp16", reducer="identity"),
        Settings(16, beta=0.7, kind="hnsw"),
        Settings(16, kind="rabitq"),
        Settings(16, kind="ivf-pq", reducer="pca"),
        Settings(40, kind="flat", reducer="all-but-the-top"),
    ],
    ids=lambda s: f"{s.reducer}-{s.kind}",
)
def test_plain_faiss_gives_the_codes_answers(
    copied: Copies, tmp_path: Path, settings: Settings
) -> None:
    with Collection.open(copied(tmp_path / "i", 1200), WordEncoder()) as collection:
        collection.reduce(settings)
        done = export(collection, tmp_path / "x", "faiss")
        assert (done.rows, done.dim) == (1200, collection.index.snapshot.index.reducer.n_components)
        check_answers(collection, tmp_path / "x")


def test_deleted_and_excluded_documents_are_left_out(copied: Copies, tmp_path: Path) -> None:
    with Collection.open(copied(tmp_path / "i", 1200), WordEncoder()) as collection:
        collection.delete([document.id for document in collection][:700:7])
        export(collection, tmp_path / "live", "faiss")
        check_answers(collection, tmp_path / "live")
        where = "length(text) < 200"
        done = export(collection, tmp_path / "short", "faiss", where=where)
        assert 10 < collection.count(where) == done.documents
        check_answers(collection, tmp_path / "short", where=where)


def test_full_vectors_are_searched_by_their_cosines(copied: Copies, tmp_path: Path) -> None:
    with Collection.open(copied(tmp_path / "i", 1200), WordEncoder()) as collection:
        export(collection, tmp_path / "x", "faiss", vectors="full")
        X: Matrix = collection.index.snapshot.vectors().take(np.arange(1200))
        queries = encode_queries(collection.encoder, QUERIES)
        all_ids = collection.index.store.ids_by_row()
    index, ids = read(tmp_path / "x")
    assert ids == all_ids
    scores, rows = index.search(queries, 10)
    exact = normalize_rows(queries) @ normalize_rows(X).T
    np.testing.assert_allclose(scores, -np.sort(-exact, axis=1)[:, :10], atol=TOLERANCE)
    np.testing.assert_allclose(np.take_along_axis(exact, rows, 1), scores, atol=TOLERANCE)


def test_lines_of_passages_have_their_positions(tmp_path: Path) -> None:
    text = "\n\n".join(f"Part {i} is about {word}." for i, word in enumerate("abcdefghij"))
    with Collection.create(tmp_path / "i", ReadingEncoder(), Settings(4)) as collection:
        collection.add([{"id": "x", "text": "A short one."}, {"id": "long", "text": text}])
        export(collection, tmp_path / "x", "faiss")
        queries = encode_queries(collection.encoder, ["about c"])
        hits = collection.search_many(queries, 4, candidates=0, group_by="passage")[0]
    index, _ = read(tmp_path / "x")
    lines = [*map(json.loads, (tmp_path / "x" / "ids.jsonl").read_text().splitlines())]
    _, rows = index.search(queries, 4)
    found = [lines[i] for i in rows[0]]
    assert [(line["id"], line["start"], line["end"]) for line in found] == [
        (hit.id, hit.start, hit.end) for hit in hits
    ]
    assert [line["passage"] for line in lines] == [0, *range(len(lines) - 1)]


def test_a_reducer_that_is_not_linear_is_refused(copied: Copies, tmp_path: Path) -> None:
    with Collection.open(copied(tmp_path / "i", 40), WordEncoder()) as collection:
        collection.reduce(Settings(2, kind="flat", reducer="flow"))
        with pytest.raises(InputError, match="FAISS supports linear maps only"):
            export(collection, tmp_path / "x", "faiss")
    assert [path.name for path in tmp_path.iterdir()] == ["i"]
