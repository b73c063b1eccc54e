from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import KINDS, Kind, kind_named
from slimdex.indexes.ranking import top_k

# Recall of the true ten among the first fifty, at k=32: each kind's codes are that good or better.
RECALL = {
    "flat": 1.0,
    "fp16": 1.0,
    "sq8": 1.0,
    "sq4": 0.99,
    "pq": 0.75,
    "rabitq": 0.80,
    "ivf-pq": 0.70,
    "hnsw": 0.99,
}
ROW_BYTES = {
    "flat": 128,
    "fp16": 64,
    "sq8": 32,
    "sq4": 16,
    "pq": 4,
    "rabitq": 12,
    "ivf-pq": 12,
}


@pytest.fixture(scope="module")
def X() -> Matrix:
    """2,000 unit rows around 60 centres: neighbours that are nearer than chance."""
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(60, 32))
    return normalize_rows(
        (centres[rng.integers(60, size=2000)] + rng.normal(size=(2000, 32))).astype(np.float32)
    )


@pytest.fixture(scope="module")
def queries(X: Matrix) -> Matrix:
    """Not of unit length: scale must not matter to the order."""
    rng = np.random.default_rng(2)
    noisy = X[:40] + 0.1 * rng.normal(size=(40, 32))
    return (noisy * rng.uniform(0.01, 100, size=(40, 1))).astype(np.float32)


def built(kind: Kind, X: Matrix) -> FaissIndex:
    index = FaissIndex(kind, X.shape[1], len(X)).train(X)
    index.add(X[:700])
    index.add(X[700:])
    return index


class Built(dict[str, FaissIndex]):
    """An index of each kind over the same rows, built when it is first asked for."""

    def __init__(self, X: Matrix) -> None:
        self.X = X

    def __missing__(self, name: str) -> FaissIndex:
        self[name] = built(kind_named(name), self.X)
        return self[name]


@pytest.fixture(scope="module")
def indexes(X: Matrix) -> Built:
    return Built(X)


@pytest.mark.parametrize("name", RECALL)
def test_kinds_against_brute_force(name: str, indexes: Built, X: Matrix, queries: Matrix) -> None:
    index = indexes[name]
    exact = np.argsort(-(queries @ X.T), axis=1)[:, :10]
    scores, hits = index.search(queries, 50)
    recall = np.mean([np.isin(e, f).mean() for e, f in zip(exact, hits, strict=True)])
    assert recall >= RECALL[name]
    assert (np.diff(scores, axis=1) <= 1e-6).all()


def test_flat_is_exact(indexes: Built, X: Matrix, queries: Matrix) -> None:
    scores, hits = indexes["flat"].search(queries, 10)
    products = queries @ X.T
    np.testing.assert_array_equal(hits, np.argsort(-products, axis=1)[:, :10])
    np.testing.assert_allclose(scores, np.sort(products, axis=1)[:, ::-1][:, :10], rtol=1e-4)


def test_every_kind_is_tested() -> None:
    assert set(KINDS) <= set(RECALL)


@pytest.mark.parametrize("name", ROW_BYTES)
def test_bytes_a_row(name: str, indexes: Built) -> None:
    index = indexes[name]
    assert index.row_nbytes == pytest.approx(ROW_BYTES[name], abs=1)
    assert index.nbytes >= 2000 * ROW_BYTES[name]


def recall_of_codes(X: Matrix) -> float:
    """Return recall@10 of codes without rescoring; queries are rows, left out of the answers."""
    index = built(kind_named("rabitq"), X[100:])
    exact = np.argsort(-(X[:100] @ X[100:].T), axis=1)[:, :10]
    _, hits = index.search(X[:100], 10)
    return float(np.mean([np.isin(e, f).mean() for e, f in zip(exact, hits, strict=True)]))


def test_rabitq_spends_its_bits_on_the_variance_of_all_axes() -> None:
    """Axes of falling variance, as reducers give them, cost it hardly any recall; without its
    rotation it would lose more than half."""
    rng = np.random.default_rng(3)
    scales = np.arange(1, 129) ** -0.75
    falling = normalize_rows((rng.normal(size=(3100, 128)) * scales).astype(np.float32))
    rotation, _ = np.linalg.qr(rng.normal(size=(128, 128)))
    rotated = falling @ rotation.astype(np.float32)
    assert recall_of_codes(falling) > 0.9 * recall_of_codes(rotated)


