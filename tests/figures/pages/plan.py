"""Planning: the figures of its page."""

from __future__ import annotations

import numpy as np

from slimdex.bench.planning.estimates import BUSY
from slimdex.bench.planning.workload import usual_operations
from slimdex.indexes.choices import CANDIDATES, CANDIDATES_TO

from ..links import Figure


def widest_of_six() -> int:
    """Dimensions up to which an unknown encoder is taken to have half of the layers."""
    each = [usual_operations(dim) / dim**2 for dim in range(1, 1025)]
    return each.count(each[0])


FIGURES = [
    Figure("of six up to 384 dimensions", lambda: [widest_of_six()]),
    Figure("8 bytes for its row number", lambda: [np.dtype(np.int64).itemsize]),
    Figure("4 bytes for the norm of each", lambda: [np.dtype(np.float32).itemsize]),
    Figure(
        "200, and from 60,000 documents on as the cube root",
        lambda: [CANDIDATES, CANDIDATES_TO],
    ),
    Figure("busy for 70% of the time", lambda: [100 * BUSY]),
]
