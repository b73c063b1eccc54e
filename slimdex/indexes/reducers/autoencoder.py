"""TiedAutoencoder: a nonlinear reducer, fitted by torch, applied by numpy.

Functions import torch themselves: that takes a second, and only training needs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from slimdex.errors import InputError
from slimdex.system.threads import product

from ..arrays import Matrix, as_matrix, batches, normalize_rows
from ..tensors import check_tensor, load_fitted, save_fitted
from .linear import principal_axes
from .moments import Moments
from .reducer import TrainedReducer, shuffled, validation_rows

if TYPE_CHECKING:
    import torch

TOLERANCE = 1e-3
"""Relative drop of the held-out error that counts as an improvement."""
SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772
"""Constants of SELU (Klambauer et al. 2017, eq. 2)."""


class TiedAutoencoder(TrainedReducer):
    """Autoencoder of two SELU layers whose decoder is the transposed encoder.

    The design follows a blog post on compressing sentence vectors (512 -> 256 -> 128 there). Adam
    minimises the squared distance between unit rows and their normalised reconstructions, until
    the error of held-out rows stops falling. Three choices preserve cosines:

    - Rows are not centred and units have no bias. Either would let the bottleneck drop what all
      rows share, which contributes to every cosine.
    - Inputs have unit length, which keeps SELU near zero, where it is piecewise linear.
    - Weights have orthonormal columns. They start as randomly rotated principal axes, so that all
      units carry equal variance, and are orthonormalised after each epoch. Without that,
      reconstruction improves while cosines get worse.

    Deterministic for a given seed on one machine.

    Parameters
    ----------
    n_components : int
        Units of the bottleneck, at most d.
    hidden : int or None
        Units of the first layer, n_components to d; None means twice the bottleneck, as in the
        blog post, or d if that is less.
    epochs, batch, learning_rate
        Maximum number of epochs, rows per step, Adam's step size.
    patience : int
        Epochs without improvement before training stops.
    random_state : int
        The seed.

    Attributes
    ----------
    weights_ : (d, hidden) and (hidden, n_components), float32
    losses_ : held-out error after each epoch; only set by `fit`

    >>> X = np.random.default_rng(0).normal(size=(400, 6)).astype(np.float32)
    >>> small = TiedAutoencoder(2, epochs=2).fit(X).transform(X)
    >>> small.shape, np.linalg.norm(small, axis=1).round(3).max()
    ((400, 2), np.float32(1.0))
    """

    name: ClassVar[str] = "autoencoder"

    def __init__(
        self,
        n_components: int,
        hidden: int | None = None,
        *,
        epochs: int = 100,
        batch: int = 128,
        learning_rate: float = 1e-4,
        patience: int = 3,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.hidden = hidden
        self.epochs = epochs
        self.batch = batch
        self.learning_rate = learning_rate
        self.patience = patience
        self.random_state = random_state

    @property
    def n_features(self) -> int:
        """Dimensions d of the rows that it was fitted on."""
        return len(self.weights_[0])

    @property
    def nbytes(self) -> int:
        """Resident bytes once fitted."""
        return sum(weights.nbytes for weights in self.weights_)

    def transform(self, X: Matrix) -> Matrix:
        """Reduce rows (n, d) to unit rows (n, n_components)."""
        X = as_matrix(X, dim=len(self.weights_[0]))
        out = np.empty((len(X), self.n_components), dtype=np.float32)
        for part in batches(len(X)):
            values = normalize_rows(X[part])
            for weights in self.weights_:
                values = _selu(product(values, weights))
            out[part] = normalize_rows(values)
        return out

    def save(self, path: Path) -> None:
        """Write as safetensors."""
        arrays = {f"weights{i}": weights for i, weights in enumerate(self.weights_)}
        save_fitted(path, self, arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load a file written by `save`; raise `CorruptError` for anything else."""
        reducer: Self
        reducer, arrays = load_fitted(path, cls, {"weights0", "weights1"})
        check_tensor(path, "weights0", arrays["weights0"], (None, None), np.float32)
        hidden = arrays["weights0"].shape[1]
        shape = (hidden, reducer.n_components)
        check_tensor(path, "weights1", arrays["weights1"], shape, np.float32)
        reducer.weights_ = (arrays["weights0"], arrays["weights1"])
        return reducer

    def _fit(self, X: Matrix) -> Self:
        n, d = X.shape
        self.check_components(self.n_components, d)
        if n < self.min_rows:
            raise InputError(f"{n} vectors; expected 2 or more to train an autoencoder")
        import torch

        X = normalize_rows(X)
        generator = torch.Generator().manual_seed(self.random_state)
        parameters = self._initial(X, generator)
        rows = torch.from_numpy(X)[torch.randperm(n, generator=generator)]
        count = validation_rows(n)
        first, second = self._train(rows[count:], rows[:count], parameters, generator)
        self.weights_ = (first.numpy().copy(), second.numpy().copy())
        return self

    def _train(
        self,
        rows: torch.Tensor,
        validation: torch.Tensor,
        parameters: list[torch.Tensor],
        generator: torch.Generator,
    ) -> list[torch.Tensor]:
        """Train on rows; return the weights of the epoch with the least validation error."""
        import torch

        optimizer = torch.optim.Adam(parameters, lr=self.learning_rate)

        def train() -> float:
            for batch in shuffled(len(rows), self.batch, generator):
                optimizer.zero_grad(set_to_none=True)
                _error(rows[batch], parameters).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            with torch.no_grad():
                for tensor in parameters:
                    tensor.copy_(_orthonormal(tensor))
                return float(_error(validation, parameters))

        def copy() -> list[torch.Tensor]:
            return [tensor.detach().clone() for tensor in parameters]

        return self._best_epoch(train, copy, lambda least: least * (1 - TOLERANCE))

    def _initial(self, X: Matrix, generator: torch.Generator) -> list[torch.Tensor]:
        """Randomly rotated principal axes of uncentred rows, for both layers."""
        import torch

        d = X.shape[1]
        k = self.n_components
        hidden = min(2 * k, d) if self.hidden is None else self.hidden
        if not k <= hidden <= d:
            raise InputError(f"hidden={hidden}; expected n_components={k} to {d} dimensions")
        _, axes, _ = principal_axes(Moments(d).update(X), beta=0.0)
        first = torch.from_numpy(axes[:, :hidden].astype(np.float32))
        rotation = _random_rotation(hidden, generator)
        bottleneck_rotation = _random_rotation(k, generator)
        weights = (first @ rotation, rotation.T[:, :k] @ bottleneck_rotation)
        return [tensor.contiguous().requires_grad_() for tensor in weights]


def _random_rotation(size: int, generator: torch.Generator) -> torch.Tensor:
    """Draw an orthogonal matrix (size, size)."""
    import torch

    rotation: torch.Tensor = torch.linalg.qr(torch.randn(size, size, generator=generator))[0]
    return rotation


def _error(rows: torch.Tensor, parameters: list[torch.Tensor]) -> torch.Tensor:
    """Mean squared distance between rows and their reconstructions, both of unit length."""
    from torch.nn.functional import normalize, selu

    first, second = parameters
    bottleneck = normalize(selu(selu(rows @ first) @ second), dim=1)
    back = normalize(selu(bottleneck @ second.T) @ first.T, dim=1)
    return (back - rows).square().sum(dim=1).mean()


def _orthonormal(weights: torch.Tensor) -> torch.Tensor:
    """Nearest matrix with orthonormal columns."""
    import torch

    left, _, right = torch.linalg.svd(weights, full_matrices=False)
    nearest: torch.Tensor = left @ right
    return nearest


def _selu(x: Matrix) -> Matrix:
    negative = SELU_ALPHA * np.expm1(np.minimum(x, 0.0))
    out: Matrix = (SELU_SCALE * np.where(x > 0, x, negative)).astype(np.float32, copy=False)
    return out
