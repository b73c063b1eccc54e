"""Passages: the figures of its page."""

from __future__ import annotations

from slimdex.retrieval.search.random_baseline import FEWEST, SAMPLE, WIDEST

from ..links import Figure

FIGURES = [
    Figure(
        "256 with all-MiniLM-L6-v2",
        test="tests/retrieval/encoders/test_transformer.py::test_length_is_what_the_model_has_positions_for",
    ),
    Figure("all pairs of 256 rows", lambda: [SAMPLE]),
    Figure("fewer than 100 rows", lambda: [FEWEST]),
    Figure("spread further than 0.13", lambda: [WIDEST]),
]
