"""Words beside meaning: the figures of its page."""

from __future__ import annotations

from collections.abc import Sequence

from slimdex.retrieval.cli.options.searching import SearchOptions
from slimdex.retrieval.quality.tuning.metric_choice import FEWEST_LABELLED
from slimdex.retrieval.search.fused import WORDED

from ..links import Figure, rows


def range_of(values: Sequence[float]) -> Sequence[float]:
    """The least and the greatest."""
    return min(values), max(values)


def gains() -> Sequence[float]:
    """What the fusion that tuning chose gains, of every set on which it chose one."""
    found = rows("hybrid", what="queries", way="auto")
    return [row["ndcg@10_delta"] for row in found if row["fusion"] != "off"]


def losses() -> Sequence[float]:
    """What fusing by ranks loses, of every set on which it does."""
    found = rows("hybrid", what="queries", way="rrf")
    return [-row["ndcg@10_delta"] for row in found if row["ndcg@10_delta"] < 0]


def names(way: str) -> Sequence[float]:
    """Percent of the names asked for that come first, of every set with names."""
    return [100 * row["first_share"] for row in rows("hybrid", what="names", way=way)]


FIGURES = [
    Figure("The 200 rows with the best BM25", lambda: [WORDED]),
    Figure("lose 1.1 to 2.5 points", lambda: range_of(losses())),
    Figure("at least 100 labelled queries", lambda: [FEWEST_LABELLED]),
    Figure("each of the first 50 hits", lambda: [SearchOptions.rerank_depth]),
    Figure("it gains 1.7 to 10.7 points", lambda: range_of(gains())),
    Figure("by semantic search alone 21% to 35% do", lambda: range_of(names("meaning"))),
]
