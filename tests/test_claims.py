"""Claims of the pages in words hold in the stored rows."""

from __future__ import annotations

from collections import Counter
from statistics import fmean
from typing import Any

from slimdex.bench.reporting.choices import by_task, default_row
from slimdex.bench.reporting.tables import of_default_encoder
from slimdex.bench.rows import FOLDER, Row, read_rows
from slimdex.indexes.options import CANDIDATES, REDUCERS

STATIC = "all-MiniLM-L6-v2-static"
FEW_WORDS = {("debian-desc", STATIC)}


def rows(experiment: str, **where: Any) -> list[Row]:
    """The stored rows of an experiment of which all these columns have these values."""
    every = read_rows(FOLDER, experiment)
    found = [row for row in every if all(row.get(name) == where[name] for name in where)]
    assert found, f"no rows of {experiment} with {where}"
    return found


def by_default_encoder(**where: Any) -> list[Row]:
    """Rows of `slimdex bench hybrid` that the means of README and docs are over."""
    return of_default_encoder(rows("hybrid", **where))


def test_the_default_index_is_nowhere_surely_worse_than_the_uncompressed_search() -> None:
    found = [default_row(own) for own in by_task(rows("retrieval")).values()]
    assert len(found) >= 5
    for row in found:
        assert row is not None
        assert row["ndcg@10_high"] > 0, row["set"]
        assert row["ndcg@10_delta"] > -0.5, row["set"]


def test_the_default_search_gains_on_every_set_and_finds_every_name() -> None:
    ways: dict[str, dict[str, float]] = {}
    for row in by_default_encoder(what="queries"):
        ways.setdefault(row["way"], {})[row["set"]] = row["ndcg@10"]
    gains = {set: points - ways["meaning"][set] for set, points in ways["rule"].items()}
    assert len(gains) >= 9
    assert min(gains.values()) > 0
    constants = ("0.05", "0.1", "0.3", "0.5", "rrf")
    assert fmean(ways["rule"].values()) > max(fmean(ways[way].values()) for way in constants)
    labelled = [set for set in gains if "identifiers" not in set]
    half, rule = (fmean(ways[way][set] for set in labelled) for way in ("0.5", "rule"))
    assert abs(half - rule) < 0.1
    assert {row["first_share"] for row in rows("hybrid", what="names", way="rule")} == {1.0}


def test_codes_lose_nothing_against_float32_with_the_same_bm25() -> None:
    for row in rows("hybrid", what="queries", way="rule codes"):
        assert abs(row["ndcg@10_delta"]) < 0.05, row["set"]
        assert row["ndcg@10_low"] <= 0 <= row["ndcg@10_high"], row["set"]


def test_the_default_loses_beyond_chance_on_one_set_and_less_than_constants() -> None:
    weight = rows("weight", way="rule")
    assert len({row["model"] for row in weight}) >= 3
    hybrid = rows("hybrid", what="queries", way="rule")
    lost = [row for row in (*weight, *hybrid) if row["ndcg@10_high"] < 0]
    assert [(row["set"], row["model"]) for row in lost] == [("wikiqa", "all-MiniLM-L6-v2")]
    (constant,) = rows("weight", way="left out", set="wikiqa", model="all-MiniLM-L6-v2")
    assert constant["ndcg@10"] < lost[0]["ndcg@10"]
    are_sure = [row["ndcg@10_low"] > 0 for row in hybrid]
    assert fmean(are_sure) > 0.8


def test_the_default_weight_is_as_good_as_one_chosen_without_the_set() -> None:
    identifiers = [row for row in rows("weight", way="rule") if "identifiers" in row["set"]]
    for model in {row["model"] for row in identifiers}:
        others = {row["set"]: row for row in rows("weight", way="left out", model=model)}
        own = rows("weight", way="rule", model=model)
        deltas = [row["ndcg@10"] - others[row["set"]]["ndcg@10"] for row in own]
        assert fmean(deltas) > -0.5, model
    assert min(row["ndcg@10"] for row in identifiers) > 85


def test_a_small_gamma_loses_on_fewer_sets_than_it_gains_on() -> None:
    found = rows("weight", way="gamma 0.25")
    every = {row["set"] for row in found if row["model"] == "gte-small"}
    assert len(every) == 10
    losses = Counter(
        row["model"].split()[0] for row in found if row["set"] in every and row["ndcg@10_delta"] < 0
    )
    assert losses == {"gte-small": 5, "all-MiniLM-L6-v2": 3, "all-mpnet-base-v2": 1}


def test_most_of_the_gain_over_float32_comes_from_words() -> None:
    ours, words = (
        {row["set"]: row["ndcg@10_delta"] for row in by_default_encoder(what="queries", way=way)}
        for way in ("rule", "float32 rule")
    )
    assert fmean(words.values()) > 0.5 * fmean(ours[set] for set in words)


def test_words_cost_more_time_than_meaning() -> None:
    found = by_default_encoder(what="queries", way="rule")
    times = sorted(row["p50_ms_fused"] / row["p50_ms_documents"] for row in found)
    assert times[0] > 1.5
    assert times[len(times) // 4] > 2


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
