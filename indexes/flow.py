"""Flow: BERT-flow, an invertible map to a standard Gaussian; fitted by torch, applied by numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from .arrays import Matrix, as_matrix, batches
from .errors import CorruptError, InputError
from .linear import Pca, check_components
from .moments import Moments
from .progress import progress
from .reducer import RowFile
from .tensors import check_tensor, load_tensors, save_tensors
from .training_rows import held_out, sample_of, sample_of_file, shuffled

if TYPE_CHECKING:
    import torch

NOISE = 0.02
"""Standard deviation of what is added to rows in training, as a share of theirs."""
LOG_SCALE_FACTOR = 3.0
"""What is learned is a third of a scale's logarithm, so that scales move faster than the rest."""
LARGEST_GRADIENT = 1.0
"""Length to which a step's gradient is cut."""
TOLERANCE = 1e-3
"""Nats a dimension by which a pass must raise the held-out likelihood to count as better."""


@dataclass(frozen=True)
class Step:
    """One step of the flow: standardise, turn around, shift the second half by the first.

    Attributes
    ----------
    centre, scale : (m,), of the first m dimensions, which are those that the step changes.
    first, first_bias : (m // 2, width) and (width,), of the coupling's first layer.
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
        """Rows (n, m) of the active dimensions one step on."""
        out: Matrix = ((x - self.centre) * self.scale)[:, ::-1].copy()
        out[:, len(self.first) :] += self._shift(out)
        return out

    def _shift(self, x: Matrix) -> Matrix:
        hidden = np.maximum(x[:, : len(self.first)] @ self.first + self.first_bias, 0.0)
        hidden = np.maximum(hidden @ self.second + self.second_bias, 0.0)
        out: Matrix = hidden @ self.last + self.last_bias
        return out


class Flow:
    """BERT-flow (Li et al. 2020): an invertible map of rows to those of a standard Gaussian.

    A Glow (Kingma and Dhariwal 2018) as in the paper's code and its default, config_l3_d3_w32:
    three levels of three steps; a step standardises every dimension (actnorm, which starts from
    the data), turns their order around and adds to the second half what a small network makes of
    the first (additive coupling, two hidden layers of 32 ReLU units, which starts as zero). After
    each level half of the dimensions are done with. Adam maximises the likelihood of the rows; it
    is stopped when that of rows held out no longer rises. Vectors are taken as the model gives
    them, centred by the flow itself and not brought to unit length.

    Where this differs from that code: standardising starts from all rows, not from the first
    batch; couplings have biases where that has actnorm; that makes one pass only. And a little
    noise is added in training: rows that span fewer dimensions than they have, or of which one
    never varies, could otherwise be stretched without end, and become likelier with every step.
    Deterministic under a seed on one machine.

    A flow keeps all d dimensions. With fewer, PCA of its outputs follows: nearly all of them have
    variance 1, but they are not independent, as couplings only shift; the first axes are what
    dimensions still share. Their variances are not evened out, which for a Gaussian that is truly
    standard would change nothing.

    Parameters
    ----------
    n_components : int
        Dimensions to keep, at most d; less than d cuts the flow's outputs by PCA.
    levels, depth, width : int
        Levels, steps in each, hidden units of a coupling.
    epochs, batch, learning_rate
        At most so many passes over the rows, so many rows a step.
    patience : int
        Passes without a better likelihood before it stops.
    random_state : int
        The seed.

    Attributes
    ----------
    steps_ : levels * depth `Step`, in order
    cut_ : `Pca` of the outputs, None where n_components is d
    losses_ : negative log-likelihood of the rows held out after each pass, in nats a dimension
        without the constant log(2 pi)/2, of rows standardised; when it has been fitted here

    >>> x = np.random.default_rng(0).normal(size=(400, 1)).astype(np.float32)
    >>> banana = np.hstack([x, x**2])
    >>> flow = Flow(2, epochs=1).fit(banana)
    >>> flow.transform(banana).shape
    (400, 2)
    """

    name: ClassVar[str] = "flow"
    bounded_by_rank: ClassVar[bool] = False
    min_rows: ClassVar[int] = 2

    def __init__(
        self,
        n_components: int,
        *,
        levels: int = 3,
        depth: int = 3,
        width: int = 32,
        epochs: int = 5,
        batch: int = 64,
        learning_rate: float = 1e-3,
        patience: int = 2,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.levels, self.depth, self.width = levels, depth, width
        self.epochs, self.batch, self.learning_rate = epochs, batch, learning_rate
        self.patience, self.random_state = patience, random_state

    @classmethod
    def check_components(cls, n_components: int, dim: int) -> None:
        """Raise `InputError` unless they are 1 to the dimensions of the vectors."""
        check_components(n_components, dim)

    @classmethod
    def configured(cls, n_components: int, beta: float, gamma: float) -> Self:
        """``Flow(n_components)``: it centres and scales in its own way."""
        return cls(n_components)

    @property
    def n_features(self) -> int:
        """d, the dimensions of the rows that it was fitted to."""
        return len(self.steps_[0].centre)

    @property
    def nbytes(self) -> int:
        """Resident bytes once fitted."""
        own: int = sum(array.nbytes for step in self.steps_ for array in vars(step).values())
        return own + (self.cut_.nbytes if self.cut_ else 0)

    def fit(self, X: Matrix) -> Self:
        """Learn from rows (n, d), of which a sample is read, so `X` may be memory-mapped.

        Raises
        ------
        InputError
            For fewer than 2 rows, n_components beyond d, or levels, depth or width below 1.
        """
        return self._fit(sample_of(X, self.random_state))

    def fit_vectors(self, vectors: RowFile, moments: Moments) -> Self:
        """Learn from a sample of the rows on disk."""
        return self._fit(sample_of_file(vectors, self.random_state))

    def transform(self, X: Matrix) -> Matrix:
        """Rows (n, d) to z (n, n_components), not of unit length."""
        X = as_matrix(X, dim=self.n_features)
        out = np.empty((len(X), self.n_components), dtype=np.float32)
        for part in batches(len(X)):
            z = self._forward(X[part])
            out[part] = self.cut_.transform(z) if self.cut_ else z
        return out

    def params(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON can hold them."""
        names = ("n_components", "levels", "depth", "width", "epochs", "batch", "learning_rate")
        return {name: getattr(self, name) for name in (*names, "patience", "random_state")}

    def save(self, path: Path) -> None:
        """Write as safetensors."""
        arrays = {
            f"{i}.{name}": array
            for i, step in enumerate(self.steps_)
            for name, array in vars(step).items()
        }
        if self.cut_:
            arrays |= {"cut.shift": self.cut_.shift_, "cut.components": self.cut_.components_}
        save_tensors(path, self.name, self.params(), arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote; raises `CorruptError` for anything else."""
        kind, params, arrays = load_tensors(path)
        if kind != cls.name:
            raise CorruptError(f"{path}: holds {kind!r}; expected the reducer {cls.name!r}")
        if "0.centre" not in arrays:
            raise CorruptError(f"{path}: no array 0.centre; expected those of a flow")
        try:
            flow = cls(**params)
        except TypeError as error:
            raise CorruptError(f"{path}: {error}; expected parameters of {cls.name!r}") from error
        k, d = flow.n_components, arrays["0.centre"].size
        if type(k) is not int or not 1 <= k <= d:
            raise CorruptError(f"{path}: n_components={k!r}; expected 1 to {d}")
        cut = {} if k == d else {"cut.shift": (d,), "cut.components": (d, k)}
        sizes = (flow.levels, flow.depth, flow.width)
        # Not more steps than there are arrays: a number from a file may be of any size.
        if not all(type(size) is int and 0 < size <= len(arrays) * d for size in sizes):
            raise CorruptError(f"{path}: levels, depth, width = {sizes}; expected others")
        count = flow.levels * flow.depth
        if len(arrays) != count * len(fields(Step)) + len(cut):
            raise CorruptError(f"{path}: {len(arrays)} arrays; expected those of {count} steps")
        shapes: dict[str, tuple[int | None, ...]] = dict(cut)
        for i, m in enumerate(_active(d, flow.levels, flow.depth)):
            shapes |= {f"{i}.{name}": s for name, s in _shapes(m, flow.width).items()}
        if set(arrays) != set(shapes):
            raise CorruptError(f"{path}: arrays {sorted(arrays)!r:.80}; expected those of a flow")
        for name, shape in shapes.items():
            check_tensor(path, name, arrays[name], shape, np.float32)
            if name.endswith("scale") and not (arrays[name] > 0).all():
                raise CorruptError(f"{path}: {name} has zero or less; expected scales")
        flow.steps_ = [
            Step(**{field.name: arrays[f"{i}.{field.name}"] for field in fields(Step)})
            for i in range(count)
        ]
        flow.cut_ = Pca(k) if cut else None
        if flow.cut_:
            flow.cut_.shift_, flow.cut_.components_ = arrays["cut.shift"], arrays["cut.components"]
        return flow

    def _forward(self, X: Matrix) -> Matrix:
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
        # torch takes a second to import and is only needed here.
        import torch

        mean, deviation = _standard(X)
        generator = torch.Generator().manual_seed(self.random_state)
        parameters = self._initial(d, generator)
        standard = np.empty_like(X)
        for part in batches(n):
            standard[part] = (X[part] - mean) / deviation
        rows = torch.from_numpy(standard)[torch.randperm(n, generator=generator)]
        held = held_out(n)
        threads = torch.get_num_threads()
        # Its matrices are so small that threads wait for each other more than they help: on cores
        # that others use, too, training took ten times as long with two.
        torch.set_num_threads(1)
        try:
            best = self._train(rows[held:], rows[:held], parameters, generator)
        finally:
            torch.set_num_threads(threads)
        self.steps_ = [_step(tensors) for tensors in best]
        # What the data were standardised by becomes a part of the first step.
        first = self.steps_[0]
        centre, scale = mean + deviation * first.centre, first.scale / deviation
        self.steps_[0] = replace(
            first, centre=centre.astype(np.float32), scale=scale.astype(np.float32)
        )
        self.cut_ = None
        if self.n_components < d:
            outputs = (self._forward(X[part]) for part in batches(n))
            self.cut_ = Pca(self.n_components).fit_moments(Moments.of(outputs, d))
            # As it is when it was loaded: BLAS rounds by the order in memory.
            self.cut_.components_ = np.ascontiguousarray(self.cut_.components_)
        return self

    def _train(
        self,
        rows: torch.Tensor,
        held: torch.Tensor,
        parameters: list[dict[str, torch.Tensor]],
        generator: torch.Generator,
    ) -> list[dict[str, torch.Tensor]]:
        """The parameters as they were when the rows held out were likeliest."""
        import torch

        def noisy(rows: torch.Tensor) -> torch.Tensor:
            return rows + NOISE * torch.randn(rows.shape, generator=generator)

        every = [tensor for tensors in parameters for tensor in tensors.values()]
        # Fused: with this many small arrays a step would take twice the time.
        optimizer = torch.optim.Adam(every, lr=self.learning_rate, fused=True)
        held = noisy(held)
        self.losses_, least, waited = list[float](), np.inf, 0
        best = _copies(parameters)
        for epoch in range(self.epochs):
            for batch in shuffled(len(rows), self.batch, generator):
                optimizer.zero_grad(set_to_none=True)
                _loss(noisy(rows[batch]), parameters).backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(every, LARGEST_GRADIENT)
                optimizer.step()
            with torch.no_grad():
                self.losses_.append(float(_loss(held, parameters)))
            progress("training the flow", epoch + 1, self.epochs)
            if self.losses_[-1] < least - TOLERANCE:
                least, waited, best = self.losses_[-1], 0, _copies(parameters)
            elif (waited := waited + 1) > self.patience:
                break
        return best

    def _initial(self, d: int, generator: torch.Generator) -> list[dict[str, torch.Tensor]]:
        """Steps that change nothing but the order: what is added starts as zero."""
        import torch

        steps = list[dict[str, torch.Tensor]]()
        for m in _active(d, self.levels, self.depth):
            tensors = {}
            for name, shape in _shapes(m, self.width).items():
                tensors[name] = torch.zeros(shape)
                if name in ("first", "second"):
                    torch.nn.init.normal_(
                        tensors[name], std=(2 / max(shape[0], 1)) ** 0.5, generator=generator
                    )
            steps.append({name: tensor.requires_grad_() for name, tensor in tensors.items()})
        return steps


def _active(d: int, levels: int, depth: int) -> Iterator[int]:
    """How many of d dimensions each step changes; after a level the second half is done with.

    >>> list(_active(7, 3, 2))
    [7, 7, 4, 4, 2, 2]
    """
    for _ in range(levels):
        yield from [d] * depth
        d -= d // 2


def _shapes(m: int, width: int) -> dict[str, tuple[int, ...]]:
    """Of the arrays of a step that changes m dimensions."""
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


def _standard(X: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and standard deviations (d,); none so small that rounding would be stretched."""
    moments = Moments(X.shape[1]).update(X)
    mean, variances = moments.mean, moments.covariance(1.0).diagonal()
    typical, size = variances.mean(), (mean**2).mean()
    if typical <= np.finfo(np.float32).eps ** 2 * size:  # all rows are equal
        typical = size or 1.0
    return mean, np.sqrt(np.maximum(variances, NOISE**2 * typical))


def _loss(x: torch.Tensor, parameters: list[dict[str, torch.Tensor]]) -> torch.Tensor:
    """Mean negative log-likelihood in nats a dimension, without its constant."""
    squares, logs = x.new_zeros(len(x)), x.new_zeros(())
    for tensors in parameters:
        m = len(tensors["centre"])
        squares = squares + x[:, m:].square().sum(dim=1)
        x = _torch_step(x[:, :m], tensors)
        logs = logs + LOG_SCALE_FACTOR * tensors["scale"].sum()
    squares = squares + x.square().sum(dim=1)
    return (squares.mean() / 2 - logs) / len(parameters[0]["centre"])


def _torch_step(x: torch.Tensor, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """`Step.forward`, to be differentiated; ``tensors["scale"]`` is a share of its logarithm."""
    import torch

    scale = torch.exp(LOG_SCALE_FACTOR * tensors["scale"])
    x = ((x - tensors["centre"]) * scale).flip(1)
    kept, shifted = x.tensor_split([len(tensors["first"])], dim=1)
    hidden = torch.relu(kept @ tensors["first"] + tensors["first_bias"])
    hidden = torch.relu(hidden @ tensors["second"] + tensors["second_bias"])
    return torch.cat([kept, shifted + hidden @ tensors["last"] + tensors["last_bias"]], dim=1)


def _step(tensors: dict[str, torch.Tensor]) -> Step:
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    return Step(**arrays | {"scale": np.exp(LOG_SCALE_FACTOR * arrays["scale"])})


def _copies(parameters: list[dict[str, torch.Tensor]]) -> list[dict[str, torch.Tensor]]:
    return [{name: t.detach().clone() for name, t in tensors.items()} for tensors in parameters]
