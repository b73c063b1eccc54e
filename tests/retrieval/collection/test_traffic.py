"""Threads search a collection while another thread changes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.given_encoder import GivenEncoder
from slimdex.retrieval.operations.repair import verify
from tests.chance import CHANCE
from tests.conftest import Report
from tests.slow import slow

from .traffic import GROUP, Traffic

DIM = 384
MANY = pytest.param(
    32, CHANCE.count(60, 8), id="32-long", marks=[pytest.mark.slow, pytest.mark.sweep]
)


def vectors_of(first: int, count: int) -> Matrix:
    """Random vectors (count, DIM) with a decaying spectrum."""
    scale = (1.0 / np.arange(1, DIM + 1) ** 0.5).astype(np.float32)
    rng = np.random.default_rng(first)
    vectors: Matrix = rng.standard_normal((count, DIM), dtype=np.float32) * scale
    return vectors


def documents(count: int) -> Iterator[Document]:
    for i in range(count):
        yield Document(f"id{i}", f"text {i} " * 20, metadata={"n": i, "kind": f"kind {i % 7}"})


@pytest.mark.parametrize(("threads", "seconds"), [*slow([(4, 1.5)]), MANY])
def test_threads_search_while_one_writes(
    tmp_path: Path, threads: int, seconds: float, report: Report
) -> None:
    path = tmp_path / "x.index"
    with Collection.create(path, GivenEncoder(DIM)) as collection:
        collection.add(documents(2000), vectors=vectors_of(0, 2000))
        traffic = Traffic(collection, vectors_of(1, GROUP)).run(threads, seconds)
    assert traffic.faults == []
    assert traffic.searches > threads
    assert traffic.changes >= 3
    assert verify(path) == []
    rate = traffic.searches / traffic.seconds
    report(
        f"{threads} threads, {traffic.seconds:.0f} s: {traffic.searches} searches "
        f"({rate:.0f}/s), {traffic.changes} changes, {traffic.compactions} compactions",
        searches=traffic.searches,
        changes=traffic.changes,
        compactions=traffic.compactions,
    )
