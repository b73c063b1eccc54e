"""Words beside meaning: the figures of its page."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from slimdex.retrieval.cli.options.searching import SearchOptions
from slimdex.retrieval.lexical.fusion import WORDED
from slimdex.retrieval.lexical.weighting import FLOOR_RANK
from slimdex.retrieval.quality.tuning.metric_choice import FEWEST_LABELLED

from ..links import Figure, rows


def range_of(values: Sequence[float]) -> Sequence[float]:
    """The least and the greatest."""
    return min(values), max(values)


ENGLISH = "all-MiniLM-L6-v2 (bf16)"


def gains(way: str) -> list[float]:
    """Gain of a way over meaning alone, on every English set."""
    found = rows("hybrid", what="queries", way=way, model=ENGLISH)
    alone = {row["set"]: row["ndcg@10"] for row in rows("hybrid", what="queries", way="meaning")}
    return [row["ndcg@10"] - alone[row["set"]] for row in found]


def names(way: str) -> Sequence[float]:
    """Percent of the names asked for that come first, of every set with names."""
    return [100 * row["first_share"] for row in rows("hybrid", what="names", way=way)]


FIGURES = [
    Figure("The 200 rows with the best BM25", lambda: [WORDED]),
    Figure("among fewer than 200 rows", lambda: [2 * FLOOR_RANK]),
    Figure("at least 100 labelled queries", lambda: [FEWEST_LABELLED]),
    Figure("each of the first 50 hits", lambda: [SearchOptions.rerank_depth]),
    Figure("the default gains 5.7 points", lambda: [fmean(gains("rule"))]),
    Figure("on each of them 0.5 or more", lambda: [min(gains("rule"))]),
    Figure("BM25 alone -11.4 to 10.3", lambda: range_of(gains("words"))),
    Figure(
        "weight of 0.3 gains more on these sets, 6.1 points on average, but loses 0.1 on one",
        lambda: [0.3, fmean(gains("0.3")), -min(gains("0.3"))],
    ),
    Figure("by meaning alone 21% to 36% do", lambda: range_of(names("meaning"))),
]
