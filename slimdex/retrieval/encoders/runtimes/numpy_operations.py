"""Operations of networks in numpy, on texts without padding.

All texts share the products with weights: for a few rows, most of the time goes into reading the
weights once. The vectors are those of OpenVINO in float32, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches
from slimdex.system.threads import threads_for

from .bert import Network
from .bert_folder import TINY, Array

ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
"""Coefficients of the error function, to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26)."""
ERF_SCALE = 0.3275911
CACHED_ROWS = 16
"""Rows to activate at a time: the arrays between its steps stay in a core's cache."""


def encode(network: Network, texts: Sequence[Rows]) -> Matrix:
    """Encode the token ids (n,) of texts, without padding, to vectors (texts, dim)."""
    with threads_for(0):  # on one thread, like numpy's other operations
        vectors: Matrix = network.vectors(NumpyTexts(texts))
        return vectors


class NumpyTexts:
    """`Operations` on the token ids (n,) of texts; vectors are (tokens of all texts, width)."""

    def __init__(self, texts: Sequence[Rows]) -> None:
        lengths: Rows = np.array([len(ids) for ids in texts], dtype=np.int64)
        self.ids = np.concatenate(texts)
        self.tokens = np.ones(len(self.ids), dtype=np.float32)
        self.pooled = self.tokens  # prompts too: pooling without them needs torch
        self._ends: Rows = lengths.cumsum()
        self._starts: Rows = self._ends - lengths
        self._lengths = lengths

    def first(self, states: Array) -> Array:
        return states[self._starts]

    def last(self, states: Array) -> Array:
        return states[self._ends - 1]

    def max(self, states: Array) -> Array:
        return np.maximum.reduceat(states, self._starts)

    def mean(self, states: Array, weights: Array) -> Array:
        return self._sums(states * weights[:, None]) / self._sums(weights[:, None])

    def cumsum(self, numbers: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([part.cumsum() for part in self._of_each(numbers)])

    def root_count(self) -> Array:
        return np.sqrt(self._lengths.astype(np.float32))[:, None]

    def average(self, vectors: Sequence[Array]) -> Array:
        mean: Array = np.mean(vectors, axis=0)
        return mean

    def concatenate(self, vectors: Sequence[Array]) -> Array:
        return np.hstack(vectors)

    def differing(self, id: int) -> NDArray[np.bool_]:
        others: NDArray[np.bool_] = self.ids != id
        return others

    def rows(self, table: Array, numbers: Rows) -> Array:
        return table[numbers]

    def rows_by_place(self, table: Array) -> Array:
        return np.concatenate([table[:length] for length in self._lengths])

    def linear(self, vectors: Array, weight: Array, bias: Array | None) -> Array:
        product: Array = vectors @ weight.T
        if bias is not None:
            product += bias
        return product

    def layer_norm(self, vectors: Array, weight: Array, bias: Array, epsilon: float) -> Array:
        unit = vectors - vectors.mean(axis=1, keepdims=True)
        unit /= np.sqrt(np.square(unit).mean(axis=1, keepdims=True) + epsilon)
        scaled: Array = unit * weight + bias
        return scaled

    def activate(self, vectors: Array, name: str) -> Array:
        """Apply one of `ACTIVATIONS` in place."""
        for rows in batches(len(vectors), CACHED_ROWS):
            vectors[rows] = ACTIVATIONS[name](vectors[rows])
        return vectors

    def biases(self, by_distance: Array | None) -> list[Array | float]:
        """Biases of attention, (heads, n, n) for each text of n tokens; 0.0 if there are none."""
        if by_distance is None:
            return [0.0] * len(self._lengths)
        zero = len(by_distance) // 2  # row of the distance 0
        biases = list[Array | float]()
        for length in self._lengths:
            places = np.arange(length)
            distances = places[None] - places[:, None]
            biases.append(by_distance[distances + zero].transpose(2, 0, 1))
        return biases

    def attention(
        self, query: Array, key: Array, value: Array, biases: Sequence[Array | float], heads: int
    ) -> Array:
        queries = self._of_each(query)
        keys = self._of_each(key)
        values = self._of_each(value)
        texts = zip(queries, keys, values, biases, strict=True)
        return np.concatenate([attention(*of_text, heads) for of_text in texts])

    def first_dimensions(self, vectors: Array, count: int) -> Array:
        return vectors[:, :count]

    def unit(self, vectors: Array) -> Array:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Array = vectors / np.maximum(lengths, TINY)
        return unit

    def _sums(self, vectors: Array) -> Array:
        """Sums of each text's tokens, (texts, width)."""
        return np.stack([part.sum(axis=0) for part in self._of_each(vectors)])

    def _of_each(self, vectors: NDArray[Any]) -> list[NDArray[Any]]:
        """Split the tokens' rows or numbers by text."""
        return np.split(vectors, self._starts[1:])


def attention(query: Array, key: Array, value: Array, bias: Array | float, heads: int) -> Array:
    """Compute multi-head attention within a text of n tokens, on vectors (n, width).

    The bias, (heads, n, n) or a number, is added to the scores.
    """

    def by_heads(vectors: Array) -> Array:
        return vectors.reshape(len(vectors), heads, -1).transpose(1, 0, 2)

    query = by_heads(query)
    key = by_heads(key)
    value = by_heads(value)
    scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[2])) + bias
    scores = np.exp(scores - scores.max(axis=2, keepdims=True))  # softmax, without overflow
    by_head: Array = scores / scores.sum(axis=2, keepdims=True) @ value
    return by_head.transpose(1, 0, 2).reshape(by_head.shape[1], -1)


def _gelu(x: Array) -> Array:
    """Exact GELU, x (1 + erf(x / sqrt 2)) / 2, with erf by the polynomial of `ERF`."""
    size = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + np.float32(ERF_SCALE) * size)
    polynomial = np.zeros_like(t)
    for coefficient in ERF:
        polynomial = (polynomial + np.float32(coefficient)) * t
    erf: Array = np.copysign(1 - polynomial * np.exp(-size * size), x)
    return x * (1 + erf) / np.float32(2)


def _gelu_tanh(x: Array) -> Array:
    """GELU as approximated by tanh (Hendrycks and Gimpel 2016)."""
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
    result: Array = x * (1 + np.tanh(inner)) / np.float32(2)
    return result


def _sigmoid(x: Array) -> Array:
    result: Array = np.reciprocal(1 + np.exp(-x))
    return result


def _elu(x: Array) -> Array:
    result: Array = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
    return result


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda x: x,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "elu": _elu,
    "leakyrelu": lambda x: np.where(x > 0, x, np.float32(0.01) * x),
    "selu": lambda x: (
        np.float32(1.0507009873554805)
        * np.where(x > 0, x, np.float32(1.6732632423543772) * np.expm1(np.minimum(x, 0)))
    ),
}
