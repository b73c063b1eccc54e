"""Hidden states of models of the BERT family, as a graph of OpenVINO.

The operations form the subgraphs that OpenVINO's CPU plugin recognises and fuses, the same as in a
network converted from torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..processor import openvino_library
from .architectures import Architecture, Shape
from .weights import Array, Weights

Node = Any
"""An `openvino.Node`."""

FARTHEST = 128
"""Distance of tokens from which on biases are equal, in MPNet."""
WORDS, POSITIONS, TYPES = (
    f"embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")
)


@dataclass(frozen=True)
class Family:
    """Model of the BERT family: architecture, settings and weights."""

    architecture: Architecture
    shape: Shape
    weights: Weights

    @property
    def longest(self) -> int:
        """Maximum length of a text in tokens."""
        rows = len(self.weights[POSITIONS])
        return rows - self.shape.padding - 1 if self.architecture.counts_padding else rows

    @property
    def width(self) -> int:
        """Width of the layers' hidden states."""
        layer = self.architecture.layer.format(0) + f"{self.architecture.attended_norm}.weight"
        table = self.weights[WORDS]
        return len(self.weights[layer]) if layer in self.weights else table.shape[1]

    @property
    def multiplied_weights(self) -> int:
        """Number of weights that the network multiplies each token with."""
        names = self.architecture
        each = (names.query, names.key, names.value, names.attended, names.inner, names.outer)
        found = [names.layer.format(i) + name for i in range(self.shape.layers) for name in each]
        if names.projection and f"{names.projection}.weight" in self.weights:
            found.append(names.projection)
        return sum(self.weights[f"{name}.weight"].size for name in found)

    def states(self, ids: Node, mask: Node) -> list[Node]:
        """Hidden states (batch, seq, width) of the embeddings and of each layer.

        Raises `ValueError` if weights are missing.
        """
        state, seen = self._embedded(ids), self._mask(ids, mask)
        states = [state]
        for i in range(self.shape.layers):
            state = self._layer(state, seen, self.architecture.layer.format(i))
            states.append(state)
        return states

    def pooled(self, first: Node) -> Node:
        """Apply the model's own layer to the first token's vectors (batch, width)."""
        return ops().tanh(self._linear(first, f"{self.architecture.pooler}"))

    def _layer(self, state: Node, seen: Node, layer: str) -> Node:
        names = self.architecture
        query, key, value = (
            self._linear(state, layer + name) for name in (names.query, names.key, names.value)
        )
        attended = attention(query, key, value, seen, self.shape.heads)
        attended = ops().add(self._linear(attended, layer + names.attended), state)
        state = self._normalized(attended, layer + names.attended_norm)
        inner = activated(self._linear(state, layer + names.inner), self.shape.activation)
        outer = ops().add(self._linear(inner, layer + names.outer), state)
        return self._normalized(outer, layer + names.outer_norm)

    def _linear(self, x: Node, name: str) -> Node:
        return linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _normalized(self, x: Node, name: str) -> Node:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return normalized(x, weight, bias, self.shape.epsilon)

    def _embedded(self, ids: Node) -> Node:
        words = _rows(self.weights[WORDS], ops().convert(ids, "i32"))
        found = self._normalized(ops().add(words, self._positions(ids)), "embeddings.LayerNorm")
        projection = self.architecture.projection
        if projection and f"{projection}.weight" in self.weights:
            return self._linear(found, projection)
        return found

    def _positions(self, ids: Node) -> Node:
        """Vectors of positions, with that of the first token type, which all tokens have."""
        table = self.weights[POSITIONS]
        if self.architecture.token_types:
            table = table + self.weights[TYPES][0]
        if not self.architecture.counts_padding:
            return ops().slice(constant(table), integers(0), _length(ids), integers(1), integers(0))
        padding = self.shape.padding
        counted = ops().convert(ops().not_equal(ids, scalar(padding, np.int64)), "i32")
        places = ops().multiply(ops().cum_sum(counted, scalar(1)), counted)
        return _rows(table, ops().add(places, scalar(padding)))

    def _mask(self, ids: Node, mask: Node) -> Node:
        """Numbers to add to attention scores, which broadcast to (batch, heads, seq, seq).

        A mask of booleans would be converted in every layer.
        """
        seen = ops().unsqueeze(ops().convert(mask, "boolean"), integers(1, 2))
        lowest = float(np.finfo(np.float32).min)
        return ops().select(seen, self._biases(ids), scalar(lowest, np.float32))

    def _biases(self, ids: Node) -> Node:
        """Biases of attention scores by distance, (1, heads, seq, seq); zero without a table."""
        if self.architecture.relative is None:
            return scalar(0, np.float32)
        table, longest = self.weights[self.architecture.relative], len(self.weights[POSITIONS])
        count = ops().convert(ops().squeeze(_length(ids), scalar(0)), "i32")
        places = ops().range(scalar(0), count, scalar(1), "i32")
        columns, rows = ops().unsqueeze(places, scalar(0)), ops().unsqueeze(places, scalar(1))
        numbers = ops().add(ops().subtract(columns, rows), scalar(longest - 1))
        by_distance = _rows(table[buckets(longest, len(table))], numbers)  # (seq, seq, heads)
        return ops().unsqueeze(ops().transpose(by_distance, integers(2, 0, 1)), integers(0))


