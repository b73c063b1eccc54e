"""Networks of the BERT family, with pooling and head, as graphs of OpenVINO.

The operations form the subgraphs that OpenVINO's CPU plugin recognises and fuses, the same as in a
network converted from torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model_folder import Dense, HeadPart, SentenceFolder, Truncate
from ..pooling import POOLER, Pooling
from .bert_folder import (
    POSITIONS,
    TINY,
    TYPES,
    WORDS,
    Array,
    Family,
    buckets,
    dense,
    read_bert,
)
from .openvino_runtime import Conversion, openvino_library

Node = Any
"""An `openvino.Node`."""


def built_network(folder: SentenceFolder, pooling: Pooling) -> Conversion | None:
    """Build the network of a model; None if torch is needed for its architecture or pooling.

    Raises `InputError` if weights are missing, or the pooling or the head does not fit.
    """
    found = read_bert(folder, pooling)
    if found is None:
        return None
    family, facts, tokenizer = found
    given = _inputs()
    network = _Network(family)
    states = network.states(*given)
    if pooling.mode == POOLER:
        pooled = network.pooled(first(states[-1], given[1]))
    else:
        pooled = pool(states, given[1], pooling)
    vectors = with_head(pooled, folder.head)
    return Conversion(facts, tokenizer, _model(vectors, given), family.weights.release)


class _Network:
    """Network of a family up to its hidden states."""

    def __init__(self, family: Family) -> None:
        self.architecture = family.architecture
        self.shape = family.shape
        self.weights = family.weights

    def states(self, ids: Node, mask: Node) -> list[Node]:
        """Hidden states (batch, seq, width) of the embeddings and of each layer.

        Raises `ValueError` if weights are missing.
        """
        state = self._embedded(ids)
        seen = self._mask(ids, mask)
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
        weight = self.weights[f"{name}.weight"]
        bias = self.weights[f"{name}.bias"]
        unit = ops().mvn(x, integers(-1), True, self.shape.epsilon, "inside_sqrt")
        return ops().add(ops().multiply(unit, constant(weight)), constant(bias))

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
        table = self.weights[self.architecture.relative]
        longest = len(self.weights[POSITIONS])
        count = ops().convert(ops().squeeze(_length(ids), scalar(0)), "i32")
        places = ops().range(scalar(0), count, scalar(1), "i32")
        columns = ops().unsqueeze(places, scalar(0))
        rows = ops().unsqueeze(places, scalar(1))
        numbers = ops().add(ops().subtract(columns, rows), scalar(longest - 1))
        by_distance = _rows(table[buckets(longest, len(table))], numbers)  # (seq, seq, heads)
        return ops().unsqueeze(ops().transpose(by_distance, integers(2, 0, 1)), integers(0))


def _inputs() -> list[Node]:
    """Token ids and mask, (batch, seq)."""
    names = ("input_ids", "attention_mask")
    return [ops().parameter([-1, -1], np.int64, name=name) for name in names]


def _model(output: Node, given: list[Node]) -> Any:
    return openvino_library().Model([output], given)


def pool(states: Sequence[Node], mask: Node, pooling: Pooling) -> Node:
    """Pool hidden states (batch, seq, width) to (batch, dim); padding is on the right."""
    joined = [
        _average([POOLERS[mode](states[layer], mask) for layer in pooling.layers])
        for mode in pooling.modes
    ]
    return ops().concat(joined, 1) if len(joined) > 1 else joined[0]


def _average(pooled: Sequence[Node]) -> Node:
    total = pooled[0]
    for other in pooled[1:]:
        total = ops().add(total, other)
    return ops().divide(total, scalar(len(pooled), np.float32)) if len(pooled) > 1 else total


def with_head(vectors: Node, head: Sequence[HeadPart]) -> Node:
    """Apply the modules after the pooling to vectors (batch, width).

    Raises `InputError` if weights are missing or do not fit.
    """
    for part in head:
        if isinstance(part, Dense):
            product = linear(vectors, *dense(part, width(vectors)))
            vectors = activated(product, part.activation.lower())
        elif isinstance(part, Truncate):
            stop = min(part.dim, width(vectors))
            vectors = ops().slice(vectors, integers(0), integers(stop), integers(1), integers(1))
        else:
            squares = ops().reduce_sum(ops().multiply(vectors, vectors), integers(1), True)
            lengths = ops().maximum(ops().sqrt(squares), scalar(TINY, np.float32))
            vectors = ops().divide(vectors, lengths)
    return vectors


def first(hidden: Node, mask: Node) -> Node:
    """Vectors of the first tokens, (batch, width)."""
    return ops().gather(hidden, scalar(0), scalar(1))


def _last(hidden: Node, mask: Node) -> Node:
    counts = ops().reduce_sum(ops().convert(mask, "i32"), integers(1), True)
    places = ops().subtract(counts, scalar(1))
    found = ops().gather(hidden, places, scalar(1), 1)
    return ops().squeeze(found, integers(1))


def _mean(hidden: Node, mask: Node) -> Node:
    weights = ops().unsqueeze(ops().convert(mask, "f32"), integers(2))
    total = ops().reduce_sum(ops().multiply(hidden, weights), integers(1), False)
    count = ops().reduce_sum(weights, integers(1), False)
    return ops().divide(total, ops().maximum(count, scalar(1.0, np.float32)))


def _weighted_mean(hidden: Node, mask: Node) -> Node:
    places = ops().cum_sum(mask, scalar(1))
    return _mean(hidden, ops().multiply(places, mask))


def _sqrt_mean(hidden: Node, mask: Node) -> Node:
    count = ops().reduce_sum(ops().convert(mask, "f32"), integers(1), True)
    return ops().multiply(_mean(hidden, mask), ops().sqrt(count))


def _max(hidden: Node, mask: Node) -> Node:
    seen = ops().unsqueeze(ops().convert(mask, "boolean"), integers(2))
    lowest = scalar(float(np.finfo(np.float32).min), np.float32)
    return ops().reduce_max(ops().select(seen, hidden, lowest), integers(1), False)


POOLERS = {
    "cls": first,
    "mean": _mean,
    "max": _max,
    "last": _last,
    "sqrtmean": _sqrt_mean,
    "weightedmean": _weighted_mean,
}
"""Mode -> function from hidden state and mask to vectors."""


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


def activated(x: Node, name: str) -> Node:
    """Apply an activation: gelu_tanh, or a class of torch.nn in lower case."""
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
