"""mteb's backend of vectors, beside numpy's search of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mteb.similarity_functions import cos_sim, dot_score, euclidean_sim

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.settings import Settings
from slimdex.mteb import SlimdexIndex
from slimdex.system.atomic_files import FIXED

COUNT, DIM = 1500, 48
IDS = [f"d{i}" for i in range(COUNT)]


@pytest.fixture
def vectors(rng: np.random.Generator) -> Matrix:
    return rng.normal(size=(COUNT, DIM)).astype(np.float32)


def nearest(queries: Matrix, vectors: Matrix, k: int) -> Any:
    """By numpy, over the vectors as they are kept."""
    kept = normalize_rows(vectors.astype(np.float16).astype(np.float32))
    return np.argsort(-(normalize_rows(queries) @ kept.T), axis=1)[:, :k]


def test_flat_without_whitening_is_exact_search(vectors: Matrix, tmp_path: Path) -> None:
    exact = Settings(kind="flat", reducer="identity", candidates=0)
    index = SlimdexIndex(exact, folder=tmp_path)
    for part in (slice(0, 1000), slice(1000, None)):
        index.add_documents(torch.tensor(vectors[part]), IDS[part])
    scores, rows = index.search(vectors[:9], 1000, cos_sim)
    assert rows == nearest(vectors[:9], vectors, 1000).tolist()
    cosines = normalize_rows(vectors[:9]) @ normalize_rows(vectors).T
    found = np.take_along_axis(cosines, np.array(rows), axis=1)
    assert np.abs(np.array(scores) - found).max() < 1e-3


def test_sizes_are_those_of_the_index_and_its_files(vectors: Matrix, tmp_path: Path) -> None:
    index = SlimdexIndex(folder=tmp_path)
    assert index.sizes is None
    index.add_documents(vectors, IDS)
    built, sizes = index.build(), index.sizes
    assert built is not None
    assert sizes is not None
    assert sizes.ram_bytes == built.index.snapshot.index.nbytes == 3 * COUNT + sizes.ram_bytes_fixed
    assert (sizes.documents, sizes.vectors, sizes.dimensions) == (COUNT, COUNT, DIM)
    assert (sizes.settings["kind"], sizes.settings["k"], sizes.candidates) == ("pq", 24, 200)
    others = ("doc", "off", "segment", *FIXED)
    files = {n: b for n, b in built.info()["files"].items() if not n.startswith(others)}
    assert files["vectors-000001.f16"] == 2 * COUNT * DIM
    assert sizes.disk_bytes == sum(files.values())
    assert sizes.compression == 4 * COUNT * DIM / sizes.ram_bytes
    index.clear()
    assert [*tmp_path.iterdir()] == []
    assert index.sizes == sizes
    assert index.search(vectors[:2], 3, cos_sim) == ([[], []], [[], []])
    half = SlimdexIndex(vector_dtype="int8", folder=tmp_path)
    half.add_documents(vectors[:700].astype(np.float64), IDS[:700])
    half.build()
    assert half.sizes is not None
    assert half.sizes.disk_bytes < sizes.disk_bytes * 0.6
    del half
    assert [*tmp_path.iterdir()] == []


def test_the_first_are_rescored_and_the_rest_follows(vectors: Matrix) -> None:
    index = SlimdexIndex(Settings(candidates=20))
    index.add_documents(vectors, IDS)
    collection = index.build()
    assert collection is not None
    built = collection.index.snapshot.index
    scores, rows = index.search(vectors[:9], 1000, cos_sim)
    for query, own, found in zip(vectors, scores, rows, strict=False):
        expected = list[int]()
        for limit, candidates in ((10, None), (100, None), (1000, 0)):
            more = built.search(query[None], limit, candidates=candidates)[1][0].tolist()
            expected += [row for row in more if row not in set(expected)]
        assert found == expected[:1000]
        assert own[:10] == built.search(query[None], 10)[0][0].tolist()
        assert len(set(found)) == 1000
        assert own == sorted(own, reverse=True)
        assert own[9] > own[10]
    assert index.search(vectors[:2], 10, cos_sim)[1] == [own[:10] for own in rows[:2]]
    everything = index.search(vectors[:2], 9999, cos_sim)[1]
    assert [sorted(own) for own in everything] == [[*range(COUNT)]] * 2


def test_a_model_that_compares_otherwise_is_refused(vectors: Matrix) -> None:
    """Unless its vectors are of unit length, where all of these rank alike."""
    index = SlimdexIndex()
    index.add_documents(vectors, IDS)
    for similarity in (dot_score, euclidean_sim):
        with pytest.raises(InputError, match="ranks these vectors differently from their cosine"):
            index.search(vectors[:9], 5, similarity)
    first = index.search(vectors[:9], 5, cos_sim)
    unit = SlimdexIndex()
    unit.add_documents(torch.tensor(normalize_rows(vectors)).bfloat16(), IDS)
    for similarity in (dot_score, euclidean_sim, cos_sim):
        found = unit.search(normalize_rows(vectors[:9]), 5, similarity)[1]
        assert [own[0] for own in found] == [own[0] for own in first[1]] == [*range(9)]


def test_invalid_vectors_are_refused(vectors: Matrix, tmp_path: Path) -> None:
    index = SlimdexIndex(folder=tmp_path)
    wrong = vectors.copy()
    wrong[2, 4] = np.nan
    with pytest.raises(InputError, match="vectors: row 3, value 5 is nan; expected finite"):
        index.add_documents(wrong, IDS)
    with pytest.raises(InputError, match="1500 vectors for 2 ids"):
        index.add_documents(vectors, IDS[:2])
    assert [*tmp_path.iterdir()] == []
    index.add_documents(vectors[:5], IDS[:5])
    with pytest.raises(InputError, match="vectors of 40 dimensions; expected 48, as those before"):
        index.add_documents(vectors[5:7, :40], IDS[5:7])
    with pytest.raises(InputError, match="queries: 40 dimensions; expected 48"):
        index.search(vectors[:1, :40], 3, cos_sim)
    with pytest.raises(InputError, match="queries: row 0, column 4 is nan"):
        index.search(wrong[2:3], 3, cos_sim)
    index.add_documents(vectors[5:7], IDS[5:7])  # what was refused left nothing
    assert sorted(index.search(vectors[:1], 30, cos_sim)[1][0]) == [*range(7)]
    with pytest.raises(InputError, match="vector_dtype='fp8'"):
        SlimdexIndex(vector_dtype="fp8")
    with pytest.raises(InputError, match="lists to rerank"):
        index.search(vectors[:1], 2, cos_sim, {"b": ["d1"]}, {0: "b"})
