"""Runtime protocol, and the OpenVINO runtime for CPUs.

`torch_runtime` is used on GPUs and for the few networks that OpenVINO can't convert exactly; this
module does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from threading import Lock
from typing import Any, Protocol

import numpy as np

from slimdex.indexes.arrays import Matrix

from .openvino_library import openvino_library
from .processor import capabilities, core_limit, cores, openvino_core, processor_key
from .streams import Batch, Streams

PRECISIONS = ("auto", "fp32", "bf16", "fp16", "int8")
"""auto: bf16 if the processor multiplies it faster, else fp32."""
HINTS = {"bf16": "bf16", "fp16": "f16"}
"""Precision -> OpenVINO's name; a processor without it multiplies in float32."""
CPU_TOKENS = 512
"""Tokens of a batch, including padding; sized for the caches of a core."""


class Runtime(Protocol):
    """Network that is ready to run.

    Attributes
    ----------
    precision : precision of products; see `HINTS` for processors without it.
    batch_tokens : best size of a batch in tokens, including padding.
    """

    name: str
    precision: str
    batch_tokens: int

    @property
    def streams(self) -> int:
        """Number of batches that may run concurrently."""
        ...

    def run(self, batches: Iterable[Batch]) -> Iterator[Matrix]:
        """Yield the network's output for each batch of ids and mask (n, seq), in order."""
        ...


class OpenVinoRuntime:
    """OpenVINO model compiled for this processor.

    Parameters
    ----------
    model : an `openvino.Model` in float32.
    precision : any of `PRECISIONS`.
    key : cache key of its conversion; without one, measurements are not cached.
    """

    name = "OpenVINO on cpu"
    batch_tokens = CPU_TOKENS

    def __init__(self, model: Any, precision: str, key: str = "") -> None:
        if precision == "auto":
            precision = "bf16" if "BF16" in capabilities() else "fp32"
        self.model, self.key, self.precision = model, key, precision
        self._network = _with_compressed_weights(model) if precision == "int8" else model
        self._request = self._compiled("LATENCY").create_infer_request()
        self._lock = Lock()
        self._streams = Streams(
            lambda: self._compiled("THROUGHPUT"),
            key and f"{key}-{processor_key()}-{precision}-streams",
        )

    @property
    def streams(self) -> int:
        """Number of batches that may run concurrently."""
        return 1 if self._streams.faster is False else cores()

    def run(self, batches: Iterable[Batch]) -> Iterator[Matrix]:
        """Yield the network's output for each batch of ids and mask (n, seq), in order.

        Raises `InputError` in a fork of the process that compiled the model.
        """
        openvino_core()
        batches = iter(batches)
        first = list(islice(batches, 2))
        batches = chain(first, batches)
        if len(first) < 2:
            return self._one_by_one(batches)
        return self._streams.run(batches, self._one_by_one)

    def _one_by_one(self, batches: Iterable[Batch]) -> Iterator[Matrix]:
        for ids, mask in batches:
            with self._lock:  # a request has one output buffer
                try:
                    self._request.infer([ids, mask], share_inputs=True)
                except RuntimeError:  # it would then fail for every batch of that shape
                    self._request = self._compiled("LATENCY").create_infer_request()
                    raise
                found = self._request.get_output_tensor().data.copy()
            yield found

    def _compiled(self, mode: str) -> Any:
        options = {
            "INFERENCE_PRECISION_HINT": HINTS.get(self.precision, "f32"),
            "PERFORMANCE_HINT": mode,
            "ENABLE_CPU_PINNING": False,  # two processes would pin to the same cores
        }
        if (limit := core_limit()) is not None:
            options["INFERENCE_NUM_THREADS"] = limit
        return openvino_core().compile_model(self._network, "CPU", options)


def _with_compressed_weights(model: Any) -> Any:
    """Copy a model with matrix weights compressed to 8 bits, with a scale for each row.

    A CPU with 8-bit products quantises activations dynamically, in groups of dimensions; other CPUs
    decompress the weights.
    """
    openvino = openvino_library()
    ops = openvino.opset13
    model = model.clone()
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
    return model
