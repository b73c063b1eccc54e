"""Claims of the pages that no figure states."""

from __future__ import annotations

from slimdex.bench.reporting.findings import default_row, of_task, tasks

from .links import rows


def test_the_default_index_is_nowhere_surely_worse_than_the_uncompressed_search() -> None:
    measured = rows("retrieval")
    found = [default_row(of_task(measured, task)) for task in tasks(measured)]
    assert len(found) >= 7
    for row in found:
        assert row is not None
        assert row["ndcg@10_high"] > 0 and row["ndcg@10_delta"] > -0.5, row["set"]
