"""BERT-flow: an invertible map to a standard Gaussian, fitted by torch, applied by numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import CorruptError, InputError
from slimdex.system.threads import product

from ..arrays import Matrix, as_matrix, batches
from ..tensors import check_tensor, load_fitted, save_fitted
from .linear import Pca
from .moments import Moments
from .reducer import TrainedReducer

TOLERANCE = 1e-3
"""Rise of the held-out log-likelihood, in nats per dimension, that counts as an improvement."""
NOISE = 0.02
"""Standard deviation of training noise, relative to that of the rows."""


@dataclass(eq=False)
class Flow(TrainedReducer):
    """BERT-flow (Li et al. 2020): an invertible map of rows to a standard Gaussian.

    A Glow (Kingma and Dhariwal 2018) with the default of the paper's code, config_l3_d3_w32: three
    levels of three steps. A step standardises every dimension (actnorm, initialised from the
    data), reverses their order and shifts the second half by a small network of the first
    (additive coupling, two hidden layers of 32 ReLU units, initialised to zero). Each level passes
    half of the dimensions on to the output. Adam maximises the likelihood of the rows, until that
    of held-out rows stops rising. Vectors are used as the model returns them: the flow centres
    them, and they are not normalised.

    Differences from that code: actnorm starts from all rows instead of the first batch; couplings
    have biases instead of actnorm; training makes several epochs instead of one, and adds a little
    noise. Without noise, rows that span fewer than d dimensions could be stretched without limit
    and become likelier with every step. Deterministic for a given seed on one machine.

    A flow keeps all d dimensions. For fewer, PCA of its outputs follows. Nearly all outputs have
    variance 1, but they are not independent, as couplings only shift; the first axes are what
    dimensions still share. Their variances are not equalised, which would change nothing for a
    true standard Gaussian.

    Parameters
    ----------
    n_components : int
        Dimensions to keep, at most d; below d, PCA reduces the flow's outputs.
    levels, depth, width : int
        Levels, steps per level, hidden units of a coupling.
    epochs, batch, learning_rate
        Maximum number of epochs, rows per step, Adam's step size.
    patience : int
        Epochs without improvement before training stops.
    random_state : int
        The seed.

    Attributes
    ----------
    steps_ : levels * depth `Step`, in order
    cut_ : `Pca` of the outputs, None if n_components is d
    losses_ : negative log-likelihood of the standardised held-out rows after each epoch, in nats
        per dimension without the constant log(2 pi)/2; only set by `fit`

    >>> x = np.random.default_rng(0).normal(size=(400, 1)).astype(np.float32)
    >>> banana = np.hstack([x, x**2])
    >>> flow = Flow(2, epochs=1).fit(banana)
    >>> flow.transform(banana).shape
    (400, 2)
    """

    name: ClassVar[str] = "flow"

    _: KW_ONLY
    levels: int = 3
    depth: int = 3
    width: int = 32
    epochs: int = 5
    batch: int = 64
    learning_rate: float = 1e-3
    patience: int = 2
    random_state: int = 0

    @property
    def n_features(self) -> int:
        """Dimensions d of the rows that it was fitted on."""
        return len(self.steps_[0].centre)

    @property
    def nbytes(self) -> int:
        """Resident bytes once fitted."""
        nbytes = self.cut_.nbytes if self.cut_ else 0
        for step in self.steps_:
            nbytes += sum(array.nbytes for array in vars(step).values())
        return nbytes

    def transform(self, X: Matrix) -> Matrix:
        """Map rows (n, d) to z (n, n_components), not normalised."""
        X = as_matrix(X, dim=self.n_features)
        out = np.empty((len(X), self.n_components), dtype=np.float32)
        for part in batches(len(X)):
            z = self._forward(X[part])
            out[part] = self.cut_.transform(z) if self.cut_ else z
        return out

    def save(self, path: Path) -> None:
        """Write as safetensors."""
        arrays = {}
        for i, step in enumerate(self.steps_):
            for name, array in vars(step).items():
                arrays[f"{i}.{name}"] = array
        if self.cut_:
            arrays |= {"cut.shift": self.cut_.shift_, "cut.components": self.cut_.components_}
        save_fitted(path, self, arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load a file written by `save`; raise `CorruptError` for anything else."""
        flow: Self
        flow, arrays = load_fitted(path, cls)

        # Check the parameters first: they decide how much is allocated below.
        if "0.centre" not in arrays:
            raise CorruptError(f"{path}: no array 0.centre; expected those of a flow")
        k = flow.n_components
        d = arrays["0.centre"].size
        if type(k) is not int or not 1 <= k <= d:
            raise CorruptError(f"{path}: n_components={k!r}; expected 1 to {d}")
        cut = {} if k == d else {"cut.shift": (d,), "cut.components": (d, k)}
        sizes = (flow.levels, flow.depth, flow.width)
        # Bounded by the number of arrays: a number in a file may be of any size.
        if not all(type(size) is int and 0 < size <= len(arrays) * d for size in sizes):
            raise CorruptError(
                f"{path}: levels, depth, width = {sizes}; they do not match the arrays"
            )
        count = flow.levels * flow.depth
        if len(arrays) != count * len(fields(Step)) + len(cut):
            raise CorruptError(f"{path}: {len(arrays)} arrays; expected those of {count} steps")

        # Check the arrays.
        shapes: dict[str, tuple[int | None, ...]] = dict(cut)
        for i, m in enumerate(active_dimensions(d, flow.levels, flow.depth)):
            for name, step_shape in step_shapes(m, flow.width).items():
                shapes[f"{i}.{name}"] = step_shape
        if set(arrays) != set(shapes):
            raise CorruptError(f"{path}: arrays {sorted(arrays)!r:.80}; expected those of a flow")
        for name, shape in shapes.items():
            check_tensor(path, name, arrays[name], shape, np.float32)
            if name.endswith("scale") and not (arrays[name] > 0).all():
                raise CorruptError(f"{path}: {name} has zero or less; expected scales")

        # Make the steps and the cut from them.
        flow.steps_ = []
        for i in range(count):
            step = {field.name: arrays[f"{i}.{field.name}"] for field in fields(Step)}
            flow.steps_.append(Step(**step))
        flow.cut_ = Pca(k) if cut else None
        if flow.cut_:
            flow.cut_.shift_ = arrays["cut.shift"]
            flow.cut_.components_ = arrays["cut.components"]
        return flow

    def _forward(self, X: Matrix) -> Matrix:
        """Map rows (n, d) to outputs (n, d); each step changes only the first dimensions."""
        z = X.copy()
        for step in self.steps_:
            m = len(step.centre)
            z[:, :m] = step.forward(z[:, :m])
        return z

    def _fit(self, X: Matrix) -> Self:
        n, d = X.shape
        self.check_components(self.n_components, d)
        if n < self.min_rows:
            raise InputError(f"{n} vectors; expected 2 or more to train a flow")
        for name in ("levels", "depth", "width"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}; expected 1 or more")
        from .flow_training import Training, one_thread  # load torch, in a second

        mean, deviation = standardisation(X)
        standard = np.empty_like(X)
        for part in batches(n):
            standard[part] = (X[part] - mean) / deviation

        # Keep the steps of the epoch with the best likelihood of held-out rows.
        active = active_dimensions(d, self.levels, self.depth)
        training = Training(
            standard,
            [step_shapes(m, self.width) for m in active],
            noise=NOISE,
            batch=self.batch,
            learning_rate=self.learning_rate,
            random_state=self.random_state,
        )
        with one_thread():
            best = self._best_epoch(training.train, training.copy, lambda least: least - TOLERANCE)
        self.steps_ = [Step(**arrays) for arrays in best]

        # The standardisation of the data becomes part of the first step.
        first = self.steps_[0]
        centre = mean + deviation * first.centre
        scale = first.scale / deviation
        self.steps_[0] = replace(
            first, centre=centre.astype(np.float32), scale=scale.astype(np.float32)
        )

        # The steps keep all dimensions, so a PCA reduces their outputs.
        self.cut_ = None
        if self.n_components < d:
            outputs = (self._forward(X[part]) for part in batches(n))
            self.cut_ = Pca(self.n_components).fit_moments(Moments.of(outputs, d))
            # Use the memory order of a loaded array, since BLAS rounds differently for each order.
            self.cut_.components_ = np.ascontiguousarray(self.cut_.components_)
        return self