def buckets(longest: int, count: int) -> NDArray[np.int64]:
    """Rows of a table of `count` biases for the distances 1 - longest to longest - 1.

    Half of the rows are for tokens before, half for tokens behind. Half of each are for single
    distances, the others for ranges that grow exponentially (Raffel et al. 2020, T5).

    >>> buckets(3, 32)
    array([ 2,  1,  0, 17, 18])
    """
    distances = np.arange(1 - longest, longest)
    far, half = np.abs(distances), count // 2
    exact = half // 2
    growth = np.log(np.maximum(far, 1).astype(np.float32) / np.float32(exact))
    steps = growth / np.float32(math.log(FARTHEST / exact)) * np.float32(half - exact)
    grown = np.minimum(exact + steps.astype(np.int64), half - 1)
    rows: NDArray[np.int64] = np.where(far < exact, far, grown) + half * (distances > 0)
    return rows


def _rows(table: NDArray[np.float32], numbers: Node) -> Node:
    return ops().gather(constant(table), numbers, scalar(0))


def _length(ids: Node) -> Node:
    """Tokens of a text in the batch, (1,)."""
    return ops().gather(ops().shape_of(ids), integers(1), scalar(0))


def ops() -> Any:
    """OpenVINO's operations."""
    return openvino_library().opset13


def constant(value: Any) -> Node:
    """Constant that shares an array's memory."""
    return openvino_library().op.Constant(np.ascontiguousarray(value), shared_memory=True)


def scalar(value: float, kind: type[np.generic] = np.int32) -> Node:
    """Constant number, by default an integer."""
    return ops().constant(kind(value))


def integers(*values: int) -> Node:
    """Constant vector of integers."""
    return ops().constant(np.array(values, dtype=np.int64))


def linear(x: Node, weight: Array, bias: Array | None = None) -> Node:
    """Product with a matrix (out, in), plus a bias (out,)."""
    product = ops().matmul(x, constant(weight), False, True)
    return product if bias is None else ops().add(product, constant(bias))


def normalized(x: Node, weight: Array, bias: Array, epsilon: float) -> Node:
    """Layer normalisation."""
    unit = ops().mvn(x, integers(-1), True, epsilon, "inside_sqrt")
    return ops().add(ops().multiply(unit, constant(weight)), constant(bias))


def activated(x: Node, name: str) -> Node:
    """Apply an activation.

    Parameters
    ----------
    name : gelu_tanh, or a class of torch.nn in lower case.
    """
    found = ops()
    if name == "identity":
        return x
    if name in ("gelu", "gelu_tanh"):
        return found.gelu(x, "tanh" if name == "gelu_tanh" else "erf")
    constants = {
        "elu": (1.0,),
        "leakyrelu": (scalar(0.01, np.float32),),
        "selu": (scalar(1.6732632423543772, np.float32), scalar(1.0507009873554805, np.float32)),
    }
    operation = {"leakyrelu": "prelu", "silu": "swish"}.get(name, name)
    return getattr(found, operation)(x, *constants.get(name, ()))


def attention(query: Node, key: Node, value: Node, mask: Node, heads: int) -> Node:
    """Attention of heads; all inputs but the mask are (batch, seq, width)."""

    if width(query) % heads:
        raise ValueError(f"width {width(query)}; expected a multiple of {heads} heads")

    def split(x: Node) -> Node:
        parts = ops().reshape(x, integers(0, 0, heads, width(x) // heads), True)
        return ops().transpose(parts, integers(0, 2, 1, 3))

    found = ops().scaled_dot_product_attention(split(query), split(key), split(value), mask)
    together = ops().transpose(found, integers(0, 2, 1, 3))
    return ops().reshape(together, integers(0, 0, -1), True)


def width(x: Node) -> int:
    """Length of the last axis."""
    shape = x.get_output_partial_shape(0)
    return int(shape[len(shape) - 1].get_length())
