from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.indexes.reducers.linear import principal_axes
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.tensors import load_tensors
from tests.chance import CHANCE


def data(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Rows with unequal variances, correlations and a mean far from zero."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 5).astype(np.float32)


def assert_equal(moments: Moments, X: np.ndarray) -> None:
    """Against numpy in float64, to 1e-10 of the largest entry."""
    X = X.astype(np.float64)
    assert moments.n == len(X)
    covariance = np.cov(X.T, bias=True)
    scale = np.abs(covariance).max()
    np.testing.assert_allclose(moments.mean, X.mean(axis=0), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(moments.covariance(), covariance, rtol=0, atol=1e-10 * scale)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(0, 99))
@settings(max_examples=CHANCE.examples(40))
def test_batches_and_merged_parts_equal_the_whole(sizes: list[int], seed: int) -> None:
    X = data(sum(sizes) + 2, 4, seed)
    parts = np.split(X, np.cumsum(sizes))
    in_batches, merged = Moments(4), Moments(4)
    for part in parts:
        in_batches.update(part)
        merged.merge(Moments.of([part], 4))
    assert_equal(in_batches, X)
    assert_equal(merged, X)


@given(st.integers(2, 80), st.integers(1, 80), st.integers(0, 99))
@settings(max_examples=CHANCE.examples(40))
def test_subtract_undoes_update(kept: int, removed: int, seed: int) -> None:
    X = data(kept + removed, 5, seed)
    moments = Moments(5).update(X).subtract(Moments(5).update(X[kept:]))
    assert_equal(moments, X[:kept])


def test_subtracting_everything_leaves_nothing() -> None:
    moments = Moments(3).update(data(9, 3))
    moments.subtract(moments.copy())
    assert moments.n == 0
    assert not moments.mean.any()
    assert not moments.scatter.any()


def test_covariance_around_a_part_of_the_mean() -> None:
    X = data(300, 6)
    centred = X.astype(np.float64) - 0.3 * X.astype(np.float64).mean(axis=0)
    expected = centred.T @ centred / len(X)
    np.testing.assert_allclose(Moments(6).update(X).covariance(0.3), expected, rtol=1e-9)


def test_save_and_load(tmp_path: Path) -> None:
    """A scatter is written without its lower half, in float32."""
    moments, path = Moments(40).update(data(50, 40)), tmp_path / "m.safetensors"
    moments.save(path)
    assert len(load_tensors(path)[2]["scatter"]) == 40 * 41 // 2
    loaded = Moments.load(path)
    assert (loaded.n, loaded.mean.tolist()) == (moments.n, moments.mean.tolist())
    assert loaded.scatter.tolist() == moments.scatter.astype(np.float32).tolist()


def test_saving_after_each_of_many_additions_changes_little(tmp_path: Path) -> None:
    """Repeated rows have the rank of the distinct ones, also after rounding."""
    X = np.repeat(data(20, 40), 10, axis=0)
    moments = Moments(40)
    for part in np.split(X, 100):
        moments.update(part).save(tmp_path / "m.safetensors")
        moments = Moments.load(tmp_path / "m.safetensors")
    exact = Moments.of_rows(X)
    values, _, rank = principal_axes(moments, beta=1.0)
    expected = principal_axes(exact, beta=1.0)[0]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6 * expected[0])
    assert rank == 19
