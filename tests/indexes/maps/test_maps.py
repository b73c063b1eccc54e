"""Maps: against closed forms, of spaces that differ by what each can undo; files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from sklearn.linear_model import Ridge

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.maps.affine_map import AffineMap
from slimdex.indexes.maps.fitting import MapFits, fit_map

N = 400


def rows(dim: int, seed: int) -> Matrix:
    rng = np.random.default_rng(seed)
    spread = np.linspace(2, 0.2, dim)
    return (rng.normal(size=(N, dim)) * spread + rng.normal(size=dim)).astype(np.float32)


@pytest.mark.parametrize("dims", [(24, 24), (24, 12), (12, 24)])
def test_a_rotation_with_a_scale_and_a_shift_is_recovered(dims: tuple[int, int]) -> None:
    X, (d, e) = rows(dims[0], 0), dims
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(max(dims), max(dims))))[0][:d, :e]
    Y = (3 * X @ rotation + 5).astype(np.float32)
    for made in (MapFits(X, Y).ridge(0), *([MapFits(X, Y).orthogonal()] if d <= e else [])):
        np.testing.assert_allclose(made(X), Y, atol=1e-3)


def test_orthogonal_is_the_procrustes_solution() -> None:
    X, Y = rows(16, 0), rows(16, 2)
    centred, targets = X - X.mean(axis=0), Y - Y.mean(axis=0)
    rotation, total = orthogonal_procrustes(centred, targets)
    made = MapFits(X, Y).orthogonal()
    expected = rotation * total / np.square(centred).sum()
    np.testing.assert_allclose(made.matrix, expected, atol=1e-5)


@pytest.mark.parametrize("penalty", [0.01, 1.0])
def test_ridge_is_that_of_scikit_learn(penalty: float) -> None:
    X, Y = rows(16, 0), rows(9, 2)
    Y[:, :5] += X[:, :5]
    alpha = penalty * N * X.astype(np.float64).var(axis=0).mean()
    expected = Ridge(alpha=alpha).fit(X.astype(np.float64), Y)
    np.testing.assert_allclose(MapFits(X, Y).ridge(penalty)(X), expected.predict(X), atol=1e-4)


def test_reduced_rank_is_the_best_of_its_rank() -> None:
    """Without a penalty: Y projected on the main directions of the least squares fit."""
    X, Y = rows(16, 0), rows(9, 2)
    Y += X[:, :9] * np.linspace(1, 0, 9, dtype=np.float32)
    made = MapFits(X, Y).reduced(0, 3)
    assert np.linalg.matrix_rank(made.matrix, tol=1e-4) == 3
    best = MapFits(X, Y).ridge(0)(X)
    centred = best - best.mean(axis=0)
    kept = np.linalg.svd(centred, full_matrices=False)[2][:3]
    np.testing.assert_allclose(made(X), centred @ kept.T @ kept + Y.mean(axis=0), atol=1e-4)


def test_the_map_is_chosen_on_held_out_rows() -> None:
    X = rows(24, 0)
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(24, 24)))[0]
    noise = 0.6 * np.random.default_rng(2).normal(size=X.shape)
    few = (X @ rotation + noise).astype(np.float32)
    assert fit_map(X[:100], few[:100]).name == "orthogonal"  # a rotation has the fewest parameters
    scaled = (X * np.linspace(0.1, 3, 24) @ rotation).astype(np.float32)
    assert fit_map(X, scaled).name.startswith("ridge 0.0")


def test_invalid_requests_are_refused() -> None:
    X = rows(8, 0)
    with pytest.raises(InputError, match="9 and 9 vectors; expected as many"):
        fit_map(X[:9], X[:9])
    with pytest.raises(InputError, match="400 and 399 vectors"):
        fit_map(X, X[1:])
    with pytest.raises(InputError, match="7 dimensions; expected 8"):
        MapFits(X, X).ridge(1)(X[:, :7])


def test_files(tmp_path: Path) -> None:
    X, Y = rows(8, 0), rows(6, 1)
    made, path = MapFits(X, Y).ridge(0.1), tmp_path / "map"
    made.save(path)
    actual = AffineMap.load(path, (8, 6))
    assert actual.name == made.name
    np.testing.assert_array_equal(actual(X), made(X))
    with pytest.raises(CorruptError, match=r"source_mean is float32 \(8,\); expected .*\(6,\)"):
        AffineMap.load(path, (6, 8))
    path.write_bytes(b"something else")
    with pytest.raises(CorruptError, match="not a slimdex tensor file"):
        AffineMap.load(path, (8, 6))
