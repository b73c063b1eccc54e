"""Parts of networks in OpenVINO's operations.

They form the subgraphs that OpenVINO's CPU plugin recognises and fuses, the same as in a network
converted from torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..openvino_library import openvino_library
from .weights import Array

Node = Any
"""An `openvino.Node`."""


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