def test_the_rotation_of_rabitq_is_the_same_each_time(X: Matrix, queries: Matrix) -> None:
    one, other = (built(kind_named("rabitq"), X).search(queries, 9) for _ in range(2))
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_distances_return_a_quarter_of_the_lost_length(
    indexes: Built, X: Matrix, queries: Matrix
) -> None:
    index = indexes["pq"]
    decoded = index.quantize(X)
    lengths = np.linalg.norm(queries, axis=1, keepdims=True)
    targets = queries @ decoded.T + lengths * (1 - np.vecdot(decoded, decoded)) / 4
    scores, hits = index.search(queries, 20)
    expected = np.take_along_axis(targets, hits, axis=1)
    np.testing.assert_allclose(scores / lengths, expected / lengths, atol=0.02)
    np.testing.assert_allclose(scores / lengths, -np.sort(-targets)[:, :20] / lengths, atol=0.02)
    few = np.arange(5)  # decoded rather than scanned where a fast scan leaves some out
    scores, hits = index.search(queries, 5, few)
    assert (np.sort(hits) == few).all()
    expected = np.take_along_axis(targets, hits, axis=1)
    np.testing.assert_allclose(scores / lengths, expected / lengths, atol=0.02)


def test_a_zero_query_has_finite_scores(indexes: Built) -> None:
    scores, hits = indexes["pq"].search(np.zeros((1, 32), np.float32), 3)
    assert (hits >= 0).all()
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", RECALL)
@pytest.mark.parametrize("allowed", [1, 7, 300])
def test_search_among_given_rows_compares_all_of_them(
    name: str, allowed: int, indexes: Built, X: Matrix, queries: Matrix
) -> None:
    index = indexes[name]
    rows = np.sort(np.random.default_rng(allowed).choice(2000, allowed, replace=False))
    scores, hits = index.search(queries[:5], 20, rows)
    assert hits.shape == scores.shape == (5, 20)
    size = min(allowed, 20)
    assert np.isin(hits[:, :size], rows).all()
    assert (hits[:, size:] == -1).all()
    assert np.isneginf(scores[:, size:]).all()
    if name == "flat":
        expected = rows[np.argsort(-(queries[:5] @ X[rows].T), axis=1)[:, :20]]
        np.testing.assert_array_equal(hits[:, :size], expected)


@pytest.mark.parametrize("name", RECALL)
def test_save_and_load_give_the_same_answers(
    name: str, indexes: Built, queries: Matrix, tmp_path: Path
) -> None:
    index = indexes[name]
    index.save(tmp_path / "codes.faiss")
    loaded = FaissIndex.load(tmp_path / "codes.faiss")
    for ours, theirs in zip(index.search(queries, 9), loaded.search(queries, 9), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.nbytes == index.nbytes


def test_a_full_disk_is_reported_even_for_the_last_byte(indexes: Built, tmp_path: Path) -> None:
    size = indexes["sq8"].nbytes
    for limit in (10, size // 2, size - 1):
        with pytest.raises(OSError, match="File too large"), limited_files(limit):
            indexes["sq8"].save(tmp_path / f"{limit}")


@contextmanager
def limited_files(limit: int) -> Iterator[None]:
    """No file may grow beyond `limit` bytes; skips where there is no such limit (Windows)."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_top_k_against_sorting(rng: np.random.Generator) -> None:
    scores = rng.normal(size=(6, 50)).astype(np.float32)
    rows = np.arange(100, 150)
    best, actual = top_k(scores, rows, 8)
    np.testing.assert_array_equal(actual, rows[np.argsort(-scores, axis=1)[:, :8]])
    np.testing.assert_array_equal(best, -np.sort(-scores, axis=1)[:, :8])
    assert top_k(scores[:, :3], rows[:3], 8)[1].shape == (6, 3)
    assert top_k(scores[:, :0], rows[:0], 8)[1].shape == (6, 0)
