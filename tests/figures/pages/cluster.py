"""When one machine is not enough: the figures of its page."""

from __future__ import annotations

from slimdex.indexes.arrays import SCAN_ROWS
from slimdex.retrieval.cluster.milvus_columns import BITS, DIGITS_WIDTH, LONGEST_TEXT, field_of
from slimdex.retrieval.cluster.milvus_search import MOST_IDS
from slimdex.retrieval.cluster.milvus_server import MOST_HITS, USUAL_SECONDS
from slimdex.retrieval.cluster.milvus_verification import QUERIES
from slimdex.retrieval.ingest.encoding import WINDOW

from ..links import Figure

WIDEST_DECIMAL = 38


def whole_digits() -> int:
    """Digits of the widest decimal that is kept as a whole number."""
    kinds = {
        width: field.kind
        for width in range(1, WIDEST_DECIMAL + 1)
        if (field := field_of("x", f"DECIMAL({width},0)", "x"))
    }
    return max(width for width, kind in kinds.items() if kind == "INT64")


FIGURES = [
    Figure("sends texts to the workers, 1,024 at a time", lambda: [WINDOW]),
    Figure("chunks of 8,192 vectors", lambda: [SCAN_ROWS]),
    Figure("the keys of up to 10,000 passages", lambda: [MOST_IDS]),
    Figure("unsigned ones up to 32 bits", lambda: [BITS["INT32"]]),
    Figure(
        "DECIMAL of more than 18 digits | VARCHAR, 41 digits that sort",
        lambda: [whole_digits(), DIGITS_WIDTH],
    ),
    Figure("DECIMAL of up to 18 digits", lambda: [whole_digits()]),
    Figure("65,535 bytes at most", lambda: [LONGEST_TEXT]),
    Figure("fit into 65,535 bytes", lambda: [LONGEST_TEXT]),
    Figure("does not answer for 30 seconds", lambda: [USUAL_SECONDS]),
    Figure("the answers to 50 queries", lambda: [QUERIES]),
    Figure("at most 16,384 rows", lambda: [MOST_HITS]),
]
