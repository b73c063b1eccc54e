"""Training of `Flow`, by torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray

from ..arrays import Matrix
from .reducer import shuffle, validation_rows

LARGEST_GRADIENT = 1.0
"""Norm at which gradients are clipped."""
LOG_SCALE_FACTOR = 3.0
"""Training learns a third of each log-scale, so that scales move faster than other parameters."""

Tensors = Mapping[str, torch.Tensor]
"""Parameters of a step by their names in `Step`; "scale" is a fraction of the log-scale."""


class Training:
    """Parameters of the steps, and the rows that they are trained on.

    Parameters
    ----------
    X : standardised rows (n, d), some of which are held out.
    shapes : of each step's arrays, by their names in `Step`.
    noise : standard deviation of what is added to rows.
    batch, learning_rate : rows per step of Adam, and its size.
    random_state : the seed.
    """

    def __init__(
        self,
        X: Matrix,
        shapes: Sequence[Mapping[str, tuple[int, ...]]],
        *,
        noise: float,
        batch: int,
        learning_rate: float,
        random_state: int,
    ) -> None:
        self._noise = noise
        self._batch = batch
        self._generator = torch.Generator().manual_seed(random_state)
        self._steps = [_initial(step_shapes, self._generator) for step_shapes in shapes]
        self._parameters = list[torch.Tensor]()
        for tensors in self._steps:
            self._parameters += tensors.values()

        # Rows in random order, some of them for validation.
        rows = torch.from_numpy(X)[torch.randperm(len(X), generator=self._generator)]
        count = validation_rows(len(X))
        self._rows = rows[count:]
        self._validation = self._noisy(rows[:count])
        # Fused: unfused steps take twice the time with this many small arrays.
        self._optimizer = torch.optim.Adam(self._parameters, lr=learning_rate, fused=True)

    def train(self) -> float:
        """Train for an epoch; returns the loss of the held-out rows."""
        for batch in shuffle(len(self._rows), self._batch, self._generator):
            self._optimizer.zero_grad(set_to_none=True)
            loss = _loss(self._noisy(self._rows[batch]), self._steps)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self._parameters, LARGEST_GRADIENT)
            self._optimizer.step()
        with torch.no_grad():
            return float(_loss(self._validation, self._steps))

    def copy(self) -> list[dict[str, NDArray[np.float32]]]:
        """Copy the parameters of each step, as `Step` has them."""
        return [_arrays(tensors) for tensors in self._steps]

    def _noisy(self, rows: torch.Tensor) -> torch.Tensor:
        return rows + self._noise * torch.randn(rows.shape, generator=self._generator)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread.

    The matrices are so small that threads mostly wait for each other: on busy cores, training with
    two threads took ten times as long.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _initial(
    shapes: Mapping[str, tuple[int, ...]], generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """Initial parameters of a step; the shift is zero, so it only reverses dimensions."""
    tensors = {}
    for name, shape in shapes.items():
        tensors[name] = torch.zeros(shape)
        if name in ("first", "second"):  # random, with the variance that suits ReLU
            torch.nn.init.normal_(
                tensors[name], std=(2 / max(shape[0], 1)) ** 0.5, generator=generator
            )
    return {name: tensor.requires_grad_() for name, tensor in tensors.items()}


def _loss(x: torch.Tensor, steps: Sequence[Tensors]) -> torch.Tensor:
    """Mean negative log-likelihood in nats per dimension, without its constant.

    For each row, this is half the sum of its squared outputs, less the logarithm of the map's
    determinant. Only the scales contribute to the determinant.
    """
    squares = x.new_zeros(len(x))
    log_determinant = x.new_zeros(())
    for tensors in steps:
        m = len(tensors["centre"])
        squares = squares + x[:, m:].square().sum(dim=1)  # outputs that no later step changes
        x = _forward(x[:, :m], tensors)
        log_determinant = log_determinant + LOG_SCALE_FACTOR * tensors["scale"].sum()
    squares = squares + x.square().sum(dim=1)
    return (squares.mean() / 2 - log_determinant) / len(steps[0]["centre"])


def _forward(x: torch.Tensor, tensors: Tensors) -> torch.Tensor:
    """Differentiable `Step.forward`."""
    scale = torch.exp(LOG_SCALE_FACTOR * tensors["scale"])
    x = ((x - tensors["centre"]) * scale).flip(1)
    first, second = x.tensor_split([len(tensors["first"])], dim=1)
    hidden = torch.relu(first @ tensors["first"] + tensors["first_bias"])
    hidden = torch.relu(hidden @ tensors["second"] + tensors["second_bias"])
    shift = hidden @ tensors["last"] + tensors["last_bias"]
    return torch.cat([first, second + shift], dim=1)


def _arrays(tensors: Tensors) -> dict[str, NDArray[np.float32]]:
    """Copy trained parameters without gradients, and with scales instead of their logarithms."""
    arrays = {name: tensor.detach().numpy().copy() for name, tensor in tensors.items()}
    return arrays | {"scale": np.exp(LOG_SCALE_FACTOR * arrays["scale"])}
