"""TiedAutoencoder: a nonlinear reducer, fitted by torch, applied by numpy."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from slimdex.errors import InputError
from slimdex.system.threads import product

from ..arrays import Matrix, as_matrix, batches, normalize_rows
from ..tensors import check_tensor, load_fitted, save_fitted
from .reducer import TrainedReducer

TOLERANCE = 1e-3
"""Relative drop of the held-out error that counts as an improvement."""
SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772
"""Constants of SELU (Klambauer et al. 2017, eq. 2)."""


@dataclass(eq=False)
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

    hidden: int | None = None
    _: KW_ONLY
    epochs: int = 100
    batch: int = 128
    learning_rate: float = 1e-4
    patience: int = 3
    random_state: int = 0

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
        k = self.n_components
        hidden = min(2 * k, d) if self.hidden is None else self.hidden
        if not k <= hidden <= d:
            raise InputError(f"hidden={hidden}; expected n_components={k} to {d} dimensions")
        from .autoencoder_training import Training  # loads torch, in a second

        training = Training(
            normalize_rows(X),
            hidden,
            k,
            batch=self.batch,
            learning_rate=self.learning_rate,
            random_state=self.random_state,
        )
        self.weights_ = self._best_epoch(
            training.train, training.copy, lambda least: least * (1 - TOLERANCE)
        )
        return self


def _selu(x: Matrix) -> Matrix:
    """Apply SELU: scale * x above 0, scale * alpha * (exp(x) - 1) below."""
    negative = SELU_ALPHA * np.expm1(np.minimum(x, 0.0))
    out: Matrix = (SELU_SCALE * np.where(x > 0, x, negative)).astype(np.float32, copy=False)
    return out
