"""Runtime protocol, the OpenVINO runtime for CPUs, and the capabilities of the processor.

`torch_runtime` is used on GPUs and for the few networks that OpenVINO can't convert exactly; this
module does not import torch.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix
from slimdex.system.spare_threads import cores, most_cores

from ..tokens import Ids, padded_length

PRECISIONS = ("auto", "fp32", "bf16", "fp16", "int8")
"""auto: bf16 if the processor multiplies it faster, else fp32."""
HINTS = {"bf16": "bf16", "fp16": "f16"}
"""Precision -> OpenVINO's name; a processor without it multiplies in float32."""
CPU_TOKENS = 512
"""Tokens of a batch, including padding; sized for the caches of a core."""
WORTH_WHILE_S = 1.0
"""Seconds of work before a model is compiled for streams, which takes about as long, and 70 MB."""
QUERY_BATCHES = 8
"""Batches of each call that don't count as such work; the queries of a service have no more."""
MIXED_TOKENS = 256
"""Tokens of a batch of unlike texts, which padding to the longest would otherwise double."""
MIXED_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of texts in such batches."""
Batch = tuple[Ids, Ids]
"""Ids and mask (n, seq)."""
TELEMETRY = "openvino_telemetry"


@dataclass(frozen=True)
class Facts:
    """Properties of a network, available without loading it.

    Attributes
    ----------
    dim : of its vectors.
    width, layers : width of its hidden states; number of layers without the embeddings.
    longest : maximum length of a text in tokens.
    pad_id : padding token.
    """

    dim: int
    width: int
    layers: int
    longest: int
    pad_id: int


@dataclass(frozen=True)
class Conversion:
    """Network that was converted: facts, a tokenizer of `tokenizers`, and an OpenVINO model."""

    facts: Facts
    tokenizer: Any
    model: Any


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

    def run(self, batches: Iterable[Batch]) -> Iterator[Matrix]:
        """Yield the network's output for each batch of ids and mask (n, seq), in order."""


class OpenVinoRuntime:
    """OpenVINO model, given in float32, compiled for this processor in one of `PRECISIONS`.

    `release` drops the memory of mapped weights; pages are read again when needed. It is called
    after the first batch, when the compiled model has copied its weights; later only rows of the
    embedding tables are read.
    """

    name = "OpenVINO on cpu"
    batch_tokens = CPU_TOKENS

    def __init__(
        self, model: Any, precision: str, release: Callable[[], None] = lambda: None
    ) -> None:
        self.model = model
        self.precision = fast_precision() if precision == "auto" else precision
        self.release = release
        self._is_new = True
        self._network = _with_compressed_weights(model) if self.precision == "int8" else model
        self._request = self._compile("LATENCY").create_infer_request()
        self._lock = Lock()
        self._compiling = Lock()
        self._worked_s = 0.0
        self._streams: _Streams | None = None

    @property
    def streams(self) -> int:
        """Number of batches that may run concurrently."""
        return cores()

    def run(self, batches: Iterable[Batch]) -> Iterator[Matrix]:
        """Yield the network's output for each batch of ids and mask (n, seq), in order.

        Raises `InputError` in a fork of the process that compiled the model.
        """
        openvino_core()  # raises an error in a fork

        # A single batch uses all cores; look for a second one.
        batches = iter(batches)
        first = list(islice(batches, 2))
        batches = chain(first, batches)
        if len(first) < 2 or cores() < 2:
            return self._releasing(self._one_by_one(batches))
        return self._releasing(self._in_streams(batches))

    def _releasing(self, outputs: Iterator[Matrix]) -> Iterator[Matrix]:
        """Yield the outputs; then release the weights that a newly compiled model has copied."""
        yield from outputs
        if self._is_new:
            self._is_new = False
            self.release()

    def _one_by_one(self, batches: Iterable[Batch]) -> Iterator[Matrix]:
        """Run each batch on all cores."""
        for ids, mask in batches:
            with self._lock:  # a request has one output buffer
                outputs = [self._output(*part) for part in in_few_shapes(ids, mask)]
            yield outputs[0] if len(outputs) == 1 else np.concatenate(outputs)

    def _output(self, ids: Ids, mask: Ids) -> Matrix:
        """Run one batch; return a copy, as the request's next run overwrites its output."""
        try:
            self._request.infer([ids, mask], share_inputs=True)
        except RuntimeError:  # this request would now fail for every batch of that shape
            self._request = self._compile("LATENCY").create_infer_request()
            raise
        output: Matrix = self._request.get_output_tensor().data.copy()
        return output

    def _in_streams(self, batches: Iterator[Batch]) -> Iterator[Matrix]:
        """Run batches side by side once there is work enough to compile the model for that.

        Cores then need not synchronise at every operation of the network.
        """
        # Run batches one by one until there is enough work to be worth compiling.
        done = 0
        while self._streams is None and self._worked_s < WORTH_WHILE_S:
            start = perf_counter()
            outputs = list(self._one_by_one(islice(batches, 1)))
            if not outputs:
                return
            if done >= QUERY_BATCHES:
                self._worked_s += perf_counter() - start
            done += 1
            yield from outputs

        # Run all others side by side.
        with self._compiling:
            if self._streams is None or self._streams.has_failed:
                self._streams = _Streams(self._compile("THROUGHPUT"))
        yield from self._streams.run(batches)

    def _compile(self, mode: str) -> Any:
        """Compile the model for LATENCY (one batch at a time) or THROUGHPUT (several)."""
        options = {
            "INFERENCE_PRECISION_HINT": HINTS.get(self.precision, "f32"),
            "PERFORMANCE_HINT": mode,
            "ENABLE_CPU_PINNING": False,  # two processes would pin to the same cores
        }
        threads = most_cores()
        if threads is not None:
            options["INFERENCE_NUM_THREADS"] = threads
        compiled = openvino_core().compile_model(self._network, "CPU", options)
        self._is_new = True
        return compiled


