"""Untrusted indexes: the figures of its page."""

from __future__ import annotations

from ..links import Figure

FIGURES = [
    Figure(
        "interrupted after 60 s",
        test="tests/retrieval/catalog/test_where.py::test_what_takes_too_long",
    ),
]
