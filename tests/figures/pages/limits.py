"""Limits: the figures of its page."""

from __future__ import annotations

from slimdex.indexes.codes.kinds import PQ_ROWS
from slimdex.indexes.search.filtered_search import EXACT_ROWS
from slimdex.retrieval.catalog.duckdb_connection import LIMITS
from slimdex.retrieval.sources.given_vectors import CHUNK

from ..links import Figure

FIGURES = [
    Figure("more than 20,000 passages", lambda: [EXACT_ROWS]),
    Figure("Among up to 20,000 a filtered", lambda: [EXACT_ROWS]),
    Figure("parts of 16,384 rows", lambda: [CHUNK]),
    Figure("Fewer than 624 documents", lambda: [PQ_ROWS]),
    Figure("DuckDB may use 1 GB", lambda: [float(str(LIMITS["memory_limit"]).rstrip("GB"))]),
    Figure(
        "10,000 columns are fine",
        test="tests/retrieval/collection/test_limits.py::test_many_columns",
    ),
]
