"""mteb: the figures of its page."""

from __future__ import annotations

from slimdex.retrieval.quality.evaluation.measures import DEPTH

from ..links import Figure

FIGURES = [
    Figure(
        "mteb wants 1,000 documents for each query, and an index that is asked for 1,000 rescores",
        test="tests/retrieval/integrations/test_mteb_index.py::"
        "test_the_first_are_rescored_and_the_rest_follows",
    ),
    Figure("so the first 100", lambda: [DEPTH]),
]
