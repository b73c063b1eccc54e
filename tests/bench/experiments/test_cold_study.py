"""A small collection whose files are dropped from memory before each query."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.bench.columns import check_row
from slimdex.bench.experiments import cold_study
from slimdex.bench.experiments.cold_study import CACHED, DROPPED, REOPENED, measure_cold
from slimdex.bench.experiments.retrieval_study import Task
from slimdex.bench.memory_limit import check_groups
from slimdex.bench.reporting.tables.settled import cold
from slimdex.bench.rows import ResultsFile, Row
from slimdex.indexes.errors import InputError
from tests.bench.conftest import ABOUT
from tests.encoders import WordEncoder

pytestmark = pytest.mark.slow


LIMIT = 10**9


def measured(task: Task, folder: Path, limit: int | None = None) -> list[Row]:
    results = ResultsFile(folder / "cold-words.jsonl")
    try:
        failed = measure_cold(
            task, WordEncoder, results, ABOUT, folder=folder / "disk", limit=limit
        )
    except InputError as error:
        if "stay in memory" in str(error):
            pytest.skip(f"nothing is dropped here: {error}")
        raise
    assert failed == []
    assert list((folder / "disk").iterdir()) == []
    return list(results.rows.values())


@pytest.fixture(scope="module")
def unlimited() -> InputError | None:
    """Why memory can't be limited here, if it can't."""
    try:
        check_groups()
    except InputError as error:
        return error
    return None


@pytest.fixture(scope="module")
def all_rows(
    task: Task, unlimited: InputError | None, tmp_path_factory: pytest.TempPathFactory
) -> list[Row]:
    """Measured once: without a limit, and with one where memory can be limited."""
    return measured(task, tmp_path_factory.mktemp("cold"), None if unlimited else LIMIT)


def test_what_was_dropped_is_read_again(all_rows: list[Row]) -> None:
    rows = [row for row in all_rows if row["limit_bytes"] is None]
    by_way = {row["way"]: row for row in rows}
    assert list(by_way) == [CACHED, DROPPED, REOPENED]
    cached, dropped, reopened = by_way.values()
    # A system that needs the memory may take some of it meanwhile.
    assert cached["cached_vectors_bytes"] == pytest.approx(800 * 48 * 2, rel=0.1)
    assert cached["read_query_bytes"] < 0.1 * dropped["read_query_bytes"]
    # Whatever is in memory after a query that found nothing there was read by it.
    for row in (dropped, reopened):
        held = sum(size for name, size in row.items() if name.startswith("cached_"))
        assert 0 < held <= row["read_query_bytes"] + 20 * 4096  # files end within a page
        assert row["cached_words_bytes"] > 0
        assert 0 < row["cached_vectors_bytes"] <= cached["cached_vectors_bytes"]
    assert "cached_documents_bytes" in dropped  # the catalog has no part in it
    assert reopened["read_query_bytes"] == pytest.approx(dropped["read_query_bytes"], rel=0.1)
    for row in rows:
        check_row(row)
        assert 0 < row["p50_ms_encode"] < row["p50_ms_total"] <= row["p95_ms_total"]
        assert row["memory_bytes"] > 0
    (table,) = cold(rows)
    assert [line[0].shown for line in table.rows] == [CACHED, DROPPED, REOPENED]


def test_with_a_limit_there_are_rows_of_both(
    task: Task,
    all_rows: list[Row],
    unlimited: InputError | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if unlimited:
        monkeypatch.setattr(cold_study, "QUERIES", 4)  # asked before it is refused
        with pytest.raises(InputError, match=r"to limit memory|memory controller"):
            measured(task, tmp_path, limit=LIMIT)
        pytest.skip(f"memory can't be limited here: {unlimited}")
    assert [row["limit_bytes"] for row in all_rows] == [None] * 3 + [LIMIT] * 3
