from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.reducers import autoencoder as module
from slimdex.indexes.reducers.autoencoder import TiedAutoencoder
from slimdex.indexes.reducers.reducer import load_reducer
from slimdex.indexes.tensors import parameters


@pytest.fixture
def X(rng: np.random.Generator) -> Matrix:
    """Rows on a curved surface of three dimensions in sixteen."""
    angles = rng.uniform(-2, 2, (1500, 3))
    curved = np.concatenate([angles, np.sin(angles), np.cos(2 * angles)], axis=1)
    return (curved @ rng.normal(size=(9, 16)) + 5).astype(np.float32)


def test_the_transform_equals_torch(X: Matrix) -> None:
    fitted = TiedAutoencoder(4, 8, epochs=3).fit(X)
    values = torch.nn.functional.normalize(torch.from_numpy(X), dim=1)
    for weights in fitted.weights_:
        values = torch.selu(values @ torch.from_numpy(weights))
    expected = torch.nn.functional.normalize(values, dim=1).numpy()
    np.testing.assert_allclose(fitted.transform(X), expected, atol=1e-5)


def test_it_starts_as_the_principal_axes(X: Matrix) -> None:
    """Before training, and without SELU, it reconstructs the projection on four principal axes."""
    first, second = TiedAutoencoder(4, 8, epochs=0).fit(X).weights_
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    axes = np.linalg.svd(unit, full_matrices=False)[2][:4]
    np.testing.assert_allclose(first @ second @ second.T @ first.T, axes.T @ axes, atol=1e-4)


def test_one_step_is_an_adam_step_on_the_tied_loss(X: Matrix) -> None:
    """Against a step computed here: the decoder shares the weights of the encoder."""
    start = TiedAutoencoder(4, 8, epochs=0).fit(X)
    fitted = TiedAutoencoder(4, 8, epochs=1, batch=10_000, learning_rate=0.01).fit(X)
    generator = torch.Generator().manual_seed(0)
    for size in (8, 4):
        torch.randn(size, size, generator=generator)  # the first weights' turns
    unit = torch.from_numpy(X / np.linalg.norm(X, axis=1, keepdims=True))
    rows = unit[torch.randperm(len(X), generator=generator)][75:]
    first, second = (torch.from_numpy(w).clone().requires_grad_() for w in start.weights_)
    bottleneck = torch.selu(torch.selu(rows @ first) @ second)
    bottleneck = bottleneck / bottleneck.norm(dim=1, keepdim=True)
    back = torch.selu(bottleneck @ second.T) @ first.T
    back = back / back.norm(dim=1, keepdim=True)
    (2 - 2 * (back * rows).sum(dim=1)).mean().backward()
    for ours, weight in zip(fitted.weights_, (first, second), strict=True):
        assert weight.grad is not None
        stepped = weight - 0.01 * weight.grad / (weight.grad.abs() + 1e-8)
        left, _, right = np.linalg.svd(stepped.detach().numpy(), full_matrices=False)
        np.testing.assert_allclose(ours, left @ right, atol=1e-4)


def test_training_stops_by_held_out_rows(X: Matrix) -> None:
    start = TiedAutoencoder(4, 12, epochs=1, learning_rate=1e-9).fit(X).losses_[0]
    fitted = TiedAutoencoder(4, 12, epochs=400, learning_rate=3e-3, patience=2).fit(X)
    kept, *waited = fitted.losses_[-4:]  # three passes without a better one
    assert len(fitted.losses_) < 400
    assert kept < 0.8 * start
    assert min(waited) >= kept * (1 - module.TOLERANCE)
    epochs = len(fitted.losses_) - 3
    same = TiedAutoencoder(4, 12, epochs=epochs, learning_rate=3e-3).fit(X)
    np.testing.assert_array_equal(same.transform(X), fitted.transform(X))


def test_saved_and_loaded(X: Matrix, tmp_path: Path) -> None:
    fitted = TiedAutoencoder(4, epochs=1, patience=7).fit(X)
    fitted.save(tmp_path / "a")
    loaded = load_reducer(tmp_path / "a")
    assert isinstance(loaded, TiedAutoencoder)
    assert parameters(loaded) == parameters(fitted)
    np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
    assert fitted.nbytes == 4 * (16 * 8 + 8 * 4)
