"""Runtimes: what computes a network, in which precision. This one is OpenVINO, on the CPU.

At the same precision OpenVINO is 1.5 to 2.4 times as fast as torch on a CPU in batches, and four
to five times for a single text (all-MiniLM-L6-v2, two cores). torch (`network`) takes over for the
few networks that OpenVINO can't convert exactly, and on GPUs; here nothing imports it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import numpy as np

from slimdex.indexes.arrays import Matrix

from .tokens import Ids

PRECISIONS = ("auto", "fp32", "bf16", "int8")
"""auto: bf16 where the processor multiplies that faster, else fp32."""
CPU_TOKENS = 1024
"""Tokens of a batch, padding included: what the caches of a processor hold."""


class Runtime(Protocol):
    """A network that is ready to run."""

    name: str
    precision: str
    batch_tokens: int

    def run(self, batches: Iterable[tuple[Ids, Ids]]) -> Iterator[Matrix]:
        """The network's output for each batch of ids and mask (n, seq), in order."""
        ...


class OpenVinoRuntime:
    """A model of OpenVINO's, compiled for this processor.

    Parameters
    ----------
    model : an `openvino.Model` in float32; in int8 its weights are compressed in place.
    precision : any of `PRECISIONS`.
    """

    name = "OpenVINO on cpu"
    batch_tokens = CPU_TOKENS

    def __init__(self, model: Any, precision: str) -> None:
        import openvino

        core = openvino.Core()
        if precision == "auto":
            can = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
            precision = "bf16" if "BF16" in can else "fp32"
        if precision == "int8":
            _compress_weights(model)
        hint = "bf16" if precision == "bf16" else "f32"
        self.precision = precision
        self._request = core.compile_model(
            model, "CPU", {"INFERENCE_PRECISION_HINT": hint}
        ).create_infer_request()
        self._lock = Lock()

    def run(self, batches: Iterable[tuple[Ids, Ids]]) -> Iterator[Matrix]:
        """The network's output for each batch of ids and mask (n, seq), in order."""
        for ids, mask in batches:
            with self._lock:  # a request has one place for its answer
                self._request.infer([ids, mask], share_inputs=True)
                found = self._request.get_output_tensor().data.copy()
            yield found


def may_have_gpu() -> bool:
    """Whether torch is worth asking, which takes a second to import."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or shutil.which("nvidia-smi") is not None


def has_gpu() -> bool:
    """Whether torch can compute on a GPU."""
    import torch

    return torch.cuda.is_available()


def _compress_weights(model: Any) -> None:
    """Weights of matrix products in 8 bits, a scale for each row (in place).

    The CPU then quantises the other factor as it goes, in groups of dimensions.
    """
    import openvino
    from openvino import opset13 as ops

    for node in model.get_ordered_ops():
        if node.get_type_name() != "MatMul":
            continue
        weight = node.input_value(1).get_node()
        if weight.get_type_name() != "Constant" or len(weight.get_output_shape(0)) != 2:
            continue
        values = weight.get_data().astype(np.float32)
        axis = 1 if node.get_attributes()["transpose_b"] else 0
        scale = np.abs(values).max(axis=axis, keepdims=True) / 127
        scale[scale == 0] = 1.0
        rounded = np.round(values / scale).astype(np.int8)
        wide = ops.convert(ops.constant(rounded), openvino.Type.f32)
        restored = ops.multiply(wide, ops.constant(scale))
        node.input(1).replace_source_output(restored.output(0))
