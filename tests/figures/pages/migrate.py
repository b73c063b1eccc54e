"""Another encoder: the figures of its page."""

from __future__ import annotations

from slimdex.retrieval.ingest.migration.replacing import WINDOW
from slimdex.retrieval.quality.migration.samples import LEAST, MOST, SHARE

from ..links import Figure

FIGURES = [
    Figure(
        "5% of the documents, but at least 2,000 and at most 10,000",
        lambda: [100 * SHARE, LEAST, MOST],
    ),
    Figure("256 passages to a commit", lambda: [WINDOW]),
]
