"""Matches: the documents that match the last conditions, kept over commits.

Programs repeat conditions, and DuckDB takes as long for one as a search. Rows never change, so a
later commit evaluates a condition for its new rows only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows

MOST_CONDITIONS = 8
"""Conditions whose documents are kept, a bit for each row: a byte for each row together."""


@dataclass(frozen=True)
class _Known:
    """Rows of 0 .. stop that match a condition, a bit for each."""

    bits: NDArray[np.uint8]
    stop: int = 0

    def extended(self, rows: Rows, stop: int) -> _Known:
        """Add later rows, which match, up to `stop`."""
        whole = self.stop // 8
        flags = np.zeros(stop - 8 * whole, dtype=np.bool_)
        flags[rows - 8 * whole] = True
        bits = np.concatenate([self.bits[:whole], np.packbits(flags)])
        if self.stop % 8:
            bits[whole] |= self.bits[whole]
        return _Known(bits, stop)

    def rows(self, stop: int) -> Rows:
        """Those before `stop`, in order."""
        return np.flatnonzero(np.unpackbits(self.bits, count=stop).view(np.bool_))


NOTHING = _Known(np.zeros(0, dtype=np.uint8))


class Matches:
    """Rows that match the last `MOST_CONDITIONS` conditions; any thread may ask.

    >>> matches, evens = Matches(), lambda start, stop: np.arange(start + start % 2, stop, 2)
    >>> matches.rows("even", 4, evens).tolist(), matches.rows("even", 7, evens).tolist()
    ([0, 2], [0, 2, 4, 6])
    """

    def __init__(self) -> None:
        self._known = OrderedDict[str, _Known]()
        self._lock = Lock()

    def rows(self, where: str, stop: int, find: Callable[[int, int], Rows]) -> Rows:
        """Rows before `stop` that match; `find` finds those of a range, from start to before stop.

        A search in an older state may ask for fewer rows than are known.
        """
        with self._lock:
            known = self._known.get(where, NOTHING)
        if known is NOTHING or known.stop < stop:
            known = known.extended(find(known.stop, stop), stop)
        with self._lock:
            self._known[where] = known
            self._known.move_to_end(where)
            if len(self._known) > MOST_CONDITIONS:
                self._known.popitem(last=False)
        return known.rows(stop)
