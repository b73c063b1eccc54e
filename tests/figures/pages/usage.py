"""Using slimdex: the figures of its page."""

from __future__ import annotations

from ..links import Figure

FIGURES = [
    Figure(
        "256 tokens with all-MiniLM-L6-v2",
        test="tests/retrieval/encoders/test_transformer.py::"
        "test_length_is_what_the_model_has_positions_for",
    ),
]
