"""Steps of a flow: in numpy to apply them, in torch to train them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..arrays import Matrix
from ..execution.threads import product
from .moments import Moments

if TYPE_CHECKING:
    import torch

NOISE = 0.02
"""Standard deviation of training noise, relative to that of the rows."""
LOG_SCALE_FACTOR = 3.0
"""Training learns a third of each log-scale, so that scales move faster than other parameters."""


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
        out[:, len(self.first) :] += self._shift(out)
        return out

    def _shift(self, x: Matrix) -> Matrix:
        hidden = np.maximum(product(x[:, : len(self.first)], self.first) + self.first_bias, 0.0)
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
    """Means and standard deviations (d,), bounded below so that rounding is not amplified."""
    moments = Moments(X.shape[1]).update(X)
    mean, variances = moments.mean, moments.covariance(1.0).diagonal()
    typical, size = variances.mean(), (mean**2).mean()
    if typical <= np.finfo(np.float32).eps ** 2 * size:  # all rows are equal
        typical = size or 1.0
    return mean, np.sqrt(np.maximum(variances, NOISE**2 * typical))


def loss(x: torch.Tensor, parameters: list[dict[str, torch.Tensor]]) -> torch.Tensor:
    """Mean negative log-likelihood in nats per dimension, without its constant."""
    squares, logs = x.new_zeros(len(x)), x.new_zeros(())
    for tensors in parameters:
        m = len(tensors["centre"])
        squares = squares + x[:, m:].square().sum(dim=1)
        x = torch_step(x[:, :m], tensors)
        logs = logs + LOG_SCALE_FACTOR * tensors["scale"].sum()
    squares = squares + x.square().sum(dim=1)
    return (squares.mean() / 2 - logs) / len(parameters[0]["centre"])


def torch_step(x: torch.Tensor, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """Differentiable `Step.forward`; ``tensors["scale"]`` is a fraction of the log-scale."""
    import torch

    scale = torch.exp(LOG_SCALE_FACTOR * tensors["scale"])
    x = ((x - tensors["centre"]) * scale).flip(1)
    kept, shifted = x.tensor_split([len(tensors["first"])], dim=1)
    hidden = torch.relu(kept @ tensors["first"] + tensors["first_bias"])
    hidden = torch.relu(hidden @ tensors["second"] + tensors["second_bias"])
    return torch.cat([kept, shifted + hidden @ tensors["last"] + tensors["last_bias"]], dim=1)


def to_numpy(tensors: dict[str, torch.Tensor]) -> Step:
    """Convert trained parameters to a step."""
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    return Step(**arrays | {"scale": np.exp(LOG_SCALE_FACTOR * arrays["scale"])})


def copies(parameters: list[dict[str, torch.Tensor]]) -> list[dict[str, torch.Tensor]]:
    """Copy parameters without gradients."""
    return [{name: t.detach().clone() for name, t in tensors.items()} for tensors in parameters]


def initial_parameters(
    d: int, levels: int, depth: int, width: int, generator: torch.Generator
) -> list[dict[str, torch.Tensor]]:
    """Initial parameters; the shifts are zero, so the steps only reverse dimensions."""
    import torch

    steps = list[dict[str, torch.Tensor]]()
    for m in active_dimensions(d, levels, depth):
        tensors = {}
        for name, shape in step_shapes(m, width).items():
            tensors[name] = torch.zeros(shape)
            if name in ("first", "second"):
                torch.nn.init.normal_(
                    tensors[name], std=(2 / max(shape[0], 1)) ** 0.5, generator=generator
                )
        steps.append({name: tensor.requires_grad_() for name, tensor in tensors.items()})
    return steps