@dataclass(frozen=True)
class Step:
    """One step of the flow: standardise, reverse, shift the second half by a function of the first.

    Attributes
    ----------
    centre, scale : (m,), of the first m dimensions; the others are unchanged.
    first, first_bias : (m // 2, width) and (width,), first layer of the coupling.
    second, second_bias : (width, width) and (width,).
    last, last_bias : (width, m - m // 2) and (m - m // 2,).
    """

    centre: NDArray[np.float32]
    scale: NDArray[np.float32]
    first: Matrix
    first_bias: NDArray[np.float32]
    second: Matrix
    second_bias: NDArray[np.float32]
    last: Matrix
    last_bias: NDArray[np.float32]

    def forward(self, x: Matrix) -> Matrix:
        """Apply the step to the active dimensions of rows (n, m)."""
        out: Matrix = ((x - self.centre) * self.scale)[:, ::-1].copy()
        half = len(self.first)
        out[:, half:] += self._shift(out[:, :half])
        return out

    def _shift(self, x: Matrix) -> Matrix:
        """Compute the second half's shift (n, m - m // 2) from the first half (n, m // 2)."""
        hidden = np.maximum(product(x, self.first) + self.first_bias, 0.0)
        hidden = np.maximum(product(hidden, self.second) + self.second_bias, 0.0)
        out: Matrix = product(hidden, self.last) + self.last_bias
        return out


def active_dimensions(d: int, levels: int, depth: int) -> Iterator[int]:
    """Yield the number of active dimensions of each step; each level drops the second half.

    >>> list(active_dimensions(7, 3, 2))
    [7, 7, 4, 4, 2, 2]
    """
    for _ in range(levels):
        yield from [d] * depth
        d -= d // 2


def step_shapes(m: int, width: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays of a step with m active dimensions."""
    return {
        "centre": (m,),
        "scale": (m,),
        "first": (m // 2, width),
        "first_bias": (width,),
        "second": (width, width),
        "second_bias": (width,),
        "last": (width, m - m // 2),
        "last_bias": (m - m // 2,),
    }


def standardisation(X: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and standard deviations (d,) of rows (n, d), to standardise them.

    Deviations are at least `NOISE` times a typical one, so that dividing by them does not amplify
    rounding errors.
    """
    moments = Moments(X.shape[1]).update(X)
    mean = moments.mean
    variances = moments.covariance(1.0).diagonal()
    typical = variances.mean()
    mean_square = (mean**2).mean()
    if typical <= np.finfo(np.float32).eps ** 2 * mean_square:  # all rows are equal
        typical = mean_square or 1.0
    return mean, np.sqrt(np.maximum(variances, NOISE**2 * typical))