def in_few_shapes(ids: Ids, mask: Ids) -> Iterator[Batch]:
    """Split a batch of different lengths, or of few texts, into batches of few shapes, in order.

    OpenVINO plans every new shape, and keeps 1 MB for most plans: a query service would soon have a
    hundred. A full batch of texts of the same length is not split.

    >>> lengths = np.array([[9], [8], [7], [4], [3]])
    >>> ids = np.ones((5, 12), dtype=np.int64)
    >>> [part.shape for part, _ in in_few_shapes(ids, np.arange(12) < lengths)]
    [(4, 12), (1, 4)]
    """
    count, longest = ids.shape
    lengths = mask.sum(axis=1)
    widths = [min(padded_length(int(length)), longest) for length in lengths]
    is_full = (count + 1) * longest > CPU_TOKENS
    if min(widths) == longest and is_full:  # a batch of documents
        yield ids, mask
        return

    # Take the largest of `MIXED_SIZES` that fits. Texts come longest first, so later batches are
    # narrower.
    start = 0
    while start < count:
        width = max(widths[start:])
        most = min(max(MIXED_TOKENS // width, 1), count - start)
        end = start + max(size for size in MIXED_SIZES if size <= most)
        yield ids[start:end, :width], mask[start:end, :width]
        start = end


class _Streams:
    """Compiled model that runs several batches concurrently, on a few cores each.

    After a failure, an OpenVINO stream fails for every batch of the same shape: `has_failed` says
    that another has to be compiled.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._lock = Lock()
        self._count: int = model.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
        self._idle = list[list[Any]]()
        self.has_failed = False

    def run(self, batches: Iterable[Batch]) -> Iterator[Matrix]:
        """Run a batch in each stream, with one more in the queue; yield outputs in order."""
        idle = self._requests()
        running = deque[Any]()

        def oldest() -> Matrix:
            """Wait for the oldest batch; its request becomes idle."""
            running[0].wait()  # if this fails, `finally` waits for it again
            idle.append(running.popleft())
            output: Matrix = idle[-1].get_output_tensor().data.copy()
            return output

        try:
            for ids, mask in batches:
                if not idle:
                    yield oldest()
                request = idle.pop()
                running.append(request)
                request.start_async([ids, mask], share_inputs=True)
            while running:
                yield oldest()
        finally:  # after a failure, or if the caller stops early
            for request in running:
                try:
                    request.wait()
                except RuntimeError:
                    self.has_failed = True
            with self._lock:
                self._idle.append([*idle, *running])

    def _requests(self) -> list[Any]:
        """Take a list of requests, one more than streams, for exclusive use by this thread.

        `run` puts it back among the idle lists when it ends.
        """
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return [self._model.create_infer_request() for _ in range(self._count + 1)]


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
        # Products of two activations, as in attention, have no weights.
        if weight.get_type_name() != "Constant" or len(weight.get_output_shape(0)) != 2:
            continue
        values = weight.get_data().astype(np.float32)

        # Scale each output so that its largest weight becomes 127.
        axis = 1 if node.get_attributes()["transpose_b"] else 0
        scale = np.abs(values).max(axis=axis, keepdims=True) / 127
        scale[scale == 0] = 1.0
        rounded = np.round(values / scale).astype(np.int8)
        wide = ops.convert(ops.constant(rounded), openvino.Type.f32)
        restored = ops.multiply(wide, ops.constant(scale))
        node.input(1).replace_source_output(restored.output(0))
    return model


@cache
def openvino_library() -> Any:
    """Import the module `openvino`, which takes a tenth of a second.

    OpenVINO would report each conversion to its makers, from processes forked by several threads at
    once. That violates users' privacy, and OpenBLAS loses its threads in such forks and then waits
    forever, for example in `numpy.linalg.eigh`. OpenVINO works without the telemetry package, which
    is therefore hidden during the import only. A program that imported OpenVINO before keeps its
    own choice.
    """
    hidden = sys.modules.pop(TELEMETRY, None)
    sys.modules[TELEMETRY] = None  # type: ignore[assignment]
    try:
        import openvino  # a tenth of a second
    finally:
        sys.modules.pop(TELEMETRY, None)
        if hidden is not None:
            sys.modules[TELEMETRY] = hidden
    return openvino


@cache
def _core_and_process() -> tuple[Any, int]:
    """Return OpenVINO's core, and the id of the process that created it."""
    return openvino_library().Core(), os.getpid()


def openvino_core() -> Any:
    """Return this process's single `openvino.Core`.

    Raises `InputError` in a fork of a process that has one: the fork lacks its threads, and would
    wait forever if one of them held a lock at that moment.
    """
    core, process = _core_and_process()
    if os.getpid() != process:
        raise InputError(
            f"encoder: already used by process {process}, of which this is a fork; expected a "
            'process that is started with "spawn" or "forkserver"'
        )
    return core


@cache
def fast_precision() -> str:
    """Precision of `auto`: bf16 if the CPU multiplies it natively, else fp32."""
    capabilities = openvino_core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return "bf16" if "BF16" in capabilities else "fp32"


def may_have_gpu() -> bool:
    """Return whether a GPU is possible, without importing torch, which takes a second."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or shutil.which("nvidia-smi") is not None


def has_gpu() -> bool:
    """Return whether torch is installed and can use a GPU."""
    try:
        import torch  # of the extra `torch`
    except ModuleNotFoundError:
        return False
    return torch.cuda.is_available()
