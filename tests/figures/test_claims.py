"""Claims of the pages that no figure states."""

from __future__ import annotations

from statistics import fmean

from slimdex.bench.migration.moving_study import RULES, STAYING
from slimdex.bench.reporting.findings import default_row, of_task, tasks
from slimdex.indexes.options import CANDIDATES, REDUCERS

from .links import rows
from .pages.tuning import FEW_WORDS, too_high


def test_the_default_index_is_nowhere_surely_worse_than_the_uncompressed_search() -> None:
    measured = rows("retrieval")
    found = [default_row(of_task(measured, task)) for task in tasks(measured)]
    assert len(found) >= 5
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


def test_the_bound_holds_but_for_queries_of_few_words() -> None:
    found = {task: share for task, share in too_high().items() if task not in FEW_WORDS}
    assert len(found) > 2
    assert max(found.values()) < 0.1


def test_only_spreads_merge_the_scores_of_two_encoders_without_further_loss() -> None:
    ends = rows("moving", way=STAYING, share=1.0)
    worse = [row for row in ends if row["ndcg@10_delta"] < 0]
    assert [row["set"] for row in worse] == ["climate-fever-evidence"]
    better = {(row["set"], row["old"]) for row in ends if row not in worse}
    lost: dict[str, set[str]] = {way: set() for way in RULES}
    for row in (row for way in RULES for row in rows("moving", way=way)):
        if row["ndcg@10_high"] < 0 and (row["set"], row["old"]) in better:
            lost[row["way"]].add(row["set"])
    assert [way for way in RULES if not lost[way]] == ["spreads"]
    assert lost["z-scores"] == {"xquad-r-en"}
    (hidden,) = rows("moving", old="distilbert-base-cased-gec (bf16)", way="cosines", share=0.5)
    assert hidden["ndcg@10_high"] < 0


def test_merged_by_spreads_answers_follow_the_new_encoder() -> None:
    for row in rows("moving", way="spreads", share=0.25):
        is_much_better = row["set"].startswith("squad") and not row["old"].startswith("all-MiniLM")
        assert (row["ndcg@10_low"] > 0) == is_much_better
        assert (row["ndcg@10_high"] < 0) == (row["set"] == "climate-fever-evidence")
    for row in rows("moving", way="spreads", share=0.75):
        assert (row["ndcg@10_delta"] > 0) == (row["set"] != "climate-fever-evidence")
