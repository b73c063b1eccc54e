"""Limits: the figures of its page."""

from __future__ import annotations

from slimdex.indexes.codes.kinds import PQ_ROWS
from slimdex.retrieval.catalog.duckdb_connection import LIMITS
from slimdex.retrieval.documents import MOST_COLUMNS
from slimdex.retrieval.server.limits import MIB
from slimdex.retrieval.sources.given_vectors import CHUNK
from slimdex.retrieval.sources.text_files import LARGEST_OBJECT

from ..links import Figure

FIGURES = [
    Figure("parts of 16,384 rows", lambda: [CHUNK]),
    Figure("Fewer than 624 documents", lambda: [PQ_ROWS]),
    Figure("DuckDB may use 1 GB", lambda: [float(str(LIMITS["memory_limit"]).rstrip("GB"))]),
    Figure("have at most 10,000 columns", lambda: [MOST_COLUMNS]),
    Figure("has at most 32 MiB", lambda: [LARGEST_OBJECT / MIB]),
]
