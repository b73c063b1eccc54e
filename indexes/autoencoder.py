"""TiedAutoencoder: a nonlinear reducer, fitted by torch, applied by numpy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from .arrays import Matrix, as_matrix, batches, normalize_rows
from .errors import CorruptError, InputError
from .moments import Moments
from .progress import Progress, silent
from .reducer import RowFile
from .tensors import load_tensors, save_tensors

if TYPE_CHECKING:
    import torch

MOST_ROWS = 131_072
"""Rows that are trained on, at most; a sample of those that there are."""
HELD_OUT = 0.05
"""Share of the rows that the training is stopped by."""
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
"""Of the self-normalising unit (Klambauer et al. 2017, eq. 2)."""


class TiedAutoencoder:
    """Two layers of SELU units down to a bottleneck of unit length, and the same weights back up.

    The design is that of a blog on compressing sentence vectors (512 -> 256 -> 128 there): the
    decoder's weights are the encoder's, transposed, and only the biases are its own. Rows are
    centred and scaled by one number first; their mean squared reconstruction error is minimised
    by Adam, and stopped when that of rows held out no longer falls. Deterministic under a seed on
    one machine.

    Parameters
    ----------
    n_components : int
        Units of the bottleneck: at most d.
    hidden : int or None
        Units of the layer before it; None takes twice the bottleneck's, which is the blog's.
    epochs, batch, learning_rate
        At most so many passes over the rows, so many rows a step.
    patience : int
        Passes without a better reconstruction before it stops.
    random_state : int
        The seed.

    Attributes
    ----------
    mean_ : (d,) float32, and scale_, a float: what rows are shifted and divided by
    weights_ : (d, hidden) and (hidden, n_components), float32
    biases_ : (hidden,) and (n_components,), float32
    losses_ : held-out error after each pass, when it has been fitted here

    >>> X = np.random.default_rng(0).normal(size=(400, 6)).astype(np.float32)
    >>> small = TiedAutoencoder(2, epochs=2).fit(X).transform(X)
    >>> small.shape, np.linalg.norm(small, axis=1).round(3).max()
    ((400, 2), np.float32(1.0))
    """

    name: ClassVar[str] = "autoencoder"
    bounded_by_rank: ClassVar[bool] = False

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
        self.n_components, self.hidden = n_components, hidden
        self.epochs, self.batch, self.learning_rate = epochs, batch, learning_rate
        self.patience, self.random_state = patience, random_state

    @classmethod
    def configured(cls, n_components: int, beta: float, gamma: float) -> Self:
        """``TiedAutoencoder(n_components)``: beta and gamma mean nothing to it."""
        return cls(n_components)

    @property
    def nbytes(self) -> int:
        """Resident bytes once fitted."""
        arrays = [self.mean_, *self.weights_, *self.biases_]
        return sum(array.nbytes for array in arrays)

    def fit(self, X: Matrix, progress: Progress = silent) -> Self:
        """Learn from rows (n, d), of which a sample is read, so `X` may be memory-mapped."""
        return self._fit(as_matrix(X[_sample(len(X), self.random_state)]), progress)

    def fit_vectors(self, vectors: RowFile, moments: Moments, progress: Progress) -> Self:
        """Learn from a sample of the rows on disk."""
        rows = _sample(len(vectors), self.random_state)
        parts = [vectors.take(rows[part]) for part in batches(len(rows))]
        return self._fit(np.concatenate(parts), progress)

    def transform(self, X: Matrix) -> Matrix:
        """Rows (n, d) to rows of unit length (n, n_components)."""
        X = as_matrix(X, dim=len(self.mean_))
        out = np.empty((len(X), self.n_components), dtype=np.float32)
        for part in batches(len(X)):
            values = (X[part] - self.mean_) / self.scale_
            for weights, bias in zip(self.weights_, self.biases_, strict=True):
                values = _selu(values @ weights + bias)
            out[part] = normalize_rows(values)
        return out

    def params(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON can hold them."""
        names = ("n_components", "hidden", "epochs", "batch", "learning_rate", "patience")
        return {name: getattr(self, name) for name in (*names, "random_state")}

    def save(self, path: Path) -> None:
        """Write as safetensors."""
        arrays = {"mean": self.mean_, "scale": np.array([self.scale_], dtype=np.float32)}
        for i, (weights, bias) in enumerate(zip(self.weights_, self.biases_, strict=True)):
            arrays |= {f"weights{i}": weights, f"bias{i}": bias}
        save_tensors(path, self.name, self.params(), arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote; raises `CorruptError` for anything else."""
        kind, params, arrays = load_tensors(path)
        names = {"mean", "scale", "weights0", "bias0", "weights1", "bias1"}
        if kind != cls.name or set(arrays) != names:
            raise CorruptError(f"{path}: holds {kind!r}; expected the reducer {cls.name!r}")
        reducer = cls(**params)
        reducer.mean_, reducer.scale_ = arrays["mean"], float(arrays["scale"][0])
        reducer.weights_ = (arrays["weights0"], arrays["weights1"])
        reducer.biases_ = (arrays["bias0"], arrays["bias1"])
        return reducer

    def _fit(self, X: Matrix, progress: Progress) -> Self:
        n, d = X.shape
        if not 1 <= self.n_components <= d:
            raise InputError(
                f"n_components={self.n_components}; expected 1 to the {d} dimensions of the vectors"
            )
        if n < 2:
            raise InputError(f"{n} vectors; expected 2 or more to train an autoencoder")
        # torch takes a second to import and is only needed here.
        import torch

        self.mean_ = X.mean(axis=0, dtype=np.float64).astype(np.float32)
        X = X - self.mean_
        self.scale_ = float(np.sqrt(np.square(X, dtype=np.float32).mean(dtype=np.float64))) or 1.0
        X /= self.scale_
        generator = torch.Generator().manual_seed(self.random_state)
        rows = torch.from_numpy(X)[torch.randperm(n, generator=generator)]
        held = max(1, round(n * HELD_OUT))
        best = self._train(rows[held:], rows[:held], generator, progress)
        arrays = [tensor.detach().numpy().copy() for tensor in best[:4]]
        self.weights_, self.biases_ = (arrays[0], arrays[1]), (arrays[2], arrays[3])
        return self

    def _train(
        self,
        rows: torch.Tensor,
        held: torch.Tensor,
        generator: torch.Generator,
        progress: Progress,
    ) -> list[torch.Tensor]:
        """The parameters with the least held-out error: two weights, then four biases."""
        import torch

        parameters = self._initial(rows.shape[1], generator)
        optimizer = torch.optim.Adam(parameters, lr=self.learning_rate)
        self.losses_, best, waited = list[float](), parameters, 0
        for epoch in range(self.epochs):
            for batch in _batches(len(rows), self.batch, generator):
                optimizer.zero_grad(set_to_none=True)
                _error(rows[batch], parameters).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            with torch.inference_mode():
                self.losses_.append(float(_error(held, parameters)))
            progress("training the autoencoder", epoch + 1, self.epochs)
            if self.losses_[-1] <= min(self.losses_):
                best, waited = [tensor.detach().clone() for tensor in parameters], 0
            elif (waited := waited + 1) > self.patience:
                break
        return best

    def _initial(self, d: int, generator: torch.Generator) -> list[torch.Tensor]:
        """Weights of variance 1/inputs, as SELU wants them, and biases of zero."""
        import torch

        hidden = self.hidden or min(2 * self.n_components, d)
        first = torch.randn(d, hidden, generator=generator) / d**0.5
        second = torch.randn(hidden, self.n_components, generator=generator) / hidden**0.5
        biases = [torch.zeros(size) for size in (hidden, self.n_components, hidden, d)]
        return [tensor.requires_grad_() for tensor in (first, second, *biases)]


def _error(rows: torch.Tensor, parameters: list[torch.Tensor]) -> torch.Tensor:
    """Mean squared error of rows and what comes back of them."""
    from torch.nn.functional import mse_loss, normalize, selu

    first, second, down0, down1, up0, up1 = parameters
    bottleneck = normalize(selu(selu(rows @ first + down0) @ second + down1), dim=1)
    return mse_loss(selu(bottleneck @ second.T + up0) @ first.T + up1, rows)


def _batches(n: int, size: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    import torch

    order = torch.randperm(n, generator=generator)
    return (order[low : low + size] for low in range(0, n, size))


def _selu(x: Matrix) -> Matrix:
    negative = SELU_ALPHA * np.expm1(np.minimum(x, 0.0))
    out: Matrix = (SELU_SCALE * np.where(x > 0, x, negative)).astype(np.float32, copy=False)
    return out


def _sample(n: int, seed: int) -> NDArray[np.int64]:
    """At most `MOST_ROWS` of n rows, in order."""
    if n <= MOST_ROWS:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, MOST_ROWS, replace=False))
