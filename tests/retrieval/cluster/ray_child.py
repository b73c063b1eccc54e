"""Builds an index on Ray, for a test that kills it and its workers meanwhile."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.settings import Settings
from slimdex.retrieval.ingest import encoding
from slimdex.retrieval.operations.building import Sources, build
from tests.encoders import ReadingEncoder

SETTINGS = Settings(24)


class Slow(ReadingEncoder):
    """Takes as long for each text as a small transformer, so that there is time to be killed in."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        time.sleep(0.005 * len(texts))
        return super().encode(texts)


def built(path: Path, source: str) -> None:
    """The index, or the rest of it."""
    from slimdex.retrieval.cluster.ray_workers import RayWorkers

    encoding.WINDOW = 16
    with RayWorkers("local", 2) as workers:
        print("begun", flush=True)
        collection, added = build(path, Sources.open([source]), Slow, SETTINGS, workers=workers)
        collection.close()
    print("\n".join(added.notes), flush=True)


if __name__ == "__main__":
    built(Path(sys.argv[1]), sys.argv[2])
