"""Reducers as neural network layers, for export to other programs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.system.threads import product

from ..arrays import Matrix
from .autoencoder import TiedAutoencoder
from .linear import Identity, Linear
from .reducer import Reducer

IDENTITY = "Identity"
SELU = "SELU"
"""Names of activations in torch.nn."""


@dataclass(frozen=True)
class Dense:
    """``activation(x @ weight.T + bias)``.

    Attributes
    ----------
    weight : (out, in) float32.
    bias : (out,) float32, or None.
    activation : `IDENTITY` or `SELU`.
    """

    weight: Matrix
    bias: NDArray[np.float32] | None = None
    activation: str = IDENTITY


@dataclass(frozen=True)
class Normalize:
    """Normalisation to unit length."""


Layer = Dense | Normalize


def layers_of(reducer: Reducer) -> list[Layer]:
    """Layers equivalent to `reduce_rows`: k dimensions, unit length.

    Raises `InputError` for a reducer that is not such a network: a flow.

    >>> from slimdex.indexes.reducers.linear import Truncate
    >>> dense, last = layers_of(Truncate(2).fit(np.eye(3, dtype=np.float32)))
    >>> dense.weight.tolist(), dense.bias, last
    ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], None, Normalize())
    """
    if isinstance(reducer, TiedAutoencoder):
        dense = [Dense(np.ascontiguousarray(w.T), None, SELU) for w in reducer.weights_]
        return [Normalize(), *dense, Normalize()]
    if not isinstance(reducer, Linear):
        raise InputError(f"reducer {reducer.name!r}; expected a linear reducer or an autoencoder")
    if isinstance(reducer, Identity):
        return [Normalize()]
    weight = np.ascontiguousarray(reducer.components_.T)
    bias = None
    if reducer.shift_.any():  # in float64: the shift may be most of a vector
        exact = -product(reducer.shift_.astype(np.float64), reducer.components_.astype(np.float64))
        bias = exact.astype(np.float32)
    return [Dense(weight, bias), Normalize()]
