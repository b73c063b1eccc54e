from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.reducers.autoencoder import TiedAutoencoder
from slimdex.indexes.reducers.flow import Flow
from slimdex.indexes.reducers.linear import (
    AllButTheTop,
    Identity,
    Linear,
    Pca,
    RandomProjection,
    Truncate,
    Whitening,
)
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.reducers.reducer import Reducer, load_reducer
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.tensors import parameters


@pytest.fixture
def X(rng: np.random.Generator) -> Matrix:
    mixed = rng.normal(size=(400, 12)) * np.linspace(1, 6, 12) @ rng.normal(size=(12, 12))
    return (mixed + 3).astype(np.float32)


def cosines(X: Matrix) -> np.ndarray:
    unit = normalize_rows(X).astype(np.float64)
    return unit @ unit.T


def test_full_whitening_gives_identity_covariance(X: Matrix) -> None:
    white = Whitening(12, beta=1.0, gamma=1.0).fit(X).transform(X).astype(np.float64)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(12), atol=1e-4)


def test_rotation_keeps_every_cosine(X: Matrix) -> None:
    rotated = Whitening(12, beta=0.0, gamma=0.0).fit(X).transform(X)
    np.testing.assert_allclose(cosines(rotated), cosines(X), atol=1e-5)


def test_against_the_definition_for_any_beta_and_gamma(X: Matrix) -> None:
    beta, gamma, k = 0.4, 0.7, 5
    rows = X.astype(np.float64) - beta * X.astype(np.float64).mean(axis=0)
    values, axes = np.linalg.eigh(rows.T @ rows / len(rows))
    expected = (rows @ axes[:, ::-1])[:, :k] * values[::-1][:k] ** (-gamma / 2)
    ours = Whitening(k, beta, gamma).fit(X).transform(X)
    np.testing.assert_allclose(np.abs(ours), np.abs(expected), atol=1e-3)


def test_signs_do_not_depend_on_the_order_of_rows(X: Matrix) -> None:
    one = Whitening(6).fit(X).transform(X[:5])
    other = Whitening(6).fit(X[::-1].copy()).transform(X[:5])
    np.testing.assert_allclose(one, other, atol=1e-3)


@pytest.mark.parametrize(("beta", "rank"), [(0.0, 5), (1.0, 4)])
@pytest.mark.parametrize("gamma", [0.0, 0.25, 1.0])
def test_components_beyond_the_rank_do_no_harm(
    X: Matrix, beta: float, rank: int, gamma: float
) -> None:
    few = Whitening(rank, beta, gamma).fit(X[:5]).transform(X[:5])
    whole = Whitening(12, beta, gamma).fit(X[:5])
    np.testing.assert_allclose(whole.transform(X[:5])[:, :rank], few, atol=1e-4)
    np.testing.assert_allclose(whole.transform(X[:5])[:, rank:], 0, atol=1e-3)
    # Any row's cosines are those of the metric that rescores, which spans all dimensions.
    probe, metric = X[5:9], Rescorer.fit(Moments(12).update(X[:5]), beta, gamma)
    expected = metric.probes(probe).scores(X[:5], metric.norms(X[:5]))
    ours = normalize_rows(whole.transform(probe)) @ normalize_rows(whole.transform(X[:5])).T
    np.testing.assert_allclose(ours, expected, atol=1e-4)


@pytest.mark.parametrize(
    "reducer", [Whitening(4, 0.3, 0.6), Identity(12), Truncate(3), RandomProjection(3, 9)]
)
def test_save_and_load_give_the_same_rows(X: Matrix, tmp_path: Path, reducer: Linear) -> None:
    before = reducer.fit(X).transform(X)
    reducer.save(tmp_path / "r.safetensors")
    loaded = load_reducer(tmp_path / "r.safetensors")
    np.testing.assert_array_equal(loaded.transform(X), before)
    assert vars(loaded).keys() == vars(reducer).keys()


def test_identity_changes_nothing(X: Matrix) -> None:
    np.testing.assert_array_equal(Identity(12).fit(X).transform(X), X)
    with pytest.raises(InputError, match="n_components=5; identity keeps all 12"):
        Identity(5).fit(X)


