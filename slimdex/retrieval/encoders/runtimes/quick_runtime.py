"""Runtime of a command that ends soon: numpy encodes the first texts before OpenVINO could start.

A command that encodes one query would wait a third of a second for OpenVINO, and needs it for a
hundredth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain

from slimdex.indexes.arrays import Matrix

from .bert import Network
from .numpy_operations import encode
from .openvino_runtime import CPU_TOKENS, Batch, OpenVinoRuntime

FIRST_TOKENS = 1024
"""Tokens that numpy encodes in the time in which OpenVINO starts."""
_QUICK: ContextVar[bool] = ContextVar("quick", default=False)


@contextmanager
def quick_start() -> Iterator[None]:
    """Context in which loaded encoders start quickly, for commands that end soon."""
    token = _QUICK.set(True)
    try:
        yield
    finally:
        _QUICK.reset(token)


def starts_quickly() -> bool:
    """Return whether this is within `quick_start`."""
    return _QUICK.get()


class QuickRuntime:
    """Runtime that encodes the first `FIRST_TOKENS` tokens by numpy in float32.

    `start` compiles the network for OpenVINO, which encodes all later texts.
    """

    name = "OpenVINO on cpu"
    batch_tokens = CPU_TOKENS
    streams = 1

    def __init__(
        self, network: Network, precision: str, start: Callable[[], OpenVinoRuntime]
    ) -> None:
        self.precision = precision
        self._network = network
        self._start = start
        self._tokens = 0
        self._compiled: OpenVinoRuntime | None = None

    def run(self, batches: Iterable[Batch]) -> Iterator[Matrix]:
        """Yield the network's output for each batch of ids and mask (n, seq), in order."""
        batches = iter(batches)
        for ids, mask in batches:
            self._tokens += int(mask.sum())
            if self._tokens > FIRST_TOKENS:  # compile for this batch and all later ones
                self._compiled = self._compiled or self._start()
                yield from self._compiled.run(chain([(ids, mask)], batches))
                return
            lengths = mask.sum(axis=1)
            texts = [row[:n] for row, n in zip(ids, lengths, strict=True)]
            yield encode(self._network, texts)
