"""Runtimes: what computes a network, in which precision. This one is OpenVINO, on the CPU.

torch (`torch_runtime`) takes over for the few networks that OpenVINO can't convert exactly, and on
GPUs; here nothing imports it.
"""

from __future__ import annotations

import os
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
"""auto: bf16 where the processor multiplies that faster, else fp32."""
HINTS = {"bf16": "bf16", "fp16": "f16"}
"""Precision -> OpenVINO's name for it. A processor that has it not multiplies in float32."""
CPU_TOKENS = 512
"""Tokens of a batch, padding included: what the caches of a core hold."""


class Runtime(Protocol):
    """A network that is ready to run.

    Attributes
    ----------
    precision : that it multiplies in; for a processor that has it not, see `HINTS`.
    batch_tokens : tokens that a batch should have, padding included.
    """

    name: str
    precision: str
    batch_tokens: int

    @property
    def streams(self) -> int:
        """Batches that may be under way at a time."""
        ...

    def run(self, batches: Iterable[Batch]) -> Iterator[Matrix]:
        """The network's output for each batch of ids and mask (n, seq), in order."""
        ...


class OpenVinoRuntime:
    """A model of OpenVINO's, compiled for this processor.

    Parameters
    ----------
    model : an `openvino.Model` in float32.
    precision : any of `PRECISIONS`.
    key : what its conversion is kept by; without one, nothing that is measured is remembered.
    """

    name = "OpenVINO on cpu"
    batch_tokens = CPU_TOKENS

    def __init__(self, model: Any, precision: str, key: str = "") -> None:
        if precision == "auto":
            precision = "bf16" if "BF16" in capabilities() else "fp32"
        self.model, self.key, self.precision = model, key, precision
        self._network = _with_compressed_weights(model) if precision == "int8" else model
        self._request = self._compiled("LATENCY").create_infer_request()
        self._lock, self._process = Lock(), os.getpid()
        self._streams = Streams(
            lambda: self._compiled("THROUGHPUT"),
            key and f"{key}-{processor_key()}-{precision}-streams",
        )

    @property
    def streams(self) -> int:
        """Batches that may be under way at a time."""
        return 1 if self._streams.faster is False else cores()

    def run(self, batches: Iterable[Batch]) -> Iterator[Matrix]:
        """The network's output for each batch of ids and mask (n, seq), in order."""
        batches = iter(batches)
        first = list(islice(batches, 2))
        batches = chain(first, batches)
        # A process that was forked has left the streams' threads behind.
        if len(first) < 2 or os.getpid() != self._process:
            return self._one_by_one(batches)
        return self._streams.run(batches, self._one_by_one)

    def _one_by_one(self, batches: Iterable[Batch]) -> Iterator[Matrix]:
        for ids, mask in batches:
            with self._lock:  # a request has one place for its answer
                try:
                    self._request.infer([ids, mask], share_inputs=True)
                except RuntimeError:  # it would fail ever after, at every batch of the same shape
                    self._request = self._compiled("LATENCY").create_infer_request()
                    raise
                found = self._request.get_output_tensor().data.copy()
            yield found

    def _compiled(self, mode: str) -> Any:
        options = {
            "INFERENCE_PRECISION_HINT": HINTS.get(self.precision, "f32"),
            "PERFORMANCE_HINT": mode,
            "ENABLE_CPU_PINNING": False,  # two processes would choose the same cores
        }
        if (limit := core_limit()) is not None:
            options["INFERENCE_NUM_THREADS"] = limit
        return openvino_core().compile_model(self._network, "CPU", options)


def _with_compressed_weights(model: Any) -> Any:
    """A copy whose matrix products have weights in 8 bits, a scale for each row.

    A CPU that has products of 8 bits then quantises the other factor as it goes, in groups of
    dimensions; another one widens the weights.
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
