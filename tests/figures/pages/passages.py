"""Passages: the figures of its page."""

from __future__ import annotations

from collections.abc import Sequence

from slimdex.retrieval.search.random_baseline import FEWEST, SAMPLE, WIDEST

from ..links import Figure, row


def of_pages() -> Sequence[float]:
    """Pages, questions, percent that are found with passages and without."""
    cut, whole = (row("passages", what="pages", way=way) for way in ("cut off", "passages"))
    return whole["documents"], whole["queries"], whole["recall@10"], cut["recall@10"]


def price() -> Sequence[float]:
    """Rows a page, and times the build."""
    cut, whole = (row("passages", what="pages", way=way) for way in ("cut off", "passages"))
    return whole["rows"] / whole["documents"], whole["build_s"] / cut["build_s"]


FIGURES = [
    Figure(
        "256 with all-MiniLM-L6-v2",
        test="tests/retrieval/encoders/test_transformer.py::test_length_is_what_the_model_has_positions_for",
    ),
    Figure("all pairs of 256 rows", lambda: [SAMPLE]),
    Figure("fewer than 100 rows", lambda: [FEWEST]),
    Figure("spread further than 0.13", lambda: [WIDEST]),
    Figure(
        "On 531 pages of Python's documentation, the first sentences of 2,514 docstrings find "
        "their page among the best ten in 83.2% of the cases with passages, and in 51.9% if",
        of_pages,
    ),
    Figure("36 rows a page and 14 times the time to build", price),
]
