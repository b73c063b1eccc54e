"""Files and crashes: the figures of its page."""

from __future__ import annotations

from slimdex.indexes.vectors.int8_rows import BLOCK
from slimdex.indexes.vectors.vector_file import BLOCK_BYTES
from slimdex.retrieval.catalog.checkpoint_journal import DIGEST, HEADERS
from slimdex.retrieval.storage import head

from ..links import Figure

FIGURES = [
    Figure("a bfloat16 scale for each 32 neighbouring numbers", lambda: [BLOCK]),
    Figure("d + d/16 bytes", lambda: [BLOCK / 2]),  # two bytes for each block
    Figure("the SHA-256 of every 4 MiB", lambda: [BLOCK_BYTES / 2**20]),
    Figure("| 32 | SHA-256 of all bytes that follow", lambda: [head.DIGEST]),
    Figure("Its first 32 bytes are the SHA-256", lambda: [DIGEST]),
    Figure("the first 12,288 bytes of the catalog", lambda: [HEADERS]),
]
