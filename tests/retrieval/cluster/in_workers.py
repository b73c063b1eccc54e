"""Code for Ray's workers, which import this module instead of the tests."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slimdex.indexes.arrays import Matrix
from tests.encoders import ReadingEncoder

BUILD = """
import sys
from pathlib import Path
from slimdex.indexes.settings import Settings
from slimdex.retrieval.building import build
from slimdex.retrieval.cluster.ray_workers import RayWorkers
from slimdex.retrieval.encoders import encoding
from slimdex.retrieval.ingest import encode
from slimdex.retrieval.sources.source import Sources
from tests.retrieval.cluster.in_workers import Slow

path, source, address = sys.argv[1:]
encoding.WINDOW_TEXTS, encode.LEAST_ROWS = 16, 64
encode.FIRST_IN_PROCESSES = encode.LEAST_CHARACTERS = encode.SECONDS_IN_PROCESSES = 1
with RayWorkers(address, 2) as workers:
    build(Path(path), Sources.open([source]), Slow, Settings(24), workers=workers)
"""
"""Program that builds an index with Ray."""


@dataclass(frozen=True)
class Deadly:
    """Kill the process that computes a part, `times` times; each kill leaves a file in `folder`."""

    folder: Path
    part: int
    times: int

    def __call__(self, part: int) -> int:
        if part == self.part:
            died = len(list(self.folder.iterdir()))
            if died < self.times:
                (self.folder / str(died)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return part + 1


class Slow(ReadingEncoder):
    """Encoder as slow as a small transformer, to leave time for a kill."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        time.sleep(0.01 * len(texts))
        return super().encode(texts)
