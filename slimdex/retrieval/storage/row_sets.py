"""RowSets: sets of rows that are needed again and again, such as those of a condition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.execution.locks import ThreadLock

MOST = 8
"""Sets that are kept, of a bit for each row: a byte for each row together."""


class RowSets:
    """The last sets that were asked for, by name.

    Parameters
    ----------
    total : sets are of rows 0 .. total.

    >>> sets = RowSets(9)
    >>> sets.rows("even", lambda: np.arange(0, 9, 2)), sets.rows("even", lambda: np.arange(0))
    (array([0, 2, 4, 6, 8]), array([0, 2, 4, 6, 8]))
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._sets: dict[str, NDArray[np.uint8]] = {}  # the last one asked for is last
        self._lock = ThreadLock()

    def rows(self, name: str, find: Callable[[], Rows]) -> Rows:
        """Rows of a set, in order, which `find` gives if it is not kept."""
        with self._lock:
            bits = self._sets.pop(name, None)
            if bits is not None:
                self._sets[name] = bits
        if bits is not None:
            return np.flatnonzero(np.unpackbits(bits, count=self._total).view(np.bool_))
        rows = find()
        is_in = np.zeros(self._total, dtype=bool)
        is_in[rows] = True
        with self._lock:
            self._sets[name] = np.packbits(is_in)
            if len(self._sets) > MOST:
                del self._sets[next(iter(self._sets))]
        return rows
