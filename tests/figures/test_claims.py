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
        assert row["ndcg@10_high"] > 0, row["set"]
        assert row["ndcg@10_delta"] > -0.5, row["set"]


def test_words_help_where_labels_choose_and_harm_some_sets_by_ranks() -> None:
    queries = rows("hybrid", what="queries")
    assert min(row["ndcg@10_delta"] for row in queries if row["way"] == "auto") >= 0
    by_ranks = [row["ndcg@10_delta"] for row in queries if row["way"] == "rrf"]
    assert (sum(delta < 0 for delta in by_ranks), len(by_ranks)) == (3, 11)
    assert {row["first_share"] for row in rows("hybrid", what="names", way="words")} == {1.0}
