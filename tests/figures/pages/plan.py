"""Planning: the figures of its page; its formulas are those of `tests/bench/planning`."""

from __future__ import annotations

from slimdex.bench.planning.workload import (
    BYTES_PER_TOKEN,
    CENTROIDS,
    CODE_BITS,
    PADDED_TO,
)
from slimdex.indexes.codes.kinds import LISTS_FROM

from ..links import Figure

FIGURES = [
    Figure("as 4 bytes of text", lambda: [BYTES_PER_TOKEN]),
    Figure("from 1,000,000 documents on", lambda: [LISTS_FROM]),
    Figure("has 4 bits for every", lambda: [CODE_BITS]),
    Figure("a codebook of 16 centroids", lambda: [CENTROIDS]),
    Figure("blocks of 32 rows", lambda: [PADDED_TO]),
]
