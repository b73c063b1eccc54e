"""Claims of the pages that no figure states."""

from __future__ import annotations

from statistics import fmean

from slimdex.bench.reporting.findings import default_row, of_task, tasks
from slimdex.indexes.options import CANDIDATES, REDUCERS

from .links import rows
from .pages.tuning import FEW_WORDS, too_high


def test_the_default_index_is_nowhere_surely_worse_than_the_uncompressed_search() -> None:
    measured = rows("retrieval")
    found = [default_row(of_task(measured, task)) for task in tasks(measured)]
    assert len(found) >= 7
    for row in found:
        assert row is not None
        assert row["ndcg@10_high"] > 0, row["set"]
        assert row["ndcg@10_delta"] > -0.5, row["set"]


def test_the_default_search_loses_nowhere_and_finds_every_name() -> None:
    ways: dict[str, dict[str, float]] = {}
    for row in rows("hybrid", what="queries"):
        ways.setdefault(row["way"], {})[row["set"]] = row["ndcg@10"]
    gains = {set: points - ways["meaning"][set] for set, points in ways["rule"].items()}
    assert len(gains) == 12
    assert min(gains.values()) > -0.2
    assert min(row["ndcg@10_delta"] for row in rows("hybrid", what="queries", way="rule")) > 0
    constants = [fmean(ways[way][set] for set in gains) for way in ("0.05", "0.1", "rrf")]
    assert fmean(ways["rule"].values()) > max(constants)
    assert {row["first_share"] for row in rows("hybrid", what="names", way="rule")} == {1.0}


def test_no_reducer_serves_search_better_than_whitening() -> None:
    found = rows("retrieval", kind="pq", effort=CANDIDATES)
    half = [row for row in found if row["k"] == row["dim"] // 2]
    ours = [row for row in half if row["method"] == "slimdex"]
    best = {(row["set"], row["model"]): row["ndcg@10"] for row in ours}
    others = [row for row in half if row["reducer"] != "whitening" or row["method"] == "PCA"]
    tried = {row["reducer"] for row in others} | {"pca"}
    assert tried | {"flow", "identity"} == {*REDUCERS}
    for row in others:
        assert row["ndcg@10"] <= best[row["set"], row["model"]] + 0.1, row["method"]


def test_where_little_is_cut_off_passages_make_no_difference_beyond_chance() -> None:
    found = rows("passages", what="set", way="passages")
    assert {row["set"] for row in found} == {"scifact", "arguana", "cranfield"}
    for row in found:
        assert row["ndcg@10_low"] <= 0 <= row["ndcg@10_high"], row["set"]


def test_the_bound_holds_but_for_queries_of_few_words() -> None:
    found = {task: share for task, share in too_high().items() if task not in FEW_WORDS}
    assert len(found) > 2
    assert max(found.values()) < 0.1
