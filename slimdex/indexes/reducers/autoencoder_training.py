"""Training of `TiedAutoencoder`, by torch."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import normalize, selu

from ..arrays import Matrix
from .linear import principal_axes
from .moments import Moments
from .reducer import shuffle, validation_rows


class Training:
    """Weights of both layers, and the rows that they are trained on.

    Parameters
    ----------
    X : unit rows (n, d), some of which are held out.
    hidden, k : units of the first layer and of the bottleneck.
    batch, learning_rate : rows per step, and Adam's step size.
    random_state : the seed.
    """

    def __init__(
        self,
        X: Matrix,
        hidden: int,
        k: int,
        *,
        batch: int,
        learning_rate: float,
        random_state: int,
    ) -> None:
        self._batch = batch
        self._generator = torch.Generator().manual_seed(random_state)
        self._weights = _initial(X, hidden, k, self._generator)
        rows = torch.from_numpy(X)[torch.randperm(len(X), generator=self._generator)]
        count = validation_rows(len(X))
        self._validation = rows[:count]
        self._rows = rows[count:]
        self._optimizer = torch.optim.Adam(self._weights, lr=learning_rate)

    def train(self) -> float:
        """Train for an epoch; returns the error of the held-out rows."""
        for batch in shuffle(len(self._rows), self._batch, self._generator):
            self._optimizer.zero_grad(set_to_none=True)
            _error(self._rows[batch], self._weights).backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
        with torch.no_grad():
            for weights in self._weights:
                weights.copy_(_orthonormal(weights))
            return float(_error(self._validation, self._weights))

    def copy(self) -> tuple[Matrix, Matrix]:
        """Copy the weights (d, hidden) and (hidden, k)."""
        first, second = self._weights
        return first.detach().numpy().copy(), second.detach().numpy().copy()


def _initial(X: Matrix, hidden: int, k: int, generator: torch.Generator) -> list[torch.Tensor]:
    """Weights (d, hidden) and (hidden, k): randomly rotated principal axes of uncentred rows."""
    _, axes, _ = principal_axes(Moments(X.shape[1]).update(X), beta=0.0)
    first = torch.from_numpy(axes[:, :hidden].astype(np.float32))
    rotation = _random_rotation(hidden, generator)
    bottleneck_rotation = _random_rotation(k, generator)
    # The second layer undoes the first one's rotation, keeps the first k axes and rotates those.
    weights = (first @ rotation, rotation.T[:, :k] @ bottleneck_rotation)
    return [tensor.contiguous().requires_grad_() for tensor in weights]


def _random_rotation(size: int, generator: torch.Generator) -> torch.Tensor:
    """Draw an orthogonal matrix (size, size)."""
    rotation: torch.Tensor = torch.linalg.qr(torch.randn(size, size, generator=generator))[0]
    return rotation


def _error(rows: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    """Mean squared distance between rows and their reconstructions, both of unit length."""
    first, second = weights
    bottleneck = normalize(selu(selu(rows @ first) @ second), dim=1)
    back = normalize(selu(bottleneck @ second.T) @ first.T, dim=1)
    return (back - rows).square().sum(dim=1).mean()


def _orthonormal(weights: torch.Tensor) -> torch.Tensor:
    """Nearest matrix with orthonormal columns."""
    left, _, right = torch.linalg.svd(weights, full_matrices=False)
    nearest: torch.Tensor = left @ right
    return nearest
