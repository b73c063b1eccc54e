"""A service: the figures of its page."""

from __future__ import annotations

from slimdex.retrieval.catalog.metadata_columns import MOST
from slimdex.retrieval.catalog.where.checks import CALLS, LONGEST, MENTIONS
from slimdex.retrieval.documents import MOST_COLUMNS
from slimdex.retrieval.remote.remote_collection import SENT_BYTES
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.server.limits import MIB, Limits
from tests.retrieval.server.test_traffic import READERS

from ..links import Figure, rows

LIMITS = Limits()
RERANKED = SearchRequest("a pet").rerank_depth

FIGURES = [
    Figure("has 20 values or fewer", lambda: [MOST]),
    Figure("for at most 30 seconds", lambda: [LIMITS.seconds]),
    Figure(
        "limited to 10,000 fields, as an index is to 10,000 columns",
        lambda: [MOST_COLUMNS, MOST_COLUMNS],
    ),
    Figure(
        "262,144 characters, 500 references to columns and 200 calls of functions",
        lambda: [LONGEST, MENTIONS, CALLS],
    ),
    Figure("read the first 50 answers", lambda: [RERANKED]),
    Figure("uploaded files, which may be up to 64 MiB", lambda: [LIMITS.file / MIB]),
    Figure("Documents of more than 4 MiB are", lambda: [SENT_BYTES / MIB]),
    Figure("A request may be up to 8 MiB", lambda: [LIMITS.body / MIB]),
    Figure("requests together 512 MiB", lambda: [LIMITS.bodies / MIB]),
    Figure(
        "A search is limited to 256 queries of 100,000 characters each, and to 1,000 hits. When "
        "2,048 queries wait",
        lambda: [LIMITS.queries, LIMITS.text, LIMITS.hits, LIMITS.waiting],
    ),
    Figure("36,824 questions of Quora", lambda: [*{row["documents"] for row in rows("serve")}]),
    Figure("32 readers search", lambda: [READERS]),
]
