"""Pooling and heads, as a graph of OpenVINO: the same as `pooling` and heads in torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slimdex.indexes.errors import InputError

from ...pooling import Pooling
from ...sentence_folder import Dense, Normalize
from .operations import Node, activated, integers, linear, ops, scalar, width
from .weights import Array, Weights

TINY = 1e-12
"""Least length that a vector is divided by."""


def pool(states: Sequence[Node], mask: Node, pooling: Pooling) -> Node:
    """Pool hidden states (batch, seq, width) to (batch, width), in the modes of `POOLERS`.

    Parameters
    ----------
    mask : (batch, seq), 1 for tokens, with padding on the right.
    """
    pooled = [POOLERS[pooling.mode](states[layer], mask) for layer in pooling.layers]
    total = pooled[0]
    for other in pooled[1:]:
        total = ops().add(total, other)
    return ops().divide(total, scalar(len(pooled), np.float32)) if len(pooled) > 1 else total


def with_head(vectors: Node, head: Sequence[Dense | Normalize]) -> Node:
    """Apply the modules after the pooling to vectors (batch, width).

    Raises `InputError` if weights are missing or do not fit.
    """
    for part in head:
        if isinstance(part, Dense):
            product = linear(vectors, *dense(part, width(vectors)))
            vectors = activated(product, part.activation.lower())
        else:
            squares = ops().reduce_sum(ops().multiply(vectors, vectors), integers(1), True)
            lengths = ops().maximum(ops().sqrt(squares), scalar(TINY, np.float32))
            vectors = ops().divide(vectors, lengths)
    return vectors


def head_width(columns: int, head: Sequence[Dense | Normalize]) -> int:
    """Dimensions of vectors (batch, columns) after the head.

    Raises `InputError` if weights are missing or do not fit.
    """
    for part in head:
        if isinstance(part, Dense):
            columns = len(dense(part, columns)[0])
    return columns


def dense(part: Dense, columns: int) -> tuple[Array, Array | None]:
    """Read weight (out, columns) and bias (out,), if any, of a Dense.

    Raises `InputError` if they are malformed or do not fit.
    """
    try:
        weights = Weights([part.weights])
    except ValueError as error:
        raise InputError(str(error)) from error
    weight = weights.get("linear.weight")
    if weight is None or weight.ndim != 2 or weight.shape[1] != columns:
        shape = None if weight is None else weight.shape
        raise InputError(f"{part.weights}: linear.weight {shape}; expected (any, {columns})")
    bias = weights.get("linear.bias")
    if bias is not None and bias.shape != (len(weight),):
        raise InputError(f"{part.weights}: bias {bias.shape}; expected ({len(weight)},)")
    return weight, bias


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


def _max(hidden: Node, mask: Node) -> Node:
    seen = ops().unsqueeze(ops().convert(mask, "boolean"), integers(2))
    lowest = scalar(float(np.finfo(np.float32).min), np.float32)
    return ops().reduce_max(ops().select(seen, hidden, lowest), integers(1), False)


POOLERS = {"cls": first, "mean": _mean, "max": _max, "last": _last}
"""Mode -> function from hidden state and mask to vectors."""
