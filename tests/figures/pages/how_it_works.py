"""How it works: the figures of its page."""

from __future__ import annotations

from collections.abc import Sequence

from slimdex.indexes.options import CANDIDATES, CANDIDATES_TO
from slimdex.indexes.settings import Settings

from ..links import Figure, row


def graph() -> Sequence[float]:
    """Bytes of a row of `hnsw` beside its numbers."""
    found = row("retrieval", set="debian-desc", kind="hnsw", effort=0)
    return [found["ram_row_bytes"] - 4 * found["k"]]


FIGURES = [
    Figure("gamma = 0.25", lambda: [Settings().gamma]),
    Figure("The 200 nearest (more from 60,000 rows on)", lambda: [CANDIDATES, CANDIDATES_TO]),
    Figure("| 4k + 272 |", graph),
    Figure(
        "point (0.1)",
        test="tests/figures/test_claims.py::test_no_reducer_serves_search_better_than_whitening",
    ),
    Figure("200 up to 60,000 rows", lambda: [CANDIDATES, CANDIDATES_TO]),
]