@pytest.mark.parametrize(("beta", "gamma"), [(0.0, 0.25), (1.0, 1.0), (0.5, 0.0)])
def test_rescorer_is_the_cosine_after_whitening(X: Matrix, beta: float, gamma: float) -> None:
    moments = Moments(12).update(X)
    rescorer = Rescorer.fit(moments, beta, gamma)
    whitening = Whitening(12, beta, gamma).fit_moments(moments)
    queries = X[:4] + 1
    expected = (
        normalize_rows(whitening.transform(queries)) @ normalize_rows(whitening.transform(X)).T
    )
    ours = rescorer.probes(queries).scores(X, rescorer.norms(X))
    np.testing.assert_allclose(ours, expected, atol=2e-5)


def test_rescorer_keeps_cosines_of_data_that_span_less(X: Matrix, tmp_path: Path) -> None:
    rescorer = Rescorer.fit(Moments(12).update(X[:5]), 0.0, 0.0)
    rescorer.save(tmp_path / "r")
    loaded = Rescorer.load(tmp_path / "r")
    ours = loaded.probes(X[:3]).scores(X, loaded.norms(X))
    np.testing.assert_allclose(ours, cosines(X)[:3], atol=1e-5)


def test_random_projection_is_orthogonal_seeded_and_blind_to_the_data(X: Matrix) -> None:
    first, again = RandomProjection(5, 3).fit(X), RandomProjection(5, 3).fit(X * 2 + 1)
    np.testing.assert_array_equal(first.components_, again.components_)
    np.testing.assert_allclose(first.components_.T @ first.components_, np.eye(5), atol=1e-6)
    assert not np.allclose(first.components_, RandomProjection(5, 4).fit(X).components_)


@pytest.mark.parametrize("k", [0, 13])
@pytest.mark.parametrize("make", [Whitening, Truncate, RandomProjection, TiedAutoencoder, Flow])
def test_k_outside_the_dimensions_is_refused(
    X: Matrix, make: Callable[[int], Reducer], k: int
) -> None:
    with pytest.raises(InputError, match=f"n_components={k}; expected 1 to the 12 dimensions"):
        make(k).fit(X)


def test_balanced_subspaces_reorder_the_axes_only(X: Matrix) -> None:
    plain = Whitening(12, 1.0, 0.0).fit(X)
    sorted_rows, axes = plain.transform(X), plain.components_.copy()
    dealt = plain.balance_subspaces(4).transform(X)
    assert sorted(map(tuple, plain.components_.T)) == sorted(map(tuple, axes.T))
    np.testing.assert_allclose(cosines(dealt), cosines(sorted_rows), atol=1e-6)
    # Three rounds of dealing to four groups: 0 1 2 3, then 7 6 5 4, then 8 9 10 11.
    order = [0, 7, 8, 1, 6, 9, 2, 5, 10, 3, 4, 11]
    np.testing.assert_array_equal(plain.components_, axes[:, order])


def test_pca_equals_scikit_learn(X: Matrix) -> None:
    theirs = PCA(5, svd_solver="full").fit_transform(X.astype(np.float64))
    ours = Pca(5).fit(X).transform(X)
    signs = np.sign((ours * theirs).sum(axis=0))
    np.testing.assert_allclose(ours * signs, theirs, atol=1e-3)
    assert parameters(Pca.configured(5, 0.3, 0.7)) == {"n_components": 5}


def test_all_but_the_top_removes_the_mean_and_the_first_components(X: Matrix) -> None:
    """Against the paper's algorithm 1, which keeps all dimensions."""
    exact = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    components = PCA(2, svd_solver="full").fit(exact).components_
    left = exact - exact @ components.T @ components
    expected = cosines(left.astype(np.float32))
    ours = AllButTheTop(10, removed=2).fit(X).transform(X)
    np.testing.assert_allclose(cosines(ours), expected, atol=1e-4)
    assert AllButTheTop(11).fit(X).components_.shape == (12, 11)  # one of twelve is removed
    with pytest.raises(InputError, match="n_components=11; expected 1 to 10, the 12 dimensions"):
        AllButTheTop(11, removed=2).fit(X)
