from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from indexes import autoencoder as module
from indexes.arrays import Matrix
from indexes.autoencoder import TiedAutoencoder
from indexes.catalog import load_reducer
from indexes.errors import CorruptError, InputError
from indexes.linear import Pca
from indexes.moments import Moments
from indexes.progress import silent
from indexes.vector_file import VectorFile


@pytest.fixture
def X(rng: np.random.Generator) -> Matrix:
    """Rows on a curved surface of three dimensions in sixteen."""
    angles = rng.uniform(-2, 2, (1500, 3))
    curved = np.concatenate([angles, np.sin(angles), np.cos(2 * angles)], axis=1)
    return (curved @ rng.normal(size=(9, 16)) + 5).astype(np.float32)


def test_numpy_s_transform_is_torch_s(X: Matrix) -> None:
    fitted = TiedAutoencoder(4, 8, epochs=3).fit(X)
    values = (torch.from_numpy(X) - torch.from_numpy(fitted.mean_)) / fitted.scale_
    for weights, bias in zip(fitted.weights_, fitted.biases_, strict=True):
        values = torch.selu(values @ torch.from_numpy(weights) + torch.from_numpy(bias))
    expected = torch.nn.functional.normalize(values, dim=1).numpy()
    np.testing.assert_allclose(fitted.transform(X), expected, atol=1e-5)


def test_one_step_is_adam_s_on_the_tied_loss(X: Matrix) -> None:
    """Worked out beside it: the decoder has no weights of its own."""
    fitted = TiedAutoencoder(4, 8, epochs=1, batch=10_000, learning_rate=0.01).fit(X)
    generator = torch.Generator().manual_seed(0)
    scaled = torch.from_numpy((X - fitted.mean_) / np.float32(fitted.scale_))
    rows = scaled[torch.randperm(len(X), generator=generator)][75:]
    first = torch.randn(16, 8, generator=generator) / 4
    second = torch.randn(8, 4, generator=generator) / 8**0.5
    weights = [first.requires_grad_(), second.requires_grad_()]
    rows = rows[torch.randperm(len(rows), generator=generator)]
    bottleneck = torch.nn.functional.normalize(
        torch.selu(torch.selu(rows @ weights[0]) @ weights[1]), dim=1
    )
    back = torch.selu(bottleneck @ weights[1].T) @ weights[0].T
    ((back - rows) ** 2).mean().backward()  # type: ignore[no-untyped-call]
    for ours, weight in zip(fitted.weights_, weights, strict=True):
        assert weight.grad is not None
        stepped = weight - 0.01 * weight.grad / (weight.grad.abs() + 1e-8)
        np.testing.assert_allclose(ours, stepped.detach().numpy(), atol=1e-4)


def test_it_learns_and_stops_by_rows_held_out(X: Matrix) -> None:
    fitted = TiedAutoencoder(4, 12, epochs=400, learning_rate=3e-3, patience=2).fit(X)
    assert len(fitted.losses_) < 400
    assert min(fitted.losses_) == fitted.losses_[-4]  # three passes without a better one
    assert min(fitted.losses_) < 0.5 * fitted.losses_[0]


def test_the_same_seed_gives_the_same_numbers(X: Matrix) -> None:
    one, two, other = (TiedAutoencoder(4, epochs=2, random_state=s).fit(X) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.transform(X), two.transform(X))
    assert not np.allclose(one.transform(X), other.transform(X))


def test_saved_and_loaded(X: Matrix, tmp_path: Path) -> None:
    fitted = TiedAutoencoder(4, epochs=1, patience=7).fit(X)
    fitted.save(tmp_path / "a")
    loaded = load_reducer(tmp_path / "a")
    assert isinstance(loaded, TiedAutoencoder)
    assert loaded.params() == fitted.params()
    np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
    assert fitted.nbytes == 4 * (16 + 16 * 8 + 8 * 4 + 8 + 4)
    Pca(2).fit(X).save(tmp_path / "b")
    with pytest.raises(CorruptError, match="holds 'pca'; expected the reducer 'autoencoder'"):
        TiedAutoencoder.load(tmp_path / "b")


def test_from_a_file_a_sample_is_read(
    X: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = VectorFile(tmp_path / "v", 16, 0, np.float32)
    file.append(X)
    reducer = TiedAutoencoder(4, epochs=1)
    whole = reducer.fit_vectors(file, Moments(16).update(X), silent).transform(X)
    np.testing.assert_array_equal(whole, TiedAutoencoder(4, epochs=1).fit(X).transform(X))
    monkeypatch.setattr(module, "MOST_ROWS", 500)
    part = TiedAutoencoder(4, epochs=1).fit_vectors(file, Moments(16).update(X), silent)
    assert not np.allclose(part.mean_, X.mean(axis=0), atol=1e-6)


def test_what_can_t_be_fitted(X: Matrix) -> None:
    with pytest.raises(InputError, match="n_components=17; expected 1 to the 16"):
        TiedAutoencoder(17).fit(X)
    with pytest.raises(InputError, match="1 vectors; expected 2 or more"):
        TiedAutoencoder(2).fit(X[:1])
    same = TiedAutoencoder(2, epochs=1).fit(np.ones((10, 4), dtype=np.float32))
    assert np.isfinite(same.transform(np.ones((2, 4), dtype=np.float32))).all()
