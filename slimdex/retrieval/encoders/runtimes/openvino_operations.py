"""Operations of networks as nodes of OpenVINO's graphs.

They form the subgraphs that OpenVINO's CPU plugin recognises and fuses, the same as in a network
converted from torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .bert import Network
from .bert_folder import TINY, Array
from .openvino_runtime import openvino_library

Node = Any
"""An `openvino.Node`."""
LOWEST = float(np.finfo(np.float32).min)
CONSTANTS = {"leakyrelu": (0.01,), "selu": (1.6732632423543772, 1.0507009873554805)}
"""Activation -> constants that its operation requires."""


def openvino_model(network: Network) -> Any:
    """Build the `openvino.Model` of a network, from ids and mask to vectors."""
    texts = OpenVinoTexts()
    return openvino_library().Model([network.vectors(texts)], [texts.ids, texts.mask])


class OpenVinoTexts:
    """`Operations` on token ids and a mask, both (batch, seq) and inputs of a graph.

    Vectors of tokens are (batch, seq, width). Padding is on the right.
    """

    def __init__(self) -> None:
        self.ids = ops().parameter([-1, -1], np.int64, name="input_ids")
        self.mask = ops().parameter([-1, -1], np.int64, name="attention_mask")
        self.tokens = self.mask
        self.pooled = self.mask

    def first(self, states: Node) -> Node:
        return ops().gather(states, scalar(0), scalar(1))

    def last(self, states: Node) -> Node:
        counts = ops().reduce_sum(ops().convert(self.mask, "i32"), integers(1), True)
        places = ops().subtract(counts, scalar(1))
        # Take one token of each text along axis 1; the last argument pairs texts with places.
        return ops().squeeze(ops().gather(states, places, scalar(1), 1), integers(1))

    def max(self, states: Node) -> Node:
        is_token = ops().unsqueeze(ops().convert(self.mask, "boolean"), integers(2))
        lowest = scalar(LOWEST, np.float32)
        return ops().reduce_max(ops().select(is_token, states, lowest), integers(1), False)

    def mean(self, states: Node, weights: Node) -> Node:
        weights = ops().unsqueeze(ops().convert(weights, "f32"), integers(2))
        total = ops().reduce_sum(states * weights, integers(1), False)
        count = ops().reduce_sum(weights, integers(1), False)
        return total / ops().maximum(count, scalar(1.0, np.float32))

    def cumsum(self, numbers: Node) -> Node:
        return ops().cum_sum(numbers, scalar(1))

    def root_count(self) -> Node:
        return ops().sqrt(ops().reduce_sum(ops().convert(self.mask, "f32"), integers(1), True))

    def average(self, vectors: Sequence[Node]) -> Node:
        total = vectors[0]
        for other in vectors[1:]:
            total = total + other
        return total / scalar(len(vectors), np.float32) if len(vectors) > 1 else total

    def concatenate(self, vectors: Sequence[Node]) -> Node:
        return ops().concat(list(vectors), 1) if len(vectors) > 1 else vectors[0]

    def differing(self, id: int) -> Node:
        return ops().convert(ops().not_equal(self.ids, scalar(id, np.int64)), "i32")

    def rows(self, table: Array, numbers: Node) -> Node:
        return ops().gather(constant(table), ops().convert(numbers, "i32"), scalar(0))

    def rows_by_place(self, table: Array) -> Node:
        """First rows of the table (seq, width), shared by all texts, as none has left padding."""
        stop = self._longest()
        return ops().slice(constant(table), integers(0), stop, integers(1), integers(0))

    def linear(self, vectors: Node, weight: Array, bias: Array | None) -> Node:
        product = ops().matmul(vectors, constant(weight), False, True)
        return product if bias is None else product + constant(bias)

    def layer_norm(self, vectors: Node, weight: Array, bias: Array, epsilon: float) -> Node:
        unit = ops().mvn(vectors, integers(-1), True, epsilon, "inside_sqrt")
        return unit * constant(weight) + constant(bias)

    def activate(self, vectors: Node, name: str) -> Node:
        if name == "identity":
            return vectors
        if name in ("gelu", "gelu_tanh"):
            return ops().gelu(vectors, "tanh" if name == "gelu_tanh" else "erf")
        if name == "elu":
            return ops().elu(vectors, 1.0)
        operation = {"leakyrelu": "prelu", "silu": "swish"}.get(name, name)  # OpenVINO's name
        constants = (scalar(value, np.float32) for value in CONSTANTS.get(name, ()))
        return getattr(ops(), operation)(vectors, *constants)

    def biases(self, by_distance: Array | None) -> Node:
        """Numbers to add to attention scores, which broadcast to (batch, heads, seq, seq).

        The lowest number excludes padding: a boolean mask would be converted in every layer.
        """
        is_token = ops().unsqueeze(ops().convert(self.mask, "boolean"), integers(1, 2))
        biases = scalar(0, np.float32) if by_distance is None else self._of_distances(by_distance)
        return ops().select(is_token, biases, scalar(LOWEST, np.float32))

    def attention(self, query: Node, key: Node, value: Node, biases: Node, heads: int) -> Node:
        if width(query) % heads:
            raise ValueError(f"width {width(query)}; expected a multiple of {heads} heads")

        # Reshape (batch, seq, width) to (batch, heads, seq, width / heads), and back at the end.
        # In a shape, 0 keeps an axis.
        def split(vectors: Node) -> Node:
            shape = integers(0, 0, heads, width(vectors) // heads)
            return ops().transpose(ops().reshape(vectors, shape, True), integers(0, 2, 1, 3))

        parts = [split(vectors) for vectors in (query, key, value)]
        attended = ops().scaled_dot_product_attention(*parts, biases)
        by_token = ops().transpose(attended, integers(0, 2, 1, 3))
        return ops().reshape(by_token, integers(0, 0, -1), True)

    def first_dimensions(self, vectors: Node, count: int) -> Node:
        return ops().slice(vectors, integers(0), integers(count), integers(1), integers(1))

    def unit(self, vectors: Node) -> Node:
        squares = ops().reduce_sum(vectors * vectors, integers(1), True)
        return vectors / ops().maximum(ops().sqrt(squares), scalar(TINY, np.float32))

    def _of_distances(self, by_distance: Array) -> Node:
        """Biases of attention (1, heads, seq, seq), by the distance between tokens."""
        count = ops().convert(ops().squeeze(self._longest(), scalar(0)), "i32")
        places = ops().range(scalar(0), count, scalar(1), "i32")
        columns = ops().unsqueeze(places, scalar(0))
        rows = ops().unsqueeze(places, scalar(1))
        numbers = columns - rows + scalar(len(by_distance) // 2)  # the middle row is distance 0
        biases = self.rows(by_distance, numbers)  # (seq, seq, heads)
        return ops().unsqueeze(ops().transpose(biases, integers(2, 0, 1)), integers(0))

    def _longest(self) -> Node:
        """Number of tokens (1,) of each text in the batch, padding included."""
        return ops().gather(ops().shape_of(self.ids), integers(1), scalar(0))


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


def width(x: Node) -> int:
    """Length of the last axis."""
    shape = x.get_output_partial_shape(0)
    return int(shape[len(shape) - 1].get_length())
