"""Quick start: in a command for one query, numpy encodes what OpenVINO would start too late for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain

import numpy as np

from slimdex.indexes.arrays import Matrix

from .networks.first_texts import FirstTexts
from .openvino_runtime import CPU_TOKENS, Batch, OpenVinoRuntime

FIRST_TOKENS = 1024
"""Tokens that numpy encodes in the time in which OpenVINO starts."""
_QUICK: ContextVar[bool] = ContextVar("quick", default=False)


@contextmanager
def quick_start() -> Iterator[None]:
    """Let encoders that are loaded within start quickly, for a command that ends soon."""
    before = _QUICK.set(True)
    try:
        yield
    finally:
        _QUICK.reset(before)


def starts_quickly() -> bool:
    """Return whether this is within `quick_start`."""
    return _QUICK.get()


class QuickRuntime:
    """Runtime that encodes the first texts by numpy in float32, and others by OpenVINO.

    Parameters
    ----------
    start : compiles the network, for all texts after the first `FIRST_TOKENS` tokens.
    """

    name = "OpenVINO on cpu"
    batch_tokens = CPU_TOKENS
    streams = 1

    def __init__(
        self, network: FirstTexts, precision: str, start: Callable[[], OpenVinoRuntime]
    ) -> None:
        self.precision, self._network, self._start = precision, network, start
        self._tokens = 0
        self._compiled: OpenVinoRuntime | None = None

    def run(self, batches: Iterable[Batch]) -> Iterator[Matrix]:
        """Yield the network's output for each batch of ids and mask (n, seq), in order."""
        batches = iter(batches)
        for ids, mask in batches:
            self._tokens += int(mask.sum())
            if self._tokens > FIRST_TOKENS:
                self._compiled = self._compiled or self._start()
                yield from self._compiled.run(chain([(ids, mask)], batches))
                return
            lengths = mask.sum(axis=1)
            yield np.concatenate(
                [self._network.encode(row[:n]) for row, n in zip(ids, lengths, strict=True)]
            )
