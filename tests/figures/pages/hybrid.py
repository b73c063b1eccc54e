"""Words beside meaning: the figures of its page."""

from __future__ import annotations

from slimdex.retrieval.cli.options.searching import SearchOptions
from slimdex.retrieval.lexical.weighting import FLOOR_RANK
from slimdex.retrieval.quality.tuning.metric_choice import FEWEST_LABELLED
from slimdex.retrieval.search.fused import WORDED

from ..links import Figure

FIGURES = [
    Figure("The 200 rows with the best BM25", lambda: [WORDED]),
    Figure("among fewer than 200 rows", lambda: [2 * FLOOR_RANK]),
    Figure("at least 100 labelled queries", lambda: [FEWEST_LABELLED]),
    Figure("each of the first 50 hits", lambda: [SearchOptions.rerank_depth]),
    Figure("A constant weight of 0.3 gains more", lambda: [0.3]),
]
