"""Matches: a cache of the rows that match the most recent conditions.

Programs repeat conditions, and evaluating one in DuckDB takes as long as a search. Rows never
change, so after a commit only its new rows are evaluated.
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
"""Largest number of conditions in the cache, each of which takes a bit a row."""


@dataclass(frozen=True)
class _MatchBits:
    """Rows before `stop` that match a condition, a bit for each row."""

    bits: NDArray[np.uint8]
    stop: int = 0

    def extend(self, rows: Rows, stop: int) -> _MatchBits:
        """Return these matches and the later ones in `rows`, which are all before row `stop`."""
        # Whole bytes stay as they are; the last one may have room for some of the later rows.
        whole_bytes = self.stop // 8
        flags = np.zeros(stop - 8 * whole_bytes, dtype=np.bool_)
        flags[rows - 8 * whole_bytes] = True
        bits = np.concatenate([self.bits[:whole_bytes], np.packbits(flags)])
        if self.stop % 8:
            bits[whole_bytes] |= self.bits[whole_bytes]
        return _MatchBits(bits, stop)

    def rows(self, stop: int) -> Rows:
        """Return the matching rows before `stop`, in order."""
        return np.flatnonzero(np.unpackbits(self.bits, count=stop).view(np.bool_))


NOTHING = _MatchBits(np.zeros(0, dtype=np.uint8))


class Matches:
    """Rows that match the last `MOST_CONDITIONS` conditions, for any thread.

    >>> matches, evens = Matches(), lambda start, stop: np.arange(start + start % 2, stop, 2)
    >>> matches.rows("even", 4, evens).tolist(), matches.rows("even", 7, evens).tolist()
    ([0, 2], [0, 2, 4, 6])
    """

    def __init__(self) -> None:
        self._known = OrderedDict[str, _MatchBits]()
        self._lock = Lock()

    def rows(self, where: str, stop: int, find: Callable[[int, int], Rows]) -> Rows:
        """Return the rows before `stop` that match a condition, in order.

        `find(start, stop)` evaluates it for the rows from `start` to before `stop` that are not
        known yet. A search in an older state may ask for fewer rows than are known.
        """
        with self._lock:
            known = self._known.get(where, NOTHING)

        # Without the lock, since this may take long.
        if known is NOTHING or known.stop < stop:
            known = known.extend(find(known.stop, stop), stop)

        # Remember the conditions that were used last.
        with self._lock:
            self._known[where] = known
            self._known.move_to_end(where)
            if len(self._known) > MOST_CONDITIONS:
                self._known.popitem(last=False)
        return known.rows(stop)
