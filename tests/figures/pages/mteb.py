"""mteb: the figures of its page."""

from __future__ import annotations

from slimdex.retrieval.quality.evaluation.deep_search import DEPTH

from ..links import Figure

FIGURES = [
    Figure(
        "mteb requests 1,000 documents for each query",
        test="tests/retrieval/integrations/test_mteb_index.py::"
        "test_the_first_are_rescored_and_the_rest_follows",
    ),
    Figure("the others of the first 100", lambda: [DEPTH]),
]
