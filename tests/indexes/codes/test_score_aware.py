"""Score-aware codes against brute force over every code."""

from __future__ import annotations

import numpy as np
import pytest

from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.codes.score_aware import decode, encode, subvectors, train

EVERY = np.stack(np.meshgrid(range(16), range(16)), axis=-1).reshape(-1, 2)


@pytest.fixture(scope="module")
def rows() -> Matrix:
    return normalize_rows(np.random.default_rng(0).normal(size=(2500, 6)).astype(np.float32))


@pytest.fixture(scope="module")
def words(rows: Matrix) -> np.ndarray:
    return subvectors(rows[:16], 2).transpose(1, 0, 2).copy()


def errors(rows: Matrix, back: Matrix, weight: float) -> np.ndarray:
    error = rows - back
    along = np.square((error * rows).sum(-1))
    return np.asarray(np.square(error).sum(-1) + weight * along)


@pytest.mark.parametrize("weight", [0.0, 3.0])
def test_nearly_all_codes_are_optimal(rows: Matrix, words: np.ndarray, weight: float) -> None:
    back = decode(encode(subvectors(rows, 2), words, weight), words).reshape(rows.shape)
    every = errors(rows[:, None], decode(EVERY, words).reshape(1, 256, 6), weight)
    got, least = errors(rows, back, weight), every.min(axis=1)
    assert (got <= least + 1e-5).mean() > (0.8 if weight else 0.9999)
    nearest = decode(encode(subvectors(rows, 2), words, 0), words).reshape(rows.shape)
    assert (got <= errors(rows, nearest, weight) + 1e-5).all()


def test_training_reduces_the_weighted_error(rows: Matrix, words: np.ndarray) -> None:
    X = subvectors(rows, 2)
    better = train(X, words, 3.0)
    before, after = (
        errors(rows, decode(encode(X, its, 3.0), its).reshape(rows.shape), 3.0).mean()
        for its in (words, better)
    )
    assert after < 0.95 * before
    np.testing.assert_array_equal(train(X, words, 0), words)


def test_fitted_codewords_minimise_the_error(rows: Matrix, words: np.ndarray) -> None:
    from slimdex.indexes.codes.score_aware import _refitted

    X = subvectors(rows, 2)
    codes = encode(X, words, 3.0)
    fitted = words
    for _ in range(200):
        fitted = _refitted(X, X, fitted, codes, 3.0)
    best = errors(rows, decode(codes, fitted).reshape(rows.shape), 3.0).mean()
    rng = np.random.default_rng(1)
    for _ in range(20):
        other = fitted + rng.normal(scale=1e-2, size=fitted.shape).astype(np.float32)
        assert errors(rows, decode(codes, other).reshape(rows.shape), 3.0).mean() > best


def test_the_parallel_direction_can_be_given(rows: Matrix, words: np.ndarray) -> None:
    """Doubling rows and codewords and halving the parallel direction gives the same codes."""
    X = subvectors(rows, 2)
    codes = encode(X, words, 12.0)
    np.testing.assert_array_equal(encode(2 * X, 2 * words, 48.0, (X / 2).astype(np.float32)), codes)


def test_codes_do_not_depend_on_the_batch(rows: Matrix, words: np.ndarray) -> None:
    X = subvectors(rows, 2)
    codes = encode(X, words, 3.0)  # in three parts
    alone = np.concatenate([encode(row[None], words, 3.0) for row in X[:200]])
    np.testing.assert_array_equal(codes[:200], alone)


def test_no_rows_have_no_codes(words: np.ndarray) -> None:
    assert encode(np.empty((0, 2, 3), np.float32), words, 3.0).shape == (0, 2)
