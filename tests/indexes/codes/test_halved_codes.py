"""Codes in halves have the answers of the whole, on one thread and on two."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.indexes.arrays import Matrix, Rows, normalize_rows
from slimdex.indexes.codes import halved_codes
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.halved_codes import Halves
from slimdex.indexes.codes.kinds import PQ
from slimdex.system import spare_threads

ROWS, DIM = 700, 16


@pytest.fixture(scope="module")
def X() -> Matrix:
    """Unit rows, many of them equal: their codes tie."""
    rng = np.random.default_rng(3)
    different = rng.standard_normal((ROWS // 3, DIM), dtype=np.float32)
    return normalize_rows(different[rng.integers(len(different), size=ROWS)])


@pytest.fixture(scope="module")
def empty(X: Matrix) -> FaissIndex:
    return FaissIndex(PQ, DIM).train(X)


@pytest.fixture(scope="module")
def whole(empty: FaissIndex, X: Matrix) -> FaissIndex:
    return filled(empty, X, [ROWS])


def filled(empty: FaissIndex, X: Matrix, stops: list[int]) -> FaissIndex:
    index, start = empty.copy(empty=True), 0
    for stop in [*stops, len(X)]:
        if stop > start:
            index.add(X[start:stop])
            start = stop
    return index


def in_halves(empty: FaissIndex, X: Matrix, stops: list[int]) -> FaissIndex:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(halved_codes, "HALVED_FROM", 64)
        patch.setattr(spare_threads, "cores", lambda: 2)
        index = filled(empty, X, stops)
        assert isinstance(index._index, Halves)
        return index


def by_row(scores: Matrix, rows: Rows) -> tuple[Matrix, Rows]:
    """The same results, equal scores in the order of rows; padding is last."""
    numbers = np.where(rows < 0, ROWS, rows)
    order = np.array([np.lexsort(each) for each in zip(numbers, -scores, strict=True)])
    return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)


@given(
    seed=st.integers(0, 999),
    queries=st.integers(1, 3),
    k=st.integers(1, ROWS + 9),
    stops=st.lists(st.integers(1, ROWS), max_size=6).map(sorted),
)
def test_halves_find_the_rows_of_the_whole(
    X: Matrix,
    empty: FaissIndex,
    whole: FaissIndex,
    seed: int,
    queries: int,
    k: int,
    stops: list[int],
) -> None:
    index = in_halves(empty, X, stops)
    Q = np.random.default_rng(seed).standard_normal((queries, DIM), dtype=np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spare_threads, "cores", lambda: 1 + seed % 2)
        scores, rows = index.search(Q, k)
    expected = by_row(*whole.search(Q, k))
    np.testing.assert_array_equal(scores, expected[0])
    np.testing.assert_array_equal(rows, expected[1])


def test_a_file_and_a_copy_hold_the_whole(
    X: Matrix, empty: FaissIndex, whole: FaissIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, Q = in_halves(empty, X, [200, 300]), X[:4]
    expected = index.search(Q, 50)
    for name, saved in {"whole": whole, "halves": index, "copy": index.copy()}.items():
        saved.save(tmp_path / name)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
    assert index.nbytes == whole.nbytes
    assert len(index.copy(empty=True)) == 0
    monkeypatch.setattr(halved_codes, "HALVED_FROM", 64)
    loaded = FaissIndex.load(tmp_path / "whole")
    assert isinstance(loaded._index, Halves)
    for other in (loaded, index.copy()):
        for ours, theirs in zip(other.search(Q, 50), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    exported = index.with_transform(None, None).search(Q, 50)
    np.testing.assert_array_equal(exported[1].shape, expected[1].shape)
    np.testing.assert_allclose(exported[0], expected[0], atol=1e-5)


@pytest.mark.parametrize("allowed", [1, 15, 400])
def test_searches_among_given_rows_are_those_of_the_whole(
    X: Matrix, empty: FaissIndex, whole: FaissIndex, allowed: int
) -> None:
    index = in_halves(empty, X, [])
    rows = np.sort(np.random.default_rng(allowed).choice(ROWS, allowed, replace=False))
    ours, theirs = (by_row(*each.search(X[:5], ROWS, rows)) for each in (index, whole))
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_array_equal(ours[1], theirs[1])
