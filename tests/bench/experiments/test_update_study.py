from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.bench.experiments.traffic import GROUP, Traffic
from slimdex.bench.experiments.update_study import DIM, documents, measure_updates, vectors_of
from slimdex.bench.rows import ResultsFile
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.collection.repair import verify
from slimdex.retrieval.sources.given_vectors import GivenEncoder
from tests.chance import CHANCE
from tests.conftest import Report
from tests.slow import slow


@pytest.mark.slow
def test_changes_are_measured_once(tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "updates.jsonl")
    for _ in range(2):
        measure_updates(results, {}, (700,))
    (row,) = results.rows.values()
    assert row["rows"] == 700
    assert all(row[name] > 0 for name in ("add_s", "replace_s", "delete_s", "compact_s"))


MANY = pytest.param(
    32, CHANCE.count(60, 8), id="32-long", marks=[pytest.mark.slow, pytest.mark.sweep]
)


@pytest.mark.parametrize(("threads", "seconds"), [*slow([(4, 1.5)]), MANY])
def test_threads_search_while_one_writes(
    tmp_path: Path, threads: int, seconds: float, report: Report
) -> None:
    path = tmp_path / "x.index"
    with Collection.create(path, GivenEncoder(DIM)) as collection:
        collection.add(documents(0, 2000), vectors=vectors_of(0, 2000))
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
